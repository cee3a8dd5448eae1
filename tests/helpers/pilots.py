"""The console driven by a pilot, whole or a pane alone, and what stands on its screen."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from voiceeval_engine.live.commands import Command, EngineGone, Reply
from voiceeval_tui.app import ConsoleApp
from voiceeval_tui.screens.run import PANES, RunScreen
from voiceeval_tui.source import open_source
from voiceeval_tui.themes import load_themes, to_palette, to_textual
from voiceeval_tui.view import Link
from voiceeval_tui.widgets.list_pane import ListPane
from voiceeval_tui.widgets.pane import Pane
from voiceeval_tui.widgets.queue import QueuePane

SIZES = [(50, 15), (80, 24), (120, 40), (200, 50)]
KEYS_OF_PANES = {pane.NAME: str(key) for key, pane in enumerate((QueuePane, *PANES), start=1)}
THEME = load_themes().by_name["voiceeval-dark"]
_COMMANDS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""What moves, colours or turns round what a terminal shows. The mark U+200E is our own, round what goes from right to left."""
Kind = TypeVar("Kind", bound=Pane)


class Engine:
    """Remembers what it was told, and agrees to everything where no other answer is given."""

    def __init__(self, answer: Reply | EngineGone | None = None) -> None:
        self.told: list[Command] = []
        self.answer = answer or Reply(ok=True, message="done")

    async def send(self, command: Command) -> Reply:
        self.told.append(command)
        if isinstance(self.answer, EngineGone):
            raise self.answer
        return self.answer


@asynccontextmanager
async def console(
    session: Path,
    size: tuple[int, int] = (80, 24),
    engine: Engine | None = None,
    *,
    alive: bool = False,
    notify: bool = True,
    **environ: str,
) -> AsyncIterator[Any]:
    """A pilot of the console on a session, at rest; `alive` as if an engine held the session."""
    source = open_source(session)
    if alive:
        source.link = lambda *, ended: Link("alive")  # type: ignore[method-assign]
    app = ConsoleApp(source, engine or Engine(), fps=50, notify=notify, environ={"TERM": "xterm-256color", **environ})
    with patch("textual.app.wait_for_idle", _handled), patch("textual.pilot.wait_for_idle", _handled):
        async with app.run_test(size=size, notifications=True) as pilot:
            await settle(pilot)
            yield pilot


async def _handled(*_: float) -> None:
    """After a key: what it started is done. Textual's own waits for a process that does nothing, 40 ms a key and up to a second."""
    for _ in range(20):
        await asyncio.sleep(0)
    await asyncio.sleep(0.001)


async def settle(pilot: Pilot[None]) -> None:
    """Let it look at its source twice, read the files that it wants, and draw: until two looks show the same."""
    await pilot.pause(0.05)
    shown: list[str] = []
    for _ in range(30):
        reads = any(worker.group in ("saved", "details") and not worker.is_finished for worker in pilot.app.workers)
        before, shown = shown, shown_by(pilot.app)
        if shown == before and not reads:
            return
        await pilot.pause(0.03)


async def go_to(pilot: Pilot[None], kind: type[Kind]) -> Kind:
    """Press the pane's key."""
    await pilot.press(KEYS_OF_PANES[kind.NAME])
    await settle(pilot)
    return pilot.app.query_one(kind)


def screen(pilot: Pilot[None]) -> RunScreen:
    """The run's screen, whatever dialog is before it."""
    found = pilot.app.screen_stack[0]
    assert isinstance(found, RunScreen)
    return found


def lines(pilot: Pilot[None], pane: Pane | None = None) -> list[str]:
    """What stands on the screen; of one pane only its rows."""
    shown = shown_by(pilot.app)
    if pane is None:
        return shown
    region = pane.content_region
    return [_part(line, region.x, region.x + pane.row_width) for line in shown[region.y : region.bottom]]


def text(pilot: Pilot[None]) -> str:
    """The screen as one text."""
    return "\n".join(lines(pilot))


def shown_by(app: App[None]) -> list[str]:
    """The terminal's lines as text."""
    return ["".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips()]


def assert_harmless(shown: list[str], columns: int) -> None:
    """Every line is as wide as the screen, and nothing in it would be taken for a command by a terminal."""
    for line in shown:
        assert cell_len(line) == columns, line
        assert not _COMMANDS.search(line), ascii(line)
        assert "\\u200e" not in line, "a mark of our own was taken for one of a bot's"


class Host(App[None]):
    """An app with nothing but the panes under test, one below the other, each of `size` cells with its upper edge and scroll bar.

    What panes sent is in `failed` and `chosen`.
    """

    def __init__(self, *panes: Pane, size: tuple[int, int] = (30, 10)) -> None:
        super().__init__()
        self.palette = to_palette(THEME)
        self.register_theme(to_textual(THEME))
        self.theme = THEME.name
        self.panes = panes
        self.pane_size = size
        self.failed: list[str] = []
        self.chosen: list[tuple[str, bool]] = []

    def compose(self) -> ComposeResult:
        for number, pane in enumerate(self.panes):
            pane.styles.offset = (0, number * self.pane_size[1])
            pane.styles.width, pane.styles.height = self.pane_size
            yield pane

    def on_pane_failed(self, message: Pane.Failed) -> None:
        self.failed.append(message.problem)

    def on_list_pane_chosen(self, message: ListPane.Chosen) -> None:
        self.chosen.append((message.key, message.opened))

    def shown(self) -> list[str]:
        """The terminal's lines as text."""
        return shown_by(self)


def _part(line: str, start: int, end: int) -> str:
    taken, kept = 0, ""
    for each in line:
        if start <= taken < end:
            kept += each
        taken += cell_len(each)
    return kept
