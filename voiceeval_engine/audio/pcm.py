"""16-bit PCM as values: mono samples from received bytes, peaks, and where speech begins and goes on.

May import the standard library and numpy only. Rules: wire page, "Frames" (downmix, odd bytes) and "Audio path" (speech by energy).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.int16]

SPEECH_DBFS = -50.0
SPEECH_PEAK = int(32768 * 10 ** (SPEECH_DBFS / 20))
"""A piece is loud when its peak is above this (103 of 32767)."""
PIECE_SECONDS = 0.016


def to_mono(pcm: bytes, channels: int) -> Samples:
    """Interleaved 16-bit little-endian bytes as mono samples; an odd trailing byte or part of a frame is dropped."""
    whole = len(pcm) - len(pcm) % (2 * channels)
    samples: Samples = np.frombuffer(pcm, dtype="<i2", count=whole // 2).astype(np.int16, copy=False)
    if channels == 1:
        return samples
    mixed: Samples = samples.reshape(-1, channels).astype(np.int32).mean(axis=1).astype(np.int16)
    return mixed


def peak(samples: Samples) -> int:
    """The largest magnitude, 0 for no samples."""
    return max(int(samples.max()), -int(samples.min())) if samples.size else 0


def is_loud(samples: Samples) -> bool:
    """Whether the peak is above -50 dBFS."""
    return peak(samples) > SPEECH_PEAK


@dataclass(frozen=True, slots=True)
class SpeechPiece:
    """Up to 16 ms of speech: when it was sent on (s), its tick, and the stream position of its first and last loud sample."""

    sent: float
    tick: int
    first: int
    last: int


class SpeechMeter:
    """Finds speech in one side's audio as it is sent on, chunk by chunk.

    Speech is two loud pieces in a row and every loud piece that follows one without a gap; a lone loud piece (a click) is none.
    """

    def __init__(self, rate: int) -> None:
        self._piece = max(1, round(rate * PIECE_SECONDS))
        self._waiting: SpeechPiece | None = None
        self._speaking = False

    def silence(self) -> None:
        """A chunk without any audio went out."""
        self._waiting = None
        self._speaking = False

    def feed(self, samples: Samples, position: int, sent: float, tick: int) -> list[SpeechPiece]:
        """The pieces that are now known to be speech, oldest first; `position` is that of the first sample."""
        found: list[SpeechPiece] = []
        for start in range(0, samples.size, self._piece):
            part = samples[start : start + self._piece]
            if not is_loud(part):
                self.silence()
                continue
            loud = np.flatnonzero((part > SPEECH_PEAK) | (part < -SPEECH_PEAK))
            piece = SpeechPiece(sent, tick, position + start + int(loud[0]), position + start + int(loud[-1]))
            if self._speaking:
                found.append(piece)
            elif self._waiting is not None:
                found += [self._waiting, piece]
                self._waiting = None
                self._speaking = True
            else:
                self._waiting = piece
        return found
