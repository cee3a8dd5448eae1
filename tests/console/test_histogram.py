"""The histogram as text: every value in one bar, bars of a round width, no escape, the size that was wanted."""

from __future__ import annotations

import math
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_tui.histogram import bars_for, count_bins, draw


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200), st.integers(8, 40))
def test_every_value_is_in_one_bar(values: list[float], most: int) -> None:
    bins = count_bins(sorted(values), most)
    assert bins is not None
    assert sum(bins.counts) == len(values)
    assert len(bins.counts) <= most
    assert str(bins.step).rstrip("0") in ("1", "2", "5")
    assert bins.first <= min(values)
    for place, count in enumerate(bins.counts[:-1]):
        low = bins.first + place * bins.step
        assert count == sum(low <= value < low + bins.step for value in values)


def test_few_long_ones_leave_the_others_their_room_and_share_the_last_bar() -> None:
    bins = count_bins([*map(float, range(500, 1500)), 60_000.0, 90_000.0], 20)
    assert bins is not None
    assert (bins.first, bins.step, bins.open_ended) == (500, 50, True)
    assert bins.label == "by ms, 50 ms a bar, last 1450+"


@pytest.mark.parametrize("values", [[], [math.nan], [math.inf, -math.inf]])
def test_without_numbers_there_is_none(values: list[float]) -> None:
    assert count_bins(values, 10) is None


@pytest.mark.parametrize("size", [(20, 4), (36, 6), (59, 16), (119, 30), (200, 45)])
@pytest.mark.parametrize("count", [1, 2, 300, 10_000])
def test_a_drawing_has_its_size_axes_in_ms_and_no_escape(size: tuple[int, int], count: int) -> None:
    rng = random.Random(4)
    bins = count_bins(sorted(rng.lognormvariate(6.7, 0.4) for _ in range(count)), bars_for(size[0]))
    assert bins is not None
    lines = draw(bins, *size)
    assert len(lines) == size[1]
    assert all(len(line) <= size[0] and line.isprintable() for line in lines)
    assert lines[0].lstrip().startswith(str(max(bins.counts)))
    assert lines[-1].split()[0] == str(bins.first)
    assert "█" in "".join(lines)


def test_what_draws_it_is_imported_when_something_is_drawn() -> None:
    code = "import sys, voiceeval_tui.app, voiceeval_tui.widgets.latency; print('plotext' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
