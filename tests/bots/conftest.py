"""A small client that stands in for the bridge."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from voiceeval_engine.bots.server import BotServer
from voiceeval_engine.scenarios.script import Script, Step, render_prompt
from voiceeval_engine.wire import rtvi
from voiceeval_engine.wire.frames import AudioFrame, InterruptionFrame, MessageFrame, decode, encode_audio, encode_message

PATIENCE = 20.0
LOUD = b"\x00\x10" * 256
QUIET = bytes(512)


class Client:
    """One connection. `seen` lists what came: message types, "audio" for speech, "silence", "interruption"."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.seen: list[str] = []
        self.messages: list[dict[str, Any]] = []
        self.frames: list[AudioFrame] = []
        self.news = asyncio.Event()
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            async for data in self.socket:
                frame = decode(data)
                if isinstance(frame, AudioFrame):
                    self.frames.append(frame)
                    self.seen.append("audio" if any(frame.pcm) else "silence")
                elif isinstance(frame, InterruptionFrame):
                    self.seen.append("interruption")
                elif isinstance(frame, MessageFrame):
                    message = json.loads(frame.text)
                    self.messages.append(message)
                    self.seen.append(message["type"])
                self.news.set()
        finally:
            self.seen.append("closed")
            self.news.set()

    async def until(self, found: Callable[[], Any]) -> Any:
        """Wait until `found` gives something true; a generous time-out fails the test."""
        async with asyncio.timeout(PATIENCE):
            while not (result := found()):
                self.news.clear()
                await self.news.wait()
        return result

    async def sees(self, kind: str, times: int = 1) -> None:
        await self.until(lambda: self.seen.count(kind) >= times)

    def of(self, type_: str) -> list[Any]:
        return [message.get("data") for message in self.messages if message["type"] == type_]

    async def send(self, text: str) -> None:
        await self.socket.send(encode_message(text))

    async def ask(self, t: str, d: Any) -> Any:
        """A client-message; returns its reply's data."""
        id_ = f"{t}-{len(self.messages)}"
        await self.send(rtvi.client_message(t, d, id_))
        reply = await self.until(lambda: next((m for m in self.messages if m.get("id") == id_), None))
        return reply["data"]

    async def play(self, *steps: Step, tools: str = "{}", tool_domain: str = "cafe", name: str = "test") -> None:
        """Give the bot a script."""
        prompt = render_prompt("Talk.", Script(name=name, steps=steps))
        request = {"prompt": prompt, "tools": tools, "add_suffix": False, "tool_domain": tool_domain}
        assert (await self.ask("update_system_prompt", request))["d"] is True

    async def kick_off(self) -> None:
        await self.send(rtvi.send_text("kick"))

    async def speak(self, frames: int = 30, *, trailing_silence: int = 0) -> None:
        """Speech as the bridge would send it, in real time."""
        for index in range(frames + trailing_silence):
            await self.socket.send(encode_audio(LOUD if index < frames else QUIET, 16000))
            await asyncio.sleep(0.016)


@pytest.fixture
async def dial() -> AsyncIterator[Callable[[BotServer], Awaitable[Client]]]:
    clients: list[Client] = []

    async def new(bot: BotServer) -> Client:
        client = Client(await connect(bot.url, compression=None))
        clients.append(client)
        return client

    yield new
    for client in clients:
        await client.socket.close()
        await asyncio.wait([client.reading])
        if not client.reading.cancelled():
            client.reading.exception()


@pytest.fixture
async def agent() -> AsyncIterator[BotServer]:
    async with BotServer("agent") as bot:
        yield bot
