"""The queue, the pairs, stopping and whatever raises: what the runner promises beside the conversations themselves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bot_farm import patient_pair, serving
from engine_run import QUICK, Ran, Source, run_engine, scenario
from hostile_bots import HostileBot, Refusal, Stage, says_goodbye

from voiceeval_engine.live import events
from voiceeval_engine.run import records as records_module
from voiceeval_engine.run.backlog import Job
from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.run.runner import Runner
from voiceeval_engine.run.worker import Worker
from voiceeval_engine.scenarios.script import Step

BRIEF = {"max_auto_retries": 0, "min_agent_turns": 0}
TALKS_ON = [Step(say="Nice weather today.", repeat=True)]


@pytest.fixture
def quick_pairs() -> Iterator[list[tuple[HostileBot, HostileBot]]]:
    """Two pairs whose agents say goodbye at once."""
    pairs = [(HostileBot(says_goodbye), HostileBot()) for _ in range(2)]
    with serving(*(bot for pair in pairs for bot in pair)):
        yield pairs


def test_pairs_share_one_queue_and_talk_once_at_a_time(tmp_path: Path, quick_pairs: list[tuple[HostileBot, HostileBot]]) -> None:
    names = [f"s__{number}" for number in range(6)]
    ran = run_engine(tmp_path, quick_pairs, {name: scenario(name) for name in names}, **BRIEF)
    assert ran.complete
    running: dict[int, str] = {}
    used: set[int] = set()
    started: list[str] = []
    for event in ran.events:
        if isinstance(event, events.AttemptStarted):
            assert event.pair not in running, "two scenarios at once on a pair"
            running[event.pair] = event.scenario
            used.add(event.pair)
            started.append(event.scenario)
        elif isinstance(event, events.ScenarioScored):
            running = {pair: name for pair, name in running.items() if name != event.scenario}
    assert used == {0, 1}
    assert started == names
    assert [bot.most_clients for pair in quick_pairs for bot in pair] == [1, 1, 1, 1]
    assert [each["scenario_name"] for each in json.loads((ran.session / "all_metrics.json").read_text())] == names


def test_a_scenario_that_a_pair_refuses_goes_to_another_pair(tmp_path: Path) -> None:
    refusing, good = (HostileBot(replies={"reset": Refusal("not today")}), HostileBot()), (HostileBot(says_goodbye), HostileBot())
    with serving(*refusing, *good):
        ran = run_engine(tmp_path, [refusing, good], {name: scenario(name) for name in ("s__bad", "s__good")}, max_auto_retries=1)
    assert ran.complete
    assert all(ran.metrics(name)["is_successful"] for name in ("s__bad", "s__good"))
    (discarded,) = ran.of("s__bad", events.AttemptDiscarded)
    assert "agent bot refused reset: not today" in discarded.reason
    assert ran.metrics("s__bad")["auto_retry_reasons"] == [discarded.reason]
    assert [each.pair for each in ran.of("s__bad", events.AttemptStarted)] == [0, 1]


def _stop_iteration() -> Any:
    return next(iter(()))


@pytest.mark.parametrize(
    "trouble",
    [ZeroDivisionError("boom"), KeyError("boom"), RecursionError("boom"), MemoryError("boom"), SystemExit("boom"), StopIteration("boom"),
     OSError("boom"), KeyboardInterrupt("boom"), asyncio.CancelledError("boom"), GeneratorExit("boom")],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_whatever_a_source_raises_costs_its_own_scenario_only(
    tmp_path: Path, quick_pairs: list[tuple[HostileBot, HostileBot]], trouble: BaseException
) -> None:
    ran = run_engine(tmp_path, quick_pairs[:1], {"s__bad": trouble, "s__good": scenario("s__good")}, **BRIEF)
    assert "boom" in ran.not_run("s__bad")
    assert ran.has_result("s__good")
    assert not ran.complete


def test_whatever_a_listener_raises_is_no_trouble_of_the_run(
    tmp_path: Path, quick_pairs: list[tuple[HostileBot, HostileBot]]
) -> None:
    def broken(runner: Runner, event: events.Event) -> None:
        raise BrokenPipeError("the view is gone")

    ran = run_engine(tmp_path, quick_pairs[:1], {"s__good": scenario("s__good")}, watch=broken, **BRIEF)
    assert ran.complete
    assert ran.metrics("s__good")["stop_reason"] == "[EXIT]"


def test_an_output_directory_that_cannot_be_written_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    async def make() -> None:
        Runner(RunOptions(output_dir=tmp_path / "file" / "results"), Source({}), [], [])

    threads = threading.active_count()
    with pytest.raises(OSError, match="file"):
        asyncio.run(make())
    assert threading.active_count() == threads


def test_a_session_that_vanishes_ends_the_run_with_an_os_error(tmp_path: Path) -> None:
    async def run() -> None:
        runner = Runner(RunOptions(output_dir=tmp_path, **QUICK), Source({}), [], [])
        for file in runner.session.iterdir():
            file.unlink()
        runner.session.rmdir()
        await runner.run()

    threads = threading.active_count()
    with pytest.raises(OSError, match="eval_"):
        asyncio.run(run())
    assert threading.active_count() == threads


def test_a_session_path_of_undecodable_bytes_is_no_trouble(
    tmp_path: Path, quick_pairs: list[tuple[HostileBot, HostileBot]]
) -> None:
    folder = tmp_path / os.fsdecode(b"r\xe9sultats")
    ran = run_engine(folder, quick_pairs[:1], {"s__good": scenario("s__good")}, **BRIEF)
    assert ran.complete
    assert ran.has_result("s__good")


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[tuple[Ran, float]]:
    """A run of three scenarios on two pairs that was stopped in its second and third conversation, and how long that took (s)."""
    pairs = [patient_pair(), patient_pair()]
    scenarios = {
        "s__done": scenario("s__done", [Step(say="Goodbye.", exit="done")]),
        "s__cut": scenario("s__cut", TALKS_ON, TALKS_ON),
        "s__cut_too": scenario("s__cut_too", TALKS_ON, TALKS_ON),
        "s__never": scenario("s__never", TALKS_ON, TALKS_ON),
    }
    stopped_at: list[float] = []
    turns: set[str] = set()

    def watch(runner: Runner, event: events.Event) -> None:
        if isinstance(event, events.TurnEnded):
            turns.add(event.scenario)
        if {"s__cut", "s__cut_too"} <= turns and not stopped_at:
            stopped_at.append(time.monotonic())
            runner.stop()

    with serving(*pairs):
        ran = run_engine(tmp_path, [(pair.agent, pair.user) for pair in pairs], scenarios, watch=watch)
        yield ran, time.monotonic() - stopped_at[0]


def test_stopping_ends_at_once_and_leaves_what_was_going_on_to_a_resume(stopped: tuple[Ran, float]) -> None:
    ran, seconds = stopped
    assert seconds < 10
    assert not ran.complete
    assert ran.tasks_left == []
    end = ran.events[-1]
    assert isinstance(end, events.RunEnded)
    assert end.reason == "interrupted"
    assert ran.has_result("s__done")
    for name in ("s__cut", "s__cut_too"):
        assert (ran.session / name).is_dir()
        assert not ran.has_result(name)
        assert ran.of(name, events.ScenarioNotRun) == []
    assert not (ran.session / "s__never").exists()
    assert [each["scenario_name"] for each in json.loads((ran.session / "all_metrics.json").read_text())] == ["s__done"]
    summary = (ran.session / "all_summary.txt").read_text()
    assert "3 scenario(s) did not run: s__cut (interrupted), s__cut_too (interrupted), s__never (not started)" in summary
    assert "Evaluation interrupted." in ran.log


def test_stopping_waits_for_no_bot_that_has_stopped_reading(tmp_path: Path) -> None:
    async def reads_no_more(stage: Stage) -> None:
        await stage.speak("Hello.")
        stage.socket.transport.pause_reading()

    stopped_at: list[float] = []

    def watch(runner: Runner, event: events.Event) -> None:
        if isinstance(event, events.Words) and not stopped_at:
            stopped_at.append(time.monotonic())
            runner.stop()

    agent, user = HostileBot(reads_no_more), HostileBot(reads_no_more)
    with serving(agent, user):
        ran = run_engine(tmp_path, [(agent, user)], {"s__1": scenario("s__1")}, watch=watch)
        assert time.monotonic() - stopped_at[0] < 10
    assert not ran.has_result("s__1")
    assert ran.tasks_left == []


def test_a_result_that_was_being_written_when_the_run_was_stopped_counts(
    tmp_path: Path, quick_pairs: list[tuple[HostileBot, HostileBot]], monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, scoring = records_module.finish, threading.Event()
    runners: list[tuple[asyncio.AbstractEventLoop, Runner]] = []

    def slow_finish(*arguments: Any) -> Any:
        loop, runner = runners[0]
        loop.call_soon_threadsafe(runner.stop)
        scoring.wait(0.5)
        return finish(*arguments)

    def watch(runner: Runner, event: events.Event) -> None:
        if not runners:
            runners.append((asyncio.get_running_loop(), runner))

    monkeypatch.setattr(records_module, "finish", slow_finish)
    ran = run_engine(tmp_path, quick_pairs[:1], {"s__1": scenario("s__1"), "s__2": scenario("s__2")}, watch=watch, **BRIEF)
    assert ran.has_result("s__1")
    assert len(ran.of("s__1", events.ScenarioScored)) == 1
    assert [each["scenario_name"] for each in json.loads((ran.session / "all_metrics.json").read_text())] == ["s__1"]
    assert "1 scenario(s) did not run: s__2 (not started)" in (ran.session / "all_summary.txt").read_text()


def test_cancelling_the_run_ends_its_workers(tmp_path: Path, quick_pairs: list[tuple[HostileBot, HostileBot]]) -> None:
    async def run() -> list[str]:
        options = RunOptions(output_dir=tmp_path, agent_url=quick_pairs[0][1].url, user_url=quick_pairs[1][1].url, **QUICK)
        talking = asyncio.Event()
        runner = Runner(
            options, Source({"s__1": scenario("s__1")}), ["s__1"], [],
            [lambda event: talking.set() if isinstance(event, events.ConversationStarted) else None],
        )  # fmt: skip
        task = asyncio.create_task(runner.run())
        async with asyncio.timeout(20):
            await talking.wait()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        return [each.get_name() for each in asyncio.all_tasks() if each is not asyncio.current_task()]

    threads = threading.active_count()
    assert asyncio.run(run()) == []
    assert threading.active_count() == threads


def _open_files() -> dict[str, str]:
    found = {}
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found[link.name] = str(link.readlink())
    return found


def test_a_run_leaves_no_thread_socket_or_file_open(tmp_path: Path) -> None:
    refusing = HostileBot(replies={"reset": Refusal("no")})
    dying = HostileBot(Stage.die)
    bots = [HostileBot(says_goodbye), HostileBot(), refusing, HostileBot(), dying, HostileBot()]
    scenarios = {name: scenario(name) for name in ("s__1", "s__2", "s__3")}
    with serving(*bots):
        pairs = list(zip(bots[::2], bots[1::2], strict=True))
        run_engine(tmp_path / "warm", pairs, scenarios)
        threads, files = threading.active_count(), _open_files()
        run_engine(tmp_path / "measured", pairs, scenarios)
        _wait_until(lambda: len(_open_files()) <= len(files))
        left = [name for name in _open_files().values() if str(tmp_path) in name]
        assert left == []
        assert len(_open_files()) <= len(files)
        assert threading.active_count() == threads


def _wait_until(true: Any) -> None:
    """The bots' own ends of the sockets are closed by their thread a moment later than ours."""
    deadline = time.monotonic() + 10
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_worker_that_breaks_ends_the_run_in_order_and_is_told(
    tmp_path: Path, quick_pairs: list[tuple[HostileBot, HostileBot]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: Worker, job: Job) -> bool:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(Worker, "_guarded", broken)
    ran = run_engine(tmp_path, quick_pairs, {name: scenario(name) for name in ("s__1", "s__2", "s__3")}, **BRIEF)
    assert not ran.complete
    assert ran.tasks_left == []
    assert "a fault of ours" in ran.log
    assert [each.reason for each in ran.events if isinstance(each, events.RunEnded)] == ["an unexpected fault"]
