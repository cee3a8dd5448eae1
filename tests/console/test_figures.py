"""Figures as people read them."""

from __future__ import annotations

import pytest

from voiceeval_tui.figures import counted, duration, rate, size


def test_counts_have_their_plural() -> None:
    assert [counted(number, "pair") for number in (0, 1, 2)] == ["0 pairs", "1 pair", "2 pairs"]


def test_rates_have_k_n_and_an_interval() -> None:
    assert rate(0, 0) == rate(0, 0, interval=True) == "-"
    assert rate(21, 34) == "21/34 61.8%"
    assert rate(21, 34, interval=True) == "21/34 61.8%    [45-76]"


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0s"), (59.4, "59s"), (59.6, "1m00s"), (185, "3m05s"), (3600, "1h00m"), (360_000, "100h00m")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_950, "1.0 MB"), (12_345_678, "12.3 MB"),
        (4_100_000_000, "4.1 GB"), (5 * 10**15, "5000.0 TB"),
    ],
)  # fmt: skip
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text
