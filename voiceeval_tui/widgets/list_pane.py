"""The base of panes that are lists: rows with keys, a cursor on one of them, what has no room in its row below them.

Rule: console page, "Panes", "Keys", "Budgets".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message

from voiceeval_tui.cells import drawable, fit, width, wrap
from voiceeval_tui.themes import StyleName
from voiceeval_tui.view import View
from voiceeval_tui.widgets.pane import Pane, Row

_FOOT_LINES = 3
"""Below a list with rows that are cut."""


class ListPane(Pane):
    """A pane whose rows stand for things with keys, one of them chosen. Rows are made for the lines that show only."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("up,k", "move(-1)"),
        ("down,j", "move(1)"),
        ("pageup", "page(-1)"),
        ("pagedown", "page(1)"),
        ("home", "end(-1)"),
        ("end", "end(1)"),
        ("enter", "open"),
    ]

    class Chosen(Message):
        """The operator moved the cursor to `key`; `opened` where it was Enter or a second click."""

        def __init__(self, pane: ListPane, key: str, opened: bool) -> None:
            super().__init__()
            self.pane = pane
            self.key = key
            self.opened = opened

    def __init__(self) -> None:
        super().__init__()
        self.keys: Sequence[str] = ()
        self.cursor: str | None = None
        """The key of the chosen row; it stays chosen wherever the row goes."""
        self._places: dict[str, int] = {}
        self._place = 0
        self._foot = 0

    @property
    def list_height(self) -> int:
        """The lines that rows have."""
        return self.scrollable_content_region.height - self._foot

    def items(self, view: View) -> Sequence[str]:
        """The keys of all rows in order, each once."""
        return ()

    def item_row(self, view: View, key: str, width: int) -> Row:
        """One row, whatever the cursor does."""
        return ((key, "text"),)

    def scenario_of(self, key: str) -> str | None:
        """The scenario that a row is about; choosing the row shows it. None where rows are about something else."""
        return None

    def whole(self, view: View, key: str) -> str:
        """What a row says where it has no room for all of it: the chosen one's stands below the rows, wrapped."""
        return ""

    def room(self, width: int) -> int:
        """The cells that a row of `width` has for what `whole` gives."""
        return width

    def collect(self) -> int:
        self.keys = self.items(self.view)
        self._places = {key: place for place, key in enumerate(self.keys)}
        if self.cursor not in self._places:
            self._place = min(self._place, max(0, len(self.keys) - 1))
            self.cursor = self.keys[self._place] if self.keys else None
        else:
            self._place = self._places[self.cursor]
        room = self.room(self.row_width)
        has_room = self.size.height >= 3 * _FOOT_LINES
        cut = has_room and any(width(drawable(self.whole(self.view, key))) > room for key in self.keys)
        self._foot = _FOOT_LINES if cut else 0
        return len(self.keys) + self._foot

    def row_at(self, index: int) -> Row:
        if index >= len(self.keys):
            return ()
        key = self.keys[index]
        row = self.item_row(self.view, key, self.row_width)
        if key != self.cursor:
            return row
        style: StyleName = "cursor" if self.has_focus else "cursor-idle"
        rest = self.row_width - sum(width(drawable(text)) for text, _ in row)
        return (*((text, style) for text, _ in row), (" " * rest, style))

    def _row(self, index: int) -> Row:
        """As `Pane`; the foot is not scrolled."""
        line = index - self.scroll_offset.y - self.list_height
        if not self._foot or line < 0:
            return super()._row(index)
        words = self.whole(self.view, self.cursor) if self.cursor is not None else ""
        parts = wrap(words, self.row_width - 2, _FOOT_LINES)
        return ((f" {fit(parts[line] if line < len(parts) else '', self.row_width - 1)}", "cursor-idle"),)

    def choose(self, key: str, *, opened: bool = False, tell: bool = True) -> None:
        """Put the cursor on a key and bring it into sight; `tell` sends `Chosen`."""
        if key not in self._places:
            return
        self.cursor, self._place = key, self._places[key]
        height, top = self.list_height, self.scroll_offset.y
        if self._place < top:
            self.scroll_to(y=self._place, animate=False)
        elif height and self._place >= top + height:
            self.scroll_to(y=self._place - height + 1, animate=False)
        self._refresh_changed()
        if tell:
            self.post_message(self.Chosen(self, key, opened))

    def action_move(self, by: int) -> None:
        if self.keys:
            self.choose(self.keys[max(0, min(len(self.keys) - 1, self._place + by))])

    def action_page(self, by: int) -> None:
        self.action_move(by * max(1, self.list_height - 1))

    def action_end(self, by: int) -> None:
        """Move the cursor to the first (-1) or last (1) row."""
        self.action_move(by * len(self.keys))

    def action_open(self) -> None:
        if self.cursor is not None:
            self.choose(self.cursor, opened=True)

    def on_click(self, event: events.Click) -> None:
        """Choose the row that was clicked; a second click opens it."""
        line = event.get_content_offset_capture(self).y
        index = line + self.scroll_offset.y
        if 0 <= index < len(self.keys) and line < self.list_height:
            self.choose(self.keys[index], opened=event.chain > 1)

    def watch_has_focus(self, has_focus: bool) -> None:
        """The cursor looks another way."""
        super().watch_has_focus(has_focus)
        self._refresh_changed()
