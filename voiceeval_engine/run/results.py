"""The run's results as files and as events: the three `all_*` files made from what is on disk, one scenario's score as an event.

The aggregates are always made from the scenarios' files, so that a scenario that ran now and one that was loaded give the same bytes.
May import lower floors only. Rules: artifacts page, "Session directory"; scoring page, "Aggregation".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from voiceeval_engine.garbage import uncollected
from voiceeval_engine.live import events
from voiceeval_engine.scoring.verdict import Verdict
from voiceeval_engine.session import layout
from voiceeval_engine.session.aggregate import RunAggregate, on_own_merits
from voiceeval_engine.session.files import read_json_if_any
from voiceeval_engine.session.metrics import ScenarioMetrics, parse_metrics, saved_context
from voiceeval_engine.session.results import Judgement, event_fields, judgement_of
from voiceeval_engine.session.summary import SummaryNotes, render_summary, warning_lines, write_aggregates


@uncollected()
def rewrite_aggregates(
    session: Path, names: Sequence[str], min_agent_turns: int, timestamp: str, notes: SummaryNotes, *, finished: bool
) -> list[str]:
    """Make the `all_*` files from the folders of `names` (the queue, in order); `all_summary.txt` only when `finished`.

    Returns the summary's warnings. Raises OSError. Reads every `metrics.json`, so a long run calls it in the worker process.
    """
    aggregate = RunAggregate(names, min_agent_turns)
    for name in names:
        aggregate.read(session, name)
    report = aggregate.report()
    by_hand = {*notes.rerun_by_hand, *layout.replaced_results(session, names)}
    notes = replace(notes, rerun_by_hand=tuple(name for name in names if name in by_hand))
    summary = render_summary(report, queued=len(names), timestamp=timestamp, notes=notes) if finished else None
    write_aggregates(session, report, summary=summary)
    return warning_lines(report, timestamp, notes)


def loaded_event(session: Path, name: str, min_agent_turns: int, metrics: ScenarioMetrics) -> events.ScenarioScored:
    """A completed scenario of an earlier invocation, on its own merits under this floor; `metrics` are what its folder holds."""
    folder = f"{session}/{name}"
    judgement = judgement_of(read_json_if_any(f"{folder}/{layout.JUDGE_RESULT}"))
    metrics = on_own_merits(metrics, min_agent_turns, saved_context(folder))
    return events.ScenarioScored(scenario=name, attempt=0, **event_fields(metrics, judgement))


def scored_event(
    scenario: str, attempt: int, metrics: Mapping[str, Any], *, verdict: Verdict | None = None, pending: bool = False
) -> events.ScenarioScored:
    """What the views need of a `metrics.json` that was just written, and of the judge's verdict in it."""
    assertions = tuple(each.passed for each in verdict.assertions) if verdict is not None else ()
    judgement = Judgement(pending, verdict is not None and verdict.failed, assertions)
    return events.ScenarioScored(scenario=scenario, attempt=attempt, **event_fields(parse_metrics(metrics), judgement))
