"""Talk lanes: agent and user beside each other in time, as many bands of it as find room, the newest at the bottom.

A live one follows in steps, so that only the cells at its end change; scrolled back, it stays where it is. Moves at most once a second.
Rule: console page, "Panes" (talk lanes), "Budgets".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import ClassVar

from textual import events
from textual.binding import BindingType

from voiceeval_engine.live.events import Side
from voiceeval_tui import tape
from voiceeval_tui.cells import fit, short_name, wrap
from voiceeval_tui.figures import milliseconds
from voiceeval_tui.standing import clock, elapsed, goes_on, why_empty
from voiceeval_tui.tape import Stretch
from voiceeval_tui.themes import StyleName
from voiceeval_tui.transcript import Transcript
from voiceeval_tui.view import Area, View
from voiceeval_tui.widgets.pane import Pane, Row, Span
from voiceeval_tui.widgets.transcript import PAUSED, slow_from

_NAME_CELLS = 6
_BAND_ROWS = 4
"""Agent, latencies, user, axis. Where there is less, the latencies go first, then the axis."""
_STEPS = 8
"""Into how many steps the one band of a live conversation is divided."""
_LEGEND = (
    f"{tape.SPEAKS} speaks", f"{tape.PARTLY} in part", f"{tape.BOTH} both", f"{tape.CUT} interrupted", f"{tape.WAITS} waits",
)  # fmt: skip
_STYLES: dict[str, StyleName] = {
    tape.BOTH: "warn", tape.CUT: "bad", tape.WAITS: "dim", tape.SILENT: "dim", tape.AHEAD: "dim",
}  # fmt: skip


class LanesPane(Pane):
    """`start` is the moment at its left while it does not follow."""

    DEFAULT_CSS = "LanesPane { overflow-y: hidden; }"
    NAME = "lanes"
    TITLE = "lanes"
    AREAS = frozenset({"selection", "clock", "link"})
    BINDINGS: ClassVar[list[BindingType]] = [
        ("left,h", "move(-0.25)"),
        ("right,l", "move(0.25)"),
        ("pageup", "move(-1)"),
        ("pagedown", "move(1)"),
        ("home", "begin"),
        ("end", "follow"),
        ("plus,equals_sign", "scale(-1)"),
        ("minus", "scale(1)"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.start: float | None = None
        self._coarser = 0
        """Steps in the scales from the one that fits best."""
        self._what: tuple[str | None, int] = (None, 0)

    def show(self, view: View, areas: Iterable[Area]) -> None:
        """As `Pane`. Words count at once where no clock runs."""
        if "transcript" in areas and (view.shown != self._what[0] or not goes_on(view)):
            areas = {*areas, "selection"}
        super().show(view, areas)

    def heading(self, view: View) -> str:
        scenario = view.scenario()
        if scenario is None:
            return self.TITLE
        paused = (PAUSED if goes_on(view) else "scrolled back") if self.start is not None else ""
        scale = f"{tape.SCALES[self._scale()]:g} s a cell"
        room = self.outer_size.width - 6 - sum(len(part) + 2 for part in (self.TITLE, paused, scale) if part)
        name = fit(short_name(scenario.name, room), room).rstrip() if room >= 8 else ""
        return "  ".join(part for part in (self.TITLE, name, paused or scale) if part)

    def rows(self, view: View, width: int) -> Sequence[Row]:
        transcript = view.transcript(view.shown)
        height = self.scrollable_content_region.height
        if transcript is None or not (transcript.speech or transcript.started is not None):
            why = why_empty(view) if transcript is None or not transcript.settled else "When who spoke is not known."
            return [((part, "dim"),) for part in wrap(why, width, max(1, height))]
        return lane_rows(transcript, self._stretch(), self._room()[1], height, self._end())

    def action_move(self, by: float) -> None:
        """Earlier or later, by this part of what is in view."""
        stretch, last = self._stretch(), self._newest()
        step = max(1, round(abs(by) * stretch.cells)) * stretch.scale
        start = max(0.0, stretch.start + (step if by > 0 else -step))
        self._go(None if start >= last else start)

    def action_begin(self) -> None:
        self._go(0.0 if self._newest() > 0 else None)

    def action_follow(self) -> None:
        """To the newest, and stay there."""
        self._go(None)

    def action_scale(self, by: int) -> None:
        """Finer or coarser; what is in view stays in view."""
        now = self._scale()
        self._coarser += max(0, min(len(tape.SCALES) - 1, now + by)) - now
        if self.start is not None and self.start >= self._newest():
            self.start = None
        self.redraw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.action_move(-0.25)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.action_move(0.25)

    def _update(self) -> None:
        """As `Pane`. Another conversation is followed, wherever the one before was scrolled to."""
        transcript = self.view.transcript(self.view.shown)
        what = (self.view.shown, transcript.attempt if transcript is not None else 0)
        if what != self._what:
            self._what, self.start = what, None
        super()._update()

    def _go(self, start: float | None) -> None:
        self.start = start
        self.redraw()

    def _room(self) -> tuple[int, int]:
        """The cells of a band, and how many bands there are."""
        return max(1, self.row_width - _NAME_CELLS), max(1, self.scrollable_content_region.height // _BAND_ROWS)

    def _scale(self) -> int:
        cells, bands = self._room()
        return max(0, min(len(tape.SCALES) - 1, tape.best_scale(cells * bands) + self._coarser))

    def _end(self) -> float:
        """The newest moment there is to show."""
        transcript = self.view.transcript(self.view.shown)
        last = transcript.last_at if transcript is not None else 0.0
        return max(last, elapsed(self.view) or 0.0) if goes_on(self.view) else last

    def _newest(self) -> float:
        """Where the view begins while it follows: one band moves on by parts of itself, the last of several fills."""
        cells, bands = self._room()
        step = cells if bands > 1 else max(1, cells // _STEPS)
        return tape.newest(self._end(), tape.SCALES[self._scale()], cells * bands, step)

    def _stretch(self) -> Stretch:
        """All that is in view, in one."""
        cells, bands = self._room()
        return Stretch(self._newest() if self.start is None else self.start, tape.SCALES[self._scale()], cells * bands)


def lane_rows(transcript: Transcript, stretch: Stretch, bands: int, height: int, now: float) -> list[Row]:
    """The stretch in as many bands, with what else has room in `height` rows."""
    waits = tape.gaps(transcript.settled)
    letters = tape.lanes(stretch, transcript.speech, transcript.interruptions, waits, now)
    slow = slow_from(transcript.settled)
    cells = stretch.cells // bands
    rows: list[Row] = []
    for band in range(bands):
        part = Stretch(stretch.start + band * cells * stretch.scale, stretch.scale, cells)
        if band and part.start > now:
            break
        agent, user = (letters[side][band * cells : (band + 1) * cells] for side in ("agent", "user"))
        notes: list[tuple[int, str, StyleName]] = [
            (part.cell(wait.start), milliseconds(wait.latency_ms), "warn" if wait.latency_ms > slow else "dim") for wait in waits
        ]
        if height >= _BAND_ROWS:
            lanes = [_lane("agent", agent), _noted("", " " * cells, notes), _lane("user", user)]
        else:
            lanes = [_lane("agent", agent, notes), _lane("user", user)]
        if height >= 3:
            times: list[tuple[int, str, StyleName]] = [(place, f"│{clock(at)}", "dim") for place, at in tape.ticks(part)]
            lanes.append(_noted("", " " * cells, times))
        rows += lanes[:height]
    if height > bands * _BAND_ROWS:
        rows += [((line, "dim"),) for line in _legend(_NAME_CELLS + cells)[: height - bands * _BAND_ROWS]]
    return rows


def _legend(cells: int) -> list[str]:
    """What the letters mean, none of it torn apart."""
    lines = [_LEGEND[0]]
    for part in _LEGEND[1:]:
        if len(lines[-1]) + 2 + len(part) <= cells:
            lines[-1] += f"  {part}"
        else:
            lines.append(part)
    return lines


def _lane(side: Side, letters: str, notes: Sequence[tuple[int, str, StyleName]] = ()) -> Row:
    spans: list[Span] = [(fit(side, _NAME_CELLS), side)]
    written = _written(letters, [note for note in notes if set(letters[max(0, note[0]) :][: len(note[1])]) == {tape.WAITS}])
    return (*spans, *_grouped([(letter, style or _STYLES.get(letter, side)) for letter, style in written]))


def _noted(name: str, letters: str, notes: Sequence[tuple[int, str, StyleName]]) -> Row:
    return ((fit(name, _NAME_CELLS), "dim"), *_grouped([(letter, style or "dim") for letter, style in _written(letters, notes)]))


def _written(letters: str, notes: Sequence[tuple[int, str, StyleName]]) -> list[tuple[str, StyleName | None]]:
    """Notes put where they belong, left out where they have no room or would touch the one before."""
    cells: list[tuple[str, StyleName | None]] = [(letter, None) for letter in letters]
    free = 0
    for place, text, style in sorted(notes):
        if place < free or place + len(text) > len(cells):
            continue
        cells[place : place + len(text)] = [(letter, style) for letter in text]
        free = place + len(text) + 1
    return cells


def _grouped(cells: Iterable[tuple[str, StyleName]]) -> list[Span]:
    """As few spans as there are changes of style."""
    return [("".join(letter for letter, _ in group), style) for style, group in groupby(cells, key=lambda cell: cell[1])]
