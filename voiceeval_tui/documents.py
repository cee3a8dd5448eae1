"""What `--json` prints: the shapes that scripts may rely on. Keys are only ever added; a key without a value is null, never left out.

Plain values in, JSON's own types out. Shares are 0 to 1, latencies ms, durations s. Imports at run time nothing but the engine's
`session`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from voiceeval_engine.session.files import json_safe

if TYPE_CHECKING:
    from pathlib import Path

    from voiceeval_engine.scenarios.catalog import Catalog
    from voiceeval_engine.session.aggregate import RunReport
    from voiceeval_engine.session.report import MeasuredRate, ReportedScenario, SessionReport
    from voiceeval_engine.session.resume import Classified
    from voiceeval_tui.starting import Finding

Document = dict[str, Any]


def render(document: Document) -> str:
    """As text that every parser of JSON reads: ASCII, and no number that is none. A final newline."""
    return json.dumps(json_safe(document), indent=2, allow_nan=False) + "\n"


def scenario_list(catalog: Catalog) -> Document:
    """`--list`: `{"scenarios": [{"name", "domain" (null without one), "embedded"}]}`, by name."""
    return {"scenarios": [
        {"name": name, "domain": name.split("__", 1)[0] if "__" in name else None, "embedded": catalog.is_embedded(name)}
        for name in sorted(catalog.names())
    ]}  # fmt: skip


def domain_list(catalog: Catalog) -> Document:
    """`--list-domains`: `{"domains": [{"name", "scenarios" (how many), "embedded"}], "legacy_scenarios": [name without a domain]}`."""
    return {
        "domains": [
            {"name": domain, "scenarios": count, "embedded": all(map(catalog.is_embedded, catalog.names(domain)))}
            for domain, count in catalog.domains().items()
        ],
        "legacy_scenarios": [name for name in catalog.names() if "__" not in name],
    }


def resume_preview(directory: str, min_agent_turns: int, scenarios: Iterable[Classified]) -> Document:
    """`check-resume`: `{"directory", "min_agent_turns", "total", "completed", "would_rerun", "fresh"}`.

    The three groups are lists of `{"name", "reason" (null for completed ones), "auto_retry_count"}`, by name.
    """
    groups: dict[str, list[Document]] = {"completed": [], "in-flight": [], "fresh": []}
    for each in scenarios:
        told = {"name": each.name, "reason": each.reason or None, "auto_retry_count": each.auto_retry_count}
        groups[each.state].append(told)
    return {
        "directory": directory,
        "min_agent_turns": min_agent_turns,
        "total": sum(map(len, groups.values())),
        "completed": groups["completed"],
        "would_rerun": groups["in-flight"],
        "fresh": groups["fresh"],
    }


def preflight(findings: Iterable[Finding]) -> Document:
    """`--preflight`: `{"good", "findings": [{"subject" (agent, user, bots, judge, scenarios, disk, names), "where" (a URL, a folder, a
    scenario), "good", "found", "mend"}]}`; `where` and `mend` may be null.
    """
    told = [
        {"subject": each.subject, "where": each.where or None, "good": each.good, "found": each.found, "mend": each.mend or None}
        for each in findings
    ]
    return {"good": all(each["good"] for each in told), "findings": told}


def run_summary(
    session: Path, report: SessionReport, *, complete: bool, reason: str, resume_command: str, files: Sequence[str]
) -> Document:
    """The end of a headless run: `summary` and `"complete"` (all have a result), `"reason"` (`finished`, `interrupted` or why it ended
    early), `"resume_command"` (null where there is nothing to resume), `"files"` (paths of the aggregates).
    """
    shown = None if complete else resume_command or None
    return summary(session, report) | {"complete": complete, "reason": reason, "resume_command": shown, "files": list(files)}


def summary(session: Path, report: SessionReport) -> Document:
    """A session's figures, those of `all_summary.txt` (a judge call that failed counts as failed):

    - `"session"` its path, `"complete"`, `"min_agent_turns"`, `"counts"` `{"scenarios", "passed", "failed", "stalled", "no_verdict",
      "without_result"}`, `"turns"`, `"duration_s"` (of all conversations)
    - `"rates"` by `success`, `task_success` and the signals: `{"k", "n", "rate", "low", "high", "unit"}`, low and high the 95 % Wilson
      interval; `"rates_by_domain"` the same, by rate and domain. What was not measured is left out of both
    - `"judge_score"` `{"mean", "n"}` or null; `"latency_ms"` `{"n", "mean", "p50", "p95", "min", "max"}` or null
    - `"tokens"` `{"agent", "user", "total"}`, each side `{"n_calls", "prompt", "completion", "total"}`
    - `"failed"` and `"stalled"` `[{"name", "failed_signals", "stop_reason", "judge_failed"}]`
    - `"not_run"`, `"unreadable"` and `"pending"` `[{"name", "reason"}]`; `"judge_failed"`, `"agent_disconnected"` names;
      `"warnings"` lines
    """
    run = report.run
    return {
        "session": str(session),
        "complete": report.complete,
        "min_agent_turns": run.min_agent_turns,
        "counts": {
            "scenarios": len(report.scenarios),
            "passed": report.count("passed"),
            "failed": report.count("failed"),
            "stalled": report.count("stalled"),
            "no_verdict": report.count("no verdict"),
            "without_result": report.count("not run", "unreadable", "pending"),
        },
        "turns": run.total_turns,
        "duration_s": run.duration,
        "rates": {rate.key: _rate(rate) for rate in report.rates},
        "rates_by_domain": {key: {rate.key: _rate(rate) for rate in rates} for key, rates in report.domains},
        "judge_score": None if run.judge_score_mean is None else {"mean": run.judge_score_mean, "n": run.judge_score_count},
        "latency_ms": _latency(run.latency),
        "tokens": _tokens(run),
        "failed": [_failure(each) for each in report.scenarios if each.outcome == "failed"],
        "stalled": [_failure(each) for each in report.scenarios if each.outcome == "stalled"],
        "not_run": _without_result(report, "not run"),
        "unreadable": _without_result(report, "unreadable"),
        "pending": _without_result(report, "pending"),
        "judge_failed": list(run.judge_failed),
        "agent_disconnected": list(run.agent_disconnected),
        "warnings": list(report.warnings),
    }


def whole_report(session: Path, report: SessionReport) -> Document:
    """`report --json`: `summary`, and

    - `"scenarios"` in queue order: `{"name", "domain", "outcome" (passed, failed, stalled, no verdict, pending, unreadable, not run),
      "reason", "passed_signals", "failed_signals", "not_applicable", "turns", "duration_s", "stop_reason", "end_reason", "latency_ms",
      "tokens", "judge" ({"score", "passed", "failed", "reason"} or null), "assertions", "predicates" ([{"what", "passed", "reason"}]),
      "auto_retry_count", "auto_retry_reasons", "moved_aside", "conversation" ([{"role", "start_s", "end_s", "text", "latency_ms"}])}`
    - `"invocations"`: `{"started_at", "argv", "options" (texts by name), "scenarios" (how many)}`, without the judge's key
    """
    return summary(session, report) | {
        "scenarios": [_scenario(each) for each in report.scenarios],
        "invocations": [
            {"started_at": each.started_at, "argv": list(each.argv), "options": dict(each.options), "scenarios": each.scenarios}
            for each in report.invocations
        ],
    }


def _rate(rate: MeasuredRate) -> Document:
    return {"k": rate.k, "n": rate.n, "rate": rate.k / rate.n, "low": rate.low, "high": rate.high, "unit": rate.unit}


def _latency(stats: Mapping[str, float] | None) -> Document | None:
    if stats is None or not stats["count"]:
        return None
    return {"n": int(stats["count"])} | {key: stats[f"{key}_ms"] for key in ("mean", "p50", "p95", "min", "max")}


def _tokens(run: RunReport) -> Document:
    return {
        "agent": asdict(run.agent_tokens) | {"total": run.agent_tokens.total},
        "user": asdict(run.user_tokens) | {"total": run.user_tokens.total},
        "total": run.agent_tokens.total + run.user_tokens.total,
    }


def _failure(scenario: ReportedScenario) -> Document:
    return {
        "name": scenario.name,
        "failed_signals": list(scenario.failed_signals),
        "stop_reason": scenario.metrics.stop_reason if scenario.metrics else None,
        "judge_failed": scenario.judge_failed,
    }


def _without_result(report: SessionReport, outcome: str) -> list[Document]:
    return [{"name": each.name, "reason": each.reason} for each in report.scenarios if each.outcome == outcome]


def _scenario(scenario: ReportedScenario) -> Document:
    metrics = scenario.metrics
    return {
        "name": scenario.name,
        "domain": scenario.domain,
        "outcome": scenario.outcome,
        "reason": scenario.reason or None,
        "passed_signals": list(scenario.passed_signals),
        "failed_signals": list(scenario.failed_signals),
        "not_applicable": list(scenario.not_applicable),
        "turns": metrics.total_turns if metrics else None,
        "duration_s": metrics.scenario_duration if metrics else None,
        "stop_reason": metrics.stop_reason if metrics else None,
        "end_reason": scenario.end_reason or None,
        "latency_ms": _latency(scenario.latency),
        "tokens": metrics.agent_tokens.total + metrics.user_tokens.total if metrics else None,
        "judge": _judge(scenario),
        "assertions": [asdict(each) for each in scenario.assertions],
        "predicates": [asdict(each) for each in scenario.predicates],
        "auto_retry_count": scenario.retries,
        "auto_retry_reasons": list(scenario.retry_reasons),
        "moved_aside": list(scenario.moved_aside),
        "conversation": [
            {"role": turn.role, "start_s": turn.start, "end_s": turn.end, "text": turn.text, "latency_ms": turn.latency_ms}
            for turn in scenario.turns
        ],
    }


def _judge(scenario: ReportedScenario) -> Document | None:
    metrics = scenario.metrics
    if metrics is None or metrics.judge_score is None:
        return None
    reason = scenario.judge_reason or None
    return {"score": metrics.judge_score, "passed": metrics.judge_passed, "failed": scenario.judge_failed, "reason": reason}
