"""The console on a session, driven by a pilot at the sizes that matter."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hostile_text import HOSTILE
from pilots import SIZES, Engine, console, lines, screen, settle, text
from rich.cells import cell_len
from sessions import all_kinds, scored, started, write_session

from voiceeval_engine.live import events
from voiceeval_tui.app import ConsoleApp
from voiceeval_tui.screens.run import PANES
from voiceeval_tui.source import open_source
from voiceeval_tui.view import Link
from voiceeval_tui.widgets.log import LogPane
from voiceeval_tui.widgets.queue import QueuePane
from voiceeval_tui.widgets.trouble import TroublePane

NAMES = [f"retail__{number}" for number in range(36, 46)]
REFERENCE = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return write_session(tmp_path / "eval_20260618_072325", all_kinds(NAMES))


@pytest.mark.parametrize("size", SIZES)
async def test_a_session_of_files_shows_too(size: tuple[int, int]) -> None:
    async with console(REFERENCE, size) as pilot:
        assert "FINISHED" in lines(pilot)[0]
        assert "domA__1" in text(pilot)


async def test_the_chosen_scenario_stays_chosen_when_the_size_changes(session: Path) -> None:
    async with console(session, (200, 50)) as pilot:
        await pilot.press("down", "down")
        chosen = screen(pilot).view.shown
        for size in SIZES:
            await pilot.resize_terminal(*size)
            await settle(pilot)
            assert screen(pilot).view.shown == chosen
            assert pilot.app.query_one(QueuePane).cursor == chosen


async def test_narrow_screens_show_one_pane_at_a_time(session: Path) -> None:
    async with console(session, (50, 15)) as pilot:
        queue, log = pilot.app.query_one(QueuePane), pilot.app.query_one(LogPane)
        assert (queue.display, log.display) == (True, False)
        await pilot.press(str(PANES.index(LogPane) + 2))
        await settle(pilot)
        assert (queue.display, log.display, pilot.app.focused) == (False, True, log)
        await pilot.press("1")
        await settle(pilot)
        assert (queue.display, log.display, pilot.app.focused) == (True, False, queue)


async def test_zoom_is_there_and_back(session: Path) -> None:
    async with console(session, (120, 40)) as pilot:
        queue = pilot.app.query_one(QueuePane)
        await pilot.press("z")
        await settle(pilot)
        assert queue.outer_size.width == 120
        await pilot.press("z")
        await settle(pilot)
        assert queue.outer_size.width < 120


async def test_events_that_come_are_drawn(session: Path) -> None:
    async with console(session) as pilot:
        write_session(session, [scored("retail__41", verdict=False, failed_signals=["judge_passed"])])
        await settle(pilot)
        assert "5/10" in lines(pilot)[0]
        assert re.search(r"✗ retail__41 .*judge", text(pilot))


async def test_a_journal_that_is_replaced_begins_anew(session: Path) -> None:
    async with console(session) as pilot:
        (session / "events.jsonl").unlink()
        write_session(session, [started(["other__1"])])
        await settle(pilot)
        assert "other__1" in text(pilot)
        assert "retail__" not in text(pilot)


@pytest.mark.parametrize("size", SIZES)
async def test_hostile_names_reasons_and_logs_keep_the_columns(tmp_path: Path, size: tuple[int, int]) -> None:
    names = list(dict.fromkeys(f"d__{number}{name[:300]}" for number, name in enumerate(HOSTILE)))
    stream: list[events.Event] = [started([name.encode("utf-8", "replace").decode() for name in names])]
    for bad in HOSTILE:
        bad = bad.encode("utf-8", "replace").decode()[:4000]
        stream += [
            events.Logged(level="ERROR", message=bad, time=1.0),
            events.ScenarioNotRun(scenario=names[1], attempt=0, reason=bad),
            events.Paused(reason=bad),
        ]
    async with console(write_session(tmp_path / "s", stream), size) as pilot:
        for key in (*map(str, range(1, len(PANES) + 2)), "1", "end", "slash", "["):
            await pilot.press(key)
            await settle(pilot)
            shown = lines(pilot)
            assert all(cell_len(line) == size[0] for line in shown)
            assert not any("\\u200e" in line for line in shown), "a mark of our own was taken for one of a bot's"
            assert not any(ord(each) < 32 or 0x7F <= ord(each) < 0xA0 or each in "\u202e\u2066" for line in shown for each in line)


async def test_a_pane_that_raises_is_in_the_log_and_the_rest_goes_on(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("no such luck")

    monkeypatch.setattr(QueuePane, "items", broken)
    async with console(session) as pilot:
        assert any("no such luck" in line.message for line in screen(pilot).view.log)
        assert "4/10" in lines(pilot)[0]


async def test_what_a_finished_scenario_said_is_read_from_its_files(session: Path) -> None:
    (session / "retail__37").mkdir()
    (session / "retail__37" / "conversation_log.txt").write_text("[  0.500s -   1.500s] (1.000s) USER: Saved words\n")
    view = None
    async with console(session) as pilot:
        view = screen(pilot).view
        view._transcripts.clear()
        pilot.app.query_one(QueuePane).choose("retail__37")
        await settle(pilot)
        held = view.transcript("retail__37")
        assert held is not None
        assert [line.text for line in held.lines] == ["Saved words"]


@pytest.mark.parametrize(
    ("environ", "fps", "looks"), [({}, None, 4.0), ({"SSH_CONNECTION": "1 2 3 4"}, None, 1.0), ({}, 10.0, 10.0)]
)
def test_how_often_it_looks(session: Path, environ: dict[str, str], fps: float | None, looks: float) -> None:
    assert ConsoleApp(open_source(session), Engine(), fps=fps, environ=environ)._fps == looks


@pytest.mark.parametrize("size", [*SIZES, (120, 16)])
async def test_a_row_of_the_trouble_pane_chooses_its_scenario(session: Path, size: tuple[int, int]) -> None:
    async with console(session, size) as pilot:
        await pilot.press(str(PANES.index(TroublePane) + 2), "home", "enter")
        await settle(pilot)
        pane = pilot.app.query_one(TroublePane)
        assert screen(pilot).focused is screen(pilot)._panes["transcript"]
        await pilot.press("escape")
        await settle(pilot)
        assert pilot.app.focused is pane
        assert screen(pilot).view.selected == pane.scenario_of(str(pane.cursor)) == "retail__40"
        await pilot.press("down")
        await settle(pilot)
        assert screen(pilot).view.selected == pilot.app.query_one(QueuePane).cursor == "retail__39"
        assert all(cell_len(line) == size[0] for line in lines(pilot))


@pytest.mark.parametrize("size", SIZES)
async def test_enter_goes_to_what_was_said_and_escape_back(session: Path, size: tuple[int, int]) -> None:
    async with console(session, size) as pilot:
        found = screen(pilot)
        await pilot.press("1", "home", "down", "enter")
        await settle(pilot)
        assert (found.focused, found.view.selected) == (found._panes["transcript"], NAMES[1])
        await pilot.press("escape")
        await settle(pilot)
        assert (found.focused, found.view.selected) == (found._queue, NAMES[1])
        assert found._queue.display
        await pilot.press("escape")
        assert found.view.selected is None


async def test_enter_goes_to_the_pane_about_a_scenario_that_stands_beside(session: Path) -> None:
    async with console(session, (80, 24)) as pilot:
        found = screen(pilot)
        await pilot.press("6")
        found._queue.focus()
        await pilot.press("home", "enter")
        await settle(pilot)
        assert found.focused is found._panes["details"]
        await pilot.press("escape")
        await settle(pilot)
        assert found.focused is found._queue
        assert found._panes["details"].display


async def test_the_clock_of_a_run_stands_where_its_engine_is_gone(session: Path) -> None:
    async with console(session) as pilot:
        found = screen(pilot)
        found.draw(found.view.set_link(Link("gone")))
        await settle(pilot)
        before = lines(pilot)[0]
        found.draw(found.view.tick(found.view.now + 3600))
        await settle(pilot)
        assert lines(pilot)[0] == before
