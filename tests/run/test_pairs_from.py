"""Pairs of bots that come and go with the lines of a file: what a line may be, and runs on them over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from bot_farm import serving
from engine_run import Ran, run_engine, scenario
from hostile_bots import HostileBot, Stage, says_goodbye
from hypothesis import given
from hypothesis import strategies as st
from switched_bots import SwitchedBot

from voiceeval_engine.live import events
from voiceeval_engine.live.state import RunState
from voiceeval_engine.run import roster
from voiceeval_engine.run.options import OptionError, RunOptions, place
from voiceeval_engine.run.pairs_file import parse_pairs, read_pairs
from voiceeval_engine.run.runner import Runner
from voiceeval_engine.session import layout
from voiceeval_engine.wire import link
from voiceeval_tui.cli import main

A, B = ("ws://a:1", "ws://a:2"), ("ws://b:1", "ws://b:2")
_urls = st.sampled_from(
    ["ws://a:1", "ws://a:2", "ws://A:1/", "ws://b", "wss://b:80", "http://c", "ws://[", "#", "", "\xff", "x\x1b[31m"]
)
_lines = st.lists(st.lists(_urls, max_size=3).map(" ".join), max_size=8)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(link.BotLink.open, "__defaults__", ((), 0.016))


@given(_lines)
def test_whatever_the_file_holds_every_bot_is_in_one_pair_and_every_line_is_used_told_or_silent(lines: list[str]) -> None:
    found = parse_pairs("\n".join(lines).encode("latin-1"))
    bots = [place(url) for pair in found.pairs for url in pair]
    assert len(bots) == len(set(bots))
    spoken = [line for line in lines if line.split() and not line.split()[0].startswith("#")]
    assert len(found.pairs) + len(found.bad) <= len(spoken)
    assert all(line.isprintable() for line in found.bad)


def test_lines_that_cannot_be_used_are_told_and_the_others_count() -> None:
    text = b"# mine\n\n ws://a:1\tws://a:2 \r\nws://a:1 ws://a:2\nws://a:1 ws://c:1\nws://d\nhttp://x ws://y\nws://z:1 ws://z:1\nws://b:1 ws://b:2"
    found = parse_pairs(text)
    assert found.pairs == (A, B)
    assert [line.partition(":")[0] for line in found.bad] == ["line 5", "line 6", "line 7", "line 8"]


def test_a_file_that_is_missing_too_large_or_none_names_no_pair_and_says_why(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"#" * 2_000_000)
    for path in (tmp_path / "missing", large, tmp_path, Path("/dev/zero")):
        found = read_pairs(path)
        assert not found.pairs
        assert len(found.bad) == 1


@pytest.mark.parametrize("other", [{"pair": (A,)}, {"demo": True}, {"agent_url": "ws://a:1"}])
def test_a_file_of_pairs_stands_alone(other: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="--pairs-from names all pairs"):
        RunOptions(pairs_from=Path("p"), **other)


@pytest.mark.parametrize("other", [["--pair", "ws://a:1,ws://a:2"], ["--agent-url", "ws://localhost:8765"], ["--demo"]])
def test_the_command_line_refuses_it_beside_other_bots(other: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--no-ui", "--pairs-from", "p", *other]) == 2
    assert "leave out" in capsys.readouterr().err


def _write(file: Path, pairs: Iterable[Any]) -> None:
    lines = [" ".join(getattr(bot, "url", bot) for bot in pair) for pair in pairs]
    fresh = file.with_suffix(".new")
    fresh.write_text("\n".join(lines))
    fresh.replace(file)


def _run(tmp_path: Path, count: int, watch: Callable[[Runner, events.Event], None] | None = None, **options: Any) -> Ran:
    scenarios = {f"s__{number}": scenario(f"s__{number}") for number in range(1, count + 1)}
    options = {"max_auto_retries": 0, "backend_wait": 20.0, **options}
    ran = run_engine(tmp_path, [], scenarios, watch=watch, pairs_from=tmp_path / "pairs", **options)
    assert ran.tasks_left == []
    return ran


def _fold(ran: Ran) -> RunState:
    state = RunState()
    for line in (ran.session / layout.JOURNAL).read_bytes().splitlines():
        state.apply(events.parse_event(line))
    return state


def _of(ran: Ran, kind: type[Any]) -> list[Any]:
    return [event for event in ran.events if isinstance(event, kind)]


def test_a_run_that_begins_without_pairs_waits_for_one_to_come(tmp_path: Path) -> None:
    bots = HostileBot(says_goodbye), HostileBot()

    def watch(runner: Runner, event: events.Event) -> None:
        if isinstance(event, events.Logged) and "scenario(s) to run" in event.message:
            _write(tmp_path / "pairs", [bots])

    with serving(*bots):
        ran = _run(tmp_path, 2, watch)
    assert ran.complete
    assert [(each.pair, each.urls) for each in _of(ran, events.PairCame)] == [(0, (bots[0].url, bots[1].url))]
    assert ran.log.count("it cannot be read") == 1
    assert "names none yet" in ran.printed
    assert "pair 1 comes" in ran.printed
    assert _fold(ran).pairs_there == 1


def test_a_pair_that_left_finishes_its_scenario_and_takes_no_other(tmp_path: Path) -> None:
    left = asyncio.Event()

    async def takes_its_time(stage: Stage) -> None:
        await stage.speak("One moment.")
        while not left.is_set():
            await asyncio.sleep(0.01)
        await says_goodbye(stage)

    first, second = (HostileBot(takes_its_time), HostileBot()), (HostileBot(says_goodbye), HostileBot())

    def watch(runner: Runner, event: events.Event) -> None:
        if isinstance(event, events.ConversationStarted) and event.scenario == "s__1":
            _write(tmp_path / "pairs", [second])
        elif isinstance(event, events.PairLeft):
            left.set()

    with serving(*first, *second):
        _write(tmp_path / "pairs", [first])
        ran = _run(tmp_path, 4, watch)
    assert ran.complete
    assert [(each.scenario, each.pair) for each in _of(ran, events.AttemptStarted) if each.pair == 0] == [("s__1", 0)]
    assert ran.metrics("s__1")["is_successful"]
    state = _fold(ran)
    assert (state.left, state.pairs_there, len(state.pairs)) == ({0}, 1, 2)


def test_a_pair_whose_bots_were_stopped_when_it_left_hands_its_scenario_back(tmp_path: Path) -> None:
    async def speaks(stage: Stage) -> None:
        await stage.speak("One moment.")
        await asyncio.sleep(30.0)

    first, second = (SwitchedBot(speaks), SwitchedBot()), (HostileBot(says_goodbye), HostileBot())

    def watch(runner: Runner, event: events.Event) -> None:
        if isinstance(event, events.TurnEnded | events.Speaking) and event.scenario == "s__1" and event.attempt == 1:
            _write(tmp_path / "pairs", [second])
            first[0].kill()
            first[1].kill()

    with serving(*first, *second):
        _write(tmp_path / "pairs", [first])
        ran = _run(tmp_path, 2, watch)
    assert ran.complete
    assert [each.pair for each in ran.of("s__1", events.AttemptStarted)] == [0, 1]
    assert ran.metrics("s__1")["is_successful"]
    (requeued,) = ran.of("s__1", events.Requeued)
    assert requeued.reason == "its pair of bots has left"
    assert "s__1: " in ran.log
    assert "laid to the pair of bots, no retry of the scenario's" in ran.log


def test_a_pair_that_comes_back_keeps_its_number_and_works_on(tmp_path: Path) -> None:
    bots = HostileBot(says_goodbye), HostileBot()

    def watch(runner: Runner, event: events.Event) -> None:
        if isinstance(event, events.ScenarioScored) and event.scenario == "s__1":
            _write(tmp_path / "pairs", [])
            runner._backlog.hold("a test", "until the pair has left")
        elif isinstance(event, events.PairLeft):
            runner._backlog.release("a test")
            _write(tmp_path / "pairs", [bots])

    with serving(*bots):
        _write(tmp_path / "pairs", [bots])
        ran = _run(tmp_path, 3, watch)
    assert ran.complete
    assert [each.pair for each in _of(ran, events.PairCame)] == [0]
    assert {each.pair for each in _of(ran, events.AttemptStarted)} == {0}
    assert "none is left, the run waits for one" in ran.printed


def test_a_bot_that_changes_its_partner_is_in_one_conversation_at_a_time(tmp_path: Path) -> None:
    at_once: list[int] = [0, 0]

    async def act(stage: Stage) -> None:
        at_once[0] += 1
        at_once[1] = max(at_once)
        await stage.speak("One moment.")
        await asyncio.sleep(0.3)
        await says_goodbye(stage)
        at_once[0] -= 1

    agent, users = HostileBot(act), (HostileBot(), HostileBot())

    def watch(runner: Runner, event: events.Event) -> None:
        if isinstance(event, events.ConversationStarted) and event.scenario == "s__1":
            _write(tmp_path / "pairs", [(agent, users[1])])

    with serving(agent, *users):
        _write(tmp_path / "pairs", [(agent, users[0])])
        ran = _run(tmp_path, 2, watch)
    assert ran.complete
    assert at_once[1] == 1
    assert [each.pair for each in _of(ran, events.AttemptStarted)] == [0, 1]


def test_without_pairs_the_run_ends_after_its_wait_to_be_resumed(tmp_path: Path) -> None:
    (tmp_path / "pairs").write_text("nonsense\n")
    ran = _run(tmp_path, 2, backend_wait=0.2)
    end = ran.events[-1]
    assert isinstance(end, events.RunEnded)
    assert (end.complete, end.reason) == (False, "no pair of bots has answered for 0.2 s")
    assert ran.log.count("'nonsense' is not AGENT_URL USER_URL") == 1
    bots = HostileBot(says_goodbye), HostileBot()
    with serving(*bots):
        _write(tmp_path / "pairs", [bots])
        again = _run(tmp_path, 2, resume=ran.session.name.removeprefix(layout.SESSION_PREFIX))
    assert again.complete


def test_stopping_while_there_is_no_pair_ends_at_once(tmp_path: Path) -> None:
    def watch(runner: Runner, event: events.Event) -> None:
        if isinstance(event, events.Logged) and "scenario(s) to run" in event.message:
            asyncio.get_running_loop().call_later(0.1, runner.stop)

    ran = _run(tmp_path, 2, watch, backend_wait=600.0)
    end = ran.events[-1]
    assert isinstance(end, events.RunEnded)
    assert end.reason == "interrupted"
