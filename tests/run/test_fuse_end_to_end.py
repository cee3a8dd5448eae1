"""Runs whose bots die, come back, refuse or say nothing: over real sockets and real files, with short waits."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bot_farm import serving
from engine_run import Ran, run_engine, scenario
from hostile_bots import Act, HostileBot, Refusal, Stage, says_goodbye
from judges import WatchedJudge
from switched_bots import SwitchedBot

from voiceeval_engine.live import events
from voiceeval_engine.live.commands import Command
from voiceeval_engine.live.state import SCORED, RunState
from voiceeval_engine.run import fuse
from voiceeval_engine.run.runner import Runner
from voiceeval_engine.session import layout
from voiceeval_engine.session.resume import classify, preview
from voiceeval_engine.wire import link

Watch = Callable[[Runner, events.Event], None]
NOBODY = ("ws://127.0.0.1:9", "ws://127.0.0.1:7")
MUTE = {"inactivity_timeout": 0.3}
NO_CONTEXT = {"get_context_history": {"context": "[]"}}
SETTLED = 2.0


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse, "PROBE_SECONDS", 0.1)
    monkeypatch.setattr(fuse, "SCENARIO_PROBE_SECONDS", 0.1)
    monkeypatch.setattr(link.BotLink.open, "__defaults__", ((), 0.016))


def _mute_once() -> Act:
    """In its first conversation it says nothing."""
    met: list[Stage] = []

    async def act(stage: Stage) -> None:
        met.append(stage)
        if len(met) > 1:
            await says_goodbye(stage)

    return act


def _scenarios(count: int) -> dict[str, Any]:
    return {f"s__{number}": scenario(f"s__{number}") for number in range(1, count + 1)}


def _of(ran: Ran, kind: type[Any]) -> list[Any]:
    return [event for event in ran.events if isinstance(event, kind)]


def _assert_consistent(ran: Ran, names: list[str]) -> None:
    """Journal, fold, folders and aggregates tell the same of a run."""
    assert ran.tasks_left == []
    state = RunState()
    for line in (ran.session / layout.JOURNAL).read_bytes().splitlines():
        state.apply(events.parse_event(line))
    with_result = [name for name in names if ran.has_result(name)]
    for name in names:
        told = state.scenarios[name]
        assert (told.status in {*SCORED, "judging"}) == (name in with_result), (name, told.status)
        killed = [each for each in ran.session.iterdir() if each.name.startswith(f"{name}{layout.KILLED_INFIX}")]
        assert all((each / layout.KILLED_MARKER).exists() for each in killed)
        moved = [each.moved_to for each in ran.of(name, events.AttemptDiscarded) if each.moved_to is not None]
        assert sorted(moved) == sorted(each.name for each in killed)
        starts = [each.attempt for each in ran.of(name, events.AttemptStarted)]
        assert starts == list(range(1, len(starts) + 1))
        if name in with_result:
            metrics = ran.metrics(name)
            assert metrics["auto_retry_count"] == len(metrics.get("auto_retry_reasons", [])) == told.retries == len(starts) - 1
            assert metrics["total_turns"] == told.turns
            assert told.attempt == starts[-1]
    listed = json.loads((ran.session / layout.ALL_METRICS).read_text())
    assert [each["scenario_name"] for each in listed] == with_result
    summary = (ran.session / layout.ALL_SUMMARY).read_text()
    assert f"Total Scenarios: {len(names)}" in summary
    missing = [name for name in names if name not in with_result]
    assert (f"{len(missing)} scenario(s) did not run: {missing[0]} (" in summary) if missing else ("did not run" not in summary)
    outs, backs = _of(ran, events.PairOut), _of(ran, events.PairBack)
    for pair in {event.pair for event in outs}:
        assert 0 <= [each.pair for each in outs].count(pair) - [each.pair for each in backs].count(pair) <= 1
    assert state.ended is not None
    assert state.ended.complete == ran.complete == (not missing)


def test_what_a_pair_dead_from_the_start_cost_is_done_by_the_other(tmp_path: Path) -> None:
    scenarios = _scenarios(6)
    good = HostileBot(says_goodbye), HostileBot()
    with serving(*good):
        ran = run_engine(tmp_path, [NOBODY, good], scenarios, max_auto_retries=1)
    assert ran.complete
    _assert_consistent(ran, list(scenarios))
    (out,) = _of(ran, events.PairOut)
    assert out.pair == 0
    assert "nothing listens there" in out.reason
    assert "PAIR 1 IS OUT since " in ran.log
    assert out.reason in ran.log
    cost = {event.scenario for event in _of(ran, events.AttemptStarted) if event.pair == 0}
    assert cost
    for name in cost:
        assert ran.metrics(name)["is_successful"]
        assert "nothing listens there" in ran.metrics(name)["auto_retry_reasons"][0]
        assert f"AUTO-RETRY 0/1: {name}" not in ran.log
        assert re.search(rf"{name}: .*nothing listens there.*: laid to the pair of bots, no retry of the scenario's", ran.log)


def test_a_lone_pair_that_dies_and_comes_back_does_all(tmp_path: Path) -> None:
    scenarios = _scenarios(5)
    bots = SwitchedBot(says_goodbye), SwitchedBot()

    def watch(runner: Runner, event: events.Event) -> None:
        if isinstance(event, events.AttemptStarted) and event.number == 2 and event.attempt == 1:
            bots[0].kill()
            bots[1].kill()
        elif isinstance(event, events.PairOut):
            bots[0].revive()
            bots[1].revive()

    with serving(*bots):
        ran = run_engine(tmp_path, [bots], scenarios, watch=watch)
    assert ran.complete
    _assert_consistent(ran, list(scenarios))
    assert len(_of(ran, events.PairOut)) == len(_of(ran, events.PairBack)) == 1
    assert all(ran.metrics(name)["is_successful"] for name in scenarios)
    assert ran.metrics("s__2")["auto_retry_count"] >= 1
    assert ran.metrics("s__1")["auto_retry_count"] == 0
    assert "pair 1 answers again" in ran.log


def test_when_nobody_answers_the_run_ends_after_its_wait_and_a_resume_completes_it(tmp_path: Path) -> None:
    scenarios = _scenarios(4)
    ran = run_engine(tmp_path, [NOBODY], scenarios, backend_wait=1.0)
    _assert_consistent(ran, list(scenarios))
    end = ran.events[-1]
    assert isinstance(end, events.RunEnded)
    assert (end.complete, end.reason) == (False, "no pair of bots has answered for 1 s")
    assert preview(ran.session, 1) == []
    assert {classify(ran.session, name, 1).state for name in scenarios} <= {"fresh", "in-flight"}
    good = HostileBot(says_goodbye), HostileBot()
    with serving(*good):
        again = run_engine(tmp_path, [good], scenarios, resume=ran.session.name.removeprefix(layout.SESSION_PREFIX))
    assert again.complete
    assert again.session == ran.session
    assert {classify(ran.session, name, 1).state for name in scenarios} == {"completed"}


def test_bots_that_say_nothing_for_a_while_cost_no_scenario(tmp_path: Path) -> None:
    scenarios, silent = _scenarios(5), [True]

    async def act(stage: Stage) -> None:
        if not silent:
            await says_goodbye(stage)

    def watch(runner: Runner, event: events.Event) -> None:
        if isinstance(event, events.AttemptDiscarded) and len(_discarded) < 5:
            _discarded.append(event)
            if len(_discarded) == 5:
                silent.clear()

    _discarded: list[events.AttemptDiscarded] = []
    bots = HostileBot(act, NO_CONTEXT), HostileBot()
    with serving(*bots):
        ran = run_engine(tmp_path, [bots], scenarios, watch=watch, **MUTE)
    assert ran.complete
    _assert_consistent(ran, list(scenarios))
    assert all(ran.metrics(name)["total_turns"] for name in scenarios)
    assert len(_of(ran, events.PairOut)) == len(_of(ran, events.PairBack)) == 1
    given_back = {each.scenario for each in _of(ran, events.Requeued) if each.reason == "its pair of bots had died"}
    assert given_back
    assert all(f"{name}: 0 conversation turns (bots never exchanged audio): laid to the pair" in ran.log for name in given_back)


@pytest.mark.parametrize("pairs", [1, 2])
def test_bots_that_refuse_every_set_up_end_the_run_in_a_bounded_number_of_attempts(tmp_path: Path, pairs: int) -> None:
    scenarios = _scenarios(4)
    bots = [(HostileBot(replies={"reset": Refusal("not today")}), HostileBot()) for _ in range(pairs)]
    with serving(*(bot for pair in bots for bot in pair)):
        ran = run_engine(tmp_path, bots, scenarios)
    assert not ran.complete
    _assert_consistent(ran, list(scenarios))
    for name in scenarios:
        assert ran.of(name, events.ScenarioNotRun)
        assert len(ran.of(name, events.AttemptStarted)) <= 6
    assert "not today" in (ran.session / layout.ALL_SUMMARY).read_text()


def test_the_verdict_of_a_result_that_is_given_back_never_lands_in_the_new_one(tmp_path: Path) -> None:
    scenarios = {
        name: scenario(name, nl_assertions=("The agent says something.",), success_signals=("clean_exit", "judge_passed"))
        for name in _scenarios(4)
    }
    silent = [True]

    async def act(stage: Stage) -> None:
        if not silent:
            await says_goodbye(stage)

    def watch(runner: Runner, event: events.Event) -> None:
        if isinstance(event, events.PairOut):
            silent.clear()
        elif isinstance(event, events.ScenarioScored) and event.turns:
            judge.answering.set()

    bots = HostileBot(act, NO_CONTEXT), HostileBot()
    with serving(*bots), WatchedJudge(answers=False) as judge:
        ran = run_engine(tmp_path, [bots], scenarios, watch=watch, judge_url=judge.url, judge_model="m", **MUTE)
    assert ran.complete
    _assert_consistent(ran, list(scenarios))
    given_back = {each.scenario for each in _of(ran, events.Requeued) if each.reason == "its pair of bots had died"}
    assert given_back
    for name in scenarios:
        assert ran.metrics(name)["total_turns"] > 0
        verdicts = [each for each in ran.of(name, events.ScenarioScored) if not each.pending]
        assert [each.attempt for each in verdicts] == [len(ran.of(name, events.AttemptStarted))]
        assert (ran.session / name / layout.JUDGE_RESULT).exists()
    for folder in ran.session.glob(f"*{layout.KILLED_INFIX}*"):
        result = folder / layout.JUDGE_RESULT
        assert not result.exists() or "pending" in result.read_text()


def _stop_after(seconds: float, is_it: Callable[[events.Event], bool], stopped: list[float]) -> Watch:
    """Stops the run `seconds` after the first event that it is; `stopped` tells when that was."""
    found: list[events.Event] = []

    def stop(runner: Runner) -> None:
        stopped.append(time.monotonic())
        runner.stop()

    def watch(runner: Runner, event: events.Event) -> None:
        if not found and is_it(event):
            found.append(event)
            asyncio.get_running_loop().call_later(seconds, stop, runner)

    return watch


def _assert_stopped(ran: Ran, stopped: list[float]) -> None:
    assert time.monotonic() - stopped[0] < SETTLED
    end = ran.events[-1]
    assert isinstance(end, events.RunEnded)
    assert end.reason == "interrupted"
    assert not ran.complete
    assert ran.tasks_left == []
    assert "4 scenario(s) did not run" in (ran.session / layout.ALL_SUMMARY).read_text()


def test_stopping_while_all_pairs_are_out_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse, "PROBE_SECONDS", 100.0)
    stopped: list[float] = []
    watch = _stop_after(0.1, lambda event: isinstance(event, events.PairOut), stopped)
    _assert_stopped(run_engine(tmp_path, [NOBODY], _scenarios(4), watch=watch), stopped)


def test_stopping_in_a_back_off_ends_at_once(tmp_path: Path) -> None:
    stopped: list[float] = []
    watch = _stop_after(0.1, lambda event: isinstance(event, events.AttemptDiscarded), stopped)
    _assert_stopped(run_engine(tmp_path, [NOBODY], _scenarios(4), watch=watch, auto_retry_backoff_secs=100.0), stopped)


def test_stopping_while_a_scenario_probes_ends_at_once(tmp_path: Path) -> None:
    stopped: list[float] = []
    seen: list[type[Any]] = []

    def is_probe(event: events.Event) -> bool:
        seen.append(type(event))
        return isinstance(event, events.ConversationStarted) and events.PairOut in seen

    bots = HostileBot(replies=NO_CONTEXT), HostileBot()
    with serving(*bots):
        ran = run_engine(tmp_path, [bots], _scenarios(4), watch=_stop_after(0.1, is_probe, stopped), **MUTE)
        _assert_stopped(ran, stopped)


def test_stopping_while_a_bot_hangs_in_its_probe_ends_at_once(tmp_path: Path) -> None:
    stopped: list[float] = []
    stop = _stop_after(0.5, lambda event: isinstance(event, events.PairOut), stopped)
    bots = SwitchedBot(greets=False), HostileBot()

    def watch(runner: Runner, event: events.Event) -> None:
        if isinstance(event, events.RunStarted):
            bots[0].kill()
        elif isinstance(event, events.PairOut):
            bots[0].revive()
        stop(runner, event)

    with serving(*bots):
        ran = run_engine(tmp_path, [bots], _scenarios(4), watch=watch)
        _assert_stopped(ran, stopped)


def test_an_earlier_result_that_counts_again_stays_when_the_fuse_blows(tmp_path: Path) -> None:
    """A stall is run again by hand on a pair that has died: its fuse gives back what it cost, and not that stall."""
    scenarios = _scenarios(4)
    bots = SwitchedBot(_mute_once(), NO_CONTEXT), SwitchedBot()

    def watch(runner: Runner, event: events.Event) -> None:
        if isinstance(event, events.ScenarioScored) and event.scenario == "s__1" and event.stalled and not event.restored:
            bots[0].kill()
            runner._backlog.hold("operator", "by the operator")
            asyncio.get_running_loop().call_later(0.2, again, runner)
        elif isinstance(event, events.PairOut):
            bots[0].revive()

    def again(runner: Runner) -> None:
        reply = runner._control._handler(Command(command="run-again", scenario="s__1"))
        assert reply.ok, reply.message
        runner._backlog.release("operator")

    with serving(*bots):
        ran = run_engine(tmp_path, [bots], scenarios, watch=watch, max_auto_retries=0, **MUTE)
    assert ran.complete
    assert ran.metrics("s__1")["total_turns"] == 0
    assert [each.restored for each in ran.of("s__1", events.ScenarioScored)] == [False, True]
    assert all(ran.metrics(name)["total_turns"] for name in ("s__2", "s__3", "s__4"))
    assert len(_of(ran, events.PairOut)) == 1
