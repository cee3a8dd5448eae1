"""The engine's log as it grows, and the console's own troubles.

May import `pane`, `view`, `cells`. Rule: console page, "Panes" (log).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from voiceeval_tui.themes import StyleName
from voiceeval_tui.view import Level, View
from voiceeval_tui.widgets.pane import Pane, Row

_STYLES: dict[Level, StyleName] = {"INFO": "text", "WARNING": "warn", "ERROR": "bad"}
_LEVELS: tuple[Level, ...] = ("INFO", "WARNING", "ERROR")


class LogPane(Pane):
    """`least` is the lowest level that shows."""

    NAME = "log"
    TITLE = "log"
    AREAS = frozenset({"log"})
    FOLLOWS = True
    BINDINGS: ClassVar[list[BindingType]] = [("l", "level")]

    def __init__(self) -> None:
        super().__init__()
        self.least: Level = "INFO"

    def heading(self, view: View) -> str:
        """As `Pane`."""
        return self.TITLE if self.least == "INFO" else f"{self.TITLE}  {self.least.lower()} and worse"

    def rows(self, view: View, width: int) -> Sequence[Row]:
        """As `Pane`."""
        shown = _LEVELS[_LEVELS.index(self.least) :]
        return [
            (
                (time.strftime("%H:%M:%S ", time.localtime(line.time)), "dim"),
                ("console: " if line.by_console else "", "accent"),
                (line.message, _STYLES[line.level]),
            )
            for line in view.log
            if line.level in shown and line.message.strip("= ")
        ]

    def action_level(self) -> None:
        """The next level."""
        self.least = _LEVELS[(_LEVELS.index(self.least) + 1) % len(_LEVELS)]
        self.redraw()
