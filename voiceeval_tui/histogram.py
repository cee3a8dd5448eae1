"""How often which latency was measured, as lines of text: plotext's drawing without its escapes.

Plain values in, plain values out, but for plotext, which keeps one figure for the process and is imported when something is drawn, because
that takes a tenth of a second. May import plotext. Rule: console page, "Panes" (latency).
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_ESCAPE = re.compile("\x1b\\[[0-9;]*m")
_CELLS_A_BAR, _LEAST_BARS, _MOST_BARS = 2, 8, 40
_LEAST_STEP = 10
"""ms; what is finer says nothing about a bot."""
_CELLS_A_TICK = 9
_TAIL = 0.99
"""Of all values; those above would leave the others no room and share the last bar."""


@dataclass(frozen=True)
class Bins:
    """`counts` of values from `first` on, each bar `step` ms wide; `open_ended` where the last one holds all that are longer too."""

    first: int
    step: int
    counts: tuple[int, ...]
    open_ended: bool

    @property
    def label(self) -> str:
        """What the axes are."""
        last = self.first + self.step * (len(self.counts) - 1)
        return f"by ms, {self.step} ms a bar" + (f", last {last}+" if self.open_ended else "")


def count_bins(ordered: Sequence[float], most: int) -> Bins | None:
    """Sorted values in at most `most` bars of a round width; None where there are no values that can be drawn."""
    ordered = [value for value in ordered if math.isfinite(value)]
    if not ordered:
        return None
    low, high = ordered[0], ordered[min(int(len(ordered) * _TAIL), len(ordered) - 1)]
    step = max(_LEAST_STEP, _round_up((high - low) / most))
    first = math.floor(low / step) * step
    number = min(most, max(_LEAST_BARS, math.floor((high - first) / step) + 1))
    edges = [bisect_left(ordered, first + step * place) for place in range(number)] + [len(ordered)]
    counts = tuple(after - before for before, after in pairwise(edges))
    return Bins(first, step, counts, ordered[-1] >= first + step * number)


def bars_for(width: int) -> int:
    """How many bars have room in `width` cells."""
    return max(_LEAST_BARS, min(_MOST_BARS, (width - 6) // _CELLS_A_BAR))


def draw(bins: Bins, width: int, height: int) -> list[str]:
    """Exactly `height` lines of at most `width` cells: bars, the axis and its labels in ms."""
    import plotext

    number, top = len(bins.counts), max(1, *bins.counts)
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limit_size(False, False)
    plotext.plotsize(width, height)
    plotext.bar(list(range(number)), list(bins.counts), width=1, marker="█")
    plotext.xlim(-0.5, number - 0.5)
    plotext.ylim(0, top)
    plotext.xaxes(True, False)
    plotext.yaxes(True, False)
    ticks = range(0, number, max(1, math.ceil(number * _CELLS_A_TICK / max(1, width - 6))))
    plotext.xticks([place - 0.5 for place in ticks], [str(bins.first + bins.step * place) for place in ticks])
    plotext.yticks([0, top], ["0", str(top)])
    lines = [_ESCAPE.sub("", line).rstrip() for line in plotext.build().split("\n")][:height]
    plotext.clear_figure()
    return lines + [""] * (height - len(lines))


def _round_up(value: float) -> int:
    """The next of 1, 2, 5, 10, 20, 50 and so on."""
    scale = 1
    while True:
        for factor in (1, 2, 5):
            if factor * scale >= value:
                return factor * scale
        scale *= 10
