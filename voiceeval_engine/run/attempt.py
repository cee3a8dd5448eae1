"""One attempt at one scenario on one pair: set-up, conversation, and why it does not count where it does not.

May import lower floors and `backlog`, `options`, `finish`, `logs`. Rules: wire page, "One attempt, step by step"; running page,
"Automatic retry".
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from voiceeval_engine.audio.noise import Noise
from voiceeval_engine.bridge.conversation import Conversation
from voiceeval_engine.bridge.outcome import ConversationSettings, Outcome
from voiceeval_engine.bridge.pacer import Pacer
from voiceeval_engine.bridge.setup import Pair, SetupFailed, set_up
from voiceeval_engine.bridge.sync import Shadow, open_shadow
from voiceeval_engine.live import events
from voiceeval_engine.offload import Offload
from voiceeval_engine.run.backlog import STOPPED
from voiceeval_engine.run.finish import write_config
from voiceeval_engine.run.logs import Log
from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.scenarios.model import Scenario
from voiceeval_engine.session import layout

T = TypeVar("T")


@dataclass(frozen=True)
class Workshop:
    """What all attempts of a run share."""

    options: RunOptions
    pacer: Pacer
    offload: Offload
    emit: Callable[[events.Event], None]


@dataclass(frozen=True)
class AttemptResult:
    """`failure` says why the attempt does not count, None where it does. `began` is the loop's time at the conversation's connection.

    `unreachable` where a bot could not be connected to, `halted` where the operator ended the attempt.
    """

    outcome: Outcome | None
    failure: str | None
    began: float
    unreachable: bool = False
    halted: bool = False

    @property
    def turns(self) -> int:
        return len(self.outcome.turns) if self.outcome is not None else 0

    @property
    def tokens(self) -> int:
        """Tokens that both sides used."""
        return sum(count.total for count in self.outcome.tokens.values()) if self.outcome is not None else 0


async def run_attempt(
    shop: Workshop, scenario: Scenario, number: int, pair: Pair, folder: Path, log: Log, halt: asyncio.Event
) -> AttemptResult:
    """Run attempt `number` in `folder`, which is there, until its end or until `halt` is set. Trouble with bots ends in `failure`.

    Raises NoiseError, DomainError and ScenarioError where the scenario cannot be run anywhere, OSError where the session cannot be
    written.
    """
    noise = await _load_noise(shop, scenario)
    shadow = await shop.offload.apart(open_shadow, scenario) if scenario.sync else None
    try:
        return await _run(shop, scenario, number, pair, folder, log, halt, noise, shadow)
    finally:
        if shadow is not None:
            shadow.close()


async def _run(
    shop: Workshop,
    scenario: Scenario,
    number: int,
    pair: Pair,
    folder: Path,
    log: Log,
    halt: asyncio.Event,
    noise: Noise | None,
    shadow: Shadow | None,
) -> AttemptResult:
    options, loop = shop.options, asyncio.get_running_loop()
    began = loop.time()
    try:
        async with racing(_prepare(shop, scenario, pair, shadow, folder, log), halt.wait()) as preparing:
            if not preparing.done():
                return AttemptResult(None, STOPPED, began, halted=True)
            await preparing
        began = loop.time()
        conversation = Conversation(
            scenario,
            number,
            pair,
            ConversationSettings(
                chunk_seconds=options.audio_chunk_in_seconds,
                sample_rate=options.output_sample_rate,
                duration=options.duration or scenario.max_duration,
                inactivity_timeout=options.inactivity_timeout,
                policy=options.conversation_end_policy,
                recording=folder / layout.RECORDING,
            ),
            noise=noise,
            shadow=shadow,
            pacer=shop.pacer,
            offload=shop.offload,
            emit=shop.emit,
            log=log,
        )
        async with racing(conversation.run(), halt.wait()) as talking:
            outcome = await talking if talking.done() or conversation.stop() else None
    except SetupFailed as error:
        log.warning("%s", error)
        return AttemptResult(None, str(error), began, unreachable=error.unreachable)
    if outcome is None or outcome.stop_reason == "[STOPPED]":
        return AttemptResult(outcome, STOPPED, began, halted=True)
    return AttemptResult(outcome, _failure(outcome), began)


async def _prepare(shop: Workshop, scenario: Scenario, pair: Pair, shadow: Shadow | None, folder: Path, log: Log) -> None:
    await set_up(scenario, pair, shadow, log)
    await shop.offload.run(0, write_config, folder, scenario)
    await asyncio.sleep(shop.options.pause)


@asynccontextmanager
async def racing(work: Coroutine[Any, Any, T], end: Coroutine[Any, Any, object]) -> AsyncIterator[asyncio.Task[T]]:
    """The task of `work`, once that or `end` is done; both are dropped when the block is left."""
    working, ending = asyncio.create_task(work), asyncio.create_task(end)
    try:
        await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
        yield working
    finally:
        working.cancel()
        ending.cancel()
        await asyncio.gather(working, ending, return_exceptions=True)


def _failure(outcome: Outcome) -> str | None:
    """Why a conversation does not count though it ran: the simulator's fault, or an agent that was lost before it did anything."""
    if outcome.stop_reason == "[USER_DISCONNECTED]":
        return "simulator lost: the user bot's connection ended during the conversation"
    if outcome.stop_reason == "[AGENT_DISCONNECTED]" and not outcome.turns:
        return "the agent bot's connection was lost before any turn"
    return None


async def _load_noise(shop: Workshop, scenario: Scenario) -> Noise | None:
    config = scenario.noise
    if config is None:
        return None
    return await shop.offload.run(
        0,
        Noise.load,
        rate=shop.options.output_sample_rate,
        seed=zlib.crc32(scenario.name.encode()),
        files=[Path(file) for file in config.noise_files],
        gain_db=config.gain_db,
        max_seconds=config.max_noise_duration,
        random_offset=config.random_offset,
        white_noise=config.random_white_noise,
        white_noise_db=config.white_noise_db,
    )
