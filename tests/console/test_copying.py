"""The key `y`, and the bell: what goes to the terminal and what goes to a file."""

from __future__ import annotations

import base64
import stat
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hostile_text import HOSTILE
from pilots import console, screen, settle, text
from sessions import all_kinds, scored, started, write_session
from textual.pilot import Pilot

from voiceeval_engine.live import events
from voiceeval_tui import saved_copies
from voiceeval_tui.saved_copies import NotSaved, save_copy
from voiceeval_tui.screens.dialog import Ask
from voiceeval_tui.widgets.log import LogPane
from voiceeval_tui.widgets.queue import QueuePane

NAMES = [f"retail__{number}" for number in range(36, 46)]
NOW = datetime(2026, 6, 18, 7, 23, 25)
TMUX = {"TMUX": "/tmp/tmux-0/default,1,0"}


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return write_session(tmp_path / "eval_20260618_072325", all_kinds(NAMES))


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(saved_copies, "folder", lambda: tmp_path / "state" / "copies")
    return tmp_path / "state" / "copies"


def _listen(pilot: Pilot[Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What goes to the terminal from now on."""
    written: list[str] = []
    monkeypatch.setattr(pilot.app._driver, "write", written.append)
    return written


def _clipboard(written: list[str]) -> str:
    (sequence,) = (each for each in written if "]52;c;" in each)
    return base64.b64decode(sequence.split("]52;c;")[1].partition("\x07")[0]).decode()


async def _log_with_focus(pilot: Pilot[Any]) -> None:
    screen(pilot).stage = "log"
    screen(pilot).place_panes()
    pilot.app.query_one(LogPane).focus()
    await settle(pilot)


async def test_the_queue_gives_the_folder_of_the_chosen_scenario(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(session) as pilot:
        written = _listen(pilot, monkeypatch)
        pilot.app.query_one(QueuePane).choose("retail__39")
        await pilot.press("y")
        await settle(pilot)
        assert isinstance(pilot.app.screen, Ask)
        assert not any("]52;" in each for each in written)
        await pilot.press("c")
        await settle(pilot)
        assert _clipboard(written) == str(session / "retail__39")
        assert "clipboard" in text(pilot)


async def test_under_tmux_it_is_passed_through(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(session, **TMUX) as pilot:
        written = _listen(pilot, monkeypatch)
        await pilot.press("y", "enter")
        await settle(pilot)
        assert any("\x1bPtmux;\x1b\x1b]52;c;" in each for each in written)


async def test_a_pane_gives_its_text_as_it_is_drawn(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_session(
        session, [events.Logged(level="ERROR", message=bad.encode("utf-8", "replace").decode()[:4000]) for bad in HOSTILE]
    )
    async with console(session) as pilot:
        written = _listen(pilot, monkeypatch)
        await _log_with_focus(pilot)
        await pilot.press("y", "c")
        await settle(pilot)
        taken = _clipboard(written)
        assert "Starting Scenario 6/8" in taken
        assert "[red]not markup[/red]" in taken
        assert "\\x1b[31mred" in taken
        assert not any((ord(each) < 32 and each != "\n") or 0x7F <= ord(each) < 0xA0 or each in "\u202e\u2066" for each in taken)


async def test_a_text_that_is_too_long_is_cut_and_that_is_told(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_session(session, [events.Logged(level="INFO", message="x" * 3900) for _ in range(30)])
    async with console(session) as pilot:
        written = _listen(pilot, monkeypatch)
        await _log_with_focus(pilot)
        await pilot.press("y")
        await settle(pilot)
        assert "beginning only" in " ".join(text(pilot).split())
        await pilot.press("c")
        await settle(pilot)
        assert "cut: the first" in text(pilot)
        assert len(_clipboard(written)) < 57_000


async def test_writing_to_a_file_tells_which(session: Path, copies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(session, (200, 50)) as pilot:
        written = _listen(pilot, monkeypatch)
        await _log_with_focus(pilot)
        await pilot.press("y", "w")
        await settle(pilot)
        (path,) = copies.iterdir()
        assert "Starting Scenario 6/8" in path.read_text()
        assert any(str(path) in line.message for line in screen(pilot).view.log)
        assert not any("]52;" in each for each in written)
    assert sorted(each.name for each in session.iterdir()) == ["events.jsonl"]


@pytest.mark.parametrize("answer", ["n", "escape"])
async def test_neither_is_an_answer(session: Path, copies: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    async with console(session) as pilot:
        written = _listen(pilot, monkeypatch)
        await pilot.press("y", answer)
        await settle(pilot)
        assert not isinstance(pilot.app.screen, Ask)
        assert not any("]52;" in each for each in written)
    assert not copies.exists()


async def test_a_file_that_cannot_be_written_is_told(session: Path, copies: Path) -> None:
    copies.parent.parent.joinpath("state").write_text("in the way")
    async with console(session) as pilot:
        await pilot.press("y", "w")
        await settle(pilot)
        assert any("not written" in line.message for line in screen(pilot).view.log)


async def test_nothing_to_copy_is_told(tmp_path: Path) -> None:
    async with console(write_session(tmp_path / "s", [started([])])) as pilot:
        await pilot.press("y")
        await settle(pilot)
        assert not isinstance(pilot.app.screen, Ask)
        assert "nothing to copy" in text(pilot)


def test_copies_are_the_users_own_and_never_overwrite(tmp_path: Path, copies: Path) -> None:
    paths = [save_copy(f"text {number}", "../a b/[red]\x1b", tmp_path / "session", NOW) for number in range(3)]
    assert len(set(paths)) == 3
    assert [path.read_text() for path in paths] == ["text 0", "text 1", "text 2"]
    assert all(path.parent == copies for path in paths)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in paths)
    assert stat.S_IMODE(copies.stat().st_mode) == 0o700
    assert paths[0].name == "_a_b_red__20260618_072325.txt"


def test_a_copy_is_never_put_into_a_session(tmp_path: Path, copies: Path) -> None:
    with pytest.raises(NotSaved, match="lies in the session"):
        save_copy("text", "name", copies.parent.parent, NOW)
    assert not copies.exists()


async def test_new_events_ring_and_old_ones_do_not(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(session, **TMUX) as pilot:
        written = _listen(pilot, monkeypatch)
        await settle(pilot)
        assert not any("\x07" in each for each in written)
        write_session(session, [scored("retail__41", stalled=True, verdict=False)])
        await settle(pilot)
        rung = [each for each in written if "\x07" in each]
        assert rung == ["\x07\x1bPtmux;\x1b\x1b]9;voiceeval-tui: retail__41 stalled\x07\x1b\\"]
        write_session(session, [scored("retail__42", stalled=True, verdict=False)])
        await settle(pilot)
        assert [each for each in written if "\x07" in each] == rung


async def test_opening_a_session_with_stalls_and_an_end_rings_nothing(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[str] = []
    monkeypatch.setattr("voiceeval_tui.app.notification", lambda words, _: rung.append(words) or "")
    write_session(session, [events.RunEnded(complete=True, reason="finished", files=[])])
    async with console(session) as pilot:
        await settle(pilot)
    assert rung == []


async def test_notifications_can_be_switched_off(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(session, notify=False) as pilot:
        written = _listen(pilot, monkeypatch)
        write_session(session, [events.RunEnded(complete=True, reason="finished", files=[])])
        await settle(pilot)
        assert not any("\x07" in each for each in written)
