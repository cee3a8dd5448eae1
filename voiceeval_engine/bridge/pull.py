"""What is asked of a bot when the conversation is over: its context and a summary of what it did.

Nothing a bot answers is trusted; very large answers stay text here and are read in a worker process. May import wire and offload.
Rule: wire page, "One attempt, step by step", step 4.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from voiceeval_engine.offload import Offload
from voiceeval_engine.wire.link import BotLink, HeavyReply, LinkError

Log = logging.LoggerAdapter[logging.Logger]


@dataclass(frozen=True)
class Pulled:
    """One bot's own account. `context` is the text (or list) that it sent, None where it could not be had.

    `actions` is None where no summary came.
    `db_text` is its database as JSON text, None unless it was asked for and came. `db_hash` is its hex digest or None.
    """

    context: str | list[Any] | None = None
    actions: tuple[Any, ...] | None = None
    db_hash: str | None = None
    db_text: str | None = None


async def pull(link: BotLink, *, include_db: bool, offload: Offload, log: Log) -> Pulled:
    """Ask one bot; every failure is a warning in the log and leaves its part empty. A bot that is gone is not asked."""
    if link.is_lost:
        return Pulled()
    ask = partial(_ask, link, offload, log)
    context = await ask("get_context_history", {}, context_of, "context")
    summary = await ask("get_scenario_summary", {"include_db": include_db}, summary_of, "summary")
    return Pulled(context) if summary is None else Pulled(context, *summary)


async def _ask(link: BotLink, offload: Offload, log: Log, t: str, d: dict[str, Any], read: Callable[[Any], Any], what: str) -> Any:
    try:
        reply = await link.request(t, d)
    except LinkError as error:
        log.warning("%s", error)
        return None
    found = await offload.run(len(reply.text), read_heavy, read, reply.text) if isinstance(reply, HeavyReply) else read(reply)
    if found is None:
        log.warning("%s bot: no %s in its answer to %s", link.bot, what, t)
    return found


def read_heavy(read: Callable[[Any], Any], text: str) -> Any:
    """What `read` makes of the result in a whole `server-response` message, for the worker process; None where there is none."""
    try:
        data = json.loads(text)["data"]
        result = data["d"] if isinstance(data, dict) else None
    except (ValueError, RecursionError, MemoryError, KeyError, TypeError):
        return None
    return read(result)


def context_of(result: Any) -> str | list[Any] | None:
    """The context in a `get_context_history` result: `{"context": text or list}`, or a bare list."""
    value = result.get("context") if isinstance(result, dict) else result
    return value if isinstance(value, str | list) else None


def summary_of(result: Any) -> tuple[tuple[Any, ...], str | None, str | None] | None:
    """Actions, hash and database text in a `get_scenario_summary` result; None where it is none."""
    if not isinstance(result, dict):
        return None
    actions, db_hash, db = result.get("actions"), result.get("db_hash"), result.get("db")
    return (
        tuple(action for action in actions if isinstance(action, dict)) if isinstance(actions, list) else (),
        db_hash if isinstance(db_hash, str) else None,
        _as_text(db) if isinstance(db, dict) else None,
    )


def _as_text(db: dict[str, Any]) -> str | None:
    try:
        return json.dumps(db)
    except RecursionError:
        return None
