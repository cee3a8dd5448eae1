"""The line between the engine and a bot: late, jittering, or dropping and repeating the bot's events. A proxy that knows what it did.

It carries whole messages, in order, and notes when loud audio went through it and how long it was kept, so that what the bot knows
can be told as the engine sees it. May import websockets and the product's wire and ears.
"""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_left, bisect_right
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from types import TracebackType

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from voiceeval_engine.bots.ears import is_loud
from voiceeval_engine.bots.server import stop_serving
from voiceeval_engine.wire import rtvi
from voiceeval_engine.wire.frames import AudioFrame, MessageFrame, decode, encode_message

STARTED, STOPPED = "bot-started-speaking", "bot-stopped-speaking"


@dataclass(frozen=True)
class Line:
    """How messages are carried. `to_bot` and `to_engine` in s, `jitter` up to so much more either way; order is kept.

    `mute`: "started" never arrives. `flaps`: each "started" and each "stopped" is followed by its contrary and itself again.
    """

    to_bot: float = 0.0
    to_engine: float = 0.0
    jitter: float = 0.0
    mute: bool = False
    flaps: bool = False


@dataclass
class _Loud:
    """When loud audio came out at the bot's end of one direction, or went in there, and how long the line kept it (s)."""

    at: list[float] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)


class LineServer:
    """Stands before the bot at `target`; an async context manager that listens on `url` inside the block."""

    def __init__(self, line: Line, target: str) -> None:
        self.url = ""
        self._line = line
        self._target = target
        self._to_bot, self._to_engine = _Loud(), _Loud()
        self._random = random.Random(1)
        self._server: Server | None = None

    async def __aenter__(self) -> LineServer:
        self._server = await serve(self._carry, "127.0.0.1", 0, compression=None, max_size=None, ping_interval=None)
        self.url = f"ws://127.0.0.1:{next(iter(self._server.sockets)).getsockname()[1]}"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._server is not None:
            await stop_serving(self._server)

    def kept(self, heard_end: float, first_audio: float) -> float:
        """How long (s) the line kept the last speech that the bot heard, at `heard_end`, and its answer, sent from `first_audio` on."""
        heard, spoken = bisect_right(self._to_bot.at, heard_end) - 1, bisect_left(self._to_engine.at, first_audio - 0.001)
        if heard < 0 or spoken >= len(self._to_engine.at):
            raise ValueError("the line carried no such speech")
        return self._to_bot.kept[heard] + self._to_engine.kept[spoken]

    async def _carry(self, engine: ServerConnection) -> None:
        try:
            bot = await connect(self._target, compression=None, max_size=None, ping_interval=None)
        except OSError:
            return
        to_bot = self._one_way(engine, bot, self._line.to_bot, self._to_bot, out=True)
        await asyncio.gather(to_bot, self._one_way(bot, engine, self._line.to_engine, self._to_engine, out=False))

    async def _one_way(
        self,
        source: ServerConnection | ClientConnection,
        target: ServerConnection | ClientConnection,
        delay: float,
        loud: _Loud,
        *,
        out: bool,
    ) -> None:
        """Carry until the source closes, then close the target with its words; `out` notes when speech came out, else when it went in."""
        clock = asyncio.get_running_loop().time
        on_its_way: asyncio.Queue[tuple[float, float, bytes] | None] = asyncio.Queue()

        async def deliver() -> None:
            while (item := await on_its_way.get()) is not None:
                came, due, message = item
                if due > clock():
                    await asyncio.sleep(due - clock())
                frame = decode(message)
                for part in [message] if out else self._bent(frame, message):
                    await target.send(part)
                if isinstance(frame, AudioFrame) and is_loud(frame.pcm):
                    left = clock()
                    loud.at.append(left if out else came)
                    loud.kept.append(left - came)

        delivering = asyncio.create_task(deliver())
        last = 0.0
        with suppress(ConnectionClosed):
            async for message in source:
                if isinstance(message, bytes):
                    came = clock()
                    last = max(last, came + delay + self._random.uniform(0.0, self._line.jitter))
                    on_its_way.put_nowait((came, last, message))
        on_its_way.put_nowait(None)
        with suppress(ConnectionClosed):
            await delivering
        code = source.close_code or 1000
        await target.close(code if code not in (1005, 1006) else 1000, source.close_reason or "")

    def _bent(self, frame: object, message: bytes) -> list[bytes]:
        """What arrives instead of a message of the bot."""
        type_ = rtvi.parse_envelope(frame.text).type if isinstance(frame, MessageFrame) else ""
        if type_ == STARTED and self._line.mute:
            return []
        if type_ in (STARTED, STOPPED) and self._line.flaps:
            contrary = encode_message(rtvi.build(STOPPED if type_ == STARTED else STARTED, None))
            return [message, contrary, message]
        return [message]


async def through(line: Line | None, url: str, stack: AsyncExitStack) -> tuple[str, LineServer | None]:
    """The address under which the bot at `url` is reached, and the line before it, if any, which lasts as long as `stack`."""
    if line is None:
        return url, None
    server = await stack.enter_async_context(LineServer(line, url))
    return server.url, server
