"""kill -9 at any moment: whatever the engine was doing, a resume completes the run and nothing is lost, run twice or half written.

The long version, with counts by phase: `python -m tests.bench crash --rounds N`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench import bench_crash
from tests.bench.bench_crash import CLOCK, STEP, Ground, Whole

KILLS = 6


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with bench_crash.ground(tmp_path_factory.mktemp("crash")) as shared:
        yield shared


@pytest.fixture(scope="module")
def whole(ground: Ground) -> Whole:
    return bench_crash.uninterrupted(ground)


@pytest.mark.parametrize("seed", [5, 13])
def test_a_run_that_is_killed_again_and_again_ends_as_if_nothing_had_been(ground: Ground, whole: Whole, seed: int) -> None:
    outcome = bench_crash.crashed(ground, seed, whole, KILLS)
    assert outcome.violations == []
    assert outcome.killed > 0
    assert {way for way, _ in outcome.kills} <= {CLOCK, STEP}
