"""One direction's play-out: what a bot sent, resampled as a stream, buffered against jitter, handed out a chunk a tick.

The buffer also keeps the bot's events in their place between the audio, so that whoever reads turns sees events and sound in the
order in which the listener gets them. Times are s on one monotonic clock, positions are samples at the listener's rate since the
start. May import the standard library, numpy, soxr and `pcm`. Rules: wire page, "Audio path" and "Latency".
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import soxr

from voiceeval_engine.audio.pcm import Samples, is_loud, loud_samples

Event = TypeVar("Event")

DRY_SECONDS = 0.040
MAX_SECONDS = 600.0
_JITTER_CHUNKS = 5
STREAMED_SILENCE_SECONDS = 1.0
_BACKLOG_SECONDS = 0.020
_BURST_SPEED = 1.5
_HELD_BACK_SECONDS = 0.120
"""Bound of what soxr keeps back; at 8 kHz it is 116 ms."""
_ROUNDING = 8
"""Samples by which a resampled stream's length may differ from the exact ratio."""
_RINGING_SECONDS = 0.004
"""A resampled onset rings this long before it: that much of the frame before may be loud without being speech."""


class Chunk(NamedTuple):
    """A stretch of audio, such as what is to be played in one tick: 16-bit PCM, and which samples are loud (`loud_samples`)."""

    pcm: bytes
    loud: bytes


class Origin(NamedTuple):
    """Where a sample came from: when its frame arrived, and when a listener without any buffer would have heard it."""

    arrived: float
    heard: float


@dataclass(slots=True)
class _Mark:
    position: int
    arrived: float
    heard: float


class Playout(Generic[Event]):
    """`push` what arrives, `pop` one chunk a tick, `due` for the events whose place has been reached."""

    def __init__(self, rate: int, chunk: int) -> None:
        self.dropped_seconds = 0.0
        self._rate = rate
        self._chunk = chunk
        self._depth = _JITTER_CHUNKS * chunk
        self._kept = max(chunk, round(DRY_SECONDS * rate))
        self._held_back = 0
        """How much the resampler takes at this rate until it hands out a block: play-out starts later by that. 0 = not known yet."""
        self._blocks: deque[Chunk] = deque()
        self._begun = 0
        """How many samples of the first block have been handed out."""
        self._loud_until = 0
        self._pushed = 0
        self._popped = 0
        self._stream: soxr.ResampleStream | None = None
        self._in_rate = rate
        self._stream_base = 0
        self._stream_in = 0
        self._end = 0
        """The position at which the next received sample will come out."""
        self._playing = False
        self._waiting_since = 0.0
        self._last_push = float("-inf")
        self._last_seconds = 0.0
        self._heard_until = float("-inf")
        self._silent_seconds = 0.0
        self._skipped = 0.0
        self._skipped_since = 0.0
        self._marks: deque[_Mark] = deque()
        self._events: deque[tuple[int, Event]] = deque()

    @property
    def position(self) -> int:
        """The stream position of the next sample to be handed out."""
        return self._popped

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to hand out, neither sound nor event, and nothing on its way through the resampler."""
        return not (self._playing or self._blocks or self._stream_in or self._events)

    @property
    def holds_speech(self) -> bool:
        """Whether loud audio is still waiting to be handed out."""
        return self._loud_until > self._popped

    def push(self, samples: Samples, rate: int, now: float) -> bool:
        """Take one received frame (mono samples at `rate` Hz); returns whether it is loud.

        Streamed silence beyond a second is not queued up behind late audio, else a bot that bursts its speech and then streams
        silence would be heard later and later; it still counts as audio time where it came in a burst with the speech behind it. What
        does not fit 10 minutes is dropped and counted.
        """
        if not samples.size:
            return False
        if rate != self._in_rate:
            self._end_stream()
            self._in_rate = rate
            self._stream = soxr.ResampleStream(rate, self._rate, 1, dtype="int16", quality="HQ") if rate != self._rate else None
            self._held_back = 0
        seconds = samples.size / rate
        if now - self._last_push >= DRY_SECONDS + self._last_seconds:
            self._end_stream()
        loud = is_loud(samples)
        if loud:
            self._silent_seconds = 0.0
        else:
            self._silent_seconds += seconds
            if self._silent_seconds > STREAMED_SILENCE_SECONDS and self._heard_until > now + _BACKLOG_SECONDS:
                if not self._skipped:
                    self._skipped_since = now
                self._skipped += seconds
                return False
        if self._pushed - self._popped + samples.size * self._rate / rate > MAX_SECONDS * self._rate:
            self.dropped_seconds += seconds
            return loud
        burst = self._skipped > _BURST_SPEED * (now - self._skipped_since)
        heard = max(now, self._heard_until + (self._skipped if burst else 0.0))
        self._heard_until, self._skipped = heard + seconds, 0.0
        if self._end == self._popped:
            self._waiting_since = now
        self._marks.append(_Mark(self._end, now, heard))
        self._stream_in += samples.size
        self._end = self._stream_base + round(self._stream_in * self._rate / rate)
        self._last_push, self._last_seconds = now, seconds
        self._append(samples if self._stream is None else self._stream.resample_chunk(samples))
        if not self._held_back and self._stream is not None and self._pushed > self._stream_base:
            self._held_back = min(self._end - self._stream_base, round(_HELD_BACK_SECONDS * self._rate))
        if loud:
            self._loud_until = self._end
        return loud

    def push_event(self, event: Event) -> None:
        """Put an event behind all audio received so far."""
        self._events.append((self._end, event))

    def pop(self, now: float) -> Chunk | None:
        """The next chunk, padded with silence where the sound ends; None where there is nothing to play."""
        dry = DRY_SECONDS + min(self._last_seconds, DRY_SECONDS)
        buffered = self._pushed - self._popped
        if buffered < self._chunk and self._stream_in and now - self._last_push >= dry:
            self._end_stream()
            buffered = self._pushed - self._popped
        if not buffered:
            self._playing = False
            return None
        if not self._playing:
            depth = self._depth + self._held_back
            if self._end - self._popped < depth and now - self._waiting_since < depth / self._rate:
                return None
            self._playing = True
        if buffered < self._chunk and self._pushed > self._stream_base:
            return None
        return self._take()

    def due(self) -> list[Event]:
        """The events whose place in the audio has been reached, in order."""
        events = self._events
        if not events:
            return []
        ready: list[Event] = []
        while events and events[0][0] <= self._popped + _ROUNDING:
            ready.append(events.popleft()[1])
        return ready

    def take_all_events(self) -> list[Event]:
        """All events still waiting, for the end of a conversation."""
        ready = [event for _, event in self._events]
        self._events.clear()
        return ready

    def interrupt(self, now: float) -> None:
        """Drop the audio that has not been played; events that stood behind it are due at once."""
        self._blocks.clear()
        self._begun = 0
        self._popped = self._loud_until = self._pushed
        self._restart_stream()
        self._heard_until = now
        self._marks.clear()
        self._playing = False
        self._events = deque((min(place, self._popped), event) for place, event in self._events)

    def origin(self, position: int) -> Origin:
        """Where the sample at `position` came from; only for samples of the two chunks, or 40 ms, handed out last."""
        mark = self._marks[0]
        for later in self._marks:
            if later.position > position + _RINGING_SECONDS * self._rate:
                break
            mark = later
        return Origin(mark.arrived, max(mark.arrived, mark.heard + (position - mark.position) / self._rate))

    def _append(self, samples: Samples) -> None:
        if samples.size:
            self._blocks.append(Chunk(samples.tobytes(), loud_samples(samples)))
            self._pushed += samples.size

    def _end_stream(self) -> None:
        if self._stream is not None and self._stream_in:
            self._append(self._stream.resample_chunk(np.empty(0, dtype=np.int16), last=True))
        self._restart_stream()
        self._loud_until = min(self._loud_until, self._pushed)

    def _restart_stream(self) -> None:
        if self._stream is not None:
            self._stream.clear()
        self._stream_base = self._end = self._pushed
        self._stream_in = 0

    def _take(self) -> Chunk:
        size, pcm, loud = self._chunk, b"", b""
        while len(loud) < size and self._blocks:
            block, begin = self._blocks[0], self._begun
            end = begin + size - len(loud)
            pcm += block.pcm[2 * begin : 2 * end]
            loud += block.loud[begin:end]
            self._begun = end
            if end >= len(block.loud):
                self._blocks.popleft()
                self._begun = 0
        taken = len(loud)
        while len(self._marks) > 1 and self._marks[1].position <= self._popped - self._kept:
            self._marks.popleft()
        self._popped += taken
        return Chunk(pcm.ljust(2 * size, b"\0"), loud.ljust(size, b"\0"))
