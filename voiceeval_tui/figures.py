"""Figures as people read them: rates with their interval, durations, times of day, sizes.

Plain values in, text out. May import the engine's Wilson interval. Rule: console page, "Panes" (k/n and a 95 % Wilson interval).
"""

from __future__ import annotations

import time

from voiceeval_engine.session.summary import wilson_interval


def counted(count: int, what: str) -> str:
    """`1 pair`, `2 pairs`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def rate(k: int, n: int, *, interval: bool = False) -> str:
    """`21/34 61.8%`, with its interval in percent `21/34 61.8%    [45-76]`; `-` of none."""
    if not n:
        return "-"
    text = f"{k}/{n} {100 * k / n:.1f}%"
    if not interval:
        return text
    low, high = wilson_interval(k, n)
    return f"{text:<14} [{100 * low:.0f}-{100 * high:.0f}]"


def duration(seconds: float) -> str:
    """`12s`, `3m05s`, `2h14m`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def time_of_day(at: float) -> str:
    """A moment of the wall clock, local: `07:23:25`."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def milliseconds(value: float | None) -> str:
    """A latency in ms: `812ms`, `1.9s`, `-` for none."""
    if value is None:
        return "-"
    return f"{value:.0f}ms" if value < 999.5 else f"{value / 1000:.1f}s"


def size(count: int) -> str:
    """Bytes: `812 B`, `12.3 kB`, `4.1 MB`, `1.2 GB`."""
    if count < 1000:
        return f"{count} B"
    value, unit = count / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if value < 999.95:
            break
        value, unit = value / 1000, larger
    return f"{value:.1f} {unit}"
