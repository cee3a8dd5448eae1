"""What the operator does to a run: commands, questions before work is lost, and leaving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pilots import Engine, console, lines, screen, settle
from sessions import all_kinds, write_session

from voiceeval_engine.live import events
from voiceeval_engine.live.commands import Command, EngineGone, Reply
from voiceeval_tui.app import ConsoleApp
from voiceeval_tui.screens.dialog import Ask, Choice
from voiceeval_tui.screens.run import RunScreen
from voiceeval_tui.source import open_source
from voiceeval_tui.view import Link
from voiceeval_tui.widgets.queue import QueuePane

NAMES = [f"retail__{number}" for number in range(36, 46)]
REFERENCE = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return write_session(tmp_path / "eval_20260618_072325", all_kinds(NAMES))


async def test_quitting_a_run_that_nobody_runs_asks_nothing(session: Path) -> None:
    async with console(session) as pilot:
        await pilot.press("q")
        assert pilot.app._exit
    assert pilot.app.return_code == 0


@pytest.mark.parametrize(
    ("answer", "told"),
    [("d", None), ("s", None), ("escape", None), ("a", "stop"), ("n", "stop-now")],
)
async def test_quitting_a_live_run_asks(session: Path, answer: str, told: str | None) -> None:
    engine = Engine()
    async with console(session, engine=engine, alive=True) as pilot:
        await pilot.press("q")
        await settle(pilot)
        assert isinstance(pilot.app.screen, Ask)
        await pilot.press(answer)
        await settle(pilot)
        assert [command.command for command in engine.told] == ([told] if told else [])
        assert pilot.app._exit is (answer == "d")


async def test_control_c_asks_and_a_second_time_leaves(session: Path) -> None:
    engine = Engine()
    async with console(session, engine=engine, alive=True) as pilot:
        await pilot.press("ctrl+c")
        await settle(pilot)
        assert isinstance(pilot.app.screen, Ask)
        assert not pilot.app._exit
        await pilot.press("ctrl+c")
        await settle(pilot)
        assert pilot.app._exit
    assert engine.told == []


async def test_commands_go_to_the_engine_about_the_chosen_scenario(session: Path) -> None:
    engine = Engine()
    async with console(session, engine=engine, alive=True) as pilot:
        queue = pilot.app.query_one(QueuePane)
        await pilot.press("p")
        for name, keys in (
            ("retail__42", "s"), ("retail__41", "xy"), ("retail__39", "r"), ("retail__37", "ry"), ("retail__37", "rn"),
        ):  # fmt: skip
            queue.choose(name)
            await settle(pilot)
            for key in keys:
                await pilot.press(key)
                await settle(pilot)
    assert engine.told == [
        Command(command="pause"),
        Command(command="skip", scenario="retail__42"),
        Command(command="stop-attempt", scenario="retail__41"),
        Command(command="run-again", scenario="retail__39"),
        Command(command="run-again", scenario="retail__37", confirmed=True),
    ]


async def test_the_same_key_goes_on_after_a_pause(session: Path) -> None:
    engine = Engine()
    write_session(session, [events.Paused(reason="by the operator")])
    async with console(session, engine=engine, alive=True) as pilot:
        assert "PAUSED: by the operator" in lines(pilot)[0]
        assert "p go on" in lines(pilot)[-1]
        await pilot.press("p")
        await settle(pilot)
    assert engine.told == [Command(command="resume-queue")]


async def test_what_does_not_apply_is_not_sent(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    async with console(session, engine=engine) as pilot:
        await pilot.press("p", "s", "x")
        found = screen(pilot)
        monkeypatch.setattr(found._source, "link", lambda *, ended: Link("alive"))
        found.draw(found.view.set_link(Link("alive")))
        pilot.app.query_one(QueuePane).choose("retail__36")
        await settle(pilot)
        await pilot.press("s", "x", "r")
        await settle(pilot)
        assert isinstance(pilot.app.screen, RunScreen)
    assert engine.told == []


@pytest.mark.parametrize("answer", [Reply(ok=False, message="[red]no\x1b[31m"), EngineGone("no engine listens")])
async def test_a_refusal_is_told_and_logged(session: Path, answer: Any) -> None:
    async with console(session, engine=Engine(answer), alive=True) as pilot:
        await pilot.press("p")
        await settle(pilot)
        line = screen(pilot).view.log[-1]
        assert line.by_console
        assert line.level in ("WARNING", "ERROR")
        assert "no" in line.message


async def test_a_question_of_several_lines_has_several_lines() -> None:
    app = ConsoleApp(open_source(REFERENCE), Engine(), fps=50, environ={})
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.app.push_screen(Ask("which", "one\x1b\ntwo", (Choice("y", "yes", "yes"),)))
        await settle(pilot)
        shown = [line.strip(" │") for line in lines(pilot)]
        assert "two" in shown
