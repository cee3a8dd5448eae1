from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.bots import voice
from voiceeval_engine.bots.ears import Ears, Heard, SpeechEnded, SpeechStarted

FRAME = 0.016
LOUD = (np.ones(256) * 3000).astype("<i2").tobytes()
QUIET = bytes(512)


def hear_all(frames: list[bytes], ears: Ears | None = None) -> list[Heard]:
    ears = ears or Ears()
    return [heard for index, frame in enumerate(frames) if (heard := ears.hear(index * FRAME, frame)) is not None]


def test_speech_is_dated_at_its_first_and_last_loud_frame() -> None:
    heard = hear_all([QUIET] * 10 + [LOUD] * 50 + [QUIET] * 40)
    assert heard == [SpeechStarted(10 * FRAME), SpeechEnded(59 * FRAME)]


def test_one_loud_frame_is_a_click_and_no_speech() -> None:
    assert hear_all([QUIET, LOUD, QUIET, QUIET, LOUD] + [QUIET] * 40) == []


@given(st.integers(min_value=1, max_value=23))
def test_a_pause_shorter_than_the_hang_over_splits_nothing(pause: int) -> None:
    heard = hear_all([LOUD] * 20 + [QUIET] * pause + [LOUD] * 20 + [QUIET] * 40)
    assert heard == [SpeechStarted(0.0), SpeechEnded((39 + pause) * FRAME)]


def test_speech_ends_when_frames_stop_coming() -> None:
    ears = Ears()
    hear_all([LOUD] * 10, ears)
    assert ears.wait(9 * FRAME + 0.39) is None
    assert ears.wait(9 * FRAME + 0.41) == SpeechEnded(9 * FRAME)
    assert ears.speaking_since is None


def test_speech_after_a_gap_in_the_frames_ends_the_old_and_starts_anew() -> None:
    ears = Ears()
    hear_all([LOUD] * 10, ears)
    assert ears.hear(5.0, LOUD) == SpeechEnded(9 * FRAME)
    assert ears.hear(5.0 + FRAME, LOUD) == SpeechStarted(5.0)


def test_noise_at_minus_50_dbfs_is_no_speech_and_hides_no_end() -> None:
    noise = np.random.default_rng(7).standard_normal((400, 256)) * 32768 * 10 ** (-50 / 20)
    speech = np.frombuffer(voice.speak("Can you hear me?", voice.TIMBRES["user"], 16000), dtype="<i2")
    line = noise.reshape(-1).copy()
    line[100 * 256 : 100 * 256 + speech.size] += speech
    frames = [part.astype("<i2").tobytes() for part in line.reshape(-1, 256)]
    heard = hear_all(frames)
    assert [type(item) for item in heard] == [SpeechStarted, SpeechEnded]
    assert heard[0].at == 100 * FRAME
    assert abs(heard[1].at - (100 * 256 + speech.size) / 16000) <= 2 * FRAME


@given(st.binary(max_size=700))
def test_any_bytes_can_be_heard(data: bytes) -> None:
    Ears().hear(0.0, data)
