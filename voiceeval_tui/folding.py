"""Where each pane stands at a size of the terminal: one layout that folds, for the same panes.

Plain values in, plain values out. A pane that is not in the answer does not show; the `stage` is the pane that was switched to, where there
is room for one at a time only. May import the standard library. Rule: console page, "A picture of it".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NARROW, WIDE, HUGE = 70, 120, 170
"""Columns from which two panes stand side by side, from which the second column is stacked, from which there are three."""
LOW, TALL = 18, 36
"""Lines of the board from which strips show, and from which three columns are worth it."""


@dataclass(frozen=True)
class Box:
    """Cells, from the board's upper left."""

    x: int
    y: int
    width: int
    height: int


def fold(width: int, height: int, panes: Sequence[str], stage: str, *, zoomed: bool = False) -> dict[str, Box]:
    """The boxes of `panes` on a board. `stage` is among what shows, alone where `zoomed` or where there is room for one only."""
    have = set(panes)
    if width <= 0 or height <= 0:
        return {}
    if zoomed or width < NARROW or height < LOW - 4:
        return {stage: Box(0, 0, width, height)}
    right = stage if stage != "queue" else next((name for name in ("transcript", "log") if name in have), None)
    if width >= HUGE and height >= TALL:
        return _huge(width, height, have, stage)
    if width >= WIDE:
        return _wide(width, height, have, right)
    return _narrow(width, height, have, right)


def _narrow(width: int, height: int, have: set[str], right: str | None) -> dict[str, Box]:
    """Queue and stage side by side, strips under them."""
    strips = [(name, lines) for name, lines in (("latency", 2), ("trouble", 3)) if name in have and name != right and height >= LOW]
    if right is None and "queue" not in have:
        return _columns(width, height, [(0, strips)])
    top = height - sum(lines for _, lines in strips)
    boxes = _columns(width, top, [(width // 2 + 4, _queue(have)), (0, _one(right))])
    for name, lines in strips:
        boxes[name] = Box(0, top, width, lines)
        top += lines
    return boxes


def _wide(width: int, height: int, have: set[str], right: str | None) -> dict[str, Box]:
    """The queue at full height, the stage and the strips in the other column."""
    under = [(name, lines) for name, lines in (("lanes", 6), ("latency", 6), ("trouble", 6)) if name in have and name != right]
    while under and height - sum(lines for _, lines in under) < LOW - 8:
        under.pop(0)
    return _columns(width, height, [(max(50, width * 2 // 5), _queue(have)), (0, [*_one(right), *under])])


def _huge(width: int, height: int, have: set[str], stage: str) -> dict[str, Box]:
    """Three columns: queue; transcript and details; latency, lanes, trouble."""
    last = [(name, lines) for name, lines in (("latency", 0), ("lanes", 10), ("trouble", 0)) if name in have]
    usual = {"queue", "transcript", "details", *(name for name, _ in last)}
    top = stage if stage not in usual else "transcript" if "transcript" in have else None
    middle = [*_one(top), *([("details", height * 2 // 5)] if "details" in have else [])]
    if not middle and "log" in have:
        middle = [("log", 0)]
    return _columns(width, height, [(width // 3, _queue(have)), (0, middle), (min(60, width * 3 // 10), last)])


Stack = list[tuple[str, int]]
"""Panes from the top with the lines that each takes; those with 0 share what is left."""


def _queue(have: set[str]) -> Stack:
    return [("queue", 0)] if "queue" in have else []


def _one(name: str | None) -> Stack:
    return [(name, 0)] if name is not None else []


def _columns(width: int, height: int, wanted: list[tuple[int, Stack]]) -> dict[str, Box]:
    """Columns from the left; those with 0 cells take what is left, those without panes nothing, and no hole remains."""
    columns = [(cells, stack) for cells, stack in wanted if stack]
    rest = width - sum(cells for cells, _ in columns)
    if columns and all(cells for cells, _ in columns):
        columns[-1] = (columns[-1][0] + rest, columns[-1][1])
    boxes: dict[str, Box] = {}
    x = 0
    for cells, stack in columns:
        taken = cells or rest
        boxes |= _stack(x, taken, height, stack)
        x += taken
    return boxes


def _stack(x: int, width: int, height: int, stack: Stack) -> dict[str, Box]:
    if all(lines for _, lines in stack):
        stack = [*stack[:-1], (stack[-1][0], 0)]
    sharing = sum(lines == 0 for _, lines in stack)
    left = height - sum(lines for _, lines in stack)
    boxes, y = {}, 0
    for name, lines in stack:
        if lines == 0:
            lines = left // sharing
            left, sharing = left - lines, sharing - 1
        boxes[name] = Box(x, y, width, lines)
        y += lines
    return boxes
