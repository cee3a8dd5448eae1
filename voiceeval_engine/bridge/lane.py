"""One direction of a conversation: what one bot says, from its frames to the other bot's ears, and what that tells about turns.

May import wire, audio and this folder. Rules: wire page, "Frames", "Audio path", "Turns".
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from voiceeval_engine.audio.noise import Noise
from voiceeval_engine.audio.pcm import SpeechMeter, to_mono
from voiceeval_engine.audio.playout import Playout
from voiceeval_engine.bridge.turns import Side, Speech, TextKind, TurnTracker
from voiceeval_engine.wire.frames import AudioEncoder, AudioFrame

Kind = Literal["started", "stopped", "interrupted"] | TextKind
TurnEvent = tuple[Kind, str, float]
"""What a bot said about its turn: kind, text (words only), when it arrived (s on the conversation's clock)."""

MAX_AUDIO_BYTES = 4 * 2**20
_RATES = range(4_000, 192_001)
_CHANNELS = range(1, 9)
EXPECTED_RATE, EXPECTED_CHANNELS = 24_000, 1


class UnusableAudio(Exception):
    """An audio frame that cannot be played; the message says why."""


class Lane:
    """`receive` and `mark` when something arrives, `next_frame` once a tick. Times given to it are the loop's, except `sent`."""

    def __init__(self, side: Side, rate: int, chunk: int, tracker: TurnTracker, noise: Noise | None) -> None:
        self.side = side
        self.format_note: str | None = None
        self._tracker = tracker
        self._noise = noise
        self._playout: Playout[TurnEvent] = Playout(rate, chunk)
        self._meter = SpeechMeter(rate)
        self._metered = False
        self._silence = bytes(2 * chunk)
        self._encode = AudioEncoder(len(self._silence), rate).encode
        self._silent_frame = self._encode(self._silence)
        self._noted = False

    @property
    def holds_speech(self) -> bool:
        """Whether speech of this side waits to be sent on."""
        return self._playout.holds_speech

    @property
    def dropped_seconds(self) -> float:
        """Audio that found no room in ten minutes of buffer, in s."""
        return self._playout.dropped_seconds

    def receive(self, frame: AudioFrame, now: float) -> bool:
        """Take a frame from the bot; returns whether it is loud. Raises UnusableAudio for a format that cannot be real.

        Sets `format_note` once, when a format is not what bots usually send.
        """
        if frame.rate not in _RATES or frame.channels not in _CHANNELS:
            raise UnusableAudio(f"audio of {frame.rate} Hz with {frame.channels} channels")
        if len(frame.pcm) > MAX_AUDIO_BYTES:
            raise UnusableAudio(f"an audio frame of {len(frame.pcm)} bytes")
        if not self._noted and (frame.rate, frame.channels) != (EXPECTED_RATE, EXPECTED_CHANNELS):
            self._noted = True
            self.format_note = f"sends {frame.rate} Hz with {frame.channels} channel(s); it is converted"
        return self._playout.push(to_mono(frame.pcm, frame.channels), frame.rate, now)

    def mark(self, kind: Kind, text: str, at: float) -> None:
        """Put an event of the bot in its place behind the audio received so far."""
        self._playout.push_event((kind, text, at))

    def interrupt(self, now: float) -> None:
        """Drop what has not been sent on."""
        self._playout.interrupt(now)
        self._playout.push_event(("interrupted", "", now))
        self._meter.silence()

    def next_frame(self, now: float, sent: float, zero: float, tick: int) -> tuple[bytes, bytes, bool]:
        """The frame to send on now, its PCM for the recording, and whether it carries speech.

        `sent` is the moment on the conversation's clock, `zero` that clock's zero on the loop's.
        """
        if self._playout.is_idle and not self._metered and self._noise is None:
            return self._silent_frame, self._silence, False
        for event in self._playout.due():
            self._tell(event)
        position = self._playout.position
        chunk = self._playout.pop(now)
        speaks = False
        if chunk is None:
            if self._metered:
                self._meter.silence()
                self._metered = False
            if self._noise is None:
                return self._silent_frame, self._silence, False
            pcm = self._silence
        else:
            pcm = chunk.pcm
            self._metered = True
            for piece in self._meter.feed(chunk.loud, position, sent, tick):
                first = self._playout.origin(piece.position)
                speech = Speech(piece.sent, piece.tick, first.arrived - zero, first.heard - zero)
                self._tracker.on_speech(self.side, speech)
                speaks = True
        if self._noise is not None:
            pcm = self._noise.mix(np.frombuffer(pcm, dtype=np.int16)).tobytes()
        return self._encode(pcm), pcm, speaks

    def drain(self) -> None:
        """The conversation is over: tell the tracker the events still waiting behind audio that is never sent."""
        for event in self._playout.take_all_events():
            self._tell(event)

    def _tell(self, event: TurnEvent) -> None:
        kind, text, at = event
        if kind == "started":
            self._tracker.on_started(self.side, at)
        elif kind == "stopped":
            self._tracker.on_stopped(self.side, at)
        elif kind == "interrupted":
            self._tracker.on_interrupted(self.side)
        else:
            self._tracker.on_text(self.side, text, kind)
