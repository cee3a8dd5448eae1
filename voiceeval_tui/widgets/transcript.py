"""The live transcript: what is said, by whom, how late; what is done besides; and who speaks now.

Follows the newest unless it was scrolled back; then what stands on its first line stays there, whatever comes, goes or is wrapped anew.
Rule: console page, "Panes" (live transcript).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.binding import BindingType

from voiceeval_tui.cells import drawable, fit, short_name, width, wrap
from voiceeval_tui.figures import milliseconds
from voiceeval_tui.standing import broke_off, clock, elapsed, goes_on, idle, why_empty
from voiceeval_tui.themes import StyleName
from voiceeval_tui.transcript import Line, Transcript
from voiceeval_tui.view import View
from voiceeval_tui.widgets.pane import Pane, Row
from voiceeval_tui.widgets.queue import failed_words, standing

PAUSED = "paused, End follows"
"""In the title of a pane that does not follow what goes on."""

_TIME_CELLS, _SIDE_CELLS, _LATENCY_CELLS = 5, 6, 8
_HEAD_CELLS = _TIME_CELLS + 1 + _SIDE_CELLS
_LEAST_TEXT_CELLS = 16
"""Where the text would have less, its further rows begin at the left."""
_MOST_ROWS = 250
_STEPS = 5
"""Into how many steps the height of a live one is divided, by which it scrolls."""
_LIVE_CHARS = 4000
"""Of words that no turn settles, the last ones are shown."""
_MEASURED = 4
"""Latencies from which a slow one can be told."""


class TranscriptPane(Pane):
    """The last line stays where it is: who speaks now, or how it ended."""

    DEFAULT_CSS = "TranscriptPane { scrollbar-gutter: stable; }"
    NAME = "transcript"
    TITLE = "transcript"
    AREAS = frozenset({"transcript", "selection", "queue", "run", "clock", "link"})
    BINDINGS: ClassVar[list[BindingType]] = [("k", "scroll_up"), ("j", "scroll_down")]

    def __init__(self) -> None:
        super().__init__()
        self.following = True
        self._lines: Sequence[Line] = ()
        self._starts: list[int] = []
        """The row at which each line begins."""
        self._made: dict[tuple[Line, bool], list[Row]] = {}
        self._made_for = 0
        self._status: Row = ()
        self._what: tuple[str | None, int] = (None, 0)
        self._anchor: tuple[Line, int] | None = None
        """While it does not follow: the line at the top, and which of its rows."""
        self._placing = False
        self._pushed = 0
        """How far a live one is scrolled at its end."""

    def heading(self, view: View) -> str:
        """As `Pane`: the scenario, its attempt, how long it has talked of how long it may."""
        scenario = view.scenario()
        if scenario is None:
            return self.TITLE
        taken, transcript = elapsed(view), view.transcript(view.shown)
        limit = transcript.max_duration if transcript is not None else 0.0
        times = "" if taken is None else clock(taken) + (f" / {clock(limit)}" if limit and goes_on(view) else "")
        last = times if self.following else PAUSED if goes_on(view) else "scrolled back"
        number = f"attempt {scenario.attempt}" if scenario.attempt else ""
        parts = [drawable(scenario.name), number, last]
        room = self.outer_size.width - 6
        if sum(width(part) + 2 for part in parts if part) - 2 > room:
            parts[1] = f"#{scenario.attempt}" if scenario.attempt > 1 else ""
        if (over := sum(width(part) + 2 for part in parts if part) - 2 - room) > 0:
            cells = max(8, width(parts[0]) - over)
            parts[0] = fit(short_name(parts[0], cells), cells).rstrip()
        return "  ".join(part for part in parts if part)

    def collect(self) -> int:
        """As `Pane`. What was wrapped already is taken again."""
        view, cells = self.view, self.row_width
        transcript = view.transcript(view.shown)
        lines = transcript.lines if transcript is not None else []
        known = self._made if self._made_for == cells else {}
        slow = slow_from(lines)
        self._made, self._made_for, self._lines, self._starts = {}, cells, lines, []
        rows: list[Row] = []
        if transcript is not None and transcript.dropped:
            rows.append(((f"{transcript.dropped} earlier lines are in the files only", "dim"),))
        for line in lines:
            key = (line, line.latency_ms is not None and line.latency_ms > slow)
            made = known.get(key) or line_rows(line, cells, slow=key[1])
            self._made[key] = made
            self._starts.append(len(rows))
            rows += made
        if not lines:
            rows += [((part, "dim"),) for part in wrap(why_empty(view), cells)]
        self._rows = rows
        self._status = status_row(view, cells)
        return self._pushed_on(len(rows) + 1, anew=not known)

    def row_at(self, index: int) -> Row:
        """As `Pane`; the last line that shows is not scrolled."""
        height = self.scrollable_content_region.height
        if index == self.scroll_offset.y + height - 1 and height > 1:
            return self._status
        return super().row_at(index)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Whoever scrolls back stays there; at the end it follows again."""
        super().watch_scroll_y(old_value, new_value)
        if not self._placing:
            self.following = new_value >= self.max_scroll_y
            self._anchor = None if self.following else self._top()
            self._set_title(self.heading(self.view))

    def _pushed_on(self, count: int, *, anew: bool) -> int:
        """The rows with empty ones for what comes: each scrolling draws the whole pane, so a live one scrolls by several rows."""
        height = self.scrollable_content_region.height
        over, step = count - height, height // _STEPS
        if over <= 0 or step < 2 or not goes_on(self.view):
            self._pushed = 0
            return count
        if anew or not over <= self._pushed <= over + 2 * step:
            self._pushed = -(-over // step) * step
        return self._pushed + height

    def _update(self) -> None:
        """As `Pane`. Another text is followed, wherever the one before was scrolled to."""
        transcript = self.view.transcript(self.view.shown)
        what = (self.view.shown, transcript.attempt if transcript is not None else 0)
        if what != self._what:
            self._what, self.following, self._anchor = what, True, None
        super()._update()

    def _top(self) -> tuple[Line, int] | None:
        top = self.scroll_offset.y
        for line, start in zip(reversed(self._lines), reversed(self._starts), strict=True):
            if start <= top:
                return (line, top - start)
        return (self._lines[0], 0) if self._lines else None

    def _resize_to(self, count: int) -> None:
        """As `Pane`, and go to where it belongs."""
        self._placing = True
        try:
            super()._resize_to(count)
            place = self.max_scroll_y if self.following else self._anchor_row()
            if place != self.scroll_offset.y:
                self.scroll_to(y=place, animate=False, immediate=True)
        finally:
            self._placing = False

    def _anchor_row(self) -> int:
        """The row of the anchor; of what came after it where it is gone."""
        if self._anchor is None:
            return self.scroll_offset.y
        wanted, row = self._anchor
        ends = [*self._starts[1:], len(self._rows)]
        for line, start, end in zip(self._lines, self._starts, ends, strict=True):
            if line == wanted:
                return min(start + row, end - 1)
        return next((start for line, start in zip(self._lines, self._starts, strict=True) if line.at >= wanted.at), 0)


def line_rows(line: Line, cells: int, *, slow: bool = False) -> list[Row]:
    """One line as the rows it takes, its text under itself."""
    text, style = _told(line)
    latency = "" if line.latency_ms is None else milliseconds(line.latency_ms)
    first = max(1, cells - _HEAD_CELLS - (_LATENCY_CELLS if latency else 0))
    indent = _HEAD_CELLS if cells >= _HEAD_CELLS + _LEAST_TEXT_CELLS else 2
    parts = wrap(text, max(1, cells - indent), _MOST_ROWS, first)
    head: Row = ((f"{fit(clock(line.at), _TIME_CELLS, 'right')} ", "dim"), (fit(line.side, _SIDE_CELLS), line.side))
    rows: list[Row] = [(*head, (fit(parts[0], first), style))]
    if latency:
        rows[0] = (*rows[0], (fit(latency, _LATENCY_CELLS, "right"), "warn" if slow else "dim"))
    rows += [((" " * indent + fit(part, cells - indent), style),) for part in parts[1:]]
    return rows


def slow_from(lines: Iterable[Line]) -> float:
    """The latency, ms, above which a turn of this conversation is slow: twice the usual one. Infinite while none is usual."""
    measured = sorted(line.latency_ms for line in lines if line.latency_ms is not None)
    return 2 * measured[len(measured) // 2] if len(measured) >= _MEASURED else float("inf")


def status_row(view: View, cells: int) -> Row:
    """Who speaks now and how long nothing has come, or how the scenario stands."""
    scenario, transcript = view.scenario(), view.transcript(view.shown)
    if scenario is None:
        return ()
    if scenario.status == "talking" and transcript is not None and goes_on(view):
        return _live_row(view, transcript, cells)
    mark, word, style = standing(view, scenario)
    told = [f"{mark} {word}".strip()]
    if broke_off(view, scenario):
        told.append(f"{scenario.status} when the run broke off")
    elif scenario.status == "not run":
        told.append(scenario.reason or "")
    elif scenario.status not in ("queued", "setting up", "retrying"):
        taken = elapsed(view)
        ended = "" if taken is None else f"after {clock(taken)}"
        told.append(" ".join(filter(None, (scenario.stop_reason, ended))))
        told.append(failed_words(scenario))
    return ((fit("  ".join(filter(None, told)), cells), style),)


def _live_row(view: View, transcript: Transcript, cells: int) -> Row:
    """The idle time moves once a second, and stands at 0 while someone speaks."""
    sides = sorted(transcript.speaking)
    who = "both speaking" if len(sides) > 1 else f"{sides[0]} speaking" if sides else "nobody speaks"
    silent, limit = idle(view, transcript), view.run.inactivity_timeout
    clocks = f"idle {silent} / {limit:g} s"
    mark: StyleName = "warn" if len(sides) > 1 else sides[0] if sides else "dim"
    return (
        (fit(f"{'*' if sides else '-'} {who}", cells - len(clocks)), mark),
        (clocks, "warn" if limit and silent > limit / 2 else "dim"),
    )


def _told(line: Line) -> tuple[str, StyleName]:
    match line.kind:
        case "words":
            over = len(line.text) - _LIVE_CHARS
            text = line.text if over <= 0 else "…" + line.text[(over // 1000 + 1) * 1000 :]
            return f"{text} …", "dim"
        case "tool":
            return f"[tool] {line.text}", "accent"
        case "interruption":
            return "! interrupted", "warn"
        case _:
            return line.text, "text"
