"""How long the agent takes to answer: the last measurements as bars, the figures of the run and of the shown scenario, the histogram.

One pane that shows what its height has room for, from one line on. A bar is one response, in the order of their happening; its scale ends
at twice the run's median, and what is longer is marked. Rule: console page, "Panes" (latency).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import groupby

from voiceeval_engine.live.state import at_share
from voiceeval_tui.cells import fit, short_name
from voiceeval_tui.histogram import bars_for, count_bins, draw
from voiceeval_tui.themes import StyleName
from voiceeval_tui.view import View
from voiceeval_tui.widgets.pane import Pane, Row

BARS = "▁▂▃▄▅▆▇█"
OVERLONG = "!"
_FIGURE_ROWS = 4
"""Bars, and a table of a heading and two rows."""
_LEAST_PLOT = 4
_PAUSE = 1.0
"""s between two drawings of the histogram."""
_LEAST_WAIT = 0.02
"""s; Textual divides by a timer's time."""
_NARROW = 50


class LatencyPane(Pane):
    """The histogram comes after the first drawing, then at most once a second and only with other values."""

    NAME = "latency"
    TITLE = f"latency in ms   {OVERLONG} over twice the p50"
    AREAS = frozenset({"latency", "selection"})

    def __init__(self) -> None:
        super().__init__()
        self._plot: Sequence[Row] = ()
        self._plotted: tuple[int, int, int] | None = None
        """The version of the measurements, width and height that `_plot` is of."""
        self._plotted_at = -math.inf
        self._waiting = self._due = False

    def rows(self, view: View, width: int) -> Sequence[Row]:
        height = self.size.height
        if not view.measured.ordered:
            return ((("nothing measured yet", "dim"),),)
        if height <= 1:
            return (one_line(view, width),)
        bars = sparkline(view.measured.last(width), view.measured.percentile(0.5) or 0.0)
        if height <= 3:
            return (bars, (("run  ", "title"), *figures(view)), *_of_scenario(view))[:height]
        under = height - _FIGURE_ROWS
        return (bars, *table(view, width), *(self._histogram(view, width, under) if under >= _LEAST_PLOT else ()))

    def _histogram(self, view: View, width: int, height: int) -> Sequence[Row]:
        """What was drawn last; where that is behind and a drawing is not due, one is asked for: at once for another size."""
        wanted = (view.measured.version, width, height)
        fits = self._plotted is not None and self._plotted[1:] == wanted[1:]
        if self._due and wanted != self._plotted:
            self._plot, self._plotted, self._plotted_at = histogram(view.measured.ordered, width, height), wanted, time.monotonic()
            fits = True
        elif not fits:
            self.call_after_refresh(self._draw_now)
        elif wanted != self._plotted and not self._waiting:
            self._waiting = True
            self.set_timer(max(_LEAST_WAIT, self._plotted_at + _PAUSE - time.monotonic()), self._draw_now)
        self._due = False
        return self._plot if fits else ()

    def _draw_now(self) -> None:
        self._waiting, self._due = False, True
        self.redraw()


def one_line(view: View, width: int) -> Row:
    """Bars and the run's figures in one line; the figures go first where there is room for one only."""
    told = figures(view)
    cells = width - sum(len(text) for text, _ in told) - 2
    if cells < 8:
        return told
    bars = sparkline(view.measured.last(cells), view.measured.percentile(0.5) or 0.0)
    blank = cells - sum(len(text) for text, _ in bars) + 2
    return (*bars, (" " * blank, "text"), *told)


def figures(view: View) -> Row:
    """The run's: `last 812  p50 790  p95 1904  n 411`."""
    measured = view.measured
    last = measured.last(1)
    p50, p95 = measured.percentile(0.5), measured.percentile(0.95)
    return (
        ("last ", "dim"), (_ms(last[-1] if last else None), "text"), ("  p50 ", "dim"), (_ms(p50), "strong"),
        ("  p95 ", "dim"), (_ms(p95), "strong"), ("  n ", "dim"), (str(len(measured.ordered)), "text"),
    )  # fmt: skip


def table(view: View, width: int) -> Sequence[Row]:
    """A heading, the run's figures, and those of the scenario that is shown."""
    shown = view.scenario()
    column = 6 if width < _NARROW else 7
    names = width - 4 * column
    heading = "".join(fit(word, column, "right") for word in ("n", "p50", "p95", "max"))
    return (
        ((" " * max(0, names) + heading, "dim"),),
        _table_row("run", view.measured.ordered, names, column),
        _table_row(shown.name, sorted(shown.latencies), names, column) if shown is not None else (),
    )


def sparkline(values: Sequence[float], p50: float) -> Row:
    """One bar a value."""
    marks = [(_bar(value, 2 * p50), value > 2 * p50) for value in values]
    styles: dict[bool, StyleName] = {False: "agent", True: "warn"}
    return tuple(("".join(mark for mark, _ in run), styles[over]) for over, run in groupby(marks, key=lambda mark: mark[1]))


def histogram(ordered: Sequence[float], width: int, height: int) -> Sequence[Row]:
    """What it shows in words, then the drawing, `height` rows in all."""
    bins = count_bins(ordered, bars_for(width))
    if bins is None:
        return ()
    return ((("", "text"),), ((bins.label, "dim"),), *map(_plot_row, draw(bins, width, height - 2)))


def _plot_row(line: str) -> Row:
    """Bars in one style, axes and their labels in another."""
    runs = groupby(line, key=lambda each: each == "█")
    return tuple(("".join(run), "agent" if bar else "dim") for bar, run in runs)


def _of_scenario(view: View) -> Sequence[Row]:
    shown = view.scenario()
    if shown is None:
        return ()
    ordered = sorted(shown.latencies)
    p50, p95 = at_share(ordered, 0.5), at_share(ordered, 0.95)
    return (((f"{shown.name}  ", "title"), (f"p50 {_ms(p50)}  p95 {_ms(p95)}  n {len(ordered)}", "text")),)


def _table_row(name: str, ordered: Sequence[float], names: int, column: int) -> Row:
    values = (str(len(ordered)), _ms(at_share(ordered, 0.5)), _ms(at_share(ordered, 0.95)), _ms(ordered[-1] if ordered else None))
    told = fit(short_name(name, max(0, names - 1)), max(0, names))
    return ((told, "title"), ("".join(fit(value, column, "right") for value in values), "text"))


def _bar(value: float, top: float) -> str:
    if value > top or not math.isfinite(value):
        return OVERLONG
    return BARS[max(0, min(len(BARS) - 1, round(value / top * len(BARS))))] if top > 0 else BARS[0]


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
