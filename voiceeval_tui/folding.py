"""Where each pane stands at a size of the terminal: one layout that folds, for the same panes.

Plain values in, plain values out. A pane that is not in the answer does not show; the `stage` is the pane that was switched to, where there
is room for one at a time only. May import the standard library. Rule: console page, "A picture of it".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
    right = stage if stage != "queue" else _first(have, "transcript", "log")
    if width >= HUGE and height >= TALL:
        return _huge(width, height, have, stage)
    if width >= WIDE:
        return _wide(width, height, have, right)
    return _narrow(width, height, have, right)


def _narrow(width: int, height: int, have: Collection[str], right: str | None) -> dict[str, Box]:
    """Queue and stage side by side, strips under them."""
    strips = [(name, lines) for name, lines in (("latency", 2), ("trouble", 3)) if name in have and name != right and height >= LOW]
    top = height - sum(lines for _, lines in strips)
    boxes = _side_by_side(width, top, "queue" if "queue" in have else None, right, width // 2)
    for name, lines in strips:
        boxes[name] = Box(0, top, width, lines)
        top += lines
    return boxes


def _wide(width: int, height: int, have: Collection[str], right: str | None) -> dict[str, Box]:
    """The queue at full height, the stage and the strips in the other column."""
    split = max(50, width * 2 // 5) if "queue" in have else 0
    boxes = {"queue": Box(0, 0, split, height)} if split else {}
    under = [(name, lines) for name, lines in (("lanes", 6), ("latency", 6), ("trouble", 6)) if name in have and name != right]
    while under and height - sum(lines for _, lines in under) < 10:
        under.pop(0)
    return boxes | _stack(split, width - split, height, [(right, 0), *under])


def _huge(width: int, height: int, have: set[str], stage: str) -> dict[str, Box]:
    """Three columns: queue; transcript and details; latency, lanes, trouble."""
    last = [(name, lines) for name, lines in (("latency", 0), ("lanes", 10), ("trouble", 0)) if name in have]
    shown = {"queue", "transcript", "details", *(name for name, _ in last)}
    middle = [(stage, 0)] if stage in have - shown else [("transcript", 0)] if "transcript" in have else []
    middle += [("details", height * 2 // 5)] if "details" in have else []
    if not middle and (other := _first(have, "log")):
        middle = [(other, 0)]
    split = width // 3 if "queue" in have else 0
    side = min(60, width * 3 // 10) if last else 0
    boxes = {"queue": Box(0, 0, split, height)} if split else {}
    boxes |= _stack(split, width - split - side, height, middle)
    return boxes | _stack(width - side, side, height, last)


def _side_by_side(width: int, height: int, left: str | None, right: str | None, split: int) -> dict[str, Box]:
    if left is None or right is None:
        alone = left or right
        return {alone: Box(0, 0, width, height)} if alone else {}
    return {left: Box(0, 0, split, height), right: Box(split, 0, width - split, height)}


def _stack(x: int, width: int, height: int, wanted: Sequence[tuple[str | None, int]]) -> dict[str, Box]:
    """A column; who asks for 0 lines shares what the others leave."""
    column = [(name, lines) for name, lines in wanted if name is not None]
    sharing = sum(lines == 0 for _, lines in column)
    left = height - sum(lines for _, lines in column)
    boxes, y = {}, 0
    for name, lines in column:
        if lines == 0:
            lines = left // sharing
            left, sharing = left - lines, sharing - 1
        boxes[name] = Box(x, y, width, lines)
        y += lines
    return boxes


def _first(have: Collection[str], *names: str) -> str | None:
    return next((name for name in names if name in have), None)
