"""What the truth bench holds its two conversations: plain manners crossed with one another, and awkward ones by themselves.

In the sixteen `ROWS` every value of every manner meets every value of every other at least once. May import the product's script model.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from tests.bench.line import Line
from voiceeval_engine.scenarios.script import ScriptManners

DELAY = 0.6
DELAYS = (0.1, 0.2, 0.4, 1.0, 2.0, 5.0)
LONG = 5
"""Phrases a turn where a clock is to drift: 10 to 20 s of speech without a rest."""
CHUNKS, RATES, CHANNELS, SPEEDS = (16, 20, 40), (8_000, 16_000, 24_000, 48_000), (1, 2), (1.0, 3.0)
STOPPED: tuple[float | None, ...] = (0.0, 0.35, 8.0, None)


@dataclass(frozen=True)
class Case:
    """One conversation. `labels` are the lines of the table that its errors count for; `manners` are both bots', but that the user
    answers after `DELAY` whatever the agent's delay; `length` as in `scripts.counted_scenario`; `clock` is the bots'.
    """

    labels: tuple[str, ...]
    manners: dict[str, Any]
    agent_line: Line | None = None
    user_line: Line | None = None
    clock: float = 1.0
    length: int = 1

    @property
    def agent(self) -> ScriptManners:
        """The agent's manners as a script says them."""
        return ScriptManners.model_validate({"delay": DELAY, **self.manners})

    @property
    def user(self) -> ScriptManners:
        """The user's."""
        return ScriptManners.model_validate({**self.manners, "delay": DELAY})


@dataclass(frozen=True)
class Row:
    """Plain manners, of both bots; `stopped` in s after the audio, None for never."""

    chunk_ms: int
    rate: int
    channels: int
    speed: float
    stopped: float | None
    silence: bool

    def values(self) -> tuple[object, ...]:
        """The manners, in the order of `ALL_VALUES`."""
        return self.chunk_ms, self.rate, self.channels, self.speed, self.stopped, self.silence

    def case(self) -> Case:
        """The conversation."""
        stopped = {0.0: "at the end", None: "never"}.get(self.stopped, f"{self.stopped or 0:g} s late")
        labels = (
            f"chunks of {self.chunk_ms} ms",
            f"{self.rate // 1000} kHz",
            "mono" if self.channels == 1 else "stereo",
            "in real time" if self.speed == 1.0 else f"{self.speed:g} times faster than real time",
            f"`bot-stopped-speaking` {stopped}",
            "silence streamed" if self.silence else "nothing sent in silence",
        )
        manners = {"chunk_ms": self.chunk_ms, "rate": self.rate, "channels": self.channels, "speed": self.speed}
        return Case(labels, {**manners, "stopped_after": self.stopped, "streams_silence": self.silence})


ALL_VALUES: tuple[tuple[object, ...], ...] = (CHUNKS, RATES, CHANNELS, SPEEDS, STOPPED, (False, True))
ROWS = (
    Row(40, 24000, 1, 1.0, 0.0, False),
    Row(16, 24000, 1, 3.0, 0.35, True),
    Row(20, 24000, 2, 3.0, 8.0, True),
    Row(40, 24000, 2, 1.0, None, False),
    Row(16, 8000, 2, 1.0, 0.0, True),
    Row(40, 8000, 2, 3.0, 0.35, False),
    Row(40, 8000, 1, 3.0, 8.0, False),
    Row(20, 8000, 1, 1.0, None, True),
    Row(20, 16000, 1, 3.0, 0.0, False),
    Row(40, 16000, 1, 1.0, 0.35, True),
    Row(40, 16000, 2, 1.0, 8.0, True),
    Row(16, 16000, 2, 3.0, None, False),
    Row(40, 48000, 2, 3.0, 0.0, True),
    Row(20, 48000, 2, 1.0, 0.35, False),
    Row(16, 48000, 1, 1.0, 8.0, False),
    Row(40, 48000, 1, 3.0, None, True),
)
_PLAIN: dict[str, Any] = {}
_BURST = {"speed": 3.0, "streams_silence": True, "stopped_after": 0.35}
_STREAM = {"streams_silence": True}


def _awkward() -> list[Case]:
    late, jitter = Line(to_bot=0.2, to_engine=0.2), Line(jitter=0.03)
    cases = []
    for delay in DELAYS:
        length = 0 if delay < 0.3 else 1
        cases += [Case((f"delay of {delay:g} s",), {**manners, "delay": delay}, length=length) for manners in (_PLAIN, _BURST)]
    for manners in (_PLAIN, _STREAM):
        cases += [
            Case(("`bot-started-speaking` never",), manners, agent_line=Line(mute=True), user_line=Line(mute=True)),
            Case(("flapping events",), manners, agent_line=Line(flaps=True), user_line=Line(flaps=True)),
            Case(("jitter of 30 ms",), manners, agent_line=jitter, user_line=jitter),
            Case(("200 ms each way to the agent",), manners, agent_line=late),
            Case(("200 ms each way to the user",), manners, user_line=late),
            Case(("bots' clock 1 % fast",), manners, clock=1.01, length=LONG),
            Case(("bots' clock 1 % slow",), manners, clock=0.99, length=LONG),
        ]
    for manners in (_PLAIN, _BURST):
        cases.append(Case(("0.3 s of silence before speech",), {**manners, "leading_silence": 0.3}))
    return cases


CASES = (*(row.case() for row in ROWS), *_awkward())
_BY_MANNER = [
    (place, row) for place, values in enumerate(ALL_VALUES) for value in values for row in ROWS if row.values()[place] == value
]
LABELS = tuple(
    dict.fromkeys([row.case().labels[place] for place, row in _BY_MANNER] + [label for case in CASES for label in case.labels])
)
"""The lines of the table, manner by manner."""


def uncovered() -> list[tuple[object, object]]:
    """The pairs of values that no row brings together."""
    missing: list[tuple[object, object]] = []
    for one, two in combinations(range(len(ALL_VALUES)), 2):
        there = {(row.values()[one], row.values()[two]) for row in ROWS}
        missing += [pair for pair in product(ALL_VALUES[one], ALL_VALUES[two]) if pair not in there]
    return missing
