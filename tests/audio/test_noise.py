from __future__ import annotations

import contextlib
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from voiceeval_engine.audio.noise import Noise, NoiseError

RATE = 16_000


def write(path: Path, samples: np.ndarray, rate: int = RATE, channels: int = 1, width: int = 2) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return path


def load(*files: Path, **changes: Any) -> Noise | None:
    settings: dict[str, Any] = {
        "rate": RATE, "seed": 1, "files": files, "gain_db": 0.0, "max_seconds": 600.0, "random_offset": False, "white_noise": False,
        "white_noise_db": -90.0,
    }  # fmt: skip
    return Noise.load(**(settings | changes))


def hear(noise: Noise | None, seconds: float = 1.0, chunk: int = 256) -> np.ndarray:
    assert noise is not None
    count = round(seconds * RATE / chunk)
    return np.concatenate([noise.mix(np.zeros(chunk, dtype=np.int16)) for _ in range(count)])


def tone(seconds: float, rate: int = RATE, level: int = 3000) -> np.ndarray:
    return np.sin(2 * np.pi * 300 * np.arange(round(seconds * rate)) / rate) * level


def rms_db(samples: np.ndarray) -> float:
    return float(20 * np.log10(np.sqrt(np.mean((samples / 32768.0) ** 2))))


def test_no_noise_is_none(tmp_path: Path) -> None:
    assert load() is None
    assert load(write(tmp_path / "empty.wav", np.zeros(0))) is None


def test_a_file_is_heard_from_its_beginning_and_over_again(tmp_path: Path) -> None:
    own = np.arange(1000)
    heard = hear(load(write(tmp_path / "n.wav", own)))
    assert (heard == np.resize(own, heard.size)).all()


@pytest.mark.parametrize("length", [1, 7, 255, 256, 257, 1000])
def test_a_loop_of_any_length_wraps_without_a_seam(tmp_path: Path, length: int) -> None:
    own = np.arange(length) + 1
    heard = hear(load(write(tmp_path / "n.wav", own)), chunk=256)
    assert (heard == np.resize(own, heard.size)).all()


def test_files_follow_one_another_and_are_cut_to_the_longest_duration(tmp_path: Path) -> None:
    one, two = write(tmp_path / "1.wav", np.full(1000, 5)), write(tmp_path / "2.wav", np.full(1000, 9))
    heard = hear(load(one, two, max_seconds=1500 / RATE))
    assert (heard[:3000] == np.resize([5] * 1000 + [9] * 500, 3000)).all()


def test_gain_is_in_db(tmp_path: Path) -> None:
    own = write(tmp_path / "n.wav", tone(1.0))
    assert rms_db(hear(load(own, gain_db=-20.0))) == pytest.approx(rms_db(tone(1.0)) - 20.0, abs=0.1)
    assert rms_db(hear(load(own, gain_db=6.0))) == pytest.approx(rms_db(tone(1.0)) + 6.0, abs=0.1)


def test_a_mix_is_a_sum_that_is_clipped(tmp_path: Path) -> None:
    noise = load(write(tmp_path / "n.wav", np.full(1000, 30_000)))
    assert noise is not None
    assert noise.mix(np.array([1, 10_000, -10_000], dtype=np.int16)).tolist() == [30_001, 32_767, 20_000]
    loud = load(write(tmp_path / "n.wav", np.full(1000, -30_000)))
    assert loud is not None
    assert loud.mix(np.array([-32_768], dtype=np.int16)).tolist() == [-32_768]


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_files_of_other_rates_and_stereo_sound_the_same(tmp_path: Path, rate: int, channels: int) -> None:
    own = write(tmp_path / "n.wav", np.repeat(tone(1.0, rate), channels), rate, channels)
    heard = hear(load(own))
    assert rms_db(heard) == pytest.approx(rms_db(tone(1.0)), abs=0.2)
    spectrum = np.abs(np.fft.rfft(heard[:16_000].astype(float), 16_000))
    assert int(spectrum.argmax()) == 300


@pytest.mark.parametrize("level", [-90.0, -50.0, -30.0])
def test_white_noise_has_the_level_asked_for(level: float) -> None:
    heard = hear(load(white_noise=True, white_noise_db=level), 5.0)
    if level > -80:
        assert rms_db(heard) == pytest.approx(level, abs=0.5)
    else:
        assert np.abs(heard).max() <= 5


def test_white_noise_and_files_are_added(tmp_path: Path) -> None:
    own = write(tmp_path / "n.wav", np.full(RATE, 1000))
    heard = hear(load(own, white_noise=True, white_noise_db=-40.0)).astype(float)
    assert heard.mean() == pytest.approx(1000, abs=10)
    assert rms_db(heard - heard.mean()) == pytest.approx(-40.0, abs=0.5)


@pytest.mark.parametrize("white", [False, True])
def test_the_same_seed_gives_the_same_noise_and_another_one_another(tmp_path: Path, white: bool) -> None:
    own = write(tmp_path / "n.wav", np.arange(20_000) % 7000)
    settings: dict[str, Any] = {"random_offset": True, "white_noise": white, "white_noise_db": -40.0}
    first, again, other = (hear(load(own, seed=seed, **settings)) for seed in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("max_seconds", [0.0, 1e-9, 1e-5])
def test_no_time_at_all_is_no_noise(tmp_path: Path, max_seconds: float) -> None:
    own = write(tmp_path / "n.wav", tone(1.0))
    for white in (False, True):
        for offset in (False, True):
            assert load(own, max_seconds=max_seconds, white_noise=white, random_offset=offset) is None
            assert load(max_seconds=max_seconds, white_noise=white, random_offset=offset) is None


def test_what_is_no_16_bit_wav_is_named_with_the_reason(tmp_path: Path) -> None:
    text = tmp_path / "text.wav"
    text.write_text("hello, this is no sound at all")
    (tmp_path / "empty.wav").write_bytes(b"")
    wide = write(tmp_path / "wide.wav", np.zeros(100), width=1)
    for bad in (text, tmp_path / "empty.wav", wide, tmp_path / "missing.wav", tmp_path):
        with pytest.raises(NoiseError, match=f"noise file {bad}: ."):
            load(bad)
    with pytest.raises(NoiseError, match="only 16-bit WAV is read, this has 8 bits"):
        load(wide)


@pytest.mark.parametrize("rate", [1, 100, 3_999, 200_000, 1_000_000_000])
def test_a_rate_that_no_sound_has_is_refused(tmp_path: Path, rate: int) -> None:
    with pytest.raises(NoiseError, match=f"{rate} Hz"):
        load(write(tmp_path / "n.wav", np.zeros(1000), rate))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=6), st.integers(0, 300))
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, changes: list[tuple[int, int]], length: int) -> None:
    data = bytearray(write(tmp_path / "n.wav", tone(0.01)).read_bytes())
    for place, value in changes:
        data[place] = value
    (tmp_path / "bad.wav").write_bytes(data[: len(data) - length])
    with contextlib.suppress(NoiseError):
        noise = load(tmp_path / "bad.wav")
        assert noise is None or hear(noise, 0.1).dtype == np.int16
