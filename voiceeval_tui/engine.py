"""The engine as the console sees it: something that takes commands and answers, or is gone.

May import the standard library and the engine's `live/commands` and `session/lock`. Rules: console page, "Two processes"; running page,
"The operator's hand".
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from voiceeval_engine.live.commands import Command, Reply, send
from voiceeval_engine.session.lock import holder


class Engine(Protocol):
    """What actions are sent to."""

    async def send(self, command: Command) -> Reply:
        """Done or refused. Raises ControlError (EngineGone among them) where there is no answer."""
        ...


class SocketEngine:
    """The engine of a session, over the socket that the session's lock names."""

    def __init__(self, session: Path) -> None:
        self._session = session

    async def send(self, command: Command) -> Reply:
        held = holder(self._session)
        return await send(Path(held.socket) if held is not None and held.socket else self._session, command)
