"""The engine's log as it grows, and the console's own troubles.

Rule: console page, "Panes" (log).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.binding import BindingType

from voiceeval_tui.cells import wrap
from voiceeval_tui.figures import time_of_day
from voiceeval_tui.themes import StyleName
from voiceeval_tui.view import Area, Level, LogLine, View
from voiceeval_tui.widgets.pane import Pane, Row

_STYLES: dict[Level, StyleName] = {"INFO": "text", "WARNING": "warn", "ERROR": "bad"}
_LEVELS: tuple[Level, ...] = ("INFO", "WARNING", "ERROR")
_REST_SECONDS = 0.5
"""Between two drawings of a log that scrolls: each one writes the whole pane."""


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
        self._rests = False

    def show(self, view: View, areas: Iterable[Area]) -> None:
        """As `Pane`; what comes while it rests is drawn after that."""
        if not self._rests or not areas:
            super().show(view, areas)
        else:
            self.view = view
            self._stale = self._stale or not self.AREAS.isdisjoint(areas)

    def _update(self) -> None:
        super()._update()
        if not self._rests and self.max_scroll_y > 0:
            self._rests = True
            self.set_timer(_REST_SECONDS, self._rested)

    def _rested(self) -> None:
        self._rests = False
        self.show(self.view, ())

    def heading(self, view: View) -> str:
        return self.TITLE if self.least == "INFO" else f"{self.TITLE}  {self.least.lower()} and worse"

    def rows(self, view: View, width: int) -> Sequence[Row]:
        shown = _LEVELS[_LEVELS.index(self.least) :]
        return [row for line in view.log if line.level in shown and line.message.strip("= ") for row in _line_rows(line, width)]

    def action_level(self) -> None:
        self.least = _LEVELS[(_LEVELS.index(self.least) + 1) % len(_LEVELS)]
        self.redraw()


def _line_rows(line: LogLine, cells: int) -> list[Row]:
    """A warning or an error goes on below itself, of anything else what has room shows."""
    when, style = f"{time_of_day(line.time)} ", _STYLES[line.level]
    origin = "console: " if line.by_console else ""
    room = max(1, cells - len(when) - len(origin))
    if line.level == "INFO":
        first, further = line.message, []
    else:
        first, *further = wrap(line.message, max(1, cells - len(when)), first=room)
    return [((when, "dim"), (origin, "accent"), (first, style)), *(((" " * len(when), "dim"), (part, style)) for part in further)]
