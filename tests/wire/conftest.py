"""A bot whose every answer a test decides, and a check that a link leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from voiceeval_engine.bots.server import stop_serving
from voiceeval_engine.wire import rtvi
from voiceeval_engine.wire.frames import AudioFrame, MessageFrame, decode, encode_message

Answer = Callable[[dict[str, Any]], Iterable[bytes | str | None]]
"""What the bot sends upon a message; None closes the connection with code 1011."""


def reply(message: dict[str, Any], d: Any) -> bytes:
    return encode_message(rtvi.build("server-response", {"t": message["data"]["t"], "d": d}, message["id"]))


def obliging(message: dict[str, Any]) -> Iterable[bytes | str | None]:
    """Ready twice, as real servers are, and true to every request."""
    if message["type"] == "client-ready":
        yield from [encode_message(rtvi.build("bot-ready", {"version": "1"}, message["id"]))] * 2
    elif message["type"] == "client-message":
        yield reply(message, True)


class ScriptedBot:
    """Listens on a free port of 127.0.0.1. `busy` connections are turned away first."""

    def __init__(self, answer: Answer = obliging, *, busy: int = 0, reads: bool = True) -> None:
        self.answer = answer
        self.busy = busy
        self.reads = asyncio.Event()
        if reads:
            self.reads.set()
        self.heard: list[dict[str, Any]] = []
        self.frames: list[AudioFrame] = []
        self.socket: ServerConnection | None = None
        self.port = 0
        self._server: Server | None = None

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    async def start(self, port: int = 0) -> None:
        self._server = await serve(
            self._talk, "127.0.0.1", port, compression=None, max_size=None, max_queue=1, close_timeout=0.2, ping_interval=None
        )
        self.port = next(iter(self._server.sockets)).getsockname()[1]

    async def close(self) -> None:
        self.reads.set()
        if self._server is not None:
            await stop_serving(self._server)

    @property
    def connections(self) -> int:
        return len(self._server.connections) if self._server is not None else 0

    async def send(self, *data: bytes | str) -> None:
        assert self.socket is not None
        for each in data:
            await self.socket.send(each)

    async def _talk(self, socket: ServerConnection) -> None:
        if self.busy:
            self.busy -= 1
            await socket.close(1013, "Server already has a connected client")
            return
        self.socket = socket
        try:
            while True:
                await self.reads.wait()
                frame = decode(await socket.recv())
                if isinstance(frame, AudioFrame):
                    self.frames.append(frame)
                elif isinstance(frame, MessageFrame):
                    self.heard.append(json.loads(frame.text))
                    for data in self.answer(self.heard[-1]):
                        if data is None:
                            await socket.close(1011, "out of order")
                            return
                        await socket.send(data)
        except ConnectionClosed:
            pass


class Recorder:
    """A listener that keeps what it is given."""

    def __init__(self) -> None:
        self.audio: list[AudioFrame] = []
        self.messages: list[rtvi.Message] = []
        self.interruptions = 0
        self.lost: list[str] = []
        self.news = asyncio.Event()

    def on_audio(self, frame: AudioFrame) -> None:
        self.audio.append(frame)
        self.news.set()

    def on_message(self, message: rtvi.Message) -> None:
        self.messages.append(message)
        self.news.set()

    def on_interruption(self) -> None:
        self.interruptions += 1
        self.news.set()

    def on_lost(self, sentence: str) -> None:
        self.lost.append(sentence)
        self.news.set()


async def until(true: Callable[[], Any], patience: float = 5.0) -> None:
    """Wait for something that must come; a generous time-out fails the test."""
    async with asyncio.timeout(patience):
        while not true():
            await asyncio.sleep(0.002)


class Kit:
    """What tests get as fixture `kit`: test modules cannot import one another."""

    ScriptedBot = ScriptedBot
    Recorder = Recorder
    obliging = staticmethod(obliging)
    reply = staticmethod(reply)
    until = staticmethod(until)
    log = logging.LoggerAdapter(logging.getLogger("voiceeval.test"))


@pytest.fixture
def kit() -> type[Kit]:
    return Kit


@pytest.fixture
async def bots() -> AsyncIterator[Callable[..., Any]]:
    """`await bots(...)` starts a ScriptedBot; all are closed at the end, and no connection or task of a link may be left then."""
    before = asyncio.all_tasks()
    started: list[ScriptedBot] = []

    async def start(*args: Any, **kwargs: Any) -> ScriptedBot:
        bot = ScriptedBot(*args, **kwargs)
        await bot.start()
        started.append(bot)
        return bot

    yield start
    for bot in started:
        bot.reads.set()
        await until(lambda bot=bot: not bot.connections)
        await bot.close()
    mine = {asyncio.current_task(), *before}
    await until(lambda: not [task for task in asyncio.all_tasks() if task not in mine and not task.done()])
