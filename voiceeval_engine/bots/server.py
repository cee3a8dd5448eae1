"""A bot's WebSocket server: one client at a time, a memory that outlives connections. And pairs of them.

`BotServer` is one bot, `BotPair` an agent and a simulated user that know each other; both are async context managers, listening
inside the block. May import its own folder and websockets.
"""

from __future__ import annotations

import asyncio

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.protocol import State

from voiceeval_engine.bots.conversation import BotState, Conversation, Handoff
from voiceeval_engine.bots.memory import Memory
from voiceeval_engine.bots.script import Attempts, Manners
from voiceeval_engine.domains.registry import Side

MAX_MESSAGE = 1 << 20
BUSY_CODE = 1013
BUSY_REASON = "Server already has a connected client"
_CLOSE_SECONDS = 0.5
_HOST = "127.0.0.1"


class BotError(Exception):
    """A bot cannot listen; the message names its address and says why."""


_ACCEPT_STEPS = 3
"""asyncio accepts a client, makes its transport and makes its connection in three turns of the loop."""


class BotServer:
    """One scripted bot. Without a script in its prompt it makes small talk."""

    def __init__(
        self,
        side: Side,
        *,
        port: int = 0,
        manners: Manners | None = None,
        attempts: Attempts | None = None,
    ) -> None:
        """`port` 0 takes a free one. Bots of one process share `attempts`."""
        self._state = BotState(side, manners or Manners(), attempts or Attempts(), Memory(side))
        self._port = port
        self._server: Server | None = None
        self._current: ServerConnection | None = None

    @property
    def side(self) -> Side:
        """Which side of the conversation this bot is."""
        return self._state.side

    @property
    def url(self) -> str:
        """Where it listens; known once it does."""
        return f"ws://{_HOST}:{self._port}"

    @property
    def handoffs(self) -> list[Handoff]:
        """Every answer so far with the times that the bot itself measured, oldest first."""
        return self._state.handoffs

    @property
    def memory(self) -> Memory:
        """Prompt, context, database and actions."""
        return self._state.memory

    def meet(self, partner: BotServer) -> None:
        """Make `partner` the bot whose words this one hears."""
        self._state.partner = partner.memory

    async def start(self) -> None:
        """Listen; raises BotError where the port cannot be had."""
        try:
            self._server = await serve(
                self._talk,
                _HOST,
                self._port,
                compression=None,
                max_size=MAX_MESSAGE,
                ping_interval=None,
                close_timeout=_CLOSE_SECONDS,
            )
        except (OSError, OverflowError) as error:
            raise BotError(f"the {self.side} bot cannot listen on {self.url}: {error}") from error
        self._port = next(iter(self._server.sockets)).getsockname()[1]

    async def close(self) -> None:
        """Close the connection, if any, and stop listening; at most half a second, but that a handshake that has begun is waited for."""
        if self._server is not None:
            await stop_serving(self._server)
            self._server = None

    async def __aenter__(self) -> BotServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _talk(self, socket: ServerConnection) -> None:
        if self._current is not None and self._current.state is State.OPEN:
            await socket.close(BUSY_CODE, BUSY_REASON)
            return
        self._current = socket
        await Conversation(socket, self._state).run()


async def stop_serving(server: Server) -> None:
    """Close `server` and its connections; a client that is just being accepted is closed too, not forgotten by asyncio."""
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    for _ in range(_ACCEPT_STEPS):
        await asyncio.sleep(0)
    server.close()
    await server.wait_closed()


class BotPair:
    """An agent and a simulated user; pairs of one process share `attempts`. Port 0 takes a free one."""

    def __init__(
        self,
        *,
        agent_port: int = 0,
        user_port: int = 0,
        agent_manners: Manners | None = None,
        user_manners: Manners | None = None,
        attempts: Attempts | None = None,
    ) -> None:
        self.attempts = attempts or Attempts()
        self.agent = BotServer("agent", port=agent_port, manners=agent_manners, attempts=self.attempts)
        self.user = BotServer("user", port=user_port, manners=user_manners, attempts=self.attempts)
        self.agent.meet(self.user)
        self.user.meet(self.agent)

    async def start(self) -> None:
        """Listen on both ports; raises BotError where one cannot be had."""
        await self.agent.start()
        try:
            await self.user.start()
        except BotError:
            await self.agent.close()
            raise

    async def close(self) -> None:
        """Close both; at most half a second."""
        await asyncio.gather(self.agent.close(), self.user.close())

    async def __aenter__(self) -> BotPair:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
