"""Talk lanes: rows for every height, keys, what moves and what stays, terminals without colours or with ASCII only."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pilots import SIZES, console, go_to, lines, settle
from rich.cells import cell_len
from sessions import START, attempt, scored, started, turn, write_session
from textual.events import MouseScrollUp

from voiceeval_engine.live import events
from voiceeval_tui.cells import to_ascii
from voiceeval_tui.tape import Stretch
from voiceeval_tui.transcript import Line, Speech, Transcript
from voiceeval_tui.widgets.lanes import LanesPane, lane_rows
from voiceeval_tui.widgets.queue import QueuePane

A, B = "retail__41", "retail__42"


def _speech(side: Any, start: float, end: float, name: str = A) -> list[events.Event]:
    return [
        events.Speaking(scenario=name, attempt=1, side=side, on=on, at=at, time=START + at)
        for on, at in ((True, start), (False, end))
    ]


def _talk(seconds: int, name: str = A) -> list[events.Event]:
    """Every ten seconds: the user speaks for four, the agent for four after one."""
    found: list[events.Event] = []
    for at in range(0, seconds, 10):
        found += [*_speech("user", at, at + 4.0, name), *_speech("agent", at + 5.0, at + 9.0, name)]
        found.append(turn(name, "x", at + 5.0).model_copy(update={"latency_ms": 1000.0}))
    return found


def _transcript() -> Transcript:
    transcript = Transcript()
    for speech in (Speech("user", 0.0, 4.0), Speech("agent", 6.0, 12.0), Speech("user", 10.0, 12.0)):
        transcript.add_speech(speech)
    transcript.add(Line("turn", "agent", "Yes.", 6.0, 2000.0))
    transcript.interruptions.append(("agent", 11.9))
    return transcript


def _drawn(height: int, cells: int = 24, bands: int = 1) -> list[str]:
    rows = lane_rows(_transcript(), Stretch(0.0, 1.0, cells * bands), bands, height, 13.0)
    return ["".join(text for text, _ in row).rstrip() for row in rows]


def test_lanes_notes_axis_and_legend_as_there_is_room() -> None:
    assert _drawn(5, 30) == [
        "agent ────··████x!──",
        "          2.0s",
        "user  ████──────xx──",
        "      │0:00     │0:10     │0:20",
        "█ speaks  ▄ in part  x both",
    ]
    assert _drawn(7, 30)[4:] == ["█ speaks  ▄ in part  x both", "! interrupted  · waits"]
    assert _drawn(5, 50)[4:] == ["█ speaks  ▄ in part  x both  ! interrupted  · waits"]
    assert len(_drawn(4)) == 4
    assert [line.split()[0] for line in _drawn(3)] == ["agent", "user", "│0:00"]
    assert len(_drawn(2)) == 2
    assert len(_drawn(1)) == 1


def test_bands_go_on_where_the_one_above_ends_and_none_stands_empty() -> None:
    shown = _drawn(12, 8, 3)
    assert shown[0] == "agent ────··██"
    assert shown[4] == "agent ██x!──"
    assert len(shown) == 8


def test_each_kind_of_cell_is_told_apart_in_ascii() -> None:
    letters = {to_ascii(each) for each in "█▄x!·─ "}
    assert len(letters) == 7
    assert all(each.isascii() for each in letters)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seconds", [0, 10, 900])
async def test_any_length_at_any_size_and_every_key(tmp_path: Path, size: tuple[int, int], seconds: int) -> None:
    session = write_session(tmp_path / "s", [started([A]), *attempt(A), *_talk(seconds), scored(A)])
    async with console(session, size) as pilot:
        pane = await go_to(pilot, LanesPane)
        for zoomed in (False, True):
            if zoomed:
                await pilot.press("z")
                await settle(pilot)
            for key in ("left", "h", "pageup", "plus", "minus", "minus", "equals_sign", "home", "right", "l", "pagedown", "end"):
                await pilot.press(key)
                await pilot.pause()
                shown = lines(pilot)
                assert all(cell_len(line) == size[0] for line in shown)
                assert lines(pilot, pane)[0].startswith("agent "), key
            assert pane.start is None
        if seconds == 900:
            assert any(f"│14:{second}" in "\n".join(lines(pilot, pane)) for second in ("00", "30", "40", "50"))
            await pilot.press("home")
            await settle(pilot)
            assert "│0:00" in "\n".join(lines(pilot, pane))
            assert ("scrolled back" in "\n".join(lines(pilot))) == (pane.start is not None)


async def test_a_live_one_follows_now_and_stays_where_it_was_scrolled_to(tmp_path: Path) -> None:
    now = time.time()
    begun = [each.model_copy(update={"time": now - 300}) for each in attempt(A)]
    session = write_session(tmp_path / "s", [started([A]), *begun, *_talk(300)])
    async with console(session, (120, 40), alive=True) as pilot:
        pane = await go_to(pilot, LanesPane)
        followed = lines(pilot, pane)
        assert any(f"│4:{second}0" in "\n".join(followed) for second in "345")
        await pilot.press("left")
        await settle(pilot)
        assert "paused, End follows" in "\n".join(lines(pilot))
        before = lines(pilot, pane)
        write_session(session, _speech("user", 320.0, 400.0))
        await pilot.pause(1.2)
        assert lines(pilot, pane) == before
        await pilot.press("end")
        await settle(pilot)
        assert any(f"│6:{second}0" in "\n".join(lines(pilot, pane)) for second in "0123")
        assert "paused" not in "\n".join(lines(pilot))


async def test_words_do_not_move_a_live_lane_between_two_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = write_session(tmp_path / "s", [started([A]), *attempt(A), *_talk(50)])
    async with console(session, (120, 40), alive=True) as pilot:
        pane = await go_to(pilot, LanesPane)
        drawn: list[Sequence[Any]] = []
        monkeypatch.setattr(pane, "_update", lambda: drawn.append(()))
        pane._stale = False
        pane.show(pane.view, {"transcript"})
        assert drawn == []
        pane.show(pane.view, {"clock"})
        assert len(drawn) == 1


async def test_a_sentence_where_there_is_nothing_to_draw(tmp_path: Path) -> None:
    metrics = '{"turns": [{"role": "agent", "text": "Hi", "timestamp": "2026-01-01T00:00:00"}]}'
    session = write_session(tmp_path / "s", [started([A, B]), *attempt(B), scored(B)])
    async with console(session, (120, 40)) as pilot:
        pane = await go_to(pilot, LanesPane)
        pilot.app.query_one(QueuePane).choose(A)
        await settle(pilot)
        assert "It waits in the queue." in lines(pilot, pane)[0]
    (session / A).mkdir()
    (session / A / "metrics.json").write_text(metrics)
    write_session(session, [scored(A, 0)])
    async with console(session, (120, 40)) as pilot:
        pane = await go_to(pilot, LanesPane)
        pilot.app.query_one(QueuePane).choose(A)
        await settle(pilot)
        assert "When who spoke is not known." in lines(pilot, pane)[0]


async def test_the_wheel_goes_through_time(tmp_path: Path) -> None:
    session = write_session(tmp_path / "s", [started([A]), *attempt(A), *_talk(900), scored(A)])
    async with console(session, (120, 40)) as pilot:
        pane = await go_to(pilot, LanesPane)
        await pilot._post_mouse_events([MouseScrollUp], pane)  # type: ignore[list-item]
        await settle(pilot)
        assert pane.start is not None
