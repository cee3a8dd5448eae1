"""The fuse of a pair as a table of its rules."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.run.fuse import BLOWS_AFTER, PROBE_SECONDS, SCENARIO_PROBE_SECONDS, Fuse, Trouble

TROUBLES: st.SearchStrategy[Trouble] = st.sampled_from(["unreachable", "of no use"])
STEPS = st.lists(st.tuples(st.none() | TROUBLES, st.floats(0, 1000)), max_size=40)
"""What came of each attempt (None = it had turns) and the seconds before it."""


def test_it_blows_at_the_third_in_a_row() -> None:
    fuse = Fuse()
    assert [fuse.bad("unreachable", f"no answer {number}", 10.0 * number) for number in (1, 2, 3, 4)] == [False, False, True, False]
    assert fuse.blown
    assert (fuse.since, fuse.reason) == (10.0, "no answer 4")


def test_one_with_turns_begins_the_row_anew() -> None:
    fuse = Fuse()
    for now in (1.0, 2.0):
        fuse.bad("of no use", "silent", now)
    fuse.good()
    assert [fuse.bad("of no use", "silent", now) for now in (3.0, 4.0)] == [False, False]
    assert (fuse.blown, fuse.since) == (False, 3.0)


def test_the_latest_trouble_says_how_it_is_probed() -> None:
    fuse = Fuse()
    fuse.bad("of no use", "silent", 0.0)
    assert fuse.probes_with_scenario
    assert fuse.wait(0.0) == SCENARIO_PROBE_SECONDS
    fuse.bad("unreachable", "no answer", 0.0)
    assert not fuse.probes_with_scenario
    assert fuse.wait(0.0) == PROBE_SECONDS


@given(STEPS)
def test_blown_means_three_bad_ones_since_the_last_good_one(steps: list[tuple[Trouble | None, float]]) -> None:
    fuse, now, row, blows = Fuse(), 0.0, [], 0
    for trouble, seconds in steps:
        now += seconds
        if trouble is None:
            fuse.good()
            row, blows = [], 0
            assert fuse.reason == ""
        else:
            row.append(now)
            blew = fuse.bad(trouble, trouble, now)
            blows += blew
            assert blew == (len(row) == BLOWS_AFTER)
            assert fuse.since == row[0]
            assert fuse.probes_with_scenario == (trouble == "of no use")
        assert fuse.blown == (len(row) >= BLOWS_AFTER)
        assert blows == fuse.blown, "it blows once, until a good one mends it"


@given(STEPS, st.floats(0, 10_000))
def test_a_probe_is_never_further_off_than_its_interval(steps: list[tuple[Trouble | None, float]], later: float) -> None:
    fuse, now, latest = Fuse(), 0.0, None
    for trouble, seconds in steps:
        now += seconds
        if trouble is not None:
            fuse.bad(trouble, trouble, now)
            latest = now
            assert fuse.wait(now) <= (PROBE_SECONDS if trouble == "unreachable" else SCENARIO_PROBE_SECONDS) + 1e-6
    interval = SCENARIO_PROBE_SECONDS if fuse.probes_with_scenario else PROBE_SECONDS
    assert fuse.wait(now + later) >= 0
    if latest is not None:
        assert fuse.wait(latest + interval + 1e-6) == 0
