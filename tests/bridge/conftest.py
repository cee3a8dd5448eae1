"""A conversation on a virtual clock: simulated bots, both lanes and the tracker, no sockets and no sleeping."""

from __future__ import annotations

import heapq
import importlib.util
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from voiceeval_engine.audio.pcm import SPEECH_PEAK
from voiceeval_engine.bridge.lane import Lane
from voiceeval_engine.bridge.latency import Handoff, find_handoffs, in_order
from voiceeval_engine.bridge.turns import Side, Turn, TurnTracker
from voiceeval_engine.wire.frames import AudioFrame


def _wire_conftest() -> ModuleType:
    """The scripted bot of the wire's tests; test modules cannot import one another, so it is loaded by its path."""
    spec = importlib.util.spec_from_file_location("voiceeval_wire_conftest", Path(__file__).parents[1] / "wire" / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_wire = _wire_conftest()
kit, bots = _wire.kit, _wire.bots

RATE = 16_000
CHUNK_SECONDS = 0.016
ZERO = 5000.0
"""The loop's time at the first tick, so that a mix-up of the two clocks shows."""
HANG_OVER = 0.4
GAP = 0.12


@dataclass(frozen=True)
class Manners:
    """How a simulated bot's audio and events come; as in `voiceeval_engine.bots.script`, and worse.

    `stopped` counts from the end of the play-out, or of the burst where `stopped_at_burst`; None = never. `drift` 0.01: the bot's
    clock is 1 % slow. `jitter`: each frame comes up to this much late. `silence_at_burst`: streamed silence follows the last frame
    sent, not the end of the play-out.
    """

    chunk_ms: int = 40
    rate: int = 24_000
    channels: int = 1
    speed: float = 1.0
    stopped: float | None = 0.0
    stopped_at_burst: bool = False
    says_started: bool = True
    streams_silence: bool = False
    silence_at_burst: bool = False
    lead: float = 0.0
    delay: float = 0.6
    drift: float = 0.0
    jitter: float = 0.0
    hum: float = 0.0
    """Peak of a background mixer's endless sound, of 1.0."""


@dataclass
class Bot:
    side: Side
    manners: Manners
    lines: list[tuple[str, ...]]
    """What it says, turn by turn; each a tuple of sentences."""
    seconds: float = 0.8
    """Length of a sentence."""
    said: int = 0
    last_heard: float | None = None
    busy_until: float = 0.0
    stream_at: float = 0.0
    answers: list[float] = field(default_factory=list)
    """Real delays: from the last loud frame that the bot received to the moment its answer could be heard."""
    last_arrival: float = 0.0


class World:
    """`at` plans something, `run` lets time pass. Times are s on the conversation's clock."""

    def __init__(self, agent: Bot, user: Bot, *, chunk_seconds: float = CHUNK_SECONDS, seed: int = 1) -> None:
        self.bots: dict[Side, Bot] = {"agent": agent, "user": user}
        self.tracker = TurnTracker()
        chunk = round(chunk_seconds * RATE)
        self.lanes: dict[Side, Lane] = {side: Lane(side, RATE, chunk, self.tracker, None) for side in ("agent", "user")}
        self.heard_pcm: dict[Side, list[bytes]] = {"agent": [], "user": []}
        self.settled: list[tuple[float, Turn]] = []
        self.now = 0.0
        self._chunk_seconds = chunk_seconds
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._random = random.Random(seed)
        self._ticks = 0

    def at(self, time: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (time, next(self._order), what))

    def converse(self, seconds: float, *, opening: float = 1.3) -> None:
        """The agent opens, then both answer what they hear until the time is over."""
        for side, bot in self.bots.items():
            if bot.manners.streams_silence or bot.manners.hum:
                bot.stream_at = self._random.uniform(0.0, 0.04)
                self.at(bot.stream_at, lambda side=side: self._stream(side))
        self.at(opening, lambda: self.say("agent", opening))
        self.run(seconds)

    def run(self, until: float) -> None:
        while self._ticks * self._chunk_seconds < until:
            self.now = self._ticks * self._chunk_seconds
            while self._agenda and self._agenda[0][0] <= self.now:
                heapq.heappop(self._agenda)[2]()
            for side, other in (("user", "agent"), ("agent", "user")):
                _, pcm, _ = self.lanes[side].next_frame(ZERO + self.now, self.now, ZERO, self._ticks)
                self.heard_pcm[other].append(pcm)
                self._hear(self.bots[other], pcm)
            self._ticks += 1
            self.settled += [(self.now, turn) for turn in self.tracker.advance(self.now, self._ticks)]

    def finish(self) -> tuple[list[Turn], list[Handoff]]:
        for lane in self.lanes.values():
            lane.drain()
        self.tracker.finish(self.now)
        turns = in_order(self.tracker.turns)
        return turns, find_handoffs(turns)

    def say(self, side: Side, at: float, *, sentences: tuple[str, ...] | None = None) -> None:
        """Plan one utterance whose first frame is sent at `at`; the next of the bot's lines unless given."""
        bot, manners = self.bots[side], self.bots[side].manners
        if sentences is None:
            if bot.said >= len(bot.lines):
                return
            sentences = bot.lines[bot.said]
        bot.said += 1
        if bot.last_heard is not None:
            bot.answers.append(at + manners.lead - bot.last_heard)
        rate, stretch = manners.rate, 1.0 + manners.drift
        parts = [np.zeros(round(manners.lead * rate))]
        ends = []
        for index, _ in enumerate(sentences):
            parts.append(tone(bot.seconds, rate))
            if index < len(sentences) - 1:
                parts.append(np.zeros(round(GAP * rate)))
            ends.append(sum(part.size for part in parts))
        sound = np.concatenate(parts)
        size = round(rate * manners.chunk_ms / 1000)
        sentence_end = dict(enumerate(ends))
        for index, start in enumerate(range(0, sound.size, size)):
            sent = at + start / rate * stretch / manners.speed
            self._send(side, sent, sound[start : start + size])
            if index == 1 and manners.says_started:
                self.at(max(sent, bot.last_arrival), lambda sent=sent: self.event(side, "started"))
        burst = at + sound.size / rate * stretch / manners.speed
        played = at + sound.size / rate * stretch / min(manners.speed, 1.0)
        for index, sentence in enumerate(sentences):
            last = index == len(sentences) - 1
            done = played if last else at + sentence_end[index] / rate * stretch / manners.speed + GAP / manners.speed
            if last and manners.stopped_at_burst:
                done = burst
            done = max(done, bot.last_arrival if last else 0.0)
            if manners.stopped == 0.0 and not (last and manners.stopped_at_burst):
                self.at(done, lambda: self.event(side, "stopped"))
            self.at(done, lambda sentence=sentence: self.event(side, "spoken", sentence))
            if not last and manners.stopped == 0.0 and manners.says_started:
                self.at(done + 0.001, lambda: self.event(side, "started"))
        if manners.stopped_at_burst and manners.stopped is not None:
            self.at(max(burst, bot.last_arrival) + manners.stopped, lambda: self.event(side, "stopped"))
        elif manners.stopped:
            self.at(played + manners.stopped, lambda: self.event(side, "stopped"))
        bot.busy_until = burst if manners.silence_at_burst else played
        bot.stream_at = bot.busy_until

    def event(self, side: Side, kind: str, text: str = "") -> None:
        self.lanes[side].mark(kind, text, self.now)  # type: ignore[arg-type]

    def _send(self, side: Side, at: float, sound: np.ndarray) -> None:
        bot = self.bots[side]
        arrival = max(bot.last_arrival, at + self._random.uniform(0.0, bot.manners.jitter))
        bot.last_arrival = arrival
        frame = to_frame(sound, bot.manners)
        self.at(arrival, lambda: self._receive(side, frame, arrival))

    def _receive(self, side: Side, frame: AudioFrame, arrival: float) -> None:
        self.lanes[side].receive(frame, ZERO + arrival)

    def _stream(self, side: Side) -> None:
        """One frame of silence or hum, and the plan for the next; speech has precedence."""
        bot, manners = self.bots[side], self.bots[side].manners
        length = manners.chunk_ms / 1000 * (1.0 + manners.drift)
        at = bot.stream_at
        if at >= bot.busy_until:
            size = round(manners.rate * manners.chunk_ms / 1000)
            self._send(side, at, tone(size / manners.rate, manners.rate, manners.hum))
            bot.stream_at = at + length
        self.at(max(bot.stream_at, at + 0.001), lambda: self._stream(side))

    def _hear(self, bot: Bot, pcm: bytes) -> None:
        samples = np.abs(np.frombuffer(pcm, dtype="<i2").astype(np.int32))
        if samples.size and samples.max() > max(
            SPEECH_PEAK, 3000 if self.bots["agent" if bot.side == "user" else "user"].manners.hum else 0
        ):
            bot.last_heard = self.now
        elif (
            bot.last_heard is not None
            and self.now - bot.last_heard >= min(HANG_OVER, bot.manners.delay - 0.05)
            and (bot.busy_until <= bot.last_heard + 1e-9 or bot.said == 0)
        ):
            at = bot.last_heard + bot.manners.delay
            self.say(bot.side, at)
            bot.last_heard = None


def tone(seconds: float, rate: int, level: float = 0.3) -> np.ndarray:
    return np.sin(2 * np.pi * 220 * np.arange(round(seconds * rate)) / rate) * level


def to_frame(sound: np.ndarray, manners: Manners) -> AudioFrame:
    pcm = (sound * 32767).astype("<i2")
    return AudioFrame(np.repeat(pcm, manners.channels).tobytes(), manners.rate, manners.channels)


@dataclass
class Simulation:
    """What tests get as fixture `sim`: the classes above, since test modules cannot import one another."""

    Bot = Bot
    Manners = Manners
    World = World

    @staticmethod
    def pair(manners: Manners, *, user: Manners | None = None, seed: int = 1, chunk_seconds: float = CHUNK_SECONDS) -> World:
        """An agent with three lines and a user with two."""
        agent_lines = [("Hello, how can I help?", "I listen."), ("Surely, one moment.",), ("Done. Goodbye.",)]
        user_lines = [("I want a coffee.",), ("Thank you,", "and that is all.")]
        return World(
            Bot("agent", manners, agent_lines), Bot("user", user or manners, user_lines), seed=seed, chunk_seconds=chunk_seconds
        )

    expected = [  # noqa: RUF012
        ("agent", "Hello, how can I help? I listen."),
        ("user", "I want a coffee."),
        ("agent", "Surely, one moment."),
        ("user", "Thank you, and that is all."),
        ("agent", "Done. Goodbye."),
    ]


@pytest.fixture(scope="session")
def sim() -> type[Simulation]:
    return Simulation
