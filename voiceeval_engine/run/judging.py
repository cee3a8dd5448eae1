"""Judging beside the conversations: each finished scenario's verdict is fetched in its own time and put into its files.

A verdict needs nothing but the scenario's folder, so a live run, a resume with pending verdicts and `rejudge` share this. May import
lower floors and `options`. Rules: artifacts page, "While a verdict is out"; scoring page, "Judge".
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from voiceeval_engine.offload import Offload
from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.scoring.judge import Judge, JudgeSettings
from voiceeval_engine.scoring.judge_input import SYSTEM_PROMPT, InputOptions, read_user_content
from voiceeval_engine.scoring.rescore import JudgeScore, judge_score, rescore
from voiceeval_engine.scoring.verdict import Verdict, judge_result
from voiceeval_engine.session import layout
from voiceeval_engine.session.files import (
    UnreadableFile,
    UnwritableValue,
    is_full,
    read_json,
    read_json_if_any,
    size_of,
    write_json,
)
from voiceeval_engine.session.metrics import PENDING, saved_context
from voiceeval_engine.session.results import judgement_of
from voiceeval_engine.session.run_args import redact

Log = logging.LoggerAdapter[logging.Logger]

_METADATA = f"{layout.SCENARIO_CONFIG}/metadata.json"
_JUDGED_FILES = (layout.METRICS, f"{layout.AGENT_LOGS}/{layout.LLM_CONTEXT}", f"{layout.USER_LOGS}/{layout.LLM_CONTEXT}")


@dataclass(frozen=True)
class JudgeRules:
    """How a verdict becomes metrics. `threshold` None leaves `judge_passed` out.

    With `keep_good` a call that failed does not take the place of a verdict that there is.
    """

    threshold: float | None
    min_agent_turns: int
    inputs: InputOptions
    keep_good: bool = False


@dataclass(frozen=True)
class Judged:
    """One scenario after its verdict, with the new `metrics.json`."""

    name: str
    metrics: dict[str, Any]
    verdict: Verdict
    kept: bool = False
    """Whether the call failed and the verdict that was there stands."""


class KeyTrouble(Exception):
    """The judge's key cannot be looked up; the message says why."""


def find_key(options: RunOptions) -> str | None:
    """The judge's key: the option, else the variable it names, else a `.env` in the working directory; None where there is none.

    Raises KeyTrouble.
    """
    name = options.judge_api_key_name
    if not options.judged:
        return None
    return options.judge_api_key or os.environ.get(name) or (_read_dotenv().get(name) if name else None) or None


def judge_settings(options: RunOptions, key: str | None) -> JudgeSettings:
    """How the judge of a run is asked."""
    return JudgeSettings(
        url=options.judge_url,
        model=options.judge_model,
        key=key,
        timeout=options.judge_timeout,
        max_tokens=options.judge_max_tokens,
        temperature=options.judge_temperature,
        top_p=options.judge_top_p,
        seed=options.judge_seed,
        thinking_token_budget=options.judge_thinking_token_budget,
        concurrency=options.judge_concurrency,
    )


def _read_dotenv() -> dict[str, str | None]:
    try:
        return dotenv_values(".env")
    except (OSError, ValueError) as error:
        raise KeyTrouble(f".env cannot be read: {error}") from error


def pending_score(threshold: float | None, assertions: int) -> JudgeScore:
    """What `metrics.json` holds while the verdict is out: a failed one, so that other tools see a completed scenario."""
    return JudgeScore(0.0, None if threshold is None else False, 0.0 if assertions else None)


def has_verdict(folder: Path) -> bool:
    """Whether the scenario has a verdict that did not come of a failed call."""
    saved = read_json_if_any(folder / layout.JUDGE_RESULT)
    judgement = judgement_of(saved)
    return isinstance(saved, dict) and not judgement.pending and not judgement.failed


def apply_verdict(folder: Path, verdict: Verdict, user_content: str | None, rules: JudgeRules) -> tuple[dict[str, Any], bool]:
    """Put a verdict into `metrics.json`, then into `judge_result.json`; returns the metrics, and whether the old verdict was kept.

    The order matters: while the two do not belong together the result says "pending", so the scenario is in no rate and is asked
    about again. Raises OSError, UnreadableFile and UnwritableValue.
    """
    metrics = read_json(folder / layout.METRICS)
    if verdict.failed and rules.keep_good and isinstance(metrics, dict) and has_verdict(folder):
        return metrics, True
    metadata = read_json(folder / _METADATA)
    if not isinstance(metrics, dict):
        raise UnreadableFile(folder / layout.METRICS, "not an object")
    whitelist = metadata.get("success_signals") if isinstance(metadata, dict) else None
    if not isinstance(whitelist, list):
        raise UnreadableFile(folder / _METADATA, "no list of success_signals")
    changed = rescore(
        metrics,
        whitelist,
        judge_score(verdict, rules.threshold),
        min_agent_turns=rules.min_agent_turns,
        context_loader=saved_context(folder),
    )
    if not judgement_of(read_json_if_any(folder / layout.JUDGE_RESULT)).pending:
        write_json(folder / layout.JUDGE_RESULT, PENDING)
    write_json(folder / layout.METRICS, changed)
    write_json(folder / layout.JUDGE_RESULT, judge_result(verdict, SYSTEM_PROMPT, user_content))
    return changed, False


class JudgeDesk:
    """Judges scenarios as they are handed in; `drain` waits for all, `abandon` leaves what is out pending."""

    def __init__(
        self,
        judge: Judge,
        rules: JudgeRules,
        offload: Offload,
        log: Log,
        on_judged: Callable[[Judged], None],
        wait_for_room: Callable[[OSError], Awaitable[None]] | None = None,
    ) -> None:
        """`wait_for_room` returns when a disk that was full has room again: the verdict is written then, not asked for again."""
        self._judge = judge
        self._rules = rules
        self._offload = offload
        self._log = log
        self._on_judged = on_judged
        self._wait_for_room = wait_for_room
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._writing: set[str] = set()
        self._in_memory = asyncio.Semaphore(2 * judge.concurrency)
        """What is asked about or written, and what comes next: thousands may wait, for the judge or a full disk, and each may be 100 KB."""

    def hand_in(self, name: str, folder: Path) -> None:
        """Judge a scenario whose files are complete; returns at once."""
        task = asyncio.get_running_loop().create_task(self._guarded(name, folder), name=f"judge {name}")
        self._tasks[task] = name
        task.add_done_callback(self._done)

    async def drain(self) -> None:
        """Until no verdict is out."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def withdraw(self, name: str) -> None:
        """The scenario's folder is about to go: its verdict is not wanted any more; one that is being written is waited for."""
        tasks = [task for task, owner in self._tasks.items() if owner == name]
        for task in tasks:
            if name not in self._writing:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def abandon(self) -> None:
        """Stop asking; verdicts that are out stay pending."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("%s: an unexpected fault", task.get_name(), exc_info=error)

    async def _guarded(self, name: str, folder: Path) -> None:
        try:
            await self._judge_one(name, folder)
        except (OSError, UnreadableFile, UnwritableValue) as error:
            self._log.error("%s: its verdict cannot be written and stays pending: %s", name, error)

    async def _judge_one(self, name: str, folder: Path) -> None:
        size = await self._offload.run(0, size_of, [folder / file for file in _JUDGED_FILES])
        async with self._in_memory:
            content, assertions = await self._offload.run(size, read_user_content, folder, self._rules.inputs)
            verdict = await self._judge.ask(content, assertions)
            if verdict.failed:
                self._log.warning("%s: judge call failed, scored 0.0: %s", name, verdict.reason)
            metrics, kept = await self._write(name, size, folder, verdict, content)
        self._on_judged(Judged(name, metrics, verdict, kept))

    async def _write(
        self, name: str, size: int, folder: Path, verdict: Verdict, content: str | None
    ) -> tuple[dict[str, Any], bool]:
        while True:
            self._writing.add(name)
            try:
                return await self._offload.run(size, apply_verdict, folder, verdict, content, self._rules)
            except OSError as error:
                if self._wait_for_room is None or not is_full(error):
                    raise
                full = error
            finally:
                self._writing.discard(name)
            await self._wait_for_room(full)


@asynccontextmanager
async def open_desk(
    options: RunOptions,
    key: str | None,
    min_agent_turns: int,
    offload: Offload,
    log: Log,
    on_judged: Callable[[Judged], None],
    *,
    keep_good: bool = False,
    wait_for_room: Callable[[OSError], Awaitable[None]] | None = None,
) -> AsyncIterator[JudgeDesk | None]:
    """A desk with the options' judge, None where there is no judge. One that cannot be reached is a loud warning now, not later."""
    if not options.judged:
        yield None
        return
    inputs = InputOptions(
        include_conversation=options.judge_include_conversation,
        compact=options.judge_compact_context,
        message_limit=options.judge_context_message_limit,
        system_string_limit=options.judge_context_system_string_limit,
        string_limit=options.judge_context_string_limit,
    )
    shown = redact(options.judge_url, [key or ""])
    log.info("Using LLM judge: %s with model: %s", shown, options.judge_model)
    async with Judge(judge_settings(options, key), SYSTEM_PROMPT, offload, log) as judge:
        trouble = await judge.probe()
        if trouble is not None:
            log.warning(
                "THE JUDGE AT %s CANNOT BE REACHED: %s. Until it can, every judge score will be 0.0; rejudge mends that later.",
                shown, trouble,
            )  # fmt: skip
        rules = JudgeRules(options.judge_threshold, min_agent_turns, inputs, keep_good)
        desk = JudgeDesk(judge, rules, offload, log, on_judged, wait_for_room)
        try:
            yield desk
        finally:
            await desk.abandon()
