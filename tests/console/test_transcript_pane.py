"""The transcript: the rows of a line, what follows and what stays, what is told where nothing was said."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hostile_text import HOSTILE
from pilots import SIZES, console, go_to, lines, settle
from rich.cells import cell_len
from sessions import attempt, scored, started, turn, write_session

from voiceeval_engine.live import events
from voiceeval_tui.cells import drawable
from voiceeval_tui.session_files import read_transcript
from voiceeval_tui.transcript import MAX_LINES, Line
from voiceeval_tui.view import Link, View
from voiceeval_tui.widgets.queue import QueuePane
from voiceeval_tui.widgets.transcript import TranscriptPane, line_rows, slow_from, status_row

A, B = "retail__41", "retail__42"


def _text(row: Any) -> str:
    return "".join(drawable(text) for text, _ in row)


def _rows(line: Line, cells: int, *, slow: bool = False) -> list[str]:
    return [_text(row).rstrip() for row in line_rows(line, cells, slow=slow)]


def _speaking(side: Any, on: bool, at: float, name: str = A) -> events.Speaking:
    return events.Speaking(scenario=name, attempt=1, side=side, on=on, at=at, time=time.time())


def _words(text: str, at: float, side: Any = "agent") -> events.Words:
    return events.Words(scenario=A, attempt=1, side=side, text=text, at=at, time=time.time())


def _long(count: int, name: str = A) -> list[events.Event]:
    return [
        turn(name, f"Turn {number} says a few words.", number * 2.0, "agent" if number % 2 else "user") for number in range(count)
    ]


def test_a_line_hangs_under_its_text_with_the_latency_at_the_right_edge() -> None:
    line = Line("turn", "agent", "Thanks. I changed it to blue for you.", 164.0, 812.0)
    assert _rows(line, 40) == [
        " 2:44 agent Thanks. I changed it   812ms",
        "            to blue for you.",
    ]


def test_narrow_rows_begin_at_the_left() -> None:
    assert _rows(Line("turn", "user", "Yes, the blue one, please.", 161.0), 24) == [" 2:41 user  Yes, the", "  blue one, please."]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (Line("tool", "agent", "modify_order (changed the database)", 1.0), "[tool] modify_order (changed the database)"),
        (Line("interruption", "agent", "", 1.0), "! interrupted"),
        (Line("words", "user", "and send", 1.0), "and send …"),
        (Line("turn", "user", "", 1.0), ""),
    ],
)
def test_what_is_no_turn_is_marked_in_words(line: Line, told: str) -> None:
    assert _rows(line, 80) == [f" 0:01 {line.side:<6}{told}".rstrip()]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("cells", [1, 5, 13, 20, 34, 80])
def test_rows_never_take_more_than_their_cells(text: str, cells: int) -> None:
    for kind in ("turn", "words", "tool"):
        for row in line_rows(Line(kind, "agent", text, 7.0, 812.0), cells)[1:]:  # type: ignore[arg-type]
            assert cell_len(_text(row)) <= max(cells, 4)
    if cells >= 30:
        assert cell_len(_text(line_rows(Line("turn", "agent", text, 7.0, 812.0), cells)[0])) == cells


def test_words_that_never_end_show_their_end() -> None:
    text = "word " * 2000 + "newest"
    rows = _rows(Line("words", "agent", text, 1.0), 60)
    assert rows[-1].endswith("newest …")
    assert len(rows) < 150


def test_slow_is_relative_to_this_conversation() -> None:
    def measured(*values: float) -> list[Line]:
        return [Line("turn", "agent", "", 0.0, value) for value in values]

    assert slow_from(measured(100.0, 9000.0)) == float("inf")
    assert slow_from(measured(700.0, 800.0, 750.0, 5000.0)) == 1600.0
    assert line_rows(measured(1700.0)[0], 60, slow=True)[0][-1][1] == "warn"


def _view(*stream: events.Event, now: float = 0.0, link: Any = "alive") -> View:
    view = View()
    view.apply_all(stream)
    view.tick(now)
    view.set_link(Link(link))
    return view


def test_the_last_line_tells_who_speaks_and_how_long_nothing_came() -> None:
    def told(*stream: events.Event, now: float = 1_800_000_013.0, link: Any = "alive") -> str:
        return _text(status_row(_view(started([A, B]), *attempt(A), *stream, now=now, link=link), 60)).rstrip()

    speaks = _speaking("user", True, 4.0).model_copy(update={"time": 1_800_000_006.0})
    other = _speaking("agent", True, 5.0).model_copy(update={"time": 1_800_000_007.0})
    assert told(speaks) == f"* user speaking{'idle 0 / 120 s':>45}"
    assert told(speaks, other).startswith("* both speaking")
    assert told(turn(A, "Hello.", 4.0)) == f"- nobody speaks{'idle 9 / 120 s':>45}"
    assert told(speaks, link="gone") == "! interrupted  talking when the run broke off"
    ended = scored(A, verdict=False, failed_signals=["db_state_match", "other"], duration=192.0)
    assert told(ended) == "✗ failed  [EXIT] after 3:12  db_state, other"


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        ([], "It waits in the queue."),
        ([*attempt(A)[:1]], "Setting up for"),
        (attempt(A), "No words yet."),
        ([*attempt(A), scored(A)], "No words of it are known."),
        ([events.ScenarioNotRun(scenario=A, attempt=0, reason="connection [refused]")], "Not run: connection [refused]."),
        ([*attempt(A), events.AttemptDiscarded(scenario=A, attempt=1, reason="0 turns", retry_in=3.0)], "does not count: 0 turns."),
    ],
)
async def test_a_sentence_tells_why_nothing_is_there(tmp_path: Path, stream: list[events.Event], told: str) -> None:
    session = write_session(tmp_path / "s", [started([A]), *stream])
    for size in SIZES:
        async with console(session, size, alive=True) as pilot:
            pane = await go_to(pilot, TranscriptPane)
            assert told in " ".join(" ".join(lines(pilot, pane)).split())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [0, 1, 600])
async def test_any_length_at_any_size(tmp_path: Path, size: tuple[int, int], count: int) -> None:
    async with console(write_session(tmp_path / "s", [started([A]), *attempt(A), *_long(count)]), size, alive=True) as pilot:
        pane = await go_to(pilot, TranscriptPane)
        assert all(cell_len(line) == size[0] for line in lines(pilot))
        if count:
            assert f"Turn {count - 1} " in "\n".join(lines(pilot, pane))
        assert "nobody speaks" in lines(pilot, pane)[-1]
        await pilot.press("up", "k", "pageup", "home")
        await settle(pilot)
        assert "nobody speaks" in lines(pilot, pane)[-1]
        assert ("paused, End follows" in "\n".join(lines(pilot))) == (count == 600)
        if count:
            assert "Turn 0 " in lines(pilot, pane)[0]
        await pilot.press("down", "j", "pagedown", "end")
        await settle(pilot)
        assert "paused" not in "\n".join(lines(pilot))
        if count:
            assert f"Turn {count - 1} " in "\n".join(lines(pilot, pane))


@pytest.mark.parametrize("size", SIZES)
async def test_what_grows_is_followed_and_what_was_scrolled_to_stays(tmp_path: Path, size: tuple[int, int]) -> None:
    session = write_session(tmp_path / "s", [started([A]), *attempt(A), *_long(100)])
    async with console(session, size, alive=True) as pilot:
        pane = await go_to(pilot, TranscriptPane)
        write_session(session, [_words("coming", 300.0), _words("now", 300.2)])
        await settle(pilot)
        assert "coming now …" in "\n".join(lines(pilot, pane))
        await pilot.press("home", "pagedown")
        await settle(pilot)
        top = lines(pilot, pane)[0]
        # so many that the earliest are dropped, and one that comes late, before what shows
        tool = events.ToolCalled(scenario=A, attempt=1, side="agent", name="late", applied=False, at=0.5)
        write_session(session, [tool, *(turn(A, f"More {number}", 400.0 + number) for number in range(MAX_LINES - 100))])
        await settle(pilot)
        assert "More" not in "\n".join(lines(pilot, pane))
        assert lines(pilot, pane)[0] == top
        await pilot.press("end")
        await settle(pilot)
        assert f"More {MAX_LINES - 101}" in "\n".join(lines(pilot, pane))


async def test_a_live_one_scrolls_by_several_rows_and_a_finished_one_to_its_very_end(tmp_path: Path) -> None:
    session = write_session(tmp_path / "s", [started([A]), *attempt(A), *_long(30)])
    async with console(session, alive=True) as pilot:
        pane = await go_to(pilot, TranscriptPane)
        places = []
        for number in range(12):
            write_session(session, [turn(A, f"One {number}", 100.0 + number)])
            await settle(pilot)
            assert f"One {number}" in "\n".join(lines(pilot, pane))
            places.append(pane.scroll_offset.y)
        assert len(set(places)) <= 5
        write_session(session, [scored(A)])
        await settle(pilot)
        assert "One 11" in lines(pilot, pane)[-2]


async def test_the_place_stays_whatever_the_width_and_the_end_stays_the_end(tmp_path: Path) -> None:
    session = write_session(tmp_path / "s", [started([A]), *attempt(A), *_long(200)])
    async with console(session, (200, 50), alive=True) as pilot:
        pane = await go_to(pilot, TranscriptPane)
        for size in (*reversed(SIZES), *SIZES):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            assert "Turn 199 " in "\n".join(lines(pilot, pane))
        await pilot.press(*["pageup"] * 3)
        await settle(pilot)
        top = lines(pilot, pane)[0][:30]
        for size in (*reversed(SIZES), *SIZES):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            assert lines(pilot, pane)[0].startswith(top[:25])


@pytest.mark.parametrize("size", SIZES)
async def test_hostile_words_keep_the_columns(tmp_path: Path, size: tuple[int, int]) -> None:
    said = [events.clip(text) for text in HOSTILE]
    stream = [turn(A, text, number * 3.0, "agent" if number % 2 else "user") for number, text in enumerate(said)]
    stream += [_words(text, 200.0 + number) for number, text in enumerate(said)]  # type: ignore[misc]
    stream += [events.ToolCalled(scenario=A, attempt=1, side="user", name=text, applied=True, at=99.0) for text in said]  # type: ignore[misc]
    async with console(write_session(tmp_path / "s", [started([A]), *attempt(A), *stream]), size, alive=True) as pilot:
        pane = await go_to(pilot, TranscriptPane)
        seen = ""
        for key in ("home", *["pagedown"] * 60):
            await pilot.press(key)
            await pilot.pause()
            shown = lines(pilot)
            assert all(cell_len(line) == size[0] for line in shown)
            assert not any(ord(each) < 32 or 0x7F <= ord(each) < 0xA0 or each in "\u202e\u2066" for line in shown for each in line)
            seen += "\n".join(lines(pilot, pane))
        assert "[red]not" in seen
        assert "價格是多少" in seen
        assert "\\u200e" not in seen


async def test_another_scenario_is_followed_from_its_end_and_told_in_the_title(tmp_path: Path) -> None:
    stream = [started([A, B]), *attempt(A), *_long(80), *attempt(B), *_long(90, B), scored(B)]
    async with console(write_session(tmp_path / "s", stream), alive=True) as pilot:
        pane = await go_to(pilot, TranscriptPane)
        await pilot.press("home")
        await settle(pilot)
        pilot.app.query_one(QueuePane).choose(B)
        await settle(pilot)
        assert "Turn 89 " in "\n".join(lines(pilot, pane))
        assert f"{B}  attempt 1  0:12" in "\n".join(lines(pilot))
        assert "✓ passed  [EXIT]" in lines(pilot, pane)[-1]
        await pilot.press("home")
        await settle(pilot)
        assert "Turn 0 " in lines(pilot, pane)[0]


async def test_without_change_nothing_is_drawn_and_a_word_draws_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = write_session(tmp_path / "s", [started([A]), *attempt(A), *_long(600), scored(A)])
    async with console(session, (120, 40)) as pilot:
        pane = await go_to(pilot, TranscriptPane)
        asked: list[Any] = []
        whole = TranscriptPane.refresh

        def refresh(self: TranscriptPane, *regions: Any, **options: Any) -> Any:
            asked.extend(regions or ["all"])
            return whole(self, *regions, **options)

        monkeypatch.setattr(TranscriptPane, "refresh", refresh)
        began = time.perf_counter()
        for _ in range(20):
            pane.show(pane.view, {"transcript", "clock"})
        assert asked == []
        assert (time.perf_counter() - began) / 20 < 0.02


def test_a_tool_is_one_line_for_its_call_and_its_effect() -> None:
    def call(name: str, applied: bool, at: float) -> events.ToolCalled:
        return events.ToolCalled(scenario=A, attempt=1, side="agent", name=name, applied=applied, at=at)

    view = _view(
        started([A]), *attempt(A), call("a", False, 1.0), call("b", False, 1.1), call("a", True, 1.2), call("c", True, 2.0)
    )
    held = view.transcript(A)
    assert held is not None
    assert [line.text for line in held.lines] == ["a (changed the database)", "b", "c (changed the database)"]


def test_a_finished_scenario_is_read_from_the_journal_with_all_that_was_told(tmp_path: Path) -> None:
    cut = events.Interrupted(scenario=A, attempt=2, side="agent", at=2.5)
    discarded = events.AttemptDiscarded(scenario=A, attempt=1, reason="0 turns", retry_in=1.0)
    again = [*attempt(A, 2), turn(A, "new", 2.0, number=2), cut, scored(A, 2)]
    lost = [
        *attempt(A, 3),
        turn(A, "lost", 2.0, number=3),
        events.AttemptDiscarded(scenario=A, attempt=3, reason="x", retry_in=None),
    ]
    stream = [started([A]), *attempt(A), turn(A, "old", 1.0), discarded, *again, *lost, scored(A, 2, restored=True)]
    session = write_session(tmp_path / "s", stream)
    found = read_transcript(session, A)
    assert found is not None
    assert [(line.kind, line.text) for line in found.lines] == [("turn", "new"), ("interruption", "")]
    assert read_transcript(session, B) is None
