from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceeval_engine.audio.pcm import SPEECH_PEAK, Samples, loud_samples
from voiceeval_engine.audio.playout import MAX_SECONDS, Playout

RATE, CHUNK, TICK = 16_000, 256, 0.016
RATES = [8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000]


def sound(seconds: float, rate: int, level: float = 0.3) -> Samples:
    return (np.sin(2 * np.pi * 220 * np.arange(round(seconds * rate)) / rate) * 32767 * level).astype(np.int16)


def silence(seconds: float, rate: int) -> Samples:
    return np.zeros(round(seconds * rate), dtype=np.int16)


class Line:
    """A play-out on a clock of 16 ms ticks. `arrive` plans frames, `run` ticks; `out` holds what each tick gave."""

    def __init__(self) -> None:
        self.playout: Playout[str] = Playout(RATE, CHUNK)
        self.out: list[tuple[float, Samples | None]] = []
        self.told: list[tuple[float, str, int]] = []
        self.now = 0.0
        self._plan: list[tuple[float, Callable[[], object]]] = []

    def arrive(
        self, samples: Samples, rate: int, at: float, *, frame: float = 0.04, speed: float = 1.0, drift: float = 0.0
    ) -> Line:
        size = round(rate * frame)
        for start in range(0, samples.size, size):
            part, when = samples[start : start + size], at + start / rate / speed * (1 + drift)
            self._plan.append((when, lambda part=part, when=when: self.playout.push(part, rate, when)))
        return self

    def event(self, name: str, at: float) -> Line:
        self._plan.append((at, lambda: self.playout.push_event(name)))
        return self

    def interrupt(self, at: float) -> Line:
        self._plan.append((at, lambda: self.playout.interrupt(at)))
        return self

    def run(self, until: float) -> Line:
        self._plan.sort(key=lambda each: each[0])
        while self.now < until:
            while self._plan and self._plan[0][0] <= self.now:
                self._plan.pop(0)[1]()
            self.told += [(self.now, event, self.playout.position) for event in self.playout.due()]
            chunk = self.playout.pop(self.now)
            samples = None if chunk is None else np.frombuffer(chunk.pcm, dtype=np.int16)
            assert chunk is None or chunk.loud == loud_samples(samples)
            self.out.append((self.now, samples))
            self.now += TICK
        return self

    @property
    def played(self) -> Samples:
        return np.concatenate([chunk for _, chunk in self.out if chunk is not None] or [np.zeros(0, dtype=np.int16)])

    def loud_span(self) -> tuple[float, float]:
        loud = [now for now, chunk in self.out if chunk is not None and np.abs(chunk.astype(int)).max() > SPEECH_PEAK]
        return (loud[0], loud[-1]) if loud else (float("nan"), float("nan"))

    def holes(self) -> int:
        """Ticks without audio between the first and the last with some."""
        gives = [chunk is not None for _, chunk in self.out]
        first, last = gives.index(True), len(gives) - gives[::-1].index(True)
        return gives[first:last].count(False)


def test_chunks_have_always_the_same_length() -> None:
    line = Line().arrive(sound(1.0, 24_000), 24_000, 0.1).run(2.0)
    assert {chunk.size for _, chunk in line.out if chunk is not None} == {CHUNK}


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("frame", [0.016, 0.02, 0.04])
@pytest.mark.parametrize("speed", [1.0, 3.0])
def test_not_a_sample_of_speech_is_lost_whatever_the_rate(rate: int, frame: float, speed: float) -> None:
    line = Line()
    for at in (0.1, 3.0, 5.1):
        line.arrive(sound(1.0, rate), rate, at, frame=frame, speed=speed)
    line.run(8.0)
    assert np.count_nonzero(np.abs(line.played.astype(int)) > SPEECH_PEAK) == pytest.approx(3 * 0.989 * RATE, rel=0.004)
    assert line.playout.position == pytest.approx(3 * RATE, abs=16)
    assert not line.playout.holds_speech


@pytest.mark.parametrize("rate", RATES)
def test_the_sound_is_the_one_that_came(rate: int) -> None:
    played = Line().arrive(sound(1.0, rate), rate, 0.1).run(3.0).played[:RATE]
    wanted = sound(1.0, RATE)[: played.size]
    middle = slice(200, -200)
    assert np.abs(played[middle].astype(int) - wanted[middle]).max() < 40


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("frame", [0.016, 0.02, 0.04])
@pytest.mark.parametrize("shift", [0.0, 0.005, 0.011])
def test_speech_in_real_time_plays_without_holes_though_it_jitters(rate: int, frame: float, shift: float) -> None:
    """Of five chunks of 16 ms one is being played; the others pay for a frame's own length and its lateness."""
    line, size, samples = Line(), round(rate * frame), sound(4.0, rate)
    late = np.random.default_rng(1).uniform(0.0, 0.05 - frame, samples.size // size + 1)
    arrived = 0.0
    for index, start in enumerate(range(0, samples.size, size)):
        arrived = max(arrived, 0.1 + shift + start / rate + late[index])
        line.arrive(samples[start : start + size], rate, arrived, frame=1.0)
    assert line.run(6.0).holes() == 0


def test_play_out_starts_when_five_chunks_have_come() -> None:
    line = Line().arrive(sound(1.0, RATE), RATE, 0.1, frame=0.016).run(1.0)
    assert line.loud_span()[0] == pytest.approx(0.1 + 4 * 0.016, abs=1.1 * TICK)


def test_less_than_five_chunks_are_played_after_the_same_time() -> None:
    for rate in (RATE, 8_000, 24_000):
        line = Line().arrive(sound(0.04, rate), rate, 0.1).run(1.0)
        assert 0.15 < line.loud_span()[0] < 0.35


def test_a_dry_spell_arms_the_jitter_buffer_again() -> None:
    line = Line().arrive(sound(0.5, RATE), RATE, 0.1).arrive(sound(0.5, RATE), RATE, 2.0, frame=0.016).run(4.0)
    second = [now for now, chunk in line.out if chunk is not None and now > 1.5]
    assert second[0] == pytest.approx(2.0 + 4 * 0.016, abs=1.1 * TICK)


@pytest.mark.parametrize("rate", [8_000, 24_000, 48_000])
@pytest.mark.parametrize("streams", [False, True])
def test_the_end_of_speech_is_not_held_back(rate: int, streams: bool) -> None:
    line = Line().arrive(sound(1.0, rate), rate, 0.1, speed=3.0)
    if streams:
        line.arrive(silence(2.0, rate), rate, 1.16)
    line.run(3.0)
    first, last = line.loud_span()
    assert last - first == pytest.approx(1.0, abs=0.034)
    assert line.playout.position > 0


@pytest.mark.parametrize("drift", [0.01, -0.01])
@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000])
def test_a_clock_that_drifts_by_one_percent_costs_no_speech(rate: int, drift: float) -> None:
    line = Line().arrive(sound(20.0, rate), rate, 0.1, drift=drift).run(23.0)
    assert line.playout.position == pytest.approx(20 * RATE, abs=16)
    assert line.holes() <= 20


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("speed", [1.0, 3.0, 50.0])
def test_events_keep_their_place_between_the_audio(rate: int, speed: float) -> None:
    line, at = Line(), 0.1
    for index in range(3):
        line.event(f"before {index}", at).arrive(sound(1.0, rate), rate, at + 1e-6, speed=speed)
        line.event(f"middle {index}", at + 0.49 / speed).event(f"after {index}", at + 1.0 / speed)
        at += 1.0 / speed + 2e-6
    line.run(6.0)
    assert [name for _, name, _ in line.told] == [f"{when} {index}" for index in range(3) for when in ("before", "middle", "after")]
    for (_, name, position), wanted in zip(line.told, [0.0, 0.5, 1.0, 1.0, 1.5, 2.0, 2.0, 2.5, 3.0], strict=True):
        assert wanted - 0.001 <= position / RATE < wanted + 0.06, name


def test_an_event_with_nothing_before_it_is_due_at_once() -> None:
    line = Line().event("first", 0.0).run(0.02)
    assert [name for _, name, _ in line.told] == ["first"]


def test_an_event_behind_the_tail_of_speech_is_due_when_that_is_played() -> None:
    for rate in RATES:
        line = Line().arrive(sound(1.0, rate), rate, 0.1).event("stopped", 1.11).run(2.0)
        [(now, _, _)] = line.told
        assert line.loud_span()[1] < now < line.loud_span()[1] + 0.08


def test_events_never_told_can_be_taken_at_the_end() -> None:
    line = Line().arrive(sound(5.0, RATE), RATE, 0.0, speed=100.0).event("late", 0.1).event("later", 0.1).run(1.0)
    assert line.told == []
    assert line.playout.take_all_events() == ["late", "later"]
    assert line.playout.take_all_events() == line.playout.due() == []


@pytest.mark.parametrize("rate", RATES)
def test_an_interruption_drops_what_was_not_played_and_lets_the_next_speech_through(rate: int) -> None:
    line = Line().arrive(sound(5.0, rate), rate, 0.1, speed=20.0).event("stopped", 0.9).interrupt(1.0)
    line.arrive(sound(1.0, rate), rate, 2.0).event("again", 1.99).run(1.5)
    assert line.loud_span()[1] <= 1.0
    assert [name for _, name, _ in line.told] == ["stopped"]
    assert not line.playout.holds_speech
    line.out.clear()
    line.run(4.0)
    assert line.loud_span()[0] == pytest.approx(2.1, abs=0.12)
    assert np.count_nonzero(np.abs(line.played.astype(int)) > SPEECH_PEAK) == pytest.approx(0.989 * RATE, rel=0.01)
    origin = line.playout.origin(line.playout.position - 10)
    assert 2.0 <= origin.arrived <= 3.0


def test_a_changed_rate_in_the_middle_loses_and_repeats_nothing() -> None:
    line = Line()
    for index, rate in enumerate([24_000, 48_000, 16_000, 8_000, 44_100]):
        line.arrive(sound(0.6, rate), rate, 0.1 + 0.6 * index)
    line.run(5.0)
    assert line.playout.position == pytest.approx(5 * 0.6 * RATE, abs=40)
    assert np.count_nonzero(np.abs(line.played.astype(int)) > SPEECH_PEAK) == pytest.approx(5 * 0.6 * 0.989 * RATE, rel=0.01)


def test_streamed_silence_does_not_queue_up_behind_a_burst() -> None:
    line = Line().arrive(sound(4.0, 24_000), 24_000, 0.1, speed=10.0).arrive(silence(8.0, 24_000), 24_000, 0.5)
    line.arrive(sound(1.0, 24_000), 24_000, 8.5).run(11.0)
    second = [now for now, chunk in line.out if chunk is not None and now > 6.0 and np.abs(chunk.astype(int)).max() > SPEECH_PEAK]
    assert second[0] == pytest.approx(8.6, abs=0.05)


def test_pauses_of_up_to_a_second_in_a_burst_are_kept() -> None:
    burst = np.concatenate([sound(1.0, 24_000), silence(0.9, 24_000), sound(1.0, 24_000)])
    line = Line().arrive(burst, 24_000, 0.1, speed=10.0).run(5.0)
    assert line.loud_span()[1] - line.loud_span()[0] == pytest.approx(2.9, abs=0.04)


@pytest.mark.parametrize("lead", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("speed", [1.0, 3.0, 20.0])
@pytest.mark.parametrize("rate", [8_000, 24_000])
def test_a_burst_gains_nothing_by_its_leading_silence(lead: float, speed: float, rate: int) -> None:
    line = Line().arrive(silence(3.0, rate), rate, 0.0, frame=0.02)
    line.arrive(np.concatenate([silence(lead, rate), sound(1.0, rate)]), rate, 3.0, frame=0.02, speed=speed)
    while line.now < 5.0:
        line.run(line.now + TICK / 2)
        chunk = line.out[-1][1]
        if chunk is not None and np.abs(chunk.astype(int)).max() > SPEECH_PEAK:
            break
    assert chunk is not None
    first = line.playout.position - CHUNK + int(np.flatnonzero(np.abs(chunk.astype(int)) > SPEECH_PEAK)[0])
    origin = line.playout.origin(first)
    assert origin.heard == pytest.approx(3.0 + lead, abs=0.025)
    assert origin.arrived == pytest.approx(3.0 + lead / speed, abs=0.025)


def test_empty_frames_change_nothing() -> None:
    line, empty = Line(), np.zeros(0, dtype=np.int16)
    line.arrive(sound(1.0, 24_000), 24_000, 0.1).event("stopped", 1.11)
    for index in range(500):
        line._plan.append((index * 0.004, lambda at=index * 0.004: line.playout.push(empty, 48_000, at)))
    line.run(2.0)
    assert [name for _, name, _ in line.told] == ["stopped"]
    assert line.playout.position == pytest.approx(RATE, abs=8)
    assert len(line.playout._marks) < 30


def test_the_buffer_holds_ten_minutes_and_counts_what_it_drops() -> None:
    playout: Playout[str] = Playout(RATE, CHUNK)
    minute = np.tile(sound(1.0, 24_000), 60)
    for _ in range(12):
        assert playout.push(minute, 24_000, 1.0)
    assert playout.dropped_seconds == pytest.approx(120.0)
    ticks = 0
    while playout.pop(1.0 + 0.016 * ticks) is not None or ticks < 10:
        ticks += 1
    assert playout.position == pytest.approx(MAX_SECONDS * RATE, abs=16)
    assert playout.push(minute, 24_000, 700.0)
    assert playout.dropped_seconds == pytest.approx(120.0)


def test_speech_that_waits_is_known_until_it_is_played() -> None:
    line = Line().arrive(sound(2.0, 24_000), 24_000, 0.0, speed=50.0).arrive(silence(0.5, 24_000), 24_000, 0.05)
    assert not line.playout.holds_speech
    line.run(0.3)
    assert line.playout.holds_speech
    line.run(2.0)
    assert line.playout.holds_speech
    line.run(2.5)
    assert not line.playout.holds_speech
    assert not Line().arrive(silence(2.0, 24_000), 24_000, 0.0, speed=50.0).run(0.5).playout.holds_speech


FRAMES = st.lists(
    st.tuples(
        st.sampled_from(["loud", "silent", "event", "interrupt", "empty"]),
        st.sampled_from(RATES),
        st.floats(0, 0.4),
        st.floats(0, 0.3),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(FRAMES)
def test_whatever_comes_every_event_is_told_once_in_order_and_the_buffer_runs_dry(
    frames: list[tuple[str, int, float, float]],
) -> None:
    line, now, events = Line(), 0.0, []
    for index, (what, rate, seconds, wait) in enumerate(frames):
        now += wait
        if what == "event":
            events.append(str(index))
            line.event(str(index), now)
        elif what == "interrupt":
            line.interrupt(now)
        else:
            samples = {"loud": sound, "silent": silence, "empty": lambda s, r: silence(0, r)}[what](seconds, rate)
            line._plan.append((now, lambda s=samples, r=rate, at=now: line.playout.push(s, r, at)))
    line.run(now + 0.3 + sum(seconds for _, _, seconds, _ in frames) + 0.3 * len(frames))
    assert [name for _, name, _ in line.told] == events
    assert line.out == [] or line.out[-1][1] is None
    assert not line.playout.holds_speech
