"""The set-up connection: both bots are reset and given their prompts, tools and databases, every reply is checked.

May import wire, domains and scenarios. Rule: wire page, "One attempt, step by step", step 1.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from voiceeval_engine.bridge.sync import Deltas, Shadow
from voiceeval_engine.scenarios.model import Scenario, Side
from voiceeval_engine.wire.link import BotLink, ConnectFailed, LinkError, RequestFailed
from voiceeval_engine.wire.rtvi import shorten

Log = logging.LoggerAdapter[logging.Logger]

SIDES: tuple[Side, Side] = ("user", "agent")


@dataclass(frozen=True)
class Pair:
    """One agent and one simulated user that talk to each other. `number` counts from 0."""

    number: int
    agent_url: str
    user_url: str

    def url(self, side: Side) -> str:
        return self.agent_url if side == "agent" else self.user_url


class SetupFailed(Exception):
    """An attempt could not start; the message names the bot and the step. `unreachable` where a bot could not be connected to."""

    def __init__(self, step: str, error: LinkError) -> None:
        super().__init__(f"{step}: {error}")
        self.unreachable = isinstance(error, ConnectFailed)


async def set_up(scenario: Scenario, pair: Pair, shadow: Shadow | None, log: Log) -> None:
    """Prepare both bots for `scenario`; raises SetupFailed. Both connections are closed on every path."""
    links: dict[Side, BotLink] = {side: BotLink(side, pair.url(side), log) for side in SIDES}
    try:
        await _both(links["user"].open(), links["agent"].open())
        await _both(*(expect_not_false(link, "reset", {}) for link in links.values()))
        await _both(*(expect_not_false(link, "update_system_prompt", prompt(scenario, side)) for side, link in links.items()))
        for side in ("agent", "user"):
            await expect_success(links[side], "apply_initialization", initialization(scenario, side))
        if shadow is not None:
            await send_deltas(links, scenario.domain, await asyncio.to_thread(shadow.sync), log)
            for trouble in shadow.troubles:
                log.warning("cross-side sync: %s", trouble)
            shadow.troubles.clear()
    except LinkError as error:
        raise SetupFailed("set-up", error) from error
    finally:
        await asyncio.gather(*(link.close() for link in links.values()))


async def probe(pair: Pair, log: Log) -> str | None:
    """Whether both bots answer again with `bot-ready`; None where they do, else a sentence about the first that does not."""
    links = [BotLink(side, pair.url(side), log) for side in SIDES]
    try:
        await _both(*(link.open(delays=()) for link in links))
        return next((f"{link.bot} bot at {link.url} sends no bot-ready" for link in links if not link.is_ready), None)
    except LinkError as error:
        return str(error)
    finally:
        await asyncio.gather(*(link.close() for link in links))


async def send_deltas(links: dict[Side, BotLink], domain: str, deltas: Deltas, log: Log) -> None:
    """Tell each side what changed on the other; a failure is a warning, never the end of a conversation."""
    for side, delta in deltas.items():
        try:
            await expect_success(links[side], "apply_sync_delta", {"domain": domain, "delta": delta})
        except RequestFailed as error:
            log.warning("cross-side sync: %s", error)


async def expect_success(link: BotLink, t: str, d: dict[str, Any]) -> None:
    """A request whose result is `{"success", "errors"}`; raises RequestFailed unless success is true."""
    result = await link.request(t, d)
    if not isinstance(result, dict) or result.get("success") is not True:
        errors = result.get("errors") if isinstance(result, dict) else None
        why = "; ".join(map(str, errors)) if isinstance(errors, list) and errors else f"it answered {shorten(repr(result))}"
        raise RequestFailed(f"{link.bot} bot", f"failed at {t}: {shorten(why, 400)}")


async def _both(*steps: Awaitable[None]) -> None:
    """Run the steps of both bots at once; the first failure is raised when all have ended."""
    results = await asyncio.gather(*steps, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def expect_not_false(link: BotLink, t: str, d: dict[str, Any]) -> None:
    """A request whose result is anything but a literal false; raises RequestFailed."""
    if await link.request(t, d) is False:
        raise RequestFailed(f"{link.bot} bot", f"failed at {t}: it answered false")


def prompt(scenario: Scenario, side: Side) -> dict[str, Any]:
    """The arguments of `update_system_prompt`."""
    words, tools = (scenario.agent_prompt, scenario.agent_tools) if side == "agent" else (scenario.user_prompt, scenario.user_tools)
    return {"prompt": words, "tools": json.dumps(dict(tools)), "add_suffix": False, "tool_domain": scenario.domain}


def initialization(scenario: Scenario, side: Side) -> dict[str, Any]:
    """The arguments of `apply_initialization`."""
    state = scenario.agent_state if side == "agent" else scenario.user_state
    actions = [action for action in scenario.initialization_actions if action.get("side", "agent") == side]
    return {"domain": scenario.domain, "shared_state_init": json.dumps(state), "actions": actions}
