"""The engine as the console sees it: something that takes commands and answers, or is gone.

May import the standard library and the engine's `live/commands` and `session/lock`. Rules: console page, "Two processes"; running page,
"The operator's hand".
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from voiceeval_engine.live.commands import Command, Reply, send
from voiceeval_engine.session.lock import Holder, holder


class Engine(Protocol):
    """What actions are sent to."""

    async def send(self, command: Command) -> Reply:
        """Done or refused. Raises ControlError (EngineGone among them) where there is no answer."""
        ...


def listens_at(session: Path, held: Holder | None) -> Path:
    """The socket that the holder of the session's lock names, else the session, in which one is looked for."""
    return Path(held.socket) if held is not None and held.socket else session


class SocketEngine:
    """The engine of a session, over the socket that the session's lock names."""

    def __init__(self, session: Path) -> None:
        self._session = session

    async def send(self, command: Command) -> Reply:
        return await send(listens_at(self._session, holder(self._session)), command)
