"""A bot that behaves until it is told not to: it answers every request of the set-up, and then does what a test wants.

`replies` maps a request's name to what it answers instead; `act` runs once a conversation, from the first audio that comes in.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from voiceeval_engine.bots.server import stop_serving
from voiceeval_engine.wire import rtvi
from voiceeval_engine.wire.frames import AudioFrame, MessageFrame, decode, encode_audio, encode_message

LOUD = (b"\x00\x10" + b"\x00\xf0") * 480
"""40 ms of speech at 24 kHz, -18 dBFS."""
SILENT = object()
"""As a reply: none at all."""

_POLITE: dict[str, Any] = {
    "reset": True,
    "update_system_prompt": True,
    "apply_initialization": {"success": True, "errors": []},
    "apply_sync_delta": {"success": True, "errors": []},
    "get_context_history": {"context": "[{'role': 'assistant', 'content': 'Hello'}]"},
    "get_scenario_summary": {"actions": [], "db_hash": None},
}


@dataclass(frozen=True)
class Refusal:
    """As a reply: an `error-response`."""

    error: str


@dataclass(frozen=True)
class Raw:
    """As a reply: these WebSocket messages, `{id}` in texts replaced by the request's id."""

    make: Callable[[str], list[str | bytes]]


@dataclass(frozen=True)
class Drop:
    """As a reply: the end of the connection."""

    code: int | None = None
    """None = without a closing handshake."""
    reason: str = ""


class Stage:
    """What a hostile bot can do in a conversation."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket

    async def send(self, data: str | bytes) -> None:
        """One WebSocket message as it is: text or binary."""
        await self.socket.send(data)

    async def text(self, text: str) -> None:
        """`text` in a message frame, whether it is JSON or not."""
        await self.socket.send(encode_message(text))

    async def event(self, type_: Any, data: Any = None, **more: Any) -> None:
        message = {"label": "rtvi-ai", "type": type_, "data": data, **more}
        await self.text(json.dumps(message))

    async def audio(self, pcm: bytes, rate: int = 24_000, channels: int = 1) -> None:
        await self.socket.send(encode_audio(pcm, rate, channels))

    async def speak(self, text: str, frames: int = 10) -> None:
        """A well-behaved utterance, its audio at once."""
        await self.event("bot-started-speaking")
        for _ in range(frames):
            await self.audio(LOUD)
        await self.event("bot-tts-text", {"text": text})
        await self.event("bot-stopped-speaking")

    async def exit(self) -> None:
        await self.event("server-message", {"text": "<exit>done</exit>"})

    async def close(self, code: int = 1000, reason: str = "") -> None:
        await self.socket.close(code, reason)

    async def die(self) -> None:
        """As a process that dies, once what was sent has arrived."""
        await (await self.socket.ping())
        self.socket.transport.abort()


Act = Callable[[Stage], Awaitable[None]]


class HostileBot:
    """One bot, on a free port inside its `async with` block. Many clients at a time: `most_clients` tells how many there were."""

    def __init__(self, act: Act | None = None, replies: Mapping[str, Any] | None = None, *, greets: bool = True) -> None:
        self.most_clients = 0
        self.requests: list[str] = []
        self._act = act
        self._replies = {**_POLITE, **(replies or {})}
        self._greets = greets
        self._clients = 0
        self._server: Server | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self._port}"

    async def __aenter__(self) -> HostileBot:
        self._server = await serve(
            self._talk, "127.0.0.1", self._port, compression=None, max_size=None, ping_interval=None, close_timeout=0.5
        )
        self._port = next(iter(self._server.sockets)).getsockname()[1]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._server is not None
        await stop_serving(self._server)

    async def _talk(self, socket: ServerConnection) -> None:
        acting: asyncio.Task[None] | None = None
        self._clients += 1
        self.most_clients = max(self.most_clients, self._clients)
        try:
            async for data in socket:
                frame = decode(data) if isinstance(data, bytes) else None
                if isinstance(frame, MessageFrame):
                    await self._read(socket, json.loads(frame.text))
                elif isinstance(frame, AudioFrame) and acting is None and self._act is not None:
                    acting = asyncio.create_task(self._perform(socket, self._act))
        except ConnectionClosed:
            pass
        finally:
            self._clients -= 1
            if acting is not None:
                acting.cancel()
                await asyncio.wait({acting})

    async def _perform(self, socket: ServerConnection, act: Act) -> None:
        with contextlib.suppress(ConnectionClosed):
            await act(Stage(socket))

    async def _read(self, socket: ServerConnection, message: dict[str, Any]) -> None:
        id_ = message.get("id")
        if message["type"] == "client-ready":
            if self._greets:
                await socket.send(encode_message(rtvi.build("bot-ready", {"version": "1.1.0"}, id_)))
        elif message["type"] == "client-message":
            t = message["data"]["t"]
            self.requests.append(t)
            await self._reply(socket, t, str(id_))

    async def _reply(self, socket: ServerConnection, t: str, id_: str) -> None:
        reply = self._replies[t]
        if isinstance(reply, Refusal):
            await socket.send(encode_message(rtvi.build("error-response", {"error": reply.error}, id_)))
        elif isinstance(reply, Raw):
            for data in reply.make(id_):
                await socket.send(data)
        elif isinstance(reply, Drop):
            if reply.code is None:
                socket.transport.abort()
            else:
                await socket.close(reply.code, reply.reason)
        elif reply is not SILENT:
            await socket.send(encode_message(rtvi.build("server-response", {"t": t, "d": reply}, id_)))
