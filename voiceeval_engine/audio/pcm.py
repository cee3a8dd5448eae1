"""16-bit PCM as values: mono samples from received bytes, peaks, and where speech begins and goes on.

May import the standard library and numpy only. Rules: wire page, "Frames" (downmix, odd bytes) and "Audio path" (speech by energy).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.int16]
_WIRE = np.dtype("<i2")

SPEECH_DBFS = -50.0
SPEECH_PEAK = int(32768 * 10 ** (SPEECH_DBFS / 20))
"""A piece is loud when its peak is above this (103 of 32767)."""
PIECE_SECONDS = 0.016
NEAR_SECONDS = 0.050
"""Speech goes on over a gap of at most this: there a lone loud piece is no click."""


def to_mono(pcm: bytes, channels: int) -> Samples:
    """Interleaved 16-bit little-endian bytes as mono samples; an odd trailing byte or part of a frame is dropped."""
    whole = len(pcm) - len(pcm) % (2 * channels)
    samples: Samples = np.frombuffer(pcm, dtype=_WIRE, count=whole // 2).astype(np.int16, copy=False)
    if channels == 1:
        return samples
    mixed: Samples = samples.reshape(-1, channels).astype(np.int32).mean(axis=1).astype(np.int16)
    return mixed


def loud_samples(samples: Samples) -> bytes:
    """A byte a sample: 1 where its magnitude is above -50 dBFS, else 0.

    Audio is measured once a tick and numpy is slow to wake up: what a tick needs is found out when a frame arrives, and a tick cuts
    and searches bytes.
    """
    return (np.abs(samples).view(np.uint16) > SPEECH_PEAK).tobytes()  # unsigned: -32768 has no positive in 16 bit


def is_loud(samples: Samples) -> bool:
    """Whether the peak is above -50 dBFS."""
    return 1 in loud_samples(samples)


class SpeechPiece(NamedTuple):
    """Up to 16 ms of speech: when it was sent on (s), its tick, and its place in the stream; where speech begins, that of its
    first loud sample.
    """

    sent: float
    tick: int
    position: int


class SpeechMeter:
    """Finds speech in one side's audio as it is sent on, chunk by chunk.

    Speech begins with two loud pieces in a row, dated at the first; then every loud piece that follows the last one within 50 ms is
    speech too. Any other lone loud piece is a click. Where chunks cut pieces short, it takes as many as are longer than a whole one.
    """

    def __init__(self, rate: int) -> None:
        self._piece = max(1, round(rate * PIECE_SECONDS))
        self._waiting: list[SpeechPiece] = []
        self._waiting_samples = 0
        self._last = float("-inf")

    def silence(self) -> None:
        """A chunk without any audio went out."""
        self._waiting = []
        self._waiting_samples = 0

    def feed(self, loud: bytes, position: int, sent: float, tick: int) -> list[SpeechPiece]:
        """The pieces that are now known to be speech, oldest first, from a chunk's `loud_samples`; `position` is its first one's."""
        found: list[SpeechPiece] = []
        for start in range(0, len(loud), self._piece):
            part = loud[start : start + self._piece]
            onset = part.find(1)
            if onset < 0:
                self.silence()
            elif sent - self._last <= NEAR_SECONDS:
                self._last = sent
                found.append(SpeechPiece(sent, tick, position + start))
            else:
                begins = position + start + (0 if self._waiting else onset)
                self._waiting.append(SpeechPiece(sent, tick, begins))
                self._waiting_samples += len(part)
                if self._waiting_samples > self._piece:
                    found += self._waiting
                    self.silence()
                    self._last = sent
        return found
