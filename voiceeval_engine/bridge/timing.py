"""`timing.json`: what the reported numbers are made of, so that a reader can check every latency by hand.

Plain values in, plain values out. May import this folder. Rule: artifacts page, "Scenario directory", `timing.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from voiceeval_engine.bridge.latency import Handoff, agent_start, overlap_seconds
from voiceeval_engine.bridge.turns import Side, Turn

_BUCKETS = 200


class PacingMeter:
    """How late frames were sent, in whole ms up to 199; constant memory however long the conversation."""

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self._worst = 0.0

    def add(self, late: float) -> None:
        """One frame was sent `late` s after its target."""
        self._counts[min(int(late * 1000), _BUCKETS - 1)] += 1
        self._worst = max(self._worst, late)

    def summary(self) -> dict[str, float]:
        """Frames, and lateness in ms: the 99th percentile (rounded up to a whole ms) and the worst."""
        total = sum(self._counts)
        p99 = next((ms for ms, seen in enumerate(accumulate(self._counts), start=1) if seen >= total * 0.99), 0)
        return {"frames": total, "late_p99_ms": p99 if total else 0, "late_max_ms": round(self._worst * 1000, 3)}


def build_timing(
    turns: Sequence[Turn],
    handoffs: Sequence[Handoff],
    *,
    chunk_seconds: float,
    by_events: Mapping[Side, bool],
    ttfb: Mapping[Side, Mapping[str, Sequence[float]]],
    pacing: Mapping[str, float],
    dropped_seconds: Mapping[Side, float],
) -> dict[str, Any]:
    """The content of `timing.json`. All moments are s since the first tick, `turns` in the order of `metrics.json`."""
    return {
        "clock": "seconds since the first tick of the conversation; *_received when audio arrived, *_sent when it was sent on",
        "latency": "agent_start - user_end; agent_start is the later of agent's speech_first_received and speech_heard",
        "measured_by": {side: "events" if used else "energy" for side, used in by_events.items()},
        "turns": [_turn(index, turn, turns, chunk_seconds) for index, turn in enumerate(turns)],
        "handoffs": [
            {
                "user_turn": handoff.user,
                "agent_turn": handoff.agent,
                "user_end": _s(handoff.user_end),
                "agent_start": _s(handoff.agent_start),
                "latency_ms": round(handoff.latency_ms, 3),
            }
            for handoff in handoffs
        ],
        "time_to_first_byte_s": {side: {name: list(values) for name, values in each.items()} for side, each in ttfb.items()},
        "pacing": dict(pacing),
        "audio_dropped_s": {side: _s(seconds) for side, seconds in dropped_seconds.items()},
    }


def _turn(index: int, turn: Turn, turns: Sequence[Turn], chunk_seconds: float) -> dict[str, Any]:
    return {
        "turn": index,
        "role": turn.side,
        "text": turn.text,
        "dated_by": "energy" if turn.speech else "events",
        "speech_first_received": _s(turn.arrived),
        "speech_heard": _s(agent_start(turn)),
        "speech_last_received": _s(turn.last_arrived),
        "speech_first_sent": _s(turn.start),
        "speech_last_sent": _s(turn.end),
        "recording": [_s(turn.start_tick * chunk_seconds), _s((turn.end_tick + 1) * chunk_seconds)],
        "bot_started_speaking": None if turn.started is None else _s(turn.started),
        "bot_stopped_speaking": None if turn.stopped is None else _s(turn.stopped),
        "overlap_s": _s(overlap_seconds(turn, turns)),
    }


def _s(value: float) -> float:
    return round(value, 6)
