"""A stretch of a conversation cut into cells: who speaks in each, where both do, who was interrupted, how long the agent let wait.

Plain values in, plain values out; times are s on the conversation's clock. Each kind of cell has a letter of its own, so that it is told
apart without colour and on terminals that have ASCII only. May import the standard library and `transcript`. Rule: console page, "Panes"
(talk lanes).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from voiceeval_engine.live.events import Side
from voiceeval_tui.transcript import Line, Speech

SPEAKS, PARTLY, BOTH, CUT, WAITS, SILENT, AHEAD = "█▄x!·─ "
"""At least half of the cell, less than half, with the other one, interrupted, before an answer, nothing, not yet."""

SCALES = (0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0)
"""s a cell may stand for."""
AT_LEAST_SECONDS = 60.0
"""In view, unless another scale is chosen."""
_FINEST = SCALES.index(0.5)
"""Finer only where it is chosen."""
_TICKS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600)
_TICK_CELLS = 8
_OVERLAP_SECONDS = 0.1
"""A shorter one is how the bots report, not talk."""


@dataclass(frozen=True)
class Stretch:
    """`cells` of `scale` s each, from `start`."""

    start: float
    scale: float
    cells: int

    @property
    def end(self) -> float:
        """The first moment after it."""
        return self.start + self.cells * self.scale

    def cell(self, at: float) -> int:
        """The cell of a moment, whether within or not."""
        return int((at - self.start) // self.scale)


@dataclass(frozen=True)
class Gap:
    """The silence before an agent's answer."""

    start: float
    end: float
    latency_ms: float


def gaps(lines: Iterable[Line]) -> list[Gap]:
    """Every measured latency where it happened."""
    return [
        Gap(max(0.0, line.at - line.latency_ms / 1000), line.at, line.latency_ms)
        for line in lines
        if line.kind == "turn" and line.latency_ms is not None
    ]


def lanes(
    stretch: Stretch,
    speech: Iterable[Speech],
    interruptions: Iterable[tuple[Side, float]],
    waits: Iterable[Gap],
    now: float,
) -> dict[Side, str]:
    """Each side's letters. Speech that goes on lasts until `now`; after that nothing is known."""
    spans: dict[Side, list[tuple[float, float]]] = {"agent": [], "user": []}
    for each in speech:
        end = now if each.end is None else each.end
        if end > stretch.start and each.start < stretch.end:
            spans[each.side].append((max(each.start, stretch.start), min(end, stretch.end)))
    known = min(stretch.cells, max(0, stretch.cell(now) + 1))
    both = _overlaps(stretch, spans["agent"], spans["user"])
    cells = {side: _lane(stretch, spans[side], known) for side in spans}
    for wait in waits:
        for place in _within(stretch, wait.start, wait.end):
            if cells["agent"][place] == SILENT:
                cells["agent"][place] = WAITS
    for place in both:
        cells["agent"][place] = cells["user"][place] = BOTH
    for side, at in interruptions:
        if 0 <= (place := stretch.cell(at)) < stretch.cells:
            cells[side][place] = CUT
    return {side: "".join(letters) for side, letters in cells.items()}


def best_scale(cells: int) -> int:
    """The place in SCALES of the finest one that has a minute in view."""
    places = range(_FINEST, len(SCALES))
    return next((place for place in places if cells * SCALES[place] >= AT_LEAST_SECONDS), places[-1])


def ticks(stretch: Stretch) -> list[tuple[int, int]]:
    """Cells that a time is written at, and the time, whole s."""
    step = next((each for each in _TICKS if each >= _TICK_CELLS * stretch.scale), _TICKS[-1])
    first = -int(-stretch.start // step)
    found = []
    for number in range(first, int(stretch.end // step) + 1):
        place = round((number * step - stretch.start) / stretch.scale)
        if 0 <= place < stretch.cells:
            found.append((place, number * step))
    return found


def newest(end: float, scale: float, cells: int, step: int) -> float:
    """Where a stretch of `cells` begins that shows `end`; it moves on by whole steps of `step` cells."""
    size = step * scale
    return max(0.0, (int(end // size) + 1) * size - cells * scale)


def _lane(stretch: Stretch, spans: Sequence[tuple[float, float]], known: int) -> list[str]:
    spoken = [0.0] * stretch.cells
    for start, end in spans:
        for place in _within(stretch, start, end):
            left = stretch.start + place * stretch.scale
            spoken[place] += min(end, left + stretch.scale) - max(start, left)
    half = stretch.scale / 2
    return [
        SPEAKS if seconds >= half - 1e-9 else PARTLY if seconds > 0 else SILENT if place < known else AHEAD
        for place, seconds in enumerate(spoken)
    ]


def _overlaps(stretch: Stretch, agent: Sequence[tuple[float, float]], user: Sequence[tuple[float, float]]) -> set[int]:
    agent, user = sorted(agent), sorted(user)
    found: set[int] = set()
    first = second = 0
    while first < len(agent) and second < len(user):
        start, end = max(agent[first][0], user[second][0]), min(agent[first][1], user[second][1])
        if end - start >= _OVERLAP_SECONDS:
            found.update(_within(stretch, start, end))
        if agent[first][1] < user[second][1]:
            first += 1
        else:
            second += 1
    return found


def _within(stretch: Stretch, start: float, end: float) -> range:
    """The cells that a span touches."""
    last = stretch.cell(end)
    if end <= stretch.start + last * stretch.scale:
        last -= 1
    return range(max(0, stretch.cell(start)), min(stretch.cells, last + 1))
