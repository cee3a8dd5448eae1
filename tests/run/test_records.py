"""What the run's records do when several want the same: nothing is settled twice, nothing is left out, no secret is told."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from voiceeval_engine.live import events
from voiceeval_engine.offload import Offload
from voiceeval_engine.run.backlog import Backlog, Job
from voiceeval_engine.run.ledger import Ledger
from voiceeval_engine.run.records import Records
from voiceeval_engine.session import layout

KEY = "sk-very-secret-0123"
LOG = logging.LoggerAdapter(logging.getLogger("test"), {})


class Desk:
    """A run's records and what they told."""

    def __init__(self, session: Path, names: list[str]) -> None:
        self.told: list[events.Event] = []
        self.offload = Offload()
        self.backlog = Backlog((), [0])
        self.ledger = Ledger(session, "ts", names, 0, offload=self.offload, emit=self.told.append, log=LOG)
        shop: Any = SimpleNamespace(offload=self.offload, emit=self.told.append)
        logs: Any = SimpleNamespace(run=LOG)
        nothing: Any = None
        self.records = Records(session, "20260101_000000", shop, nothing, self.backlog, self.ledger, logs, [KEY])


def _result(name: str) -> events.ScenarioScored:
    return events.ScenarioScored(
        scenario=name, attempt=1, verdict=True, task_verdict=True, failed_signals=[], signals={}, stalled=False, stop_reason="[EXIT]",
        turns=2, latencies=[], tokens=0, retries=0, duration=1.0,
    )  # fmt: skip


async def test_a_scenario_that_is_skipped_while_the_end_is_settled_takes_no_others_result_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["s__a", "s__b", "s__c"]
    desk = Desk(tmp_path, names)
    bring_back = layout.bring_back

    def slowly(moved: Path, attempt: Path) -> None:
        time.sleep(0.05)
        bring_back(moved, attempt)

    monkeypatch.setattr(layout, "bring_back", slowly)
    for name in names:
        (tmp_path / name).mkdir()
        desk.ledger.scored(_result(name))
        job = Job(1, name, by_hand=True)
        await desk.records._set_result_aside(job)
        desk.backlog.put_back(job)
    settling = asyncio.create_task(desk.records.settle())
    await asyncio.sleep(0.02)
    assert [desk.backlog.waiting(name) for name in names] == [None] * 3
    await settling
    assert desk.ledger.complete
    assert sorted(path.name for path in tmp_path.iterdir()) == names


async def test_why_a_scenario_did_not_run_is_told_without_the_key(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ["s__a"])
    await desk.records.came_to_nothing(Job(1, "s__a"), f"unexpected error: cannot reach ws://bot/?key={KEY}")
    (event,) = [each for each in desk.told if isinstance(each, events.ScenarioNotRun)]
    assert event.reason.startswith("unexpected error")
    assert KEY not in event.reason
    await desk.ledger.write(finished=True)
    assert KEY not in (tmp_path / "all_summary.txt").read_text()


async def test_a_scenario_that_waited_to_run_again_at_the_end_is_listed_with_what_had_befallen_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ["s__a", "s__b", "s__c"])
    desk.ledger.waited_after = {"s__a": "set-up: the agent bot is not there"}
    (tmp_path / "s__b").mkdir()
    await desk.ledger.write(finished=True)
    expected = "s__a (not started again after: set-up: the agent bot is not there), s__b (interrupted), s__c (not started)"
    assert expected in (tmp_path / "all_summary.txt").read_text()
