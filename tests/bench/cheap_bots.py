"""Pairs of bots that cost next to nothing, so that a hundred fit on one core: `python -m tests.bench.cheap_bots PAIRS`.

They speak in turn, 20 ms a frame in real time, frames and sound made once and shared by all; they do not listen but know by the clock when
the other has ended. To the engine they are bots like others: set-up is answered by the product's own bot memory, words, tokens and events
come as from an embedded bot. Prints and serves as `bots_child` does; they measure nothing.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import sys
from functools import cache
from typing import Any, cast

import uvloop

from tests.bench.bots_child import input_ends
from tests.bench.scripts import LONG_AGENT, LONG_USER
from voiceeval_engine.bots import voice
from voiceeval_engine.bots.memory import Memory
from voiceeval_engine.domains.registry import Side
from voiceeval_engine.wire import rtvi
from voiceeval_engine.wire.frames import encode_audio, encode_message

FRAME_SECONDS = 0.020
RATE = 24_000
GAP_SECONDS = 0.6
TEXTS: dict[Side, str] = {"agent": LONG_AGENT, "user": LONG_USER}
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_AUDIO, _MESSAGE = 0x12, 0x22
"""First bytes of a frame: the fields `audio` and `message`."""


class Bot:
    """One side of a pair: its memory, and the connection that it speaks on."""

    def __init__(self, side: Side) -> None:
        self.side: Side = side
        self.memory = Memory(side)
        self.partner: Bot | None = None
        self.line: Line | None = None
        self._next = 0.0
        self._frame = 0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def speak(self, at: float) -> None:
        """Begin the text at `at` on the loop's clock."""
        self._next, self._frame = at, 0
        self._timer = self._loop.call_at(at, self._step)

    def silence(self) -> None:
        """Say nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def _step(self) -> None:
        line, frames, text = self.line, _speech(self.side), TEXTS[self.side]
        if line is None:
            return
        if self._frame == 0:
            usage = {"processor": "CheapLLM#0", "model": "cheap", "prompt_tokens": 100, "completion_tokens": 30}
            ttfb = {"processor": "CheapLLM#0", "model": "cheap", "value": 0.05}
            line.event("metrics", {"ttfb": [ttfb], "tokens": [usage], "processing": [], "characters": []})
            line.event("bot-tts-started", None)
            line.event("bot-started-speaking", None)
        if self._frame < len(frames):
            line.transport.write(frames[self._frame])
            self._frame += 1
            self._next += FRAME_SECONDS
            self._timer = self._loop.call_at(self._next, self._step)
            return
        for sentence in voice.sentences(text):
            line.event("bot-tts-text", {"text": sentence})
        line.event("bot-stopped-speaking", None)
        if self.partner is not None:
            self.partner.speak(self._next + GAP_SECONDS)


class Line(asyncio.Protocol):
    """One client's connection, as far as this bench's client needs it: whole frames, one after the other."""

    transport: asyncio.Transport

    def __init__(self, bot: Bot) -> None:
        self._bot = bot
        self._buffer = bytearray()
        self._open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._bot.line = self

    def connection_lost(self, exc: Exception | None) -> None:
        if self._bot.line is self:
            self._bot.silence()
            self._bot.line = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._open:
            self._shake_hands()
            return
        buffer, at = self._buffer, 0
        while (found := _frame_at(buffer, at)) is not None:
            begin, end = found
            if buffer[at] & 0x0F == 8:
                self.transport.write(b"\x88\x02\x03\xe8")
                self.transport.close()
            elif buffer[at] & 0x0F == 2 and begin < end and buffer[begin] ^ buffer[begin - 4] == _MESSAGE:
                self._read(bytes(byte ^ buffer[begin - 4 + index % 4] for index, byte in enumerate(buffer[begin:end])))
            at = end
        del buffer[:at]

    def event(self, type_: str, data: Any, id_: str | None = None) -> None:
        """Send a message."""
        self.transport.write(_binary(encode_message(rtvi.build(type_, data, id_))))

    def _shake_hands(self) -> None:
        head, end, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        if not end:
            return
        key = next(
            line.partition(b":")[2].strip() for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key:")
        )
        accept = base64.b64encode(hashlib.sha1(key + _GUID.encode(), usedforsecurity=False).digest())
        self.transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
            + accept
            + end
        )
        self._open = True
        self._buffer = bytearray(rest)

    def _read(self, frame: bytes) -> None:
        # The message's field, its length as a varint, then the text's field and length.
        message = rtvi.parse_envelope(frame[frame.index(b"{") :].decode())
        data = message.data if isinstance(message.data, dict) else {}
        if message.type == "client-ready":
            self.event("bot-ready", {"version": rtvi.PROTOCOL_VERSION, "about": {}}, message.id)
        elif message.type == "client-message":
            result = self._bot.memory.answer(str(data.get("t")), data.get("d"))
            self.event("server-response", {"t": data.get("t"), "d": result}, message.id)
        elif message.type == "send-text":
            self._bot.speak(asyncio.get_running_loop().time())


def _frame_at(buffer: bytearray, at: int) -> tuple[int, int] | None:
    """Begin and end of the payload of a whole, masked frame that begins at `at`; None where more must come."""
    have = len(buffer)
    if have < at + 6:
        return None
    length, begin = buffer[at + 1] & 0x7F, at + 6
    if length == 126:
        length, begin = int.from_bytes(buffer[at + 2 : at + 4], "big"), at + 8
    elif length == 127:
        length, begin = int.from_bytes(buffer[at + 2 : at + 10], "big"), at + 14
    return (begin, begin + length) if have >= begin + length else None


def _binary(payload: bytes) -> bytes:
    """An unmasked binary WebSocket frame."""
    size = len(payload)
    return (bytes((0x82, size)) if size < 126 else b"\x82\x7e" + size.to_bytes(2, "big")) + payload


@cache
def _speech(side: Side) -> tuple[bytes, ...]:
    pcm = b"".join(voice.speak(sentence, voice.TIMBRES[side], RATE) for sentence in voice.sentences(TEXTS[side]))
    size = 2 * round(RATE * FRAME_SECONDS)
    return tuple(_binary(encode_audio(pcm[start : start + size], RATE)) for start in range(0, len(pcm), size))


async def serve(count: int) -> None:
    """Serve `count` pairs until standard input ends."""
    loop = asyncio.get_running_loop()
    servers = []
    for _ in range(count):
        agent, user = Bot("agent"), Bot("user")
        agent.partner, user.partner = user, agent
        for bot in (agent, user):
            _speech(bot.side)
            servers.append(await loop.create_server(lambda bot=bot: Line(bot), "127.0.0.1", 0))  # type: ignore[misc]
        print(*(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in servers[-2:]), flush=True)
    await input_ends()
    for server in servers:
        server.close()
    print(json.dumps([[] for _ in range(count)]), flush=True)


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
