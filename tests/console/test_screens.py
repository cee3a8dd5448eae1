"""The whole console: every pane over runs of every length at every size, every key, and two pictures of it."""

from __future__ import annotations

import difflib
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from pilots import KEYS_OF_PANES, SIZES, Engine, assert_harmless, console, lines, screen, settle, text
from screens import until
from sessions import START, all_kinds, attempt, scored, started, turn, write_session

from voiceeval_engine.live import events
from voiceeval_tui.actions import ACTIONS
from voiceeval_tui.screens.home import HomeScreen
from voiceeval_tui.screens.run import RunScreen
from voiceeval_tui.widgets.trouble import TroublePane

NAMES = [f"retail__{number}" for number in range(36, 46)]
PICTURES = Path(__file__).parents[1] / "data" / "screens"
LEAVE = ("detach", "home")
TOLD = {
    0: {"latency": "nothing measured yet", "trouble": "no trouble so far", "log": ""},
    1: {"queue": "retail__0", "latency": "ms a bar", "trouble": "no trouble so far", "details": "retail__0"},
    1000: {"queue": "1000/1000", "latency": "ms a bar", "trouble": "no trouble so far", "details": "retail__0"},
}
"""What stands there by the number of scenarios and the pane."""


@pytest.mark.parametrize("count", TOLD)
async def test_every_pane_at_every_size(tmp_path: Path, count: int) -> None:
    names = [f"retail__{number}" for number in range(count)]
    stream: list[events.Event] = [started(names)]
    stream += [scored(name, latencies=[500.0 + number % 700] * 10) for number, name in enumerate(names)]
    async with console(write_session(tmp_path / "s", stream)) as pilot:
        for size in SIZES:
            await pilot.resize_terminal(*size)
            for name, key in KEYS_OF_PANES.items():
                await pilot.press(key, "z")
                await settle(pilot)
                assert_harmless(lines(pilot), size[0])
                assert len(lines(pilot)) == size[1]
                pane = screen(pilot)._panes[name]
                assert (pane.display, pilot.app.focused) == (True, pane)
                if name != TroublePane.NAME or size[1] > 20:
                    assert TOLD[count].get(name, "") in text(pilot), (name, size)
                await pilot.press("z")
        assert not any("cannot be drawn" in line.message for line in screen(pilot).view.log)


@pytest.mark.parametrize("size", SIZES)
async def test_every_key(tmp_path: Path, size: tuple[int, int]) -> None:
    """None breaks the picture, and Escape leads back from wherever one leads to; what each does is told by other tests."""
    session = write_session(tmp_path / "s", all_kinds(NAMES))
    async with console(session, size, Engine(), alive=True) as pilot:
        keys = [key for action in ACTIONS if action.name not in LEAVE for key in action.keys.split(",")]
        for key in (*keys, *"0123456789", "tab", "shift+tab", "ctrl+p", "f1", "up", "end", "pageup", "enter"):
            await pilot.press(key)
            await settle(pilot)
            assert_harmless(lines(pilot), size[0])
            for _ in range(3):
                if not isinstance(pilot.app.screen, RunScreen):
                    await pilot.press("escape")
                    await settle(pilot)
            assert isinstance(pilot.app.screen, RunScreen), key
        assert not any("cannot be drawn" in line.message for line in screen(pilot).view.log)
        assert not pilot.app._exit
        await pilot.press("d")
        await settle(pilot)
        assert pilot.app._exit


async def test_home_from_a_session_that_the_console_began_with_and_back(tmp_path: Path) -> None:
    async with console(write_session(tmp_path / "eval_20260618_072325", all_kinds(NAMES))) as pilot:
        for _ in range(2):
            await pilot.press("h")
            await until(pilot, lambda: "1 session" in text(pilot))
            assert isinstance(pilot.app.screen, HomeScreen)
            await pilot.press("enter")
            await until(pilot, lambda: "retail__36" in text(pilot))
            assert isinstance(pilot.app.screen, RunScreen)


async def test_nobody_looks_at_a_session_under_the_home_screen(tmp_path: Path) -> None:
    async with console(write_session(tmp_path / "eval_20260618_072325", all_kinds(NAMES))) as pilot:
        first, looks = screen(pilot), list[None]()
        poll = first._source.poll
        first._source.poll = lambda: (looks.append(None), poll())[1]  # type: ignore[method-assign]
        await until(pilot, lambda: bool(looks))
        await pilot.press("h")
        await until(pilot, lambda: "1 session" in text(pilot))
        looks.clear()
        await settle(pilot)
        assert not looks


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_picture_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    """The screen of one run at one moment, as text, against `tests/data/screens`. Where a change is meant, look at it and store it:

    UPDATE_SCREENS=1 python -m pytest tests/console/test_screens.py
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr("voiceeval_tui.screens.run.time", SimpleNamespace(time=lambda: START + 45, monotonic=time.monotonic))
    talk: list[events.Event] = [
        *attempt("retail__42"),
        *(events.Speaking(scenario="retail__42", attempt=1, side="user", on=on, at=at, time=START + at)
          for on, at in ((True, 3.0), (False, 7.5))),
        turn("retail__42", "Yes, the blue one, please. 價格是多少？", 3.0, "user"),
        turn("retail__42", "Thanks. I changed it.", 8.0),
        events.ToolCalled(scenario="retail__42", attempt=1, side="agent", name="modify_order", applied=True, at=9.5, time=START + 9),
        events.Speaking(scenario="retail__42", attempt=1, side="user", on=True, at=12.0, time=START + 12),
        events.Words(scenario="retail__42", attempt=1, side="user", text="And send it to", at=12.5, time=START + 12),
        events.Logged(level="WARNING", message="retail__38: 0 conversation turns", time=START + 13),
    ]  # fmt: skip
    session = write_session(Path("eval_20260618_072325"), [*all_kinds(NAMES), *talk])
    async with console(session, size, alive=True) as pilot:
        await pilot.press("home", *["down"] * 6)
        await settle(pilot)
        shown = "".join(f"{line.rstrip()}\n" for line in lines(pilot))
    monkeypatch.undo()
    time.tzset()
    picture = PICTURES / f"{size[0]}x{size[1]}.txt"
    if os.environ.get("UPDATE_SCREENS"):
        picture.parent.mkdir(exist_ok=True)
        picture.write_text(shown, encoding="utf-8")
    stored = picture.read_text(encoding="utf-8")
    assert shown == stored, "\n".join(difflib.unified_diff(stored.splitlines(), shown.splitlines(), "stored", "shown", lineterm=""))
