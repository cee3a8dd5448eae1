"""Start-up: how long the product's short commands take, as a user waits for them."""

from __future__ import annotations

import statistics

from tests.bench.processes import PRODUCT, measure
from tests.bench.table import Figure, print_figures

BOUND_SECONDS = 0.5
OPTIONS = ("--list", "--version", "--help")


def run(times: int) -> list[Figure]:
    """Wall time in s from start to end of each command, the median of `times` runs after one that warms the disk's cache."""
    figures = [
        Figure(f"voiceeval-tui {option}", f"wall time, median of {times}", _median(option, times), "s", BOUND_SECONDS, 3)
        for option in OPTIONS
    ]
    print_figures("Start-up", figures)
    return figures


def _median(option: str, times: int) -> float:
    return statistics.median([measure([str(PRODUCT), option]).seconds for _ in range(times + 1)][1:])
