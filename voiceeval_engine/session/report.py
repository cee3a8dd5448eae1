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
from voiceeval_engine.session.files import UnreadableFile, read_json
from voiceeval_engine.session.invocations import invocations, recorded_names
from voiceeval_engine.session.metrics import ScenarioMetrics, latency_stats, saved_context, whole
from voiceeval_engine.session.resume import classify, scenario_names
from voiceeval_engine.session.run_args import shareable
from voiceeval_engine.session.summary import SummaryNotes, warning_lines, wilson_interval
from voiceeval_engine.session.transcripts import read_log, turns_of

Outcome = Literal["passed", "failed", "stalled", "no verdict", "pending", "unreadable", "not run"]

DEFAULT_FLOOR = 2
MAX_TEXT = 20_000
"""Longer texts are cut: a report is read by people and sent around."""
_JUDGE_SIGNALS = frozenset({"nl_assertion", "judge_passed"})


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
    """A session as it stands on disk. `rates` and `domains` (rates by block title) leave out what has no measurement.

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
        return all(each.outcome not in ("pending", "unreadable", "not run") for each in self.scenarios)

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
    on_disk = _names(session, records)
    names = tuple(queue) or on_disk
    floor = _floor(records)
    aggregate = RunAggregate(names, floor)
    judgements = {name: _read(aggregate, session, name) for name in names}
    run = aggregate.report()
    entries = {entry.name: entry for entry in run.entries}
    unreadable, aside = dict(run.unreadable), _moved_aside(session)
    scenarios = []
    for name in names:
        if name in entries:
            scenarios.append(_reported(session, entries[name], judgements[name], aside.get(name, ())))
        elif name in run.pending:
            scenarios.append(ReportedScenario(name, "pending", "the judge has not answered", moved_aside=aside.get(name, ())))
        elif name in unreadable:
            scenarios.append(ReportedScenario(name, "unreadable", unreadable[name], moved_aside=aside.get(name, ())))
        else:
            reason = (did_not_run or {}).get(name) or classify(session, name, floor).reason
            scenarios.append(ReportedScenario(name, "not run", reason, moved_aside=aside.get(name, ())))
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
        rates=tuple(_rates(run)),
        domains=tuple((title, tuple(_domain_rates(rates, unit))) for title, unit, rates in _domain_blocks(run) if rates),
        scenarios=tuple(scenarios),
        invocations=tuple(map(_started, records)),
    )


def _names(session: Path, records: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    recorded = (recorded_names(dict(record)) for record in records)
    first = next((names for names in recorded if names), ())
    return tuple(dict.fromkeys((*first, *scenario_names(session))))


def _floor(records: Sequence[Mapping[str, Any]]) -> int:
    parsed = records[-1].get("parsed_args") if records else None
    floor = whole(parsed.get("min_agent_turns")) if isinstance(parsed, Mapping) else None
    return floor if floor is not None and floor >= 0 else DEFAULT_FLOOR


def _read(aggregate: RunAggregate, session: Path, name: str) -> Mapping[str, Any]:
    """Add a scenario to the aggregate as far as it can be read; returns its judge's result."""
    folder = layout.scenario_dir(session, name)
    try:
        metrics = read_json(folder / layout.METRICS)
    except UnreadableFile as error:
        if not error.missing:
            aggregate.add_unreadable(name, error.reason)
        return {}
    try:
        judged = read_json(folder / layout.JUDGE_RESULT)
    except UnreadableFile:
        judged = None
    aggregate.add(name, metrics, judged, context_loader=saved_context(folder))
    return judged if isinstance(judged, Mapping) else {}


def _reported(session: Path, entry: Entry, judged: Mapping[str, Any], aside: tuple[str, ...]) -> ReportedScenario:
    metrics, raw = entry.metrics, entry.metrics.raw
    breakdown = raw.get("success_breakdown")
    turns = read_log(layout.scenario_dir(session, entry.name) / layout.CONVERSATION_LOG) or turns_of(raw)
    return ReportedScenario(
        name=entry.name,
        outcome=_outcome(metrics),
        metrics=metrics,
        latency=latency_stats([record.latency_ms for record in metrics.latencies]),
        passed_signals=_texts(breakdown.get("passed") if isinstance(breakdown, Mapping) else None),
        not_applicable=_texts(breakdown.get("not_applicable") if isinstance(breakdown, Mapping) else None),
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


def _rates(run: RunReport) -> Iterable[MeasuredRate]:
    for key, label, unit, rate in (
        ("success", "Success", "scenarios", run.success),
        ("task_success", "Task success (clean exit aside)", "scenarios", run.task_success),
        ("is_action_match", "Action list", "scenarios", run.action_match),
        ("db_state_match", "Database", "scenarios", run.db_state),
        ("db_state_assertion", "Database predicates", "predicates", run.db_state_assertion),
        ("nl_assertion", "Assertions", "assertions", run.nl_assertion),
        ("judge_passed", "Judge", "scenarios", run.judge_passed),
        ("clean_exit", "Clean exit", "scenarios", run.clean_exit),
    ):
        if rate is not None:
            yield MeasuredRate(key, label, unit, rate.k, rate.n, *wilson_interval(rate.k, rate.n))


def _domain_blocks(run: RunReport) -> tuple[tuple[str, str, Mapping[str, Rate]], ...]:
    return (
        ("success", "scenarios", run.success_by_domain),
        ("task_success", "scenarios", run.task_success_by_domain),
        ("db_state_match", "scenarios", run.db_state_by_domain),
        ("nl_assertion", "assertions", run.nl_assertion_by_domain),
        ("db_state_assertion", "predicates", run.db_state_assertion_by_domain),
    )


def _domain_rates(rates: Mapping[str, Rate], unit: str) -> Iterable[MeasuredRate]:
    for domain, rate in rates.items():
        yield MeasuredRate(domain, domain, unit, rate.k, rate.n, *wilson_interval(rate.k, rate.n))


def _started(record: Mapping[str, Any]) -> Started:
    safe = shareable(record)
    parsed, argv = safe.get("parsed_args"), safe.get("argv")
    options = parsed if isinstance(parsed, Mapping) else {}
    return Started(
        started_at=clipped(record.get("started_at")),
        argv=_texts(argv),
        options=tuple((clipped(name), clipped(value) if value is not None else "null") for name, value in options.items()),
        scenarios=len(recorded_names(dict(record))),
    )
