"""What may be asked of the engine without a run: which scenarios there are, whether bots and judge answer.

So a console finds out by the same code and from the same process as a run would, and knows neither bots nor packs itself. A check connects
to the bots, and a bot that is in a conversation may drop it: ask only while nobody uses them. May import everything below and this
folder. Rule: console page ("a check of both bots and the judge before it starts").
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from voiceeval_engine.bridge.setup import SIDES, Log, Pair
from voiceeval_engine.offload import Offload
from voiceeval_engine.run.judging import find_key
from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.scenarios.catalog import Catalog
from voiceeval_engine.scoring.judge import Judge, JudgeSettings
from voiceeval_engine.session.run_args import redact
from voiceeval_engine.wire.link import BotLink, LinkError


def list_scenarios(options: RunOptions) -> Mapping[str, Any]:
    """`scenarios`: [name, whether it is embedded] of all, `problems`: sentences about packs. Raises ScenarioError."""
    catalog = Catalog.open(options.scenario_dir, options.source)
    try:
        return {
            "scenarios": [[name, catalog.is_embedded(name)] for name in catalog.names()],
            "problems": [str(error) for error in catalog.errors],
        }
    finally:
        catalog.close()


async def check(options: RunOptions) -> Mapping[str, Any]:
    """`bots`: [side, URL, trouble] of every bot, `judge`: [URL, trouble], or null without one; an empty trouble is none. `key`: whether
    a key for the judge was found. Raises KeyTrouble.
    """
    log = Log(logging.getLogger("voiceeval_engine.check"), {})
    key = find_key(options)
    pairs = [] if options.demo else [Pair(number, *urls) for number, urls in enumerate(options.pairs)]
    bots = [(side, pair.url(side)) for pair in pairs for side in reversed(SIDES)]
    judge, *troubles = await asyncio.gather(_check_judge(options, key, log), *(_check_bot(side, url, log) for side, url in bots))
    return {
        "bots": [[side, url, trouble] for (side, url), trouble in zip(bots, troubles, strict=True)],
        "judge": None if judge is None else [redact(options.judge_url, [key or ""]), judge],
        "key": key is not None,
    }


async def _check_bot(side: str, url: str, log: Log) -> str:
    link = BotLink(side, url, log)
    try:
        await link.open(delays=())
        return "" if link.is_ready else "connects, but sends no bot-ready"
    except LinkError as error:
        return str(error)
    finally:
        await link.close()


async def _check_judge(options: RunOptions, key: str | None, log: Log) -> str | None:
    """None where there is no judge, or it is the demo's own."""
    if not options.judged or options.demo:
        return None
    offload = Offload()
    try:
        async with Judge(JudgeSettings(options.judge_url, options.judge_model, key), "", offload, log) as judge:
            return await judge.probe() or ""
    finally:
        offload.close()
