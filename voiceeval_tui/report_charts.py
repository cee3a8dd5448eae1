"""The charts of an HTML report as inline SVG: a rate as a bar with the whiskers of its interval, latencies as a histogram.

Colours come from the page's classes, so that light and dark both hold. May import `markup` and `histogram`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from voiceeval_engine.session.report import MeasuredRate
from voiceeval_tui.histogram import count_bins
from voiceeval_tui.markup import Html, tag

_BARS, _WIDTH, _HEIGHT = 40, 720, 220
_LEFT, _TOP, _BOTTOM = 36, 22, 40
"""Room for the labels around the histogram's bars, in units of the drawing."""


def rate_bar(rate: MeasuredRate) -> Html:
    """A bar as wide as its place: the rate filled, a line from one end of the interval to the other."""
    low, high = _percent(rate.low), _percent(rate.high)
    whiskers = [
        tag("line", class_="whisker", x1=x1, x2=x2, y1=y1, y2=y2)
        for x1, x2, y1, y2 in ((low, high, "50%", "50%"), (low, low, "20%", "80%"), (high, high, "20%", "80%"))
    ]
    return tag(
        "svg",
        tag("rect", class_="track", width="100%", height="100%", rx="3"),
        tag("rect", class_="fill", width=_percent(rate.k / rate.n), height="100%", rx="3"),
        *whiskers,
        class_="bar", role="img", aria_label=f"{100 * rate.k / rate.n:.1f} %, interval {100 * rate.low:.0f} to {100 * rate.high:.0f} %",
    )  # fmt: skip


def latency_histogram(latencies: Sequence[float], p50: float, p95: float) -> Html:
    """How often which latency (ms) was measured, with both percentiles as lines. Empty without a value that can be drawn."""
    bins = count_bins(sorted(latencies), _BARS)
    if bins is None:
        return Html("")
    number, most = len(bins.counts), max(bins.counts)
    room, step = _HEIGHT - _TOP - _BOTTOM, (_WIDTH - _LEFT - 12) / number
    floor = _HEIGHT - _BOTTOM

    def across(value: float) -> float:
        return _LEFT + min(max((value - bins.first) / bins.step, 0.0), number) * step

    parts = [tag("line", class_="axis", x1=f"{_LEFT}", x2=f"{_WIDTH - 12}", y1=f"{floor}", y2=f"{floor}")]
    for place, count in enumerate(bins.counts):
        if not count:
            continue
        tall, begin = max(1.5, room * count / most), bins.first + place * bins.step
        open_end = bins.open_ended and place == number - 1
        what = f"{begin} ms and more: {count}" if open_end else f"{begin} to {begin + bins.step} ms: {count}"
        parts.append(
            tag("rect", tag("title", what), class_="count", x=f"{_LEFT + place * step + 0.5:.1f}", y=f"{floor - tall:.1f}",
                width=f"{max(1.0, step - 1):.1f}", height=f"{tall:.1f}")
        )  # fmt: skip
    places = range(0, number, math.ceil(number / 8))
    parts += [_label(f"{bins.first + place * bins.step}", _LEFT + place * step, floor + 15) for place in places]
    parts.append(_label(f"ms, {bins.step} ms a bar{', the last one open' if bins.open_ended else ''}", _WIDTH / 2, _HEIGHT - 6))
    parts += [_label(f"{most}", _LEFT - 6, _TOP + 5, "end"), _label("0", _LEFT - 6, floor, "end")]
    for name, value, anchor, aside in (("P50", p50, "end", -4), ("P95", p95, "start", 4)):
        x = across(value)
        parts.append(tag("line", class_="mark", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=f"{_TOP - 12}", y2=f"{floor}"))
        parts.append(_label(name, x + aside, 14, anchor))
    return tag("svg", *parts, class_="histogram", viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label="Latency histogram")


def _label(text: str, x: float, y: float, anchor: str = "middle") -> Html:
    return tag("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"
