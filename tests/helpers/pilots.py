"""The console driven by a pilot, and what stands on its screen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from voiceeval_engine.live.commands import Command, Reply
from voiceeval_tui.app import ConsoleApp
from voiceeval_tui.screens.run import RunScreen
from voiceeval_tui.source import open_source

SIZES = [(50, 15), (80, 24), (120, 40), (200, 50)]


class NoEngine:
    """Says yes to everything."""

    async def send(self, command: Command) -> Reply:
        return Reply(ok=True, message="done")


@asynccontextmanager
async def console(session: Path, size: tuple[int, int] = (80, 24), *, notify: bool = True, **environ: str) -> AsyncIterator[Any]:
    """A pilot of the console on a session."""
    app = ConsoleApp(open_source(session), NoEngine(), fps=50, notify=notify, environ={"TERM": "xterm-256color", **environ})
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        yield pilot


async def settle(pilot: Pilot[None]) -> None:
    """Let what was begun come to its end."""
    await pilot.pause(0.1)


def screen(pilot: Pilot[None]) -> RunScreen:
    """The run's screen, whatever dialog is before it."""
    found = pilot.app.screen_stack[0]
    assert isinstance(found, RunScreen)
    return found


def lines(pilot: Pilot[None]) -> list[str]:
    """What stands there, line by line."""
    return ["".join(segment.text for segment in strip) for strip in pilot.app.screen._compositor.render_strips()]


def text(pilot: Pilot[None]) -> str:
    """The same as one text."""
    return "\n".join(lines(pilot))
