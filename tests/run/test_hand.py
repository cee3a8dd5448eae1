"""The operator's hand, end to end over the run's own socket: what each command does, what it refuses, and what the session says after."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from driven_run import (
    Cast,
    Operator,
    casts,
    drive,
    fails,
    files_of,
    named,
    pairs_of,
    passes,
    says_nothing,
    stalls,
    talks_on,
    until,
)
from engine_run import Ran
from hostile_bots import SILENT, Drop
from judges import WatchedJudge

from voiceeval_engine.live import events
from voiceeval_engine.live.commands import Command, EngineGone, Reply, send_now, socket_path
from voiceeval_engine.live.state import RunState
from voiceeval_engine.run import resuming as resuming_module
from voiceeval_engine.run import runner as runner_module
from voiceeval_engine.run.judging import Judged
from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.run.rejudge import rejudge
from voiceeval_engine.scenarios.model import ScenarioError
from voiceeval_engine.session.files import read_json

JUDGED = {"success_signals": ("judge_passed", "clean_exit")}
STALLS = {"min_agent_turns": 2}


@pytest.fixture(autouse=True)
def _a_short_folder_for_the_socket(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    short = tempfile.mkdtemp(dir="/tmp")
    monkeypatch.setenv("TMPDIR", short)
    yield
    shutil.rmtree(short)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Closed; open when the test is over, so that no act waits for ever."""
    made = threading.Event()
    yield made
    made.set()


def fold(ran: Ran) -> RunState:
    state = RunState()
    for event in ran.events:
        state.apply(event)
    return state


def summary(session: Path) -> str:
    return (session / "all_summary.txt").read_text()


def warning(session: Path, what: str) -> str:
    """The summary's line with these words, empty where there is none."""
    return next((line for line in summary(session).splitlines() if what in line), "")


def results(session: Path) -> list[str]:
    return [each["scenario_name"] for each in read_json(session / "all_metrics.json")]


def agrees(ran: Ran) -> None:
    """The fold, the aggregates and the folders tell the same."""
    state = fold(ran)
    with_result = [name for name in state.scenarios if ran.has_result(name)]
    assert results(ran.session) == with_result
    assert [name for name, each in state.scenarios.items() if each.status in ("passed", "failed", "stalled")] == with_result
    assert ran.tasks_left == []
    sequence = [json.loads(line)["seq"] for line in (ran.session / "events.jsonl").read_text().splitlines()]
    assert sequence == sorted(set(sequence))


# -- status, pause, go on


def test_status_tells_the_run_as_it_is(tmp_path: Path, gate: threading.Event) -> None:
    async def play(operator: Operator) -> None:
        await operator.until_is("s__waits", "talking")
        status = await operator.status()
        assert (status.session, status.pid) == (str(operator.session), os.getpid())
        assert (status.state, status.reason) == ("running", "")
        assert (status.total, status.done, status.running) == (3, 1, ("s__waits",))
        assert (status.success_k, status.success_n, status.stalled, status.not_run) == (0, 1, 0, 0)
        assert (status.pairs, status.pairs_out) == (1, ())
        assert status.started_at[:2] == "20"
        assert 0 < status.elapsed < 60
        assert status.eta is not None
        assert status.eta > 0
        gate.set()

    with casts(s__fails=fails, s__waits=until(gate)) as agents:
        ran = drive(tmp_path, pairs_of(agents), named("s__fails", "s__waits", "s__last"), play)
    assert ran.complete
    agrees(ran)


def test_a_pause_holds_new_attempts_and_retries_while_conversations_and_judging_go_on(
    tmp_path: Path, gate: threading.Event
) -> None:
    async def play(operator: Operator) -> None:
        await operator.until_is("s__talks", "talking")
        await operator.until_is("s__retries", "talking")
        assert "not paused" in await operator.refused("resume-queue")
        await operator.do("pause")
        assert "already" in await operator.refused("pause")
        status = await operator.status()
        assert (status.state, status.reason) == ("paused", "by the operator")
        gate.set()
        await operator.until_is("s__talks", "passed")
        await operator.until_is("s__retries", "retrying")
        assert judge.asked == 1
        await asyncio.sleep(0.4)
        assert operator.count(events.AttemptStarted) == 2
        assert operator.status_of("s__next") == "queued"
        agents[0].acts["s__retries"] = agents[1].acts["s__retries"] = passes
        await operator.do("resume-queue")
        assert "not paused" in await operator.refused("resume-queue")
        assert (await operator.status()).state == "running"

    with casts(2, s__talks=until(gate), s__retries=until(gate, says_nothing)) as agents, WatchedJudge() as judge:
        ran = drive(
            tmp_path, pairs_of(agents), named("s__talks", "s__retries", "s__next", **JUDGED), play,
            judge_url=judge.url, judge_threshold=0.5, max_auto_retries=1,
        )  # fmt: skip
    assert ran.complete
    assert [type(each).__name__ for each in ran.events if isinstance(each, events.Paused | events.GoneOn)] == ["Paused", "GoneOn"]
    agrees(ran)


def test_a_pause_while_a_scenario_is_being_built_holds_it(tmp_path: Path, gate: threading.Event) -> None:
    building = threading.Event()

    def slowly() -> Any:
        building.set()
        gate.wait(30)
        return named("s__slow")["s__slow"]

    async def play(operator: Operator) -> None:
        await operator.until(building.is_set)
        await operator.do("pause")
        gate.set()
        await asyncio.sleep(0.3)
        assert operator.count(events.AttemptStarted) == 0
        await operator.do("skip", "s__slow")
        await operator.do("resume-queue")

    with casts() as agents:
        ran = drive(tmp_path, pairs_of(agents), {"s__slow": slowly, **named("s__other")}, play)
    assert ran.not_run("s__slow") == "skipped by the operator"
    assert ran.has_result("s__other")
    agrees(ran)


# -- skip


def test_a_queued_scenario_can_be_skipped_and_a_running_one_cannot(tmp_path: Path, gate: threading.Event) -> None:
    async def play(operator: Operator) -> None:
        await operator.until_is("s__runs", "talking")
        assert "talking" in await operator.refused("skip", "s__runs")
        await operator.do("skip", "s__unwanted")
        assert operator.status_of("s__unwanted") == "not run"
        assert "not run" in await operator.refused("skip", "s__unwanted")
        assert "no scenario 's__unknown'" in await operator.refused("skip", "s__unknown")
        gate.set()

    with casts(s__runs=until(gate)) as agents:
        ran = drive(tmp_path, pairs_of(agents), named("s__runs", "s__unwanted", "s__last"), play)
    assert not ran.complete
    assert ran.not_run("s__unwanted") == "skipped by the operator"
    assert ran.of("s__unwanted", events.AttemptStarted) == []
    assert not (ran.session / "s__unwanted").exists()
    assert "1 scenario(s) did not run: s__unwanted (skipped by the operator)" in summary(ran.session)
    agrees(ran)


# -- stop an attempt


def test_an_attempt_is_stopped_during_set_up(tmp_path: Path) -> None:
    async def play(operator: Operator) -> None:
        await operator.until_is("s__mute", "setting up")
        await operator.do("stop-attempt", "s__mute")
        await operator.until_is("s__mute", "not run")
        assert "not run" in await operator.refused("stop-attempt", "s__mute")

    with casts() as agents:
        agents[0].replies["s__mute"] = SILENT
        ran = drive(tmp_path, pairs_of(agents), named("s__mute", "s__last"), play, max_auto_retries=3)
    assert ran.not_run("s__mute") == "stopped by the operator"
    assert len(ran.of("s__mute", events.AttemptStarted)) == 1
    assert ran.of("s__mute", events.AttemptDiscarded) == []
    assert (ran.session / "s__mute" / "bridge_log.txt").is_file()
    assert "1 scenario(s) did not run: s__mute (stopped by the operator)" in summary(ran.session)
    assert not ran.complete
    agrees(ran)


def test_an_attempt_that_is_stopped_while_it_talks_leaves_its_evidence(tmp_path: Path) -> None:
    async def play(operator: Operator) -> None:
        await operator.until(lambda: operator.count(events.Words, scenario="s__long"))
        await operator.do("stop-attempt", "s__long")
        await operator.until_is("s__long", "not run")

    with casts(s__long=talks_on) as agents:
        ran = drive(tmp_path, pairs_of(agents), named("s__long", "s__last"), play, max_auto_retries=3)
    assert ran.not_run("s__long") == "stopped by the operator"
    assert len(ran.of("s__long", events.AttemptStarted)) == 1
    folder = ran.session / "s__long"
    assert "Stop reason: [STOPPED]" in (folder / "conversation_log.txt").read_text()
    assert "Nice weather today." in (folder / "conversation_log.txt").read_text()
    assert (folder / "conversation_log.wav").stat().st_size > 1000
    assert (folder / "bot_logs_agent" / "llm_context.json").is_file()
    assert (folder / "timing.json").is_file()
    assert not list(ran.session.glob("s__long.killed.*"))
    assert ran.has_result("s__last")
    agrees(ran)


def test_an_attempt_is_stopped_during_its_back_off(tmp_path: Path) -> None:
    async def play(operator: Operator) -> None:
        await operator.until_is("s__dead", "retrying")
        await operator.do("stop-attempt", "s__dead")
        await operator.until_is("s__dead", "not run")

    with casts() as agents:
        agents[0].replies["s__dead"] = Drop()
        ran = drive(tmp_path, pairs_of(agents), named("s__dead", "s__last"), play, max_auto_retries=3, auto_retry_backoff_secs=60.0)
    assert ran.not_run("s__dead") == "stopped by the operator"
    assert len(ran.of("s__dead", events.AttemptStarted)) == 1
    assert ran.has_result("s__last")
    agrees(ran)


def test_what_has_ended_or_waits_has_no_attempt_to_stop(tmp_path: Path, gate: threading.Event) -> None:
    async def play(operator: Operator) -> None:
        await operator.until_is("s__holds", "talking")
        assert "passed" in await operator.refused("stop-attempt", "s__done")
        assert "queued" in await operator.refused("stop-attempt", "s__waits")
        assert "no scenario" in await operator.refused("stop-attempt", "s__unknown")
        gate.set()

    with casts(s__holds=until(gate)) as agents:
        ran = drive(tmp_path, pairs_of(agents), named("s__done", "s__holds", "s__waits"), play)
    assert ran.complete


# -- run again


def test_what_may_be_run_again_and_what_may_not(tmp_path: Path, gate: threading.Event) -> None:
    async def play(operator: Operator) -> None:
        await operator.until_is("s__holds", "talking")
        await operator.until_is("s__dead", "not run")
        assert operator.status_of("s__stalls") == "stalled"
        assert "stands" in await operator.refused("run-again", "s__passes")
        assert "confirm" in await operator.refused("run-again", "s__fails")
        assert "talking" in await operator.refused("run-again", "s__holds", confirmed=True)
        assert "queued" in await operator.refused("run-again", "s__waits", confirmed=True)
        assert "no scenario" in await operator.refused("run-again", "s__unknown")
        agents[0].acts["s__stalls"] = agents[0].acts["s__fails"] = passes
        agents[0].replies.clear()
        await operator.do("pause")
        await operator.do("run-again", "s__stalls")
        assert "queued" in await operator.refused("run-again", "s__stalls")
        await operator.do("run-again", "s__dead")
        await operator.do("run-again", "s__fails", confirmed=True)
        await operator.do("resume-queue")
        gate.set()

    names = ("s__stalls", "s__passes", "s__fails", "s__dead", "s__holds", "s__waits")
    with casts(s__stalls=stalls, s__fails=fails, s__holds=until(gate)) as agents:
        agents[0].replies["s__dead"] = Drop()
        ran = drive(tmp_path, pairs_of(agents), named(*names), play, **STALLS)
    assert ran.complete
    assert [ran.metrics(name)["is_successful"] for name in names] == [True] * 6
    assert {name: [each.attempt for each in ran.of(name, events.AttemptStarted)] for name in names} == {
        **{name: [1] for name in names}, "s__stalls": [1, 2], "s__fails": [1, 2], "s__dead": [1, 2],
    }  # fmt: skip
    assert warning(ran.session, "re-run by hand") == "WARNING: 3 scenario(s) were re-run by hand: s__stalls, s__fails, s__dead"
    assert fold(ran).success.n == 6
    agrees(ran)


@pytest.mark.parametrize("floor", [1, 2], ids=["judged", "stalled"])
def test_a_scenario_whose_verdict_is_out_is_not_run_again(tmp_path: Path, gate: threading.Event, floor: int) -> None:
    async def play(operator: Operator) -> None:
        await operator.until_is("s__holds", "talking")
        await operator.until_is("s__asked", "judging")
        assert "judging" in await operator.refused("run-again", "s__asked", confirmed=True)
        assert "judging" in await operator.refused("stop-attempt", "s__asked")
        assert "judging" in await operator.refused("skip", "s__asked")
        judge.answering.set()
        gate.set()

    with casts(s__asked=stalls, s__holds=until(gate)) as agents, WatchedJudge(answers=False) as judge:
        ran = drive(
            tmp_path, pairs_of(agents), named("s__asked", "s__holds", **JUDGED), play,
            judge_url=judge.url, judge_threshold=0.5, min_agent_turns=floor,
        )  # fmt: skip
    assert ran.complete
    agrees(ran)


def _stalled_result_and(what: Any, gate: threading.Event, agents: list[Cast]) -> Any:
    """A play: a stalled result, then `what` while another scenario keeps the run going, then its end."""

    async def play(operator: Operator) -> None:
        await operator.until_is("s__holds", "talking")
        await operator.until_is("s__stalls", "stalled")
        await what(operator)
        gate.set()

    return play


def _run_with_a_stalled_result(output: Path, what: Any, gate: threading.Event, **options: Any) -> Ran:
    with casts(2, s__stalls=stalls, s__holds=until(gate)) as agents:
        return drive(
            output, pairs_of(agents), named("s__stalls", "s__holds"), _stalled_result_and(lambda each: what(each, agents), gate, agents),
            **{**STALLS, **options},
        )  # fmt: skip


def _old_result_stands(ran: Ran, before: dict[str, bytes], *, not_run: int) -> None:
    assert files_of(ran.session / "s__stalls") == before
    assert ran.complete
    scored = ran.of("s__stalls", events.ScenarioScored)
    assert [each.restored for each in scored] == [False, True]
    assert len(ran.of("s__stalls", events.ScenarioNotRun)) == not_run
    state = fold(ran)
    assert (state.scenarios["s__stalls"].status, state.done) == ("stalled", 2)
    assert results(ran.session) == ["s__stalls", "s__holds"]
    assert "did not run" not in summary(ran.session)
    assert not list(ran.session.glob("*.killed.byhand*"))
    agrees(ran)


@pytest.mark.parametrize("how", ["refuses", "mute and stopped", "back-off and stopped", "nothing can be built"])
def test_the_old_result_comes_back_if_the_new_attempt_does_not_start(tmp_path: Path, gate: threading.Event, how: str) -> None:
    before: dict[str, bytes] = {}
    broken: list[BaseException] = []

    async def again(operator: Operator, agents: list[Cast]) -> None:
        before.update(files_of(operator.session / "s__stalls"))
        for agent in agents:
            agent.down = "out of order" if how == "refuses" else ""
            if how == "mute and stopped":
                agent.replies["s__stalls"] = SILENT
            agent.acts["s__stalls"] = says_nothing
        if how == "nothing can be built":
            broken.append(ScenarioError("the pack was edited"))
        await operator.do("run-again", "s__stalls")
        if how == "mute and stopped":
            await operator.until_is("s__stalls", "setting up")
            await operator.do("stop-attempt", "s__stalls")
        elif how == "back-off and stopped":
            await operator.until_is("s__stalls", "retrying")
            await operator.do("stop-attempt", "s__stalls")
        await operator.until(lambda: operator.count(events.ScenarioScored, scenario="s__stalls", restored=True))
        for agent in agents:
            agent.down = ""

    def build() -> Any:
        if broken:
            raise broken[0]
        return named("s__stalls")["s__stalls"]

    options = {"max_auto_retries": 1, "auto_retry_backoff_secs": 30.0} if how == "back-off and stopped" else {}
    with casts(2, s__stalls=stalls, s__holds=until(gate)) as agents:
        play = _stalled_result_and(lambda operator: again(operator, agents), gate, agents)
        ran = drive(tmp_path, pairs_of(agents), {"s__stalls": build, **named("s__holds")}, play, **{**STALLS, **options})
    _old_result_stands(ran, before, not_run=1)


def test_a_result_of_a_second_run_by_hand_is_not_exchanged_for_the_first(tmp_path: Path, gate: threading.Event) -> None:
    """The scenario is run again, stalls again, and the third time it cannot even be built: the second result stands."""
    second: dict[str, bytes] = {}
    broken: list[BaseException] = []

    async def again(operator: Operator) -> None:
        await operator.do("run-again", "s__stalls")
        await operator.until(lambda: operator.state.scenarios["s__stalls"].attempt == 2)
        await operator.until_is("s__stalls", "stalled")
        second.update(files_of(operator.session / "s__stalls"))
        broken.append(ScenarioError("the pack was edited"))
        await operator.do("run-again", "s__stalls")
        await operator.until(lambda: operator.count(events.ScenarioScored, scenario="s__stalls", restored=True))

    def build() -> Any:
        if broken:
            raise broken[0]
        return named("s__stalls")["s__stalls"]

    with casts(2, s__stalls=stalls, s__holds=until(gate)) as agents:
        play = _stalled_result_and(again, gate, agents)
        ran = drive(tmp_path, pairs_of(agents), {"s__stalls": build, **named("s__holds")}, play, **STALLS)
    assert files_of(ran.session / "s__stalls") == second
    assert warning(ran.session, "re-run by hand") == "WARNING: 1 scenario(s) were re-run by hand: s__stalls"
    assert len(list(ran.session.glob("s__stalls.killed.byhand2.*"))) == 1
    assert ran.complete
    agrees(ran)


def test_a_scenario_that_is_skipped_after_it_was_queued_by_hand_keeps_its_result(tmp_path: Path, gate: threading.Event) -> None:
    before: dict[str, bytes] = {}

    async def again(operator: Operator, agents: list[Cast]) -> None:
        before.update(files_of(operator.session / "s__stalls"))
        await operator.do("pause")
        await operator.do("run-again", "s__stalls")
        assert "keeps its earlier result" in await operator.do("skip", "s__stalls")
        assert operator.status_of("s__stalls") == "stalled"
        await operator.do("resume-queue")

    _old_result_stands(_run_with_a_stalled_result(tmp_path, again, gate), before, not_run=0)


def test_a_scenario_that_is_skipped_after_its_first_attempt_by_hand_was_discarded_keeps_its_result(
    tmp_path: Path, gate: threading.Event
) -> None:
    """It could not start on one pair and waits for another: its old result lies aside already."""
    before: dict[str, bytes] = {}

    async def again(operator: Operator, agents: list[Cast]) -> None:
        before.update(files_of(operator.session / "s__stalls"))
        for agent in agents:
            agent.down = "out of order"
        await operator.do("run-again", "s__stalls")
        await operator.until(lambda: operator.count(events.AttemptDiscarded, scenario="s__stalls"))
        await operator.until_is("s__stalls", "queued")
        assert "keeps its earlier result" in await operator.do("skip", "s__stalls")
        await operator.until_is("s__stalls", "stalled")
        for agent in agents:
            agent.down = ""

    ran = _run_with_a_stalled_result(tmp_path, again, gate, max_auto_retries=2, auto_retry_backoff_secs=30.0)
    _old_result_stands(ran, before, not_run=0)


@pytest.mark.parametrize("opened", ["never begun", "begun and discarded", "in its back-off"])
@pytest.mark.parametrize("command", ["stop", "stop-now"])
def test_a_result_that_waits_to_be_replaced_when_the_run_is_stopped_stands(
    tmp_path: Path, gate: threading.Event, command: str, opened: str
) -> None:
    before: dict[str, bytes] = {}

    async def again(operator: Operator, agents: list[Cast]) -> None:
        before.update(files_of(operator.session / "s__stalls"))
        for agent in agents:
            agent.down = "out of order" if opened == "begun and discarded" else ""
            agent.acts["s__stalls"] = says_nothing
        if opened == "never begun":
            await operator.do("pause")
        await operator.do("run-again", "s__stalls")
        if opened == "in its back-off":
            await operator.until_is("s__stalls", "retrying")
        if opened == "begun and discarded":
            await operator.until(lambda: operator.count(events.AttemptDiscarded, scenario="s__stalls"))
            await operator.until_is("s__stalls", "queued")
        await operator.do(command)

    ran = _run_with_a_stalled_result(tmp_path, again, gate, max_auto_retries=2, auto_retry_backoff_secs=30.0)
    assert files_of(ran.session / "s__stalls") == before
    assert fold(ran).scenarios["s__stalls"].status == "stalled"
    assert "s__stalls (" not in warning(ran.session, "did not run")
    assert ran.complete is (command == "stop")
    assert results(ran.session) == (["s__stalls", "s__holds"] if command == "stop" else ["s__stalls"])


@pytest.mark.parametrize("command", ["stop", "stop-now"])
def test_a_result_whose_replacement_is_being_built_when_the_run_is_stopped_stands(
    tmp_path: Path, gate: threading.Event, command: str
) -> None:
    building, built = threading.Event(), threading.Event()

    def build() -> Any:
        if operated:
            building.set()
            built.wait(30)
        return named("s__stalls")["s__stalls"]

    async def again(operator: Operator) -> None:
        operated.append(True)
        await operator.do("run-again", "s__stalls")
        await operator.until(building.is_set)
        await operator.do(command)
        await asyncio.sleep(0.2)
        built.set()

    operated: list[bool] = []
    with casts(2, s__stalls=stalls, s__holds=until(gate)) as agents:
        play = _stalled_result_and(again, gate, agents)
        ran = drive(tmp_path, pairs_of(agents), {"s__stalls": build, **named("s__holds")}, play, **STALLS)
    assert fold(ran).scenarios["s__stalls"].status == "stalled"
    assert not fold(ran).scenarios["s__stalls"].by_hand
    assert "s__stalls" in results(ran.session)
    assert not list(ran.session.glob("*.killed.*"))


def test_a_replacement_that_is_stopped_while_it_talks_leaves_its_evidence_and_no_result(
    tmp_path: Path, gate: threading.Event
) -> None:
    async def again(operator: Operator, agents: list[Cast]) -> None:
        for agent in agents:
            agent.acts["s__stalls"] = talks_on
        await operator.do("run-again", "s__stalls")
        await operator.until(lambda: operator.state.scenarios["s__stalls"].attempt == 2)
        await operator.until(lambda: operator.count(events.Words, scenario="s__stalls", attempt=2))
        await operator.do("stop-attempt", "s__stalls")
        await operator.until_is("s__stalls", "not run")

    ran = _run_with_a_stalled_result(tmp_path, again, gate)
    assert ran.not_run("s__stalls") == "stopped by the operator"
    assert "[STOPPED]" in (ran.session / "s__stalls" / "conversation_log.txt").read_text()
    (kept,) = ran.session.glob("s__stalls.killed.byhand2.*")
    assert (kept / "metrics.json").is_file()
    assert warning(ran.session, "re-run by hand").endswith(": s__stalls")
    assert not ran.complete
    agrees(ran)


def test_the_summary_names_what_was_run_again_by_hand_after_a_resume_and_after_rejudge(
    tmp_path: Path, gate: threading.Event
) -> None:
    expected = "WARNING: 1 scenario(s) were re-run by hand: s__fails"
    names = ("s__fails", "s__holds", "s__last")

    async def play(operator: Operator) -> None:
        await operator.until_is("s__holds", "talking")
        await operator.until_is("s__fails", "failed")
        for agent in agents:
            agent.acts["s__fails"] = passes
        await operator.do("run-again", "s__fails", confirmed=True)
        await operator.until(lambda: operator.state.scenarios["s__fails"].attempt == 2)
        await operator.until_is("s__fails", "passed")
        await operator.do("stop")
        gate.set()

    with casts(2, s__fails=fails, s__holds=until(gate)) as agents, WatchedJudge() as judge:
        judged = {"judge_url": judge.url, "judge_threshold": 0.5}
        ran = drive(tmp_path, pairs_of(agents), named(*names, **JUDGED), play, **judged)
        assert warning(ran.session, "re-run by hand") == expected
        timestamp = ran.session.name.removeprefix("eval_")
        resumed = drive(tmp_path, pairs_of(agents), named(*names, **JUDGED), resume=timestamp, **judged)
        assert resumed.complete
        assert warning(ran.session, "re-run by hand") == expected
        judged_again: list[Judged] = []
        asyncio.run(rejudge(ran.session, RunOptions(**judged), [], only_failed=False, on_judged=judged_again.append))
    assert len(judged_again) == 3
    assert warning(ran.session, "re-run by hand") == expected


def test_a_loaded_result_can_be_run_again_and_keeps_its_result_where_that_fails(tmp_path: Path, gate: threading.Event) -> None:
    async def play(operator: Operator) -> None:
        await operator.until_is("s__holds", "talking")
        before = files_of(operator.session / "s__fails")
        assert operator.status_of("s__fails") == "failed"
        agents[0].down = agents[1].down = "out of order"
        await operator.do("run-again", "s__fails", confirmed=True)
        await operator.until(lambda: operator.count(events.ScenarioScored, scenario="s__fails", restored=True))
        assert files_of(operator.session / "s__fails") == before
        agents[0].down = agents[1].down = ""
        agents[0].acts["s__fails"] = agents[1].acts["s__fails"] = passes
        await operator.do("run-again", "s__fails", confirmed=True)
        await operator.until_is("s__fails", "passed")
        gate.set()

    with casts(2, s__fails=fails, s__holds=until(gate)) as agents:
        gate.set()
        first = drive(tmp_path, pairs_of(agents), named("s__fails", "s__holds"))
        shutil.rmtree(first.session / "s__holds")
        gate.clear()
        timestamp = first.session.name.removeprefix("eval_")
        ran = drive(tmp_path, pairs_of(agents), named("s__fails", "s__holds"), play, resume=timestamp)
    assert ran.complete
    assert [each.attempt for each in ran.of("s__fails", events.AttemptStarted)] == [1, 2]
    assert warning(ran.session, "re-run by hand").endswith(": s__fails")
    agrees(ran)


# -- stop


def test_stop_ends_the_run_after_the_attempts_that_run_and_a_resume_completes_it(tmp_path: Path, gate: threading.Event) -> None:
    async def play(operator: Operator) -> None:
        await operator.until_is("s__runs", "talking")
        await operator.do("stop")
        assert (await operator.status()).state == "stopping"
        assert operator.status_of("s__runs") == "talking"
        assert "queue has come to its end" in await operator.refused("run-again", "s__done")
        gate.set()

    names = ("s__done", "s__runs", "s__left", "s__too")
    with casts(s__runs=until(gate)) as agents:
        ran = drive(tmp_path, pairs_of(agents), named(*names), play)
        assert not ran.complete
        assert results(ran.session) == ["s__done", "s__runs"]
        assert "2 scenario(s) did not run: s__left (not started), s__too (not started)" in summary(ran.session)
        end = ran.events[-1]
        assert isinstance(end, events.RunEnded)
        assert (end.complete, end.reason) == (False, "stopped by the operator")
        assert end.resume_command
        agrees(ran)
        resumed = drive(tmp_path, pairs_of(agents), named(*names), resume=ran.session.name.removeprefix("eval_"))
    assert resumed.complete
    assert [each.scenario for each in resumed.events if isinstance(each, events.AttemptStarted)] == ["s__left", "s__too"]
    assert results(ran.session) == list(names)


def test_stop_when_nothing_is_left_to_begin_ends_a_complete_run(tmp_path: Path, gate: threading.Event) -> None:
    async def play(operator: Operator) -> None:
        await operator.until_is("s__runs", "talking")
        await operator.do("stop")
        gate.set()

    with casts(s__runs=until(gate)) as agents:
        ran = drive(tmp_path, pairs_of(agents), named("s__runs"), play)
    assert ran.complete
    end = ran.events[-1]
    assert isinstance(end, events.RunEnded)
    assert (end.complete, end.reason) == (True, "finished")


def test_stop_ends_a_run_that_is_paused(tmp_path: Path, gate: threading.Event) -> None:
    async def play(operator: Operator) -> None:
        await operator.until_is("s__runs", "talking")
        await operator.do("pause")
        await operator.do("stop")
        gate.set()

    with casts(s__runs=until(gate)) as agents:
        ran = drive(tmp_path, pairs_of(agents), named("s__runs", "s__left"), play)
    assert results(ran.session) == ["s__runs"]
    assert not ran.complete


@pytest.mark.parametrize("when", ["talking", "judging"])
def test_stop_now_ends_the_run_within_seconds(tmp_path: Path, gate: threading.Event, when: str) -> None:
    asked: list[float] = []

    async def play(operator: Operator) -> None:
        await operator.until_is("s__runs", when)
        if when == "judging":
            await operator.until(lambda: operator.runner._backlog.over)
            assert "come to its end" in await operator.refused("pause")
        asked.append(time.monotonic())
        await operator.do("stop-now")

    act = talks_on if when == "talking" else passes
    with casts(s__runs=act) as agents, WatchedJudge(answers=False) as judge:
        ran = drive(tmp_path, pairs_of(agents), named("s__runs", **JUDGED), play, judge_url=judge.url, judge_threshold=0.5)
        assert time.monotonic() - asked[0] < 8
    assert not ran.complete
    assert ran.has_result("s__runs") is (when == "judging")
    assert results(ran.session) == []
    end = ran.events[-1]
    assert isinstance(end, events.RunEnded)
    assert end.reason == "interrupted"
    assert ran.tasks_left == []


# -- the socket


def test_after_the_end_nothing_listens(tmp_path: Path) -> None:
    with casts() as agents:
        ran = drive(tmp_path, pairs_of(agents), named("s__a"))
    assert not socket_path(ran.session).exists()
    with pytest.raises(EngineGone):
        send_now(ran.session, Command(command="status"))


def test_no_secret_stands_in_an_answer(tmp_path: Path) -> None:
    key = "sk-0123456789abcdef"
    replies: list[Reply] = []

    async def play(operator: Operator) -> None:
        await operator.until(lambda: operator.state.outages)
        replies.append(await operator.ask("status"))
        replies.append(await operator.ask("run-again", "s__a"))
        replies.append(await operator.ask("skip", "s__b"))
        await operator.do("stop")

    with casts() as agents:
        agents[0].down = f"no such token: {key}"
        ran = drive(
            tmp_path, [(f"{agents[0].url}/?token={key}", agents[0].user)], named("s__a", "s__b", "s__c"), play,
            judge_key=key, max_auto_retries=5,
        )  # fmt: skip
    text = "".join(each.model_dump_json() for each in replies)
    assert "pair 1" in text
    assert key not in text
    assert key not in ran.log
    assert key not in (ran.session / "events.jsonl").read_text()


# -- time


def test_a_clock_that_is_set_back_makes_nothing_negative(
    tmp_path: Path, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, back = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() - back[0])

    async def play(operator: Operator) -> None:
        await operator.until_is("s__holds", "talking")
        await operator.until_is("s__fails", "failed")
        back[0] = 3600.0
        status = await operator.status()
        assert 0 <= status.elapsed < 60
        assert status.eta is None or 0 <= status.eta < 600
        assert operator.state.now - operator.state.started >= 0
        eta = operator.state.eta(time.time())
        assert eta is None or eta >= 0
        await operator.do("run-again", "s__fails", confirmed=True)
        await operator.until(lambda: operator.state.scenarios["s__fails"].attempt == 2)
        await operator.until_is("s__fails", "failed")
        gate.set()

    with casts(2, s__fails=fails, s__holds=until(gate)) as agents:
        ran = drive(tmp_path, pairs_of(agents), named("s__fails", "s__holds", "s__last"), play)
    assert ran.complete
    assert " -" not in next(line for line in ran.printed.splitlines() if "in all" in line)
    agrees(ran)


class _AnHourAgo(datetime):
    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return datetime.now(tz) - timedelta(hours=1)


def test_a_resume_under_a_clock_that_was_set_back_loses_and_mixes_nothing(
    tmp_path: Path, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stop(operator: Operator) -> None:
        await operator.until_is("s__cut", "talking")
        await operator.do("stop-now")

    names = ("s__done", "s__cut")
    with casts(s__cut=until(gate)) as agents:
        first = drive(tmp_path, pairs_of(agents), named(*names), stop)
        timestamp = first.session.name.removeprefix("eval_")
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() - 3600.0)
        for module in (runner_module, resuming_module):
            monkeypatch.setattr(module, "datetime", _AnHourAgo)
        again = drive(tmp_path, pairs_of(agents), named(*names), stop, resume=timestamp)
        assert again.session == first.session
        gate.set()
        ran = drive(tmp_path, pairs_of(agents), named(*names), resume=timestamp)
        other = drive(tmp_path, pairs_of(agents), named(*names))
    assert ran.complete
    assert other.session.name < ran.session.name
    assert len(list(ran.session.glob("s__cut.killed.*"))) == 2
    agrees(ran)


# -- a judge in trouble


def test_a_judge_that_is_overloaded_for_a_while_holds_up_no_conversation_and_judges_in_the_end(tmp_path: Path) -> None:
    names = ("s__a", "s__b", "s__c")

    async def play(operator: Operator) -> None:
        await operator.until(lambda: operator.count(events.ScenarioScored, pending=True) == 3 and judge.asked >= 3)
        assert all(operator.status_of(name) == "judging" for name in names)
        judge.overloaded.clear()

    with casts() as agents, WatchedJudge() as judge:
        judge.overloaded.set()
        ran = drive(tmp_path, pairs_of(agents), named(*names, **JUDGED), play, judge_url=judge.url, judge_threshold=0.5)
    assert ran.complete
    assert [ran.metrics(name)["is_successful"] for name in names] == [True] * 3
    talks = [each for each in ran.events if isinstance(each, events.ConversationStarted | events.ConversationEnded)]
    assert max(later.time - earlier.time for earlier, later in itertools.pairwise(talks)) < 2.0
    assert "HTTP 503" in ran.log
    agrees(ran)


# -- names


def test_names_as_long_as_they_may_be_survive_retries_and_runs_by_hand(tmp_path: Path, gate: threading.Event) -> None:
    long = "s__" + "é" * 117 + "x"
    twin = long[:-1] + "y"
    assert len(long.encode()) == 238

    async def play(operator: Operator) -> None:
        await operator.until_is("s__holds", "talking")
        for name in (long, twin):
            await operator.until_is(name, "failed")
            for attempt in (3, 4):
                await operator.do("run-again", name, confirmed=True)
                await operator.until(lambda name=name, attempt=attempt: operator.state.scenarios[name].attempt == attempt)
                await operator.until_is(name, "failed")
        gate.set()

    class Once:
        """The first attempt of each has no turn."""

        def __init__(self) -> None:
            self.calls = 0

        async def __call__(self, stage: Any) -> None:
            self.calls += 1
            await (says_nothing if self.calls == 1 else fails)(stage)

    first, second = Once(), Once()
    with casts(2, s__stalls=stalls, s__holds=until(gate)) as agents:
        for agent in agents:
            agent.acts[long], agent.acts[twin] = first, second
        ran = drive(tmp_path, pairs_of(agents), named("s__holds", long, twin), play, max_auto_retries=1)
    assert ran.complete
    moved = [path.name for path in ran.session.iterdir() if ".killed." in path.name]
    assert len(moved) == 6
    assert all(len(name.encode()) <= 255 for name in moved)
    assert warning(ran.session, "re-run by hand") == f"WARNING: 2 scenario(s) were re-run by hand: {long}, {twin}"
    agrees(ran)
