"""Hostile bots that die and come back, on the same port, whenever a test wants it."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

from hostile_bots import Act, HostileBot
from websockets.asyncio.server import ServerConnection

from voiceeval_engine.bots.server import stop_serving


class SwitchedBot(HostileBot):
    """Listens inside its `async with` block unless it was killed. `kill` and `revive` may be called from any thread."""

    def __init__(self, act: Act | None = None, replies: Any = None, *, greets: bool = True) -> None:
        super().__init__(act, replies, greets=greets)
        self._sockets: set[ServerConnection] = set()
        self._switching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> SwitchedBot:
        self._loop = asyncio.get_running_loop()
        await super().__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._switching is not None:
            await self._switching
        if self._server is not None:
            await super().__aexit__(kind, error, trace)

    def kill(self) -> None:
        """As a process that dies: nothing listens, connections break."""
        self._loop.call_soon_threadsafe(self._switch, False)

    def revive(self) -> None:
        """Started again."""
        self._loop.call_soon_threadsafe(self._switch, True)

    def _switch(self, on: bool) -> None:
        self._switching = self._loop.create_task(self._switched(self._switching, on))

    async def _switched(self, before: asyncio.Task[None] | None, on: bool) -> None:
        if before is not None:
            await before
        if on and self._server is None:
            await super().__aenter__()
        elif not on and self._server is not None:
            for socket in self._sockets:
                socket.transport.abort()
            await stop_serving(self._server)  # those in the middle of their handshake too
            self._server = None

    async def _talk(self, socket: ServerConnection) -> None:
        self._sockets.add(socket)
        try:
            await super()._talk(socket)
        finally:
            self._sockets.discard(socket)
