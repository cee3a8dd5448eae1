"""Hearing the other side: when its speech starts and ends, by energy alone.

A pure state machine: a received audio frame and the time of its arrival go in, what was heard comes out. Two frames in a row above
-35 dBFS (peak) start speech, dated at the first; a hang-over without such a frame ends it, dated at the last loud one. A line noisy
at -50 dBFS stays below the threshold. May import numpy and the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

THRESHOLD_DBFS = -35.0
HANG_OVER = 0.4
"""s without a loud frame after which speech has ended; longer than any pause inside a text."""

_THRESHOLD = 32768 * 10 ** (THRESHOLD_DBFS / 20)


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """The other side began to speak at `at` (arrival of its first loud frame, s)."""

    at: float


@dataclass(frozen=True, slots=True)
class SpeechEnded:
    """The other side was last heard at `at` (arrival of its last loud frame, s)."""

    at: float


Heard = SpeechStarted | SpeechEnded


class Ears:
    """Follows one direction of audio. `speaking_since` is when the speech that goes on now began, None in silence."""

    def __init__(self, hang_over: float = HANG_OVER) -> None:
        self.speaking_since: float | None = None
        self.last_loud = float("-inf")
        self._hang_over = hang_over
        self._first_loud: float | None = None

    def hear(self, now: float, pcm: bytes) -> Heard | None:
        """Take one received frame (16-bit PCM, any rate and channels); returns what became known by it."""
        if not is_loud(pcm):
            self._first_loud = None
            return self.wait(now)
        ended = self.wait(now)
        self.last_loud = now
        if self.speaking_since is None:
            if self._first_loud is None:
                self._first_loud = now
            else:
                self.speaking_since = self._first_loud
                return SpeechStarted(self.speaking_since)
        return ended

    def wait(self, now: float) -> Heard | None:
        """Let time pass without audio: speech ends after the hang-over even when frames stop coming."""
        if self.speaking_since is None or now - self.last_loud < self._hang_over:
            return None
        self.speaking_since = None
        self._first_loud = None
        return SpeechEnded(self.last_loud)


def is_loud(pcm: bytes) -> bool:
    """Whether any sample of the frame is above the threshold; an odd trailing byte is left out."""
    samples = np.frombuffer(pcm, dtype="<i2", count=len(pcm) // 2)
    return bool(samples.size) and (int(samples.max()) > _THRESHOLD or int(samples.min()) < -_THRESHOLD)
