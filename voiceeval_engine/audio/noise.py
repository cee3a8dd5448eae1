"""Noise on the line: files and white noise, mixed into what the agent hears. Seeded, so a run can be repeated.

`load` reads files and may take long: call it in a thread. May import the standard library, numpy, soxr and `pcm`.
Rule: wire page, "Audio path", `noise_config`.
"""

from __future__ import annotations

import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soxr
from numpy.typing import NDArray

from voiceeval_engine.audio.pcm import Samples, to_mono

_RATES = range(4_000, 192_001)


class NoiseError(Exception):
    """A noise file cannot be used; the message names it and says why."""


class Noise:
    """An endless noise at `rate`; `mix` adds the next stretch of it to a chunk. One loop of samples is held in memory."""

    def __init__(self, loop: NDArray[np.float32], start: int) -> None:
        self._loop = loop
        self._at = start % loop.size

    @classmethod
    def load(
        cls,
        *,
        rate: int,
        seed: int,
        files: Sequence[Path],
        gain_db: float,
        max_seconds: float,
        random_offset: bool,
        white_noise: bool,
        white_noise_db: float,
    ) -> Noise | None:
        """Read 16-bit WAV files (one after the other, at most `max_seconds`), scale by `gain_db`, add white noise (RMS in dBFS).

        Returns None where there is nothing to mix. Raises NoiseError for a file that cannot be read.
        """
        random = np.random.default_rng(seed)
        gain = np.float32(10 ** (gain_db / 20))
        parts = [_read(file, rate, max_seconds) for file in files]
        loop = np.concatenate(parts)[: int(max_seconds * rate)] * gain if parts else None
        if loop is not None and not loop.size:
            loop = None
        if white_noise:
            size = loop.size if loop is not None else min(int(max_seconds * rate), 10 * rate)
            hiss = random.standard_normal(size, dtype=np.float32) * np.float32(32768 * 10 ** (white_noise_db / 20))
            loop = hiss if loop is None else loop + hiss
        if loop is None or not loop.size:
            return None
        return cls(loop, int(random.integers(loop.size)) if random_offset else 0)

    def mix(self, samples: Samples) -> Samples:
        """`samples` plus the noise that comes next, clipped to 16 bits."""
        at, size = self._at, samples.size
        stretch = self._loop[at : at + size]
        if stretch.size < size:
            stretch = np.take(self._loop, np.arange(at, at + size), mode="wrap")
        self._at = (at + size) % self._loop.size
        mixed: Samples = np.clip(samples + stretch, -32768, 32767).astype(np.int16)
        return mixed


def _read(file: Path, rate: int, max_seconds: float) -> NDArray[np.float32]:
    try:
        with wave.open(str(file), "rb") as source:
            if source.getsampwidth() != 2:
                raise NoiseError(f"noise file {file}: only 16-bit WAV is read, this has {8 * source.getsampwidth()} bits")
            own_rate = source.getframerate()
            if own_rate not in _RATES:
                raise NoiseError(f"noise file {file}: {own_rate} Hz is no rate of a recording")
            pcm = source.readframes(int(max_seconds * own_rate))
            samples = to_mono(pcm, source.getnchannels()).astype(np.float32)
    except (OSError, EOFError, RuntimeError, wave.Error) as error:  # RuntimeError: what `wave` raises for some damaged files
        raise NoiseError(f"noise file {file}: {str(error) or 'it is damaged'}") from error
    resampled: NDArray[np.float32] = samples if own_rate == rate else soxr.resample(samples, own_rate, rate)
    return resampled
