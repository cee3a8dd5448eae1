"""Bots in an event loop and a thread of their own, so that the engine under test has its loop to itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from voiceeval_engine.bots.script import Manners
from voiceeval_engine.bots.server import BotPair

PATIENCE = 30.0


@dataclass(frozen=True)
class _Patient(Manners):
    delay: float = 1.1

    @property
    def hang_over(self) -> float:
        return 1.0


def patient_pair() -> BotPair:
    """An embedded pair that takes only a longer silence for an end, so that a busy machine's stutter is none."""
    return BotPair(agent_manners=_Patient(), user_manners=_Patient())


@contextmanager
def serving(*bots: AbstractAsyncContextManager[Any]) -> Iterator[None]:
    """All `bots` listen inside the block."""
    ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        stop = asyncio.Event()
        async with AsyncExitStack() as stack:
            for bot in bots:
                await stack.enter_async_context(bot)
            ready.set_result((asyncio.get_running_loop(), stop))
            await stop.wait()

    def main() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    thread = threading.Thread(target=main, name="bots", daemon=True)
    thread.start()
    loop, stop = ready.result(PATIENCE)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the bots did not end"
