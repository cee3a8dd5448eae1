"""A console on a session, driven by a pilot, for tests of its panes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from rich.cells import cell_len
from textual.pilot import Pilot

from voiceeval_engine.live.commands import Command, Reply
from voiceeval_tui.app import ConsoleApp
from voiceeval_tui.screens.run import RunScreen
from voiceeval_tui.source import open_source
from voiceeval_tui.view import Link
from voiceeval_tui.widgets.pane import Pane

SIZES = [(50, 15), (80, 24), (120, 40), (200, 50)]
Kind = TypeVar("Kind", bound=Pane)


class Deaf:
    """An engine that agrees to everything."""

    async def send(self, command: Command) -> Reply:
        return Reply(ok=True, message="done")


@asynccontextmanager
async def piloted(
    session: Path, size: tuple[int, int] = (80, 24), *, alive: bool = False, **environ: str
) -> AsyncIterator[Pilot[None]]:
    """The console at rest; `alive` as if an engine held the session."""
    source = open_source(session)
    if alive:
        source.link = lambda *, ended: Link("alive")  # type: ignore[method-assign]
    app = ConsoleApp(source, Deaf(), fps=50, environ=environ)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        yield pilot


async def settle(pilot: Pilot[None]) -> None:
    """Let it draw."""
    await pilot.pause(0.1)


async def go_to(pilot: Pilot[None], kind: type[Kind]) -> Kind:
    """Press the pane's key."""
    screen = pilot.app.screen
    assert isinstance(screen, RunScreen)
    await pilot.press(str(list(screen._panes).index(kind.NAME) + 1))
    await settle(pilot)
    return pilot.app.query_one(kind)


def lines(pilot: Pilot[None], pane: Pane | None = None) -> list[str]:
    """What stands on the screen; of one pane only its rows."""
    shown = ["".join(segment.text for segment in strip) for strip in pilot.app.screen._compositor.render_strips()]
    if pane is None:
        return shown
    region = pane.content_region
    return [_part(line, region.x, region.x + pane.row_width) for line in shown[region.y : region.bottom]]


def _part(line: str, start: int, end: int) -> str:
    taken, kept = 0, ""
    for each in line:
        if start <= taken < end:
            kept += each
        taken += cell_len(each)
    return kept
