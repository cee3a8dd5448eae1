"""The run's results as files and as events: the three `all_*` files made from what is on disk, one scenario's score as an event.

The aggregates are always made from the scenarios' files, so that a scenario that ran now and one that was loaded give the same bytes.
May import lower floors only. Rules: artifacts page, "Session directory"; scoring page, "Aggregation".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from voiceeval_engine.live import events
from voiceeval_engine.scoring.rescore import saved_verdicts
from voiceeval_engine.scoring.verdict import ERROR, Verdict
from voiceeval_engine.session import layout
from voiceeval_engine.session.aggregate import RunAggregate, on_own_merits
from voiceeval_engine.session.files import UnreadableFile, read_json
from voiceeval_engine.session.metrics import PENDING_REASON, parse_metrics, passes, saved_context, whole
from voiceeval_engine.session.summary import SummaryNotes, render_summary, warning_lines, write_aggregates


def rewrite_aggregates(
    session: Path, names: Sequence[str], min_agent_turns: int, timestamp: str, notes: SummaryNotes, *, finished: bool
) -> list[str]:
    """Make the `all_*` files from the folders of `names` (the queue, in order); `all_summary.txt` only when `finished`.

    Returns the summary's warnings. Raises OSError. Reads every `metrics.json`, so a long run calls it in the worker process.
    """
    aggregate = RunAggregate(names, min_agent_turns)
    for name in names:
        folder = layout.scenario_dir(session, name)
        try:
            metrics = read_json(folder / layout.METRICS)
        except UnreadableFile as error:
            if not error.missing:
                aggregate.add_unreadable(name, error.reason)
            continue
        try:
            judge_result = read_json(folder / layout.JUDGE_RESULT)
        except UnreadableFile:
            judge_result = None
        aggregate.add(name, metrics, judge_result, scenario_directory=str(folder), context_loader=saved_context(folder))
    report = aggregate.report()
    by_hand = {*notes.rerun_by_hand, *layout.replaced_results(session, names)}
    notes = replace(notes, rerun_by_hand=tuple(name for name in names if name in by_hand))
    summary = render_summary(report, queued=len(names), timestamp=timestamp, notes=notes) if finished else None
    write_aggregates(session, report, summary=summary)
    return warning_lines(report, timestamp, notes)


def loaded_event(session: Path, name: str, min_agent_turns: int) -> events.ScenarioScored:
    """A completed scenario of an earlier invocation, on its own merits under this floor.

    Raises UnreadableFile and BadMetrics for one that is not complete.
    """
    folder = layout.scenario_dir(session, name)
    metrics = read_json(folder / layout.METRICS)
    if parse_metrics(metrics).stalled:
        metrics = on_own_merits(metrics, min_agent_turns, saved_context(folder))
    try:
        judge_result = read_json(folder / layout.JUDGE_RESULT)
    except UnreadableFile:
        judge_result = None
    result = judge_result if isinstance(judge_result, Mapping) else {}
    return _event(
        name,
        0,
        metrics,
        assertions=passes(result.get("nl_assertion_verdicts")),
        pending=result.get("reason") == PENDING_REASON,
        judge_failed=str(result.get("reason")).startswith(ERROR),
    )


def scored_event(
    scenario: str, attempt: int, metrics: Mapping[str, Any], *, verdict: Verdict | None = None, pending: bool = False
) -> events.ScenarioScored:
    """What the views need of a `metrics.json` that was just written, and of the judge's verdict in it."""
    assertions = tuple(each.passed for each in verdict.assertions) if verdict is not None else ()
    failed = verdict is not None and verdict.failed
    return _event(scenario, attempt, metrics, assertions=assertions, pending=pending, judge_failed=failed)


def _event(
    scenario: str, attempt: int, metrics: Mapping[str, Any], *, assertions: tuple[bool, ...], pending: bool, judge_failed: bool
) -> events.ScenarioScored:
    parsed = parse_metrics(metrics)
    return events.ScenarioScored(
        scenario=scenario,
        attempt=attempt,
        verdict=None if pending else parsed.is_successful,
        task_verdict=None if pending else parsed.is_task_successful,
        failed_signals=[events.clip(name) for name in parsed.failed_signals],
        signals={name: value for name, value in saved_verdicts(metrics).items() if value is not None},
        stalled=parsed.stalled,
        stop_reason=events.clip(parsed.stop_reason or ""),
        turns=parsed.total_turns,
        latencies=[record.latency_ms for record in parsed.latencies],
        tokens=parsed.agent_tokens.total + parsed.user_tokens.total,
        retries=whole(metrics.get("auto_retry_count")) or 0,
        duration=parsed.scenario_duration,
        pending=pending,
        judge_score=None if pending else parsed.judge_score,
        judge_failed=judge_failed,
        predicates=(sum(parsed.assertions), len(parsed.assertions)),
        assertions=(sum(assertions), len(assertions)),
    )
