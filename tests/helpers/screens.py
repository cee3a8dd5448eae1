"""The console in a pilot, begun on the home screen, and what it shows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from textual.pilot import Pilot

from voiceeval_engine.run.options import RunOptions
from voiceeval_tui.app import ConsoleApp


@asynccontextmanager
async def home(output_dir: Path, size: tuple[int, int] = (80, 24), **options: Any) -> AsyncIterator[Pilot[None]]:
    """The home screen of a folder."""
    app = ConsoleApp(None, defaults=RunOptions(output_dir=output_dir, **options), fps=50, environ={})
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        yield pilot


async def settle(pilot: Pilot[Any], seconds: float = 0.2) -> None:
    """Let threads answer and screens draw."""
    await pilot.pause(seconds)


async def until(pilot: Pilot[Any], condition: Callable[[], bool], patience: float = 20.0) -> None:
    """Wait for something."""
    for _ in range(int(patience / 0.05)):
        if condition():
            await pilot.pause()
            return
        await pilot.pause(0.05)
    raise AssertionError(f"it did not come:\n{text(pilot)}")


def lines(pilot: Pilot[Any]) -> list[str]:
    """What stands on the screen."""
    return ["".join(segment.text for segment in strip) for strip in pilot.app.screen._compositor.render_strips()]


def text(pilot: Pilot[Any]) -> str:
    """The same in one."""
    return "\n".join(lines(pilot))


def assert_straight(pilot: Pilot[Any]) -> None:
    """Every line has the screen's width, and no control character is in it."""
    shown = lines(pilot)
    assert all(cell_len(line) == pilot.app.size.width for line in shown)
    assert not any(ord(each) < 32 or 0x7F <= ord(each) < 0xA0 or each in "\u202e\u2066" for line in shown for each in line)
