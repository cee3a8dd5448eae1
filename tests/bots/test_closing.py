"""A bot that stops listening leaves no socket behind, whoever is being accepted at that moment."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from typing import Any

import pytest
from hostile_bots import HostileBot

from voiceeval_engine.bots.server import BotServer

TURNS_OF_THE_LOOP = 6


@pytest.mark.parametrize("bot", [lambda: BotServer("agent"), HostileBot])
@pytest.mark.parametrize("turns", range(TURNS_OF_THE_LOOP))
async def test_a_client_that_is_being_accepted_is_closed_too(bot: Any, turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: forgotten.append(str(found.exc_value)))
    async with bot() as listening:
        client = socket.create_connection(("127.0.0.1", int(listening.url.rsplit(":", 1)[1])))
        for _ in range(turns):
            await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.02, client.close)  # else its handshake is waited for
    del listening
    gc.collect()
    client.close()
    assert forgotten == []
