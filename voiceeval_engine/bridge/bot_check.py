"""Whether one bot could be used now: it is connected to, shakes hands and answers each of the six requests of a run, nothing more.

Every step has a bound. A bot that talks to somebody else refuses the connection and is left alone. May import wire, scenarios and this
folder. Rules: wire page, "Transport" and "RTVI envelope".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from voiceeval_engine.bridge.pull import context_of, summary_of
from voiceeval_engine.bridge.setup import Log, expect_not_false, expect_success, initialization, prompt
from voiceeval_engine.scenarios.model import Scenario, Side
from voiceeval_engine.wire.link import BotLink, ConnectFailed, HeavyReply, NotAnswered, RequestFailed
from voiceeval_engine.wire.rtvi import shorten

BOT_SECONDS = 40.0
"""All that one bot may take: 10 to connect, 5 to be ready, 15 for a request that is not answered."""

_START = "start it there, or say where it is with {option} or --pair"
_BUSY = "wait until its other client has left, or end that one; a bot talks to one client at a time"
_HANDSHAKE = "is it an RTVI voice bot? It must answer client-ready with bot-ready; its log may say why not"
_HANDLERS = "the server needs handlers for a run's client messages, as the bots of NeMo Labs Voice Agent have them"
_REFUSED = "its log says why; it must have the tools and the data of domain {domain!r}"


@dataclass(frozen=True)
class BotFound:
    """`trouble` is empty where all is well, else what was found; `mend` says what to do about it."""

    trouble: str
    mend: str = ""


async def check_bot(side: Side, url: str, scenario: Scenario | None, log: Log) -> BotFound:
    """Ask a bot all that a run would, with the data of `scenario`; without one only the handshake."""
    link = BotLink(side, url, log)
    troubles: list[RequestFailed] = []
    try:
        async with asyncio.timeout(BOT_SECONDS):
            await link.open(delays=())
            if not link.is_ready:
                return BotFound("connects, but sends no bot-ready", _HANDSHAKE)
            if scenario is not None:
                await _ask_all(link, side, scenario, troubles)
    except ConnectFailed as error:
        start = _START.format(option=f"--{side}-url")
        return BotFound(error.what, _BUSY if link.busy else start)
    except TimeoutError:
        return BotFound(f"is too slow: it took more than {BOT_SECONDS:g} s to be asked", "see what keeps it busy; start it anew")
    finally:
        await link.close()
    if not troubles:
        return BotFound("")
    return BotFound("; ".join(each.what for each in troubles), _mend(link, troubles, scenario))


async def _ask_all(link: BotLink, side: Side, scenario: Scenario, troubles: list[RequestFailed]) -> None:
    """All six, in the order of a run, until one is not answered at all."""
    requests: tuple[Callable[[], Any], ...] = (
        lambda: expect_not_false(link, "reset", {}),
        lambda: expect_not_false(link, "update_system_prompt", prompt(scenario, side)),
        lambda: expect_success(link, "apply_initialization", initialization(scenario, side)),
        lambda: _sync(link, scenario),
        lambda: _expect(link, "get_context_history", {}, context_of),
        lambda: _expect(link, "get_scenario_summary", {"include_db": False}, summary_of),
    )
    for request in requests:
        try:
            await request()
        except RequestFailed as error:
            troubles.append(error)
            if link.is_lost or isinstance(error, NotAnswered):
                return


async def _sync(link: BotLink, scenario: Scenario) -> None:
    """A change of nothing. Without a database of two sides a bot may say that it cannot: a run would not ask."""
    request: dict[str, Any] = {"domain": scenario.domain, "delta": {}}
    if scenario.sync:
        await expect_success(link, "apply_sync_delta", request)
    else:
        await link.request("apply_sync_delta", request)


async def _expect(link: BotLink, t: str, d: dict[str, Any], read: Callable[[Any], Any]) -> None:
    reply = await link.request(t, d)
    if not isinstance(reply, HeavyReply) and read(reply) is None:
        raise RequestFailed(f"{link.bot} bot", f"failed at {t}: it answered {shorten(repr(reply))}")


def _mend(link: BotLink, troubles: list[RequestFailed], scenario: Scenario | None) -> str:
    if link.busy:
        return _BUSY
    if any(isinstance(each, NotAnswered) or "unknown message type" in each.what for each in troubles):
        return _HANDLERS
    return _REFUSED.format(domain=scenario.domain if scenario else "")
