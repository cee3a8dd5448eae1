"""The run's results as files and as events: the three `all_*` files made from what is on disk, one scenario's score as an event.

The aggregates are always made from the scenarios' files, so that a scenario that ran now and one that was loaded give the same bytes.
May import lower floors only. Rules: artifacts page, "Session directory"; scoring page, "Aggregation".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from voiceeval_engine.live import events
from voiceeval_engine.scoring.rescore import saved_verdicts
from voiceeval_engine.scoring.verdict import Verdict
from voiceeval_engine.session import layout
from voiceeval_engine.session.aggregate import RunAggregate
from voiceeval_engine.session.files import UnreadableFile, read_json
from voiceeval_engine.session.metrics import passes, saved_context
from voiceeval_engine.session.summary import SummaryNotes, render_summary, write_aggregates


def rewrite_aggregates(
    session: Path, names: Sequence[str], min_agent_turns: int, timestamp: str, notes: SummaryNotes, *, finished: bool
) -> None:
    """Make the `all_*` files from the folders of `names` (the queue, in order); `all_summary.txt` only when `finished`.

    Raises OSError. Reads every `metrics.json`, so a long run calls it in the worker process.
    """
    aggregate = RunAggregate(names, min_agent_turns)
    for name in names:
        folder = layout.scenario_dir(session, name)
        try:
            metrics = read_json(folder / layout.METRICS)
        except UnreadableFile:
            continue
        try:
            judge_result = read_json(folder / layout.JUDGE_RESULT)
        except UnreadableFile:
            judge_result = None
        aggregate.add(name, metrics, judge_result, scenario_directory=str(folder), context_loader=saved_context(folder))
    report = aggregate.report()
    summary = render_summary(report, queued=len(names), timestamp=timestamp, notes=notes) if finished else None
    write_aggregates(session, report, summary=summary)


def scored_event(
    scenario: str, attempt: int, metrics: Mapping[str, Any], *, verdict: Verdict | None = None, pending: bool = False
) -> events.ScenarioScored:
    """What the views need of a `metrics.json` that was just written, and of the judge's verdict in it."""
    is_successful = metrics["is_successful"]
    predicates = passes(metrics.get("db_state_assertion_verdicts"))
    assertions = [each.passed for each in verdict.assertions] if verdict is not None else []
    return events.ScenarioScored(
        scenario=scenario,
        attempt=attempt,
        verdict=is_successful if isinstance(is_successful, bool) else None,
        task_verdict=metrics.get("is_task_successful"),
        failed_signals=metrics["success_breakdown"]["failed"],
        signals={name: value for name, value in saved_verdicts(metrics).items() if value is not None},
        stalled=metrics.get("insufficient_agent_turns", False),
        stop_reason=metrics["stop_reason"],
        turns=metrics["total_turns"],
        latencies=[record["latency_ms"] for record in metrics["latencies"]],
        tokens=sum(side["prompt"] + side["completion"] for side in metrics["token_usage"].values()),
        retries=metrics["auto_retry_count"],
        duration=metrics["scenario_duration"],
        pending=pending,
        judge_score=metrics.get("judge_score"),
        judge_failed=verdict is not None and verdict.failed,
        predicates=(sum(predicates), len(predicates)),
        assertions=(sum(assertions), len(assertions)),
    )
