"""What a report of a session says, whatever its format: rates with their intervals, every scenario with its evidence, how it was run.

Reads only the session's files, ours and the reference harness's, also old ones that lack keys; writes nothing. Texts are as the files have
them: each format makes them safe its own way. May import the standard library and this folder only. Rules: artifacts and scoring pages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from voiceeval_engine.session import layout
from voiceeval_engine.session.aggregate import Entry, Rate, RunAggregate, RunReport
from voiceeval_engine.session.evidence import LogSegment
from voiceeval_engine.session.metrics import ScenarioMetrics, at, latency_stats, whole
from voiceeval_engine.session.resume import NO_FOLDER, NO_METRICS, classify, session_names
from voiceeval_engine.session.run_args import floor_of, invocations, newest_options, recorded_names, shareable
from voiceeval_engine.session.summary import DOMAIN_BLOCKS, SummaryNotes, warning_lines, wilson_interval
from voiceeval_engine.session.transcripts import read_log, turns_of

Outcome = Literal["passed", "failed", "stalled", "no verdict", "pending", "unreadable", "not run"]

MAX_TEXT = 20_000
"""Longer texts are cut: a report is read by people and sent around."""
_WITHOUT_RESULT = {NO_FOLDER: "never started", NO_METRICS: "begun, without a result"}
"""What a resume calls these, in words for people who never resumed."""
_JUDGE_SIGNALS = frozenset({"nl_assertion", "judge_passed"})
RATES = {
    "success": ("Success", "scenarios"),
    "task_success": ("Task success (clean exit aside)", "scenarios"),
    "is_action_match": ("Action list", "scenarios"),
    "db_state_match": ("Database", "scenarios"),
    "db_state_assertion": ("Database predicates", "predicates"),
    "nl_assertion": ("Assertions", "assertions"),
    "judge_passed": ("Judge", "scenarios"),
    "clean_exit": ("Clean exit", "scenarios"),
}
"""The label and the unit of each rate."""


@dataclass(frozen=True)
class MeasuredRate:
    """`k` of `n` with its 95 % Wilson interval, shares of 1. `unit` is what is counted; `key` is of the run or of a domain."""

    key: str
    label: str
    unit: str
    k: int
    n: int
    low: float
    high: float


@dataclass(frozen=True)
class Check:
    """One assertion or predicate: what it asks, whether it holds, why."""

    what: str
    passed: bool
    reason: str


@dataclass(frozen=True)
class ReportedScenario:
    """One scenario. Without readable metrics only name, outcome, `reason` and `moved_aside` are filled. Latencies in ms, durations in s.

    `reason` tells why there is no result. `moved_aside` names the folders of attempts that do not count.
    """

    name: str
    outcome: Outcome
    reason: str = ""
    metrics: ScenarioMetrics | None = None
    latency: Mapping[str, float] | None = None
    passed_signals: tuple[str, ...] = ()
    not_applicable: tuple[str, ...] = ()
    end_reason: str = ""
    turns: tuple[LogSegment, ...] = ()
    judge_reason: str = ""
    judge_failed: bool = False
    assertions: tuple[Check, ...] = ()
    predicates: tuple[Check, ...] = ()
    retries: int = 0
    retry_reasons: tuple[str, ...] = ()
    moved_aside: tuple[str, ...] = ()

    @property
    def domain(self) -> str:
        """The part of the name before the first `__`."""
        return self.name.split("__", 1)[0]

    @property
    def failed_signals(self) -> tuple[str, ...]:
        """Whitelisted signals with a failing verdict."""
        return self.metrics.failed_signals if self.metrics is not None else ()

    @property
    def failed_by_judge_alone(self) -> bool:
        """Whether the judge's call failed and nothing else did: that says nothing about the agent."""
        return self.outcome == "failed" and self.judge_failed and _JUDGE_SIGNALS.issuperset(self.failed_signals)


@dataclass(frozen=True)
class Started:
    """One invocation: local ISO 8601, the command line, every option; the judge's key is in none of them."""

    started_at: str
    argv: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    scenarios: int


@dataclass(frozen=True)
class SessionReport:
    """A session as it stands on disk. `rates` and `domains` (the key of a rate, and that rate by domain) leave out what has no measurement.

    The rates are those of `all_summary.txt`: a judge call that failed counts as failed, and is named in `warnings`.
    """

    session: str
    run: RunReport
    notes: SummaryNotes
    rates: tuple[MeasuredRate, ...]
    domains: tuple[tuple[str, tuple[MeasuredRate, ...]], ...]
    scenarios: tuple[ReportedScenario, ...]
    invocations: tuple[Started, ...]

    @property
    def timestamp(self) -> str:
        """The session's timestamp, its name where it has none."""
        return self.session.removeprefix(layout.SESSION_PREFIX)

    @property
    def warnings(self) -> list[str]:
        """The summary's warnings."""
        return warning_lines(self.run, self.timestamp, self.notes)

    @property
    def latencies(self) -> list[float]:
        """Every counted measurement, in ms."""
        return [record.latency_ms for entry in self.run.entries for record in entry.metrics.latencies]

    @property
    def complete(self) -> bool:
        """Whether every scenario has its result."""
        return not self.count("pending", "unreadable", "not run")

    def count(self, *outcomes: Outcome) -> int:
        """How many scenarios came out as one of these."""
        return sum(each.outcome in outcomes for each in self.scenarios)


def read_report(session: Path, *, queue: Sequence[str] = (), did_not_run: Mapping[str, str] | None = None) -> SessionReport:
    """The report of a session.

    `queue` names the scenarios that it covers, in order; without any they are all that the first invocation chose, then what else is on
    disk by name. `did_not_run` tells why scenarios have no result, where that is known better than their files tell. Raises OSError where
    the folder cannot be read.
    """
    records = invocations(session)
    on_disk = session_names(session, records)
    names = tuple(queue) or on_disk
    floor = floor_of(newest_options(records))
    aggregate = RunAggregate(names, floor)
    judgements = {name: aggregate.read(session, name) for name in names}
    run = aggregate.report()
    entries = {entry.name: entry for entry in run.entries}
    without: dict[str, tuple[Outcome, str]] = dict.fromkeys(run.pending, ("pending", "the judge has not answered"))
    without |= {name: ("unreadable", reason) for name, reason in run.unreadable}
    aside = _moved_aside(session)
    scenarios = []
    for name in names:
        if name in entries:
            scenarios.append(_reported(session, entries[name], judgements[name], aside.get(name, ())))
            continue
        if name not in without:
            found = classify(session, name, floor).reason
            without[name] = "not run", (did_not_run or {}).get(name) or _WITHOUT_RESULT.get(found, found)
        scenarios.append(ReportedScenario(name, *without[name], moved_aside=aside.get(name, ())))
    missing = tuple((each.name, each.reason) for each in scenarios if each.outcome == "not run")
    notes = SummaryNotes(
        did_not_run=missing,
        rerun_by_hand=tuple(layout.replaced_results(session, names)),
        not_in_run=tuple(name for name in on_disk if name not in set(names)),
    )
    return SessionReport(
        session=session.resolve().name,
        run=run,
        notes=notes,
        rates=tuple(_measured(key, *RATES[key], run.rates[key]) for key in RATES if key in run.rates),
        domains=tuple((key, rates) for key in DOMAIN_BLOCKS if (rates := tuple(_domain_rates(run, key)))),
        scenarios=tuple(scenarios),
        invocations=tuple(map(_started, records)),
    )


def _reported(session: Path, entry: Entry, judged: Mapping[str, Any], aside: tuple[str, ...]) -> ReportedScenario:
    metrics, raw = entry.metrics, entry.metrics.raw
    breakdown = raw.get("success_breakdown")
    turns = read_log(layout.scenario_dir(session, entry.name) / layout.CONVERSATION_LOG) or turns_of(raw)
    return ReportedScenario(
        name=entry.name,
        outcome=_outcome(metrics),
        metrics=metrics,
        latency=latency_stats([record.latency_ms for record in metrics.latencies]),
        passed_signals=_texts(at(breakdown, "passed")),
        not_applicable=_texts(at(breakdown, "not_applicable")),
        end_reason=clipped(raw.get("conversation_end_reason")),
        turns=tuple(LogSegment(each.start, each.end, each.role, clipped(each.text), each.latency_ms) for each in turns),
        judge_reason=clipped(judged.get("reason")),
        judge_failed=entry.judge_failed,
        assertions=tuple(_checks(judged.get("nl_assertion_verdicts"), _assertion)),
        predicates=tuple(_checks(raw.get("db_state_assertion_verdicts"), _predicate)),
        retries=max(whole(raw.get("auto_retry_count")) or 0, 0),
        retry_reasons=_texts(raw.get("auto_retry_reasons")),
        moved_aside=aside,
    )


def _outcome(metrics: ScenarioMetrics) -> Outcome:
    if metrics.stalled:
        return "stalled"
    if metrics.is_successful is None:
        return "no verdict"
    return "passed" if metrics.is_successful else "failed"


def clipped(value: Any) -> str:
    """A foreign value as text of bounded length; nothing for null."""
    text = "" if value is None else value if isinstance(value, str) else _json(value)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… [{len(text) - MAX_TEXT} more characters]"


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(clipped, value)) if isinstance(value, list) else ()


def _checks(value: Any, texts: Any) -> Iterable[Check]:
    for verdict in value if isinstance(value, list) else ():
        if isinstance(verdict, Mapping):
            what, reason = texts(verdict)
            yield Check(what, verdict.get("passed") is True, reason)
        else:
            yield Check(clipped(verdict), False, "")


def _assertion(verdict: Mapping[str, Any]) -> tuple[str, str]:
    return clipped(verdict.get("assertion")), clipped(verdict.get("reason"))


def _predicate(verdict: Mapping[str, Any]) -> tuple[str, str]:
    what = f"{clipped(verdict.get('side'))} {clipped(verdict.get('func_name'))}".strip()
    values = f"expected {clipped(_json(verdict.get('expected')))}, actual {clipped(_json(verdict.get('actual')))}"
    notes = [clipped(verdict.get(key)) for key in ("message", "error") if verdict.get(key)]
    return what, "; ".join([values, *notes])


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=repr)
    except (ValueError, RecursionError):
        return f"({type(value).__name__})"


def _moved_aside(session: Path) -> dict[str, tuple[str, ...]]:
    """The folders of attempts that do not count, by scenario; a name that had to be shortened tells no scenario."""
    found: dict[str, tuple[str, ...]] = {}
    for folder in sorted(path.name for path in session.iterdir() if layout.is_killed(path.name)):
        scenario = folder.partition(layout.KILLED_INFIX)[0]
        found[scenario] = (*found.get(scenario, ()), folder)
    return found


def _domain_rates(run: RunReport, key: str) -> Iterable[MeasuredRate]:
    for domain, rates in run.by_domain.items():
        if key in rates:
            yield _measured(domain, domain, RATES[key][1], rates[key])


def _measured(key: str, label: str, unit: str, rate: Rate) -> MeasuredRate:
    return MeasuredRate(key, label, unit, rate.k, rate.n, *wilson_interval(rate.k, rate.n))


def _started(record: Mapping[str, Any]) -> Started:
    safe = shareable(record)
    options = newest_options([safe])
    return Started(
        started_at=clipped(record.get("started_at")),
        argv=_texts(safe.get("argv")),
        options=tuple((clipped(name), clipped(value) if value is not None else "null") for name, value in options.items()),
        scenarios=len(recorded_names(record)),
    )
