"""The three `all_*` files: a report of a run as the text, the table and the list that other people's scripts read.

Rules: artifacts page of the specification ("Session directory", "all_summary.txt"); every space and blank line counts.
May import the standard library and this folder only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from voiceeval_engine.session import layout
from voiceeval_engine.session.aggregate import Entry, Rate, RunReport
from voiceeval_engine.session.files import json_safe, write_atomic, write_json_list
from voiceeval_engine.session.metrics import TokenCount, latency_stats

_DOUBLE = "=" * 80
_SINGLE = "-" * 80
_Z95 = 1.959963984540054
_SIGNALS = (
    ("is_action_match", "Action-list match:           ", "scenarios"),
    ("db_state_match", "DB-State match:              ", "scenarios"),
    ("db_state_assertion", "DB-State-Assertion pass:     ", "predicates"),
    ("nl_assertion", "NL-Assertion pass:           ", "assertions"),
    ("judge_passed", "Judge passed (>= threshold): ", "scenarios"),
    ("clean_exit", "Clean exit: ", "scenarios"),
)
DOMAIN_BLOCKS = {
    "success": "Per-Domain Success Rate:",
    "task_success": "Per-Domain Task Success Rate (excl. clean_exit):",
    "db_state_match": "Per-Domain DB-State Match Rate:",
    "nl_assertion": "Per-Domain NL-Assertion Pass Rate:",
    "db_state_assertion": "Per-Domain DB-State-Assertion Pass Rate:",
}


@dataclass(frozen=True)
class SummaryNotes:
    """What the runner knows and no `metrics.json` tells. `did_not_run` holds (name, reason), the others names, in queue order."""

    did_not_run: tuple[tuple[str, str], ...] = ()
    rerun_by_hand: tuple[str, ...] = ()
    not_in_run: tuple[str, ...] = ()


def render_summary(report: RunReport, *, queued: int, timestamp: str, notes: SummaryNotes | None = None) -> str:
    """The text of `all_summary.txt`. `queued` is the number of scenarios in the queue, `timestamp` the session's."""
    lines = [
        "EVALUATION SUMMARY",
        _DOUBLE,
        "",
        f"Total Scenarios: {queued}",
        f"Total Duration: {report.duration / 60:.1f}mins",
        f"Total Turns: {report.total_turns}",
        "",
        "Per-Scenario Results:",
        _SINGLE,
    ]
    for entry in report.entries:
        lines += ["", *_scenario(entry)]
    lines += ["", "", "Overall Latency Statistics:", _SINGLE, f"  Total Measurements: {report.latency['count']}"]
    lines += _latency_lines(report.latency, "  ")
    if warnings := warning_lines(report, timestamp, notes):
        lines += ["", "", *warnings]
    lines += ["", "", *_rates(report), *_tokens(report), *_domains(report)]
    return "\n".join(lines) + "\n"


def warning_lines(report: RunReport, timestamp: str, notes: SummaryNotes | None = None) -> list[str]:
    """The summary's warnings, for the log too."""
    return _stall_warning(report, timestamp) + _further_warnings(report, notes or SummaryNotes())


def render_latencies_csv(report: RunReport) -> str:
    """The text of `all_latencies.csv`: texts always quoted, latencies in ms with one decimal, line feeds."""
    rows = ["Scenario,User_Transcript,Agent_Transcript,Latency_ms"]
    for entry in report.entries:
        for record in entry.metrics.latencies:
            texts = (entry.name, record.user_transcript, record.agent_transcript)
            quoted = ",".join('"' + text.replace('"', '""') + '"' for text in texts)
            rows.append(f"{quoted},{record.latency_ms:.1f}")
    return "\n".join(rows) + "\n"


def write_aggregates(session: Path, report: RunReport, *, summary: str | None = None) -> None:
    """Write `all_metrics.json` and `all_latencies.csv`, and `all_summary.txt` where `summary` is given (scripts take
    that file as "finished"). Raises OSError.
    """
    write_json_list(session / layout.ALL_METRICS, (json_safe(entry.metrics.raw) for entry in report.entries))
    write_atomic(session / layout.ALL_LATENCIES, render_latencies_csv(report))
    if summary is not None:
        write_atomic(session / layout.ALL_SUMMARY, summary)


def wilson_interval(k: int, n: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of k successes in n trials, within 0..1; (0, 1) when n is 0.

    Raises ValueError unless 0 <= k <= n.
    """
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} is no rate")
    if n == 0:
        return 0.0, 1.0
    share, z2 = k / n, _Z95 * _Z95
    centre = share + z2 / (2 * n)
    spread = _Z95 * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    scale = 1 + z2 / n
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def _scenario(entry: Entry) -> list[str]:
    metrics = entry.metrics
    lines = [f"====== {entry.name} ======:", f"  Is successful: {_verdict(metrics.is_successful)}"]
    if metrics.is_task_successful is not None:
        lines.append(f"  Is task-successful (excl. clean_exit): {metrics.is_task_successful}")
    lines.append(f"    Action-list match: {_verdict(metrics.is_action_match)}")
    if metrics.db_state_match is not None:
        lines.append(f"    DB-state match: {metrics.db_state_match}")
    if metrics.db_state_assertion_pass_rate is not None:
        lines.append(f"    DB-state-assertion pass rate: {100 * metrics.db_state_assertion_pass_rate:.2f}%")
    if metrics.nl_assertion_pass_rate is not None:
        lines.append(f"    NL-assertion pass rate: {100 * metrics.nl_assertion_pass_rate:.2f}%")
    if metrics.judge_score is not None:
        lines.append(f"    Judge score: {metrics.judge_score:.2f}")
    if metrics.judge_passed is not None:
        lines.append(f"    Judge passed: {metrics.judge_passed}")
    if metrics.failed_signals:
        lines.append(f"    Failed signals: {', '.join(metrics.failed_signals)}")
    lines.append(f"  Turns: {metrics.total_turns}")
    if metrics.stalled:
        lines.append("  [COUNTED AS FAILURE: insufficient agent turns / stalled — excluded from per-signal rates]")
    lines.append(f"  Duration: {metrics.scenario_duration:.1f}s")
    if (minutes := metrics.scenario_duration / 60) > 0:
        lines.append(f"  Turns/min: {metrics.total_turns / minutes:.1f}")
    lines.append(f"  Latency Measurements: {len(metrics.latencies)}")
    if metrics.latencies:
        lines += _latency_lines(latency_stats([record.latency_ms for record in metrics.latencies]), "    ")
    return lines


def _verdict(value: bool | None) -> str:
    return "N/A" if value is None else str(value)


def _latency_lines(stats: Mapping[str, float], indent: str) -> list[str]:
    return [f"{indent}{label}: {stats[f'{label.lower()}_ms']:.1f}ms" for label in ("Mean", "P50", "P95", "Min", "Max")]


def _stall_warning(report: RunReport, timestamp: str) -> list[str]:
    if not report.stalled:
        return []
    floor = report.min_agent_turns
    return [
        f"WARNING: {len(report.stalled)} scenario(s) had fewer than {floor} agent turn(s) (likely stalled LLM / server hang) "
        "and were counted as failures.",
        f"Stalled scenarios: {', '.join(report.stalled)}",
        f"Run with --resume {timestamp} --min-agent-turns {floor} to retry them.",
    ]


def _further_warnings(report: RunReport, notes: SummaryNotes) -> list[str]:
    named = (
        (report.judge_failed, "judge call(s) failed and were scored 0.0"),
        (_with_reasons(notes.did_not_run), "scenario(s) did not run"),
        (_with_reasons(report.unreadable), "scenario(s) could not be read and are in no rate"),
        (report.pending, "verdict(s) are still pending and in no rate"),
        (notes.rerun_by_hand, "scenario(s) were re-run by hand"),
        (report.agent_disconnected, "conversation(s) ended because the agent disconnected"),
        (notes.not_in_run, "scenario(s) on disk are not in this run"),
    )
    return [f"WARNING: {len(names)} {what}: {', '.join(names)}" for names, what in named if names]


def _with_reasons(pairs: Iterable[tuple[str, str]]) -> Sequence[str]:
    return [f"{name} ({reason})" for name, reason in pairs]


def _rates(report: RunReport) -> list[str]:
    success, task_success = report.rates.get("success"), report.rates.get("task_success")
    if success is None:
        lines = ["Overall Success Rate: N/A (no scenarios had any applicable signal)"]
    else:
        overall = f"{_percent(success)} ({_of(success)} scenarios"
        lines = [f"Overall Success Rate: {overall} — strict conjunction across all applicable signals)"]
        if task_success is not None:
            lines.append(f"Task Success Rate (excl. clean_exit): {_percent(task_success)} ({_of(task_success)} scenarios)")
    lines += ["", "Per-signal pass rates:"]
    for name, label, unit in _SIGNALS:
        if name == "judge_passed" and report.judge_score_mean is not None:
            mean = f"{report.judge_score_mean:.3f} (across {report.judge_score_count} scenarios)"
            lines.append(f"  Judge score mean:            {mean}")
        if (rate := report.rates.get(name)) is not None:
            lines.append(f"  {label}{rate.percent:6.2f}% ({_of(rate)} {unit})")
    return lines


def _percent(rate: Rate) -> str:
    return f"{rate.percent:.2f}%"


def _of(rate: Rate) -> str:
    return f"{rate.k}/{rate.n}"


def _tokens(report: RunReport) -> list[str]:
    sides = (("agent", report.agent_tokens), ("user", report.user_tokens))
    if all(count == TokenCount() for _, count in sides):
        return []
    lines = ["", "", "Token Usage:", _SINGLE]
    for side, count in sides:
        numbers = f"prompt={count.prompt:,}, completion={count.completion:,}, total={count.total:,}"
        lines.append(f"  {side}: {count.n_calls} call(s), {numbers}")
    return [*lines, f"  Run total: {report.agent_tokens.total + report.user_tokens.total:,} tokens"]


def _domains(report: RunReport) -> list[str]:
    lines: list[str] = []
    for name, title in DOMAIN_BLOCKS.items():
        rates = {domain: rates[name] for domain, rates in report.by_domain.items() if name in rates}
        if len(rates) > 1:
            lines += ["", title, _SINGLE, *(f"  {domain}: {_percent(rate)} ({_of(rate)})" for domain, rate in rates.items())]
    return ["", *lines] if lines else []
