"""Lanes, play-out and tracker together, on a virtual clock: whole conversations of simulated bots whose real delay is known."""

from __future__ import annotations

import itertools
import statistics
from typing import Any

import pytest

from voiceeval_engine.wire.frames import AudioFrame

CHUNKS, RATES, STOPPED = (16, 20, 40), (8_000, 16_000, 24_000, 48_000), (0.0, 0.35, 8.0, None)
SECONDS = 14.0


def covering() -> list[dict[str, Any]]:
    """Of the 768 combinations every pair of chunk, rate and "stopped", with the other four turning through all of theirs."""
    others = itertools.cycle(itertools.product((1, 2), (1.0, 3.0), (False, True), (0.0, 0.15)))
    made = []
    for index, (chunk, rate, stopped) in enumerate(itertools.product(CHUNKS, RATES, STOPPED)):
        for _ in range(2 if index % 16 else 3):
            channels, speed, streams, lead = next(others)
            made.append(
                {"chunk_ms": chunk, "rate": rate, "stopped": stopped, "channels": channels, "speed": speed}
                | {"streams_silence": streams, "lead": lead}
            )
    return made


def name(manners: dict[str, Any]) -> str:
    return "-".join(str(value) for value in manners.values())


def converse(sim: Any, world: Any) -> list[float]:
    """Let it run, check who said what, and return how far each latency is off, in ms."""
    world.converse(SECONDS)
    turns, handoffs = world.finish()
    assert [(turn.side, turn.text) for turn in turns] == sim.expected
    truth = world.bots["agent"].answers
    assert [(handoff.user, handoff.agent) for handoff in handoffs] == [(1, 2), (3, 4)]
    assert not world.tracker.measured_by_events("agent")
    return [handoff.latency_ms - 1000 * true for handoff, true in zip(handoffs, truth, strict=True)]


def check(errors: list[float]) -> None:
    assert max(map(abs, errors)) <= 40.0
    assert statistics.median(map(abs, errors)) <= 20.0


@pytest.mark.parametrize("manners", covering(), ids=name)
def test_latency_is_true_however_a_bot_sends(sim: Any, manners: dict[str, Any]) -> None:
    check(converse(sim, sim.pair(sim.Manners(**manners))))


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    "manners",
    [
        pytest.param({"drift": 0.01}, id="clock 1 % slow"),
        pytest.param({"drift": -0.01}, id="clock 1 % fast"),
        pytest.param({"jitter": 0.03}, id="jitter"),
        pytest.param({"jitter": 0.03, "rate": 8_000, "chunk_ms": 20}, id="jitter at 8 kHz"),
        pytest.param({"speed": 3.0, "silence_at_burst": True}, id="silence straight after a burst"),
        pytest.param({"speed": 3.0, "stopped_at_burst": True}, id="stopped at the end of the burst"),
        pytest.param({"speed": 20.0, "stopped_at_burst": True, "silence_at_burst": True, "lead": 0.15}, id="all at once"),
        pytest.param({"speed": 3.0, "lead": 0.5}, id="much leading silence in a burst"),
        pytest.param({"says_started": False}, id="never says started"),
        pytest.param({"says_started": False, "stopped": None}, id="says neither started nor stopped"),
        pytest.param({"delay": 0.25}, id="quick answers"),
        pytest.param({"delay": 1.4}, id="slow answers"),
    ],
)
def test_latency_is_true_of_awkward_bots(sim: Any, manners: dict[str, Any], streams: bool) -> None:
    late = 1000 * manners.get("jitter", 0.0)
    for seed in range(3):
        errors = converse(sim, sim.pair(sim.Manners(**manners, streams_silence=streams), seed=seed))
        assert all(-10.0 <= error <= late + 10.0 for error in errors), "a frame that comes late is heard late"


@pytest.mark.parametrize("chunk_seconds", [0.005, 0.01, 0.02, 0.04, 0.1])
@pytest.mark.parametrize("rate", RATES)
def test_latency_is_true_in_chunks_of_any_length(sim: Any, chunk_seconds: float, rate: int) -> None:
    world = sim.pair(sim.Manners(rate=rate, stopped=0.35, streams_silence=True), chunk_seconds=chunk_seconds)
    errors = converse(sim, world)
    assert max(map(abs, errors)) <= max(40.0, chunk_seconds * 1000)


def test_bots_of_different_manners_do_not_disturb_each_other(sim: Any) -> None:
    odd = sim.Manners(chunk_ms=16, rate=8_000, channels=2, speed=3.0, stopped=None, streams_silence=True)
    plain = sim.Manners(chunk_ms=40, rate=48_000, stopped=8.0, lead=0.1)
    check(converse(sim, sim.pair(odd, user=plain)))
    check(converse(sim, sim.pair(plain, user=odd)))


def test_the_delay_is_that_of_the_agent_not_of_the_user(sim: Any) -> None:
    world = sim.pair(sim.Manners(delay=0.6), user=sim.Manners(delay=1.2))
    world.converse(SECONDS)
    turns, handoffs = world.finish()
    assert [handoff.latency_ms for handoff in handoffs] == [pytest.approx(600, abs=20)] * 2
    assert turns[1].start - turns[0].end > 1.2


def test_both_sides_are_recorded_on_the_frame_that_was_sent(sim: Any) -> None:
    world = sim.pair(sim.Manners())
    world.converse(SECONDS)
    turns, _ = world.finish()
    for turn in turns:
        heard = world.heard_pcm["user" if turn.side == "agent" else "agent"]
        loud = [
            any(abs(int.from_bytes(pcm[i : i + 2], "little", signed=True)) > 103 for i in range(0, len(pcm), 2)) for pcm in heard
        ]
        assert loud[turn.start_tick]
        assert not loud[turn.start_tick - 1]
        assert loud[turn.end_tick]
        assert not loud[turn.end_tick + 1]


def test_an_agent_with_a_background_mixer_is_measured_by_its_events(sim: Any) -> None:
    world = sim.pair(sim.Manners(hum=0.02), user=sim.Manners())
    world.converse(16.0, opening=7.0)
    turns, handoffs = world.finish()
    assert world.tracker.measured_by_events("agent")
    assert not world.tracker.measured_by_events("user")
    assert [turn.side for turn in turns][:3] == ["agent", "user", "agent"]
    assert [turn.text for turn in turns][:2] == [text for _, text in sim.expected][:2]
    assert handoffs
    assert handoffs[0].latency_ms == pytest.approx(600, abs=150)


def test_an_interruption_ends_the_turn_where_the_listener_last_heard_it(sim: Any) -> None:
    world = sim.pair(sim.Manners(speed=20.0))
    world.say("agent", 1.0, sentences=("A very long sentence.",) * 6)
    world.at(2.0, lambda: world.lanes["agent"].interrupt(5000.0 + world.now))
    world.at(2.01, lambda: world.event("agent", "stopped"))
    world.run(8.0)
    turns, _ = world.finish()
    assert turns[0].end == pytest.approx(2.0, abs=0.04)
    assert not world.lanes["agent"].holds_speech


@pytest.mark.parametrize(
    ("rate", "channels", "pcm"),
    [(0, 1, b"ab"), (24_000, 0, b"ab"), (2**32 - 1, 1, b"ab"), (24_000, 9, b"ab"), (24_000, 1, bytes(2**22 + 2))],
)
def test_audio_that_cannot_be_real_is_refused(sim: Any, rate: int, channels: int, pcm: bytes) -> None:
    world = sim.pair(sim.Manners())
    with pytest.raises(Exception, match="audio") as caught:
        world.lanes["agent"].receive(AudioFrame(pcm, rate, channels), 5000.0)
    assert type(caught.value).__name__ == "UnusableAudio"


def test_a_format_of_its_own_is_noted_once_however_often_it_changes(sim: Any) -> None:
    lane, notes = sim.pair(sim.Manners()).lanes["agent"], []
    for index in range(100):
        lane.receive(AudioFrame(bytes(64), (24_000, 8_000, 44_100)[index % 3], 1 + index % 2), 5000.0 + index)
        notes += [lane.format_note] if lane.format_note else []
        lane.format_note = None
    assert notes == ["sends 8000 Hz with 2 channel(s); it is converted"]


@pytest.mark.parametrize("pcm", [b"", b"a", b"abc"])
def test_frames_without_a_whole_sample_neither_sound_nor_hold_up_what_came_before(sim: Any, pcm: bytes) -> None:
    world = sim.pair(sim.Manners())
    world.say("agent", 1.0, sentences=("Hello.",))
    for index in range(300):
        world.at(1.0 + index * 0.01, lambda: world.lanes["agent"].receive(AudioFrame(pcm, 24_000, 2), 5000.0 + world.now))
    world.run(4.0)
    assert [turn.text for _, turn in world.settled if turn.side == "agent"] == ["Hello."]
