"""Saying a text: audio frames on absolute targets, and the events that a real server sends around them.

Two frames precede `bot-started-speaking`; between two sentences of one text the bot says "stopped" and 1 ms later "started"; a
sentence's `bot-tts-text` comes after its audio. All of it bends to the bot's manners. Knows no socket: it sends through two
functions and runs later events through a third. May import wire, numpy, its own folder and the standard library.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from voiceeval_engine.bots import voice
from voiceeval_engine.bots.script import Manners
from voiceeval_engine.wire.frames import encode_audio, encode_interruption

SendFrame = Callable[[bytes], Awaitable[None]]
SendEvent = Callable[[str, Any], Awaitable[None]]
Spawn = Callable[[Coroutine[Any, Any, None]], object]

_SENTENCE_PAUSE = 0.12
_FRAMES_BEFORE_STARTED = 2


@dataclass
class Spoken:
    """What became of one utterance. Times are on the event loop's clock, None where it did not get that far.

    `speech_due` is when the first speech can be heard by someone who plays the audio as it comes: a bot that sends its leading
    silence faster than real time is not heard earlier for it.
    """

    text: str = ""
    first_audio: float | None = None
    first_speech: float | None = None
    speech_due: float | None = None
    cut: bool = False
    died: bool = False


class Mouth:
    """One bot's way of speaking on one connection. `talking_since` is set while audio is sent or still plays out."""

    def __init__(self, manners: Manners, timbre: voice.Timbre, send_frame: SendFrame, send_event: SendEvent, spawn: Spawn) -> None:
        self.talking_since: float | None = None
        self.next_at: float | None = None
        """When the next utterance is planned to begin; streamed silence ends exactly there."""
        self._manners = manners
        self._timbre = timbre
        self._send_frame = send_frame
        self._send_event = send_event
        self._spawn = spawn
        self._clock = asyncio.get_running_loop().time
        self._cut = asyncio.Event()
        self._covered_until = self._clock()

    def cut(self) -> None:
        """Stop speaking: somebody speaks over it."""
        self._cut.set()

    async def say(self, text: str, at: float, die_after: float | None) -> Spoken:
        """Say `text`, its first frame at `at`; returns when it has played out, was cut short, or came to its death."""
        spoken = Spoken()
        self._cut.clear()
        self.next_at = None
        self.talking_since = at
        try:
            await self._send_event("bot-tts-started", None)
            await self._sentences(voice.sentences(text), at, die_after, spoken)
            if spoken.cut:
                await self._interrupted()
        finally:
            self.talking_since = None
            self._covered_until = self._clock()
        return spoken

    async def stream_silence(self) -> None:
        """Between utterances send silent frames in real time, without end; to be run as a task."""
        chunk = self._manners.chunk_ms / 1000
        while True:
            target = self._covered_until
            await asyncio.sleep(max(target - self._clock(), 0.001 if self.talking_since is None else chunk))
            if self.talking_since is not None or self._covered_until != target:
                continue
            length = chunk if self.next_at is None else min(chunk, self.next_at - target)
            if length * self._manners.rate >= 1:
                await self._send_frame(self._frame(self._silence(length)))
                self._covered_until += length

    async def _sentences(self, sentences: list[str], at: float, die_after: float | None, spoken: Spoken) -> None:
        manners, position, frames = self._manners, 0.0, 0
        size = 2 * round(manners.rate * manners.chunk_ms / 1000)
        for index, sentence in enumerate(sentences):
            last = index == len(sentences) - 1
            lead = manners.leading_silence if index == 0 else 0.0
            speech = voice.speak(sentence, self._timbre, manners.rate)
            pcm = self._silence(lead) + speech + (b"" if last else self._silence(_SENTENCE_PAUSE))
            for start in range(0, len(pcm), size):
                if die_after is not None and position >= die_after:
                    spoken.died = True
                    return
                await self._until(at + position / manners.speed)
                if self._cut.is_set():
                    spoken.cut = True
                    spoken.text = f"{spoken.text} {_said_part(sentence, start - len(self._silence(lead)), len(speech))}".strip()
                    return
                piece = pcm[start : start + size]
                await self._send_frame(self._frame(piece))
                self._note(spoken, at, lead, start + len(piece))
                position += len(piece) / 2 / manners.rate
                frames += 1
                if frames == _FRAMES_BEFORE_STARTED:
                    await self._send_event("bot-started-speaking", None)
            spoken.text = f"{spoken.text} {sentence}".strip()
            if not last:
                await self._until(at + position / manners.speed)
                await self._between(sentence)
        await self._until(at + position / min(manners.speed, 1.0))
        if self._cut.is_set():
            spoken.cut = True
        elif sentences:
            if 0 < frames < _FRAMES_BEFORE_STARTED:
                await self._send_event("bot-started-speaking", None)
            await self._after(sentences[-1])

    def _note(self, spoken: Spoken, at: float, lead: float, sent_bytes: int) -> None:
        now = self._clock()
        if spoken.first_audio is None:
            spoken.first_audio = now
        if spoken.first_speech is None and sent_bytes / 2 / self._manners.rate > lead:
            spoken.first_speech = now
            spoken.speech_due = max(now, at + lead)

    async def _between(self, sentence: str) -> None:
        if self._manners.stopped_after == 0.0:
            await self._send_event("bot-stopped-speaking", None)
        await self._send_event("bot-tts-text", {"text": sentence})
        await self._send_event("bot-output", _output(sentence))
        if self._manners.stopped_after == 0.0:
            await asyncio.sleep(0.001)
            await self._send_event("bot-started-speaking", None)

    async def _after(self, sentence: str) -> None:
        await self._send_event("bot-tts-stopped", None)
        await self._send_event("bot-tts-text", {"text": sentence})
        if self._manners.stopped_after == 0.0:
            await self._send_event("bot-stopped-speaking", None)
        elif self._manners.stopped_after is not None:
            self._spawn(self._stop_later(self._manners.stopped_after))
        await self._send_event("bot-output", _output(sentence))

    async def _stop_later(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._send_event("bot-stopped-speaking", None)

    async def _interrupted(self) -> None:
        await self._send_frame(encode_interruption())
        await self._send_event("bot-interrupted", None)
        if self._manners.stopped_after is not None:
            await self._send_event("bot-stopped-speaking", None)

    async def _until(self, target: float) -> None:
        """Sleep to `target`, or to a cut."""
        if target > self._clock():
            with suppress(TimeoutError):
                async with asyncio.timeout_at(target):
                    await self._cut.wait()

    def _silence(self, seconds: float) -> bytes:
        return bytes(2 * round(seconds * self._manners.rate))

    def _frame(self, pcm: bytes) -> bytes:
        channels = self._manners.channels
        if channels > 1:
            pcm = np.repeat(np.frombuffer(pcm, dtype="<i2"), channels).tobytes()
        return encode_audio(pcm, self._manners.rate, channels)


def _output(text: str) -> dict[str, Any]:
    return {"text": text, "spoken": True, "spoken_status": "completed", "aggregated_by": "sentence"}


def _said_part(sentence: str, sent: int, whole: int) -> str:
    """The words of `sentence` that were said when `sent` of `whole` bytes had gone out."""
    if sent <= 0 or whole <= 0:
        return ""
    part = sentence[: len(sentence) * sent // whole]
    return f"{part.rsplit(' ', 1)[0] if ' ' in part else part}..."
