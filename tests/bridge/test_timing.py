from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.bridge.latency import find_handoffs
from voiceeval_engine.bridge.timing import PacingMeter, build_timing
from voiceeval_engine.bridge.turns import Turn


def test_without_frames_there_is_no_lateness() -> None:
    assert PacingMeter().summary() == {"frames": 0, "late_p99_ms": 0, "late_max_ms": 0.0}


def test_p99_leaves_one_in_a_hundred_aside_and_the_worst_does_not() -> None:
    meter = PacingMeter()
    for _ in range(99):
        meter.add(0.0012)
    meter.add(1.5)
    assert meter.summary() == {"frames": 100, "late_p99_ms": 2, "late_max_ms": 1500.0}
    meter.add(1.5)
    assert meter.summary()["late_p99_ms"] == 200


@given(st.lists(st.floats(0, 3), min_size=1, max_size=300))
def test_p99_is_no_less_than_99_percent_of_the_frames(lates: list[float]) -> None:
    meter = PacingMeter()
    for late in lates:
        meter.add(late)
    summary = meter.summary()
    assert summary["frames"] == len(lates)
    assert sum(min(late * 1000, 199) < summary["late_p99_ms"] for late in lates) >= 0.99 * len(lates)
    assert summary["late_max_ms"] == pytest.approx(max(lates) * 1000, abs=0.001)


def turn(side: str, start: float, end: float, *, speech: bool = True, started: float | None = 1.0) -> Turn:
    return Turn(
        side=side, text="t", start=start, end=end, start_tick=round(start / 0.016), end_tick=round(end / 0.016), speech=speech,
        arrived=start - 0.1, heard=start - 0.05, last_arrived=end - 0.1, started=started, stopped=None,
    )  # type: ignore[arg-type]  # fmt: skip


def test_every_latency_can_be_checked_by_hand() -> None:
    turns = [turn("agent", 1.6, 3.2), turn("user", 4.0, 4.8, started=None), turn("agent", 5.6, 6.4, speech=False)]
    timing = build_timing(
        turns,
        find_handoffs(turns),
        chunk_seconds=0.016,
        by_events={"agent": True, "user": False},
        ttfb={"agent": {"llm": [0.2]}, "user": {}},
        pacing={"frames": 1},
        dropped_seconds={"agent": 0.0, "user": 1.23456789},
    )
    assert json.loads(json.dumps(timing)) == timing
    assert timing["measured_by"] == {"agent": "events", "user": "energy"}
    [handoff] = timing["handoffs"]
    assert handoff["latency_ms"] == pytest.approx((handoff["agent_start"] - handoff["user_end"]) * 1000) == pytest.approx(750.0)
    assert handoff["agent_start"] == timing["turns"][handoff["agent_turn"]]["speech_heard"]
    assert handoff["user_end"] == timing["turns"][handoff["user_turn"]]["speech_last_sent"]
    assert [each["dated_by"] for each in timing["turns"]] == ["energy", "energy", "events"]
    assert timing["turns"][0]["recording"] == [1.6, 3.216]
    assert timing["turns"][1]["bot_started_speaking"] is None
    assert timing["audio_dropped_s"]["user"] == 1.234568


def test_overlap_is_recorded_on_both_turns() -> None:
    turns = [turn("agent", 1.0, 5.0), turn("user", 4.0, 6.0)]
    timing = build_timing(turns, [], chunk_seconds=0.016, by_events={}, ttfb={}, pacing={}, dropped_seconds={})
    assert [each["overlap_s"] for each in timing["turns"]] == [1.0, 1.0]
