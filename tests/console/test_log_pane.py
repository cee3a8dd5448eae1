"""The log: it follows, it rests between two drawings, and it can show less."""

from __future__ import annotations

from pathlib import Path

import pytest
from pilots import SIZES, Host, console, go_to, lines, settle
from screens import until
from sessions import started, write_session

from voiceeval_engine.live import events
from voiceeval_tui.view import View
from voiceeval_tui.widgets.log import LogPane


def _lines(start: int, count: int, level: str = "INFO") -> list[events.Event]:
    return [events.Logged(level=level, message=f"line {number}", time=1.0) for number in range(start, start + count)]


@pytest.mark.parametrize("size", SIZES)
async def test_the_newest_line_shows(tmp_path: Path, size: tuple[int, int]) -> None:
    session = write_session(tmp_path / "s", [started(["a"]), *_lines(0, 90)])
    async with console(session, size) as pilot:
        pane = await go_to(pilot, LogPane)
        assert "line 89" in lines(pilot, pane)[-1]
        for number in range(90, 93):
            write_session(session, _lines(number, 1))
            await until(pilot, lambda wanted=f"line {number}": wanted in lines(pilot, pane)[-1])  # type: ignore[misc]
        for other in (*SIZES, *reversed(SIZES)):
            await pilot.resize_terminal(*other)
            await until(pilot, lambda: "line 92" in lines(pilot, pane)[-1])
        await settle(pilot)  # a key that comes while the pane gets its size finds nothing to scroll
        await pilot.press("home")
        await until(pilot, lambda: "line 0" in lines(pilot, pane)[0])
        write_session(session, _lines(93, 1))
        await until(pilot, lambda: pane.view.log[-1].message == "line 93")
        await settle(pilot)
        assert "line 0" in lines(pilot, pane)[0]


async def test_a_log_that_scrolls_is_not_drawn_for_every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pane, view, drawn = LogPane(), View(), list[int]()
    host = Host(pane)
    async with host.run_test(size=host.pane_size) as pilot:
        pane.show(view, view.apply_all(_lines(0, 50)))
        monkeypatch.setattr(pane, "collect", lambda: drawn.append(1) or LogPane.collect(pane))
        monkeypatch.setattr(pane, "set_timer", lambda _, then: setattr(pane, "after", then))
        pane._rests = False
        for number in range(50, 60):
            pane.show(view, view.apply_all(_lines(number, 1)))
        assert len(drawn) == 1
        pane.after()  # type: ignore[attr-defined]
        await pilot.pause()
        assert len(drawn) == 2
        assert "line 59" in host.shown()[-1]


async def test_lower_levels_can_be_left_out(tmp_path: Path) -> None:
    stream = [started(["a"]), *_lines(0, 3), *_lines(10, 1, "ERROR")]
    async with console(write_session(tmp_path / "s", stream), (80, 24)) as pilot:
        pane = await go_to(pilot, LogPane)
        await pilot.press("l")
        await until(pilot, lambda: "line 2" not in "\n".join(lines(pilot, pane)))
        assert "line 10" in "\n".join(lines(pilot, pane))


@pytest.mark.parametrize("size", SIZES)
async def test_a_long_warning_can_be_read_whole(tmp_path: Path, size: tuple[int, int]) -> None:
    words = " ".join(f"word{number}" for number in range(20))
    stream = [started(["a"]), *(events.Logged(level=level, message=words, time=1.0) for level in ("INFO", "ERROR", "WARNING"))]
    async with console(write_session(tmp_path / "s", stream), size) as pilot:
        pane = await go_to(pilot, LogPane)
        shown = "".join(line.rstrip() + " " for line in lines(pilot, pane))
        assert shown.count("word19") == 2
