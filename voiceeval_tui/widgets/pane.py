"""The base of all panes: rows in, and only the lines that changed go to the terminal.

A pane says which areas it depends on and what its rows are; it asks for nothing and keeps no state of the run. What rows hold is untrusted
and becomes plain segments here, never markup. A pane that raises says so in its own place, and the rest goes on. Rule: console page,
"Panes", "Budgets", "Manners".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol, cast

from rich.segment import Segment
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from voiceeval_tui.cells import drawable, isolated
from voiceeval_tui.themes import Palette, StyleName
from voiceeval_tui.view import Area, View

Span = tuple[str, StyleName]
"""Text and what it is; the text is made safe when it is drawn."""
Row = tuple[Span, ...]
"""One line. What is longer than the pane is cut, what is shorter filled."""


class HasPalette(Protocol):
    """What a pane wants of the app it is in."""

    palette: Palette


class Pane(ScrollView, can_focus=True):
    """Subclasses set NAME, TITLE and AREAS where they have any, and give `rows`; `heading` where the title tells more."""

    DEFAULT_CSS = """
    Pane {
        position: absolute;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        border-top: solid $rule;
        border-title-color: $muted;
        border-title-style: none;
    }
    Pane:focus { border-top: solid $accent; border-title-color: $accent; border-title-style: bold; }
    Pane.-beside { border-left: solid $rule; }
    """

    NAME: ClassVar[str]
    """By which the layout and the actions know it."""
    TITLE: ClassVar[str] = ""
    AREAS: ClassVar[frozenset[Area]] = frozenset()
    """What its rows are made of; it is drawn again when one of these changed."""
    FOLLOWS: ClassVar[bool] = False
    """Whether it stays at its end while rows are added, unless it was scrolled back."""

    class Failed(Message):
        """A pane could not be drawn. `problem` is a sentence."""

        def __init__(self, problem: str) -> None:
            super().__init__()
            self.problem = problem

    def __init__(self) -> None:
        super().__init__(id=f"pane-{self.NAME}")
        self.view = View()
        self._rows: Sequence[Row] = ()
        self._drawn: dict[int, Row] = {}
        self._stale = True
        self._lowest = 0
        """How far it could be scrolled when it was last drawn, whatever its height is now."""
        self._title: str | None = None
        self._problem: str | None = None

    def rows(self, view: View, width: int) -> Sequence[Row]:
        """All rows, top first; must not change `view`. `width` is the cells of a row; `self.size.height` tells how many lines show."""
        return ()

    def heading(self, view: View) -> str:
        """The title on the pane's upper edge."""
        return self.TITLE

    def show(self, view: View, areas: Iterable[Area]) -> None:
        """Draw what changed. A pane that is not displayed keeps in mind that it is behind."""
        self.view = view
        self._stale = self._stale or not self.AREAS.isdisjoint(areas)
        if self._stale and self.display and self.size.area > 0:
            self._update()

    def redraw(self) -> None:
        """Draw all of it again, because something else than the view changed."""
        self._stale = True
        self.show(self.view, ())

    @property
    def row_width(self) -> int:
        """The cells of a row."""
        return self.scrollable_content_region.width

    def on_resize(self) -> None:
        """Rows are made for a width."""
        self.redraw()

    def on_show(self) -> None:
        """Catch up."""
        self.show(self.view, ())

    def collect(self) -> int:
        """Find out what there is to draw; returns how many rows. Panes with many rows make them in `row_at` only."""
        self._rows = self.rows(self.view, self.row_width)
        return len(self._rows)

    def row_at(self, index: int) -> Row:
        """The row at a line that `collect` counted."""
        return self._rows[index] if index < len(self._rows) else ()

    def render_line(self, y: int) -> Strip:
        """Textual asks for the line `y` of what shows."""
        index = y + self.scroll_offset.y
        row = self._row(index)
        self._drawn[index] = row
        return self._strip(row, self.row_width)

    def _update(self) -> None:
        self._stale = False
        at_end = self.scroll_offset.y >= self._lowest
        cells = self.row_width
        self._collect_all()
        if self.row_width != cells:  # the scroll bar came or went: rows are made for the cells beside it
            self._collect_all()
        if self.FOLLOWS and at_end and self.scroll_offset.y != self.max_scroll_y:
            self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True)
        self._lowest = self.max_scroll_y
        self._refresh_changed()

    def _collect_all(self) -> None:
        try:
            title, count = self.heading(self.view), self.collect()
        except Exception as error:  # noqa: BLE001 - whatever a pane does, the console goes on
            self._fail(error)
            title, count = self.TITLE, 1
        else:
            self._problem = None
        self._set_title(title)
        self._resize_to(count)

    def _refresh_changed(self) -> None:
        """Ask for the visible lines whose rows are others than those that stand there."""
        top = self.scroll_offset.y
        visible = range(top, top + self.scrollable_content_region.height)
        self._drawn = {index: row for index, row in self._drawn.items() if index in visible}
        for index in visible:
            if self._drawn.get(index) != self._row(index):
                self.refresh_line(index)

    def _row(self, index: int) -> Row:
        if self._problem is not None:
            return ((self._problem, "bad"),) if index == 0 else ()
        try:
            return self.row_at(index)
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)
            return ((str(self._problem), "bad"),)

    def _fail(self, error: Exception) -> None:
        problem = f"the pane {self.NAME} cannot be drawn: {type(error).__name__}: {error}"
        if problem != self._problem:
            self._problem = problem
            self.post_message(self.Failed(problem))

    def _set_title(self, title: str) -> None:
        if title != self._title:
            self._title = title
            self._border_title = Content(drawable(title))  # setting `border_title` would draw the whole pane again
            self.refresh(Region(-self.content_offset.x, -self.content_offset.y, self.outer_size.width, 1))

    def _resize_to(self, count: int) -> None:
        """Scroll bars follow the count; the screen's layout does not depend on it and is left alone."""
        size = Size(self.row_width, count)
        if size != self.virtual_size:
            self.set_reactive(Widget.virtual_size, size)
            self._scroll_update(size)

    def _strip(self, row: Row, cells: int) -> Strip:
        palette, base = cast(HasPalette, self.app).palette, self.rich_style
        segments = [Segment(isolated(drawable(text)), base + palette[name]) for text, name in row]
        return Strip(segments).adjust_cell_length(cells, base)


class Band(Pane, can_focus=False):
    """Lines above or below, without a frame; subclasses say where they are docked and how high they are."""

    DEFAULT_CSS = "Band { position: relative; width: 100%; border: none; background: $surface; overflow-y: hidden; }"
