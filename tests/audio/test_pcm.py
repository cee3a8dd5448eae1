from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.audio.pcm import SPEECH_PEAK, Samples, SpeechMeter, SpeechPiece, is_loud, loud_samples, to_mono

RATE = 16_000
PIECE = 256
LOUD = np.full(PIECE, 2000, dtype=np.int16)
QUIET = np.zeros(PIECE, dtype=np.int16)


@given(st.binary(max_size=400), st.integers(1, 8))
def test_mono_has_a_sample_for_every_whole_frame(pcm: bytes, channels: int) -> None:
    samples = to_mono(pcm, channels)
    assert samples.dtype == np.int16
    assert samples.size == len(pcm) // (2 * channels)


@given(st.lists(st.integers(-32768, 32767)), st.integers(1, 8), st.binary(max_size=1))
def test_channels_that_are_alike_mix_to_themselves(values: list[int], channels: int, odd: bytes) -> None:
    mono = np.array(values, dtype="<i2")
    assert to_mono(np.repeat(mono, channels).tobytes() + odd, channels).tolist() == values


@given(st.lists(st.tuples(st.integers(-32768, 32767), st.integers(-32768, 32767)), min_size=1))
def test_a_mix_lies_between_its_channels(frames: list[tuple[int, int]]) -> None:
    mixed = to_mono(np.array(frames, dtype="<i2").tobytes(), 2)
    assert all(min(frame) <= sample <= max(frame) for frame, sample in zip(frames, mixed.tolist(), strict=True))


@given(st.lists(st.integers(-32768, 32767)))
def test_a_piece_is_loud_when_its_largest_magnitude_is(values: list[int]) -> None:
    assert is_loud(np.array(values, dtype=np.int16)) is (max(map(abs, values), default=0) > SPEECH_PEAK)


@given(st.lists(st.integers(-32768, 32767)))
def test_a_loud_sample_is_marked_in_its_place(values: list[int]) -> None:
    assert list(loud_samples(np.array(values, dtype=np.int16))) == [abs(value) > SPEECH_PEAK for value in values]


def test_speech_is_above_minus_50_dbfs() -> None:
    assert SPEECH_PEAK == 103
    for level, loud in ((103, False), (-103, False), (104, True), (-104, True), (-32768, True)):
        assert is_loud(np.array([0, level], dtype=np.int16)) is loud
    assert not is_loud(np.array([], dtype=np.int16))


def feed(meter: SpeechMeter, *chunks: Samples | None, seconds: float = 0.016) -> list[SpeechPiece]:
    """Chunk after chunk, `seconds` apart. None is a tick without audio."""
    found, position = [], 0
    for tick, chunk in enumerate(chunks):
        if chunk is None:
            meter.silence()
        else:
            found += meter.feed(loud_samples(chunk), position, tick * seconds, tick)
            position += chunk.size
    return found


def ticks(*chunks: Samples | None) -> list[int]:
    return [piece.tick for piece in feed(SpeechMeter(RATE), *chunks)]


def test_one_loud_piece_is_a_click() -> None:
    assert ticks(QUIET, LOUD, QUIET, LOUD, QUIET, LOUD, None, LOUD) == []


def test_speech_begins_with_two_loud_pieces_in_a_row_dated_at_the_first() -> None:
    assert ticks(QUIET, LOUD, LOUD, LOUD, QUIET) == [1, 2, 3]
    assert [piece.sent for piece in feed(SpeechMeter(RATE), LOUD, LOUD)] == [0.0, 0.016]


def test_speech_goes_on_over_a_gap_of_up_to_50_ms() -> None:
    assert ticks(LOUD, LOUD, QUIET, LOUD, None, None, LOUD) == [0, 1, 3, 6]


def test_after_a_longer_gap_speech_must_show_itself_anew() -> None:
    assert ticks(LOUD, LOUD, *[QUIET] * 3, LOUD, QUIET, LOUD, QUIET) == [0, 1]
    assert ticks(LOUD, LOUD, *[None] * 3, LOUD, LOUD) == [0, 1, 5, 6]


def test_speech_begins_at_its_first_loud_sample() -> None:
    late = QUIET.copy()
    late[200:] = -500
    assert feed(SpeechMeter(RATE), QUIET, late, LOUD, LOUD) == [
        SpeechPiece(0.016, 1, 456),
        SpeechPiece(0.032, 2, 512),
        SpeechPiece(0.048, 3, 768),
    ]


@pytest.mark.parametrize("milliseconds", [5, 8, 10, 16, 20, 24, 30, 32, 40, 100])
def test_chunks_of_any_length_find_the_same_speech(milliseconds: int) -> None:
    size = RATE * milliseconds // 1000
    sound = np.zeros(RATE * 2, dtype=np.int16)
    sound[8000:24000] = 2000
    chunks = [sound[start : start + size] for start in range(0, sound.size, size)]
    found = feed(SpeechMeter(RATE), *chunks, seconds=milliseconds / 1000)
    assert found[0].position == 8000
    assert found[0].tick == 8000 // size
    assert found[-1].tick == 23999 // size


@pytest.mark.parametrize("milliseconds", [5, 8, 10, 16, 20, 24, 32, 40, 100])
def test_a_short_click_is_no_speech_in_chunks_of_any_length(milliseconds: int) -> None:
    size = RATE * milliseconds // 1000
    for start in range(0, 4 * size, 7):
        sound = np.zeros(8 * size, dtype=np.int16)
        sound[start : start + 2] = 9000
        chunks = [sound[at : at + size] for at in range(0, sound.size, size)]
        borders = {piece for at in range(0, sound.size, size) for piece in range(at, at + size, PIECE)}
        if start + 1 not in borders:
            assert feed(SpeechMeter(RATE), *chunks) == []


@pytest.mark.parametrize("milliseconds", [5, 8])
def test_a_click_of_a_few_ms_is_no_speech_where_it_falls_into_several_short_chunks(milliseconds: int) -> None:
    size = RATE * milliseconds // 1000
    for start in range(2 * size, 3 * size):
        sound = np.zeros(8 * size, dtype=np.int16)
        sound[start : start + 80] = 9000
        assert feed(SpeechMeter(RATE), *[sound[at : at + size] for at in range(0, sound.size, size)]) == []


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 700)), max_size=20), st.integers(64, 700))
def test_speech_is_told_once_in_order_and_within_its_chunk(runs: list[tuple[bool, int]], size: int) -> None:
    sound = np.concatenate([np.full(length, 2000 if loud else 0, dtype=np.int16) for loud, length in runs] or [QUIET])
    found = feed(SpeechMeter(RATE), *[sound[at : at + size] for at in range(0, sound.size, size)], seconds=size / RATE)
    places = [piece.position for piece in found]
    assert places == sorted(set(places))
    for piece in found:
        assert piece.tick == piece.position // size
        assert is_loud(sound[piece.position : piece.position + PIECE])
