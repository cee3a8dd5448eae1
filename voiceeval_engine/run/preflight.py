"""Whether a run could start now and come to its end: bots, judge, scenarios, room on the disk and names, each with what mends it.

It asks what a run would ask, with the data of the run's first scenario, and leaves nothing on disk. Each step has a bound, and what
belongs to nobody but a pack (its Python) runs in a thread that ends with the process. May import everything below and this folder. Rule:
running page, `--preflight`; console page ("a check of both bots and the judge before it starts").
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from voiceeval_engine.bridge.bot_check import check_bot
from voiceeval_engine.bridge.setup import Log, Pair
from voiceeval_engine.offload import Offload
from voiceeval_engine.run.judging import find_key, judge_settings
from voiceeval_engine.run.launch import LaunchError, Plan, make_plan
from voiceeval_engine.run.options import DEFAULT_JUDGE_MODEL, DEFAULT_JUDGE_URL, RunOptions
from voiceeval_engine.run.pairs_file import Listed, read_pairs
from voiceeval_engine.scenarios.model import Scenario, ScenarioError, Side
from voiceeval_engine.scoring.judge import Judge
from voiceeval_engine.scoring.judge_input import SYSTEM_PROMPT
from voiceeval_engine.session import layout, room
from voiceeval_engine.session.resume import classify
from voiceeval_engine.session.run_args import redact
from voiceeval_engine.wire.rtvi import shorten

JUDGE_SECONDS = 60.0
SCENARIOS_SECONDS = 45.0
"""Until scenarios that do not come are given up."""
BUILD_SECONDS = 10.0
"""Until no further scenario is built; the rest count as the longest of those that were."""
MAX_TOLD = 5
"""Of one kind of trouble; the rest is counted."""
_JUDGE_QUESTION = '<reference>\n{"answer": "ready"}\n</reference>\n\n<prediction>\n{"answer": "ready"}\n</prediction>'
_NO_JUDGE = "start it, correct --judge-url, or switch it off with an empty one: rejudge can judge later"

Subject = Literal["agent", "user", "pairs", "judge", "scenarios", "disk", "names"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: `subject` at `where` (a URL, a folder, a scenario or nothing); `mend` is empty where all is well."""

    subject: Subject
    where: str
    good: bool
    found: str
    mend: str = ""


class _Raised(Exception):
    """Foreign code raised something that it should not have."""


@dataclass
class _Survey:
    """The run's scenarios as far as they were looked at: those still to run, the first that can be built, longest durations in s."""

    names: tuple[str, ...] = ()
    first: Scenario | None = None
    durations: list[float] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


async def preflight(options: RunOptions, *, bots: bool) -> Mapping[str, Any]:
    """`findings`: each a Finding's fields, in the order of a run; `key`: whether a key for the judge was found. Raises KeyTrouble.

    Without `bots` those are left alone.
    """
    log = Log(logging.getLogger("voiceeval_engine.preflight"), {})
    key = find_key(options)
    judge = asyncio.create_task(_judge(options, key, log))
    survey = _Survey()
    try:
        await _in_thread(SCENARIOS_SECONDS, lambda: _look(options, survey))
    except TimeoutError:
        mend = "does the Python of a pack, or the installed package, wait for something?"
        survey.findings.append(Finding("scenarios", "", False, f"could not be listed and built in {SCENARIOS_SECONDS:g} s", mend))
    except _Raised as error:
        survey.findings.append(Finding("scenarios", "", False, f"cannot be built: {shorten(str(error))}", "mend the pack"))
    listed = Listed(options.pairs) if options.pairs_from is None else read_pairs(options.pairs_from)
    pairs = [Pair(number, *urls) for number, urls in enumerate(listed.pairs)] if bots and not options.demo else []
    sides: tuple[Side, Side] = ("agent", "user")
    told = await asyncio.gather(*(_bot(side, pair.url(side), survey.first, log) for pair in pairs for side in sides))
    found = [*told, *_pairs_file(options, listed), await judge, *survey.findings, *_disk(options, survey), *_names(options, survey)]
    return {"findings": [asdict(each) for each in found], "key": key is not None}


def _pairs_file(options: RunOptions, listed: Listed) -> list[Finding]:
    bad = [*listed.bad, *(["names no pair of bots now"] if not listed.pairs and not listed.bad else [])]
    mend = "write one AGENT_URL USER_URL a line; the run reads the file again whenever it changes"
    return [Finding("pairs", str(options.pairs_from), False, each, mend) for each in bad[:MAX_TOLD]]


async def _bot(side: Side, url: str, scenario: Scenario | None, log: Log) -> Finding:
    bot = await check_bot(side, url, scenario, log)
    answers = "answers the handshake" + (" and all six requests" if scenario else "; what else it can do was not asked")
    return Finding(side, url, not bot.trouble, bot.trouble or answers, bot.mend)


async def _judge(options: RunOptions, key: str | None, log: Log) -> Finding:
    if options.demo and (options.judge_url, options.judge_model) == (DEFAULT_JUDGE_URL, DEFAULT_JUDGE_MODEL):
        return Finding("judge", "", True, "a demo brings its own")
    if not options.judged:
        return Finding("judge", "", True, "is switched off")
    where = redact(options.judge_url, [key or ""])
    offload = Offload()
    try:
        async with asyncio.timeout(JUDGE_SECONDS), Judge(judge_settings(options, key), SYSTEM_PROMPT, offload, log) as judge:
            trial = await judge.trial(_JUDGE_QUESTION)
    except TimeoutError:
        return Finding("judge", where, False, f"gave no verdict on a question of one line within {JUDGE_SECONDS:g} s", _NO_JUDGE)
    finally:
        offload.close()
    if not trial.trouble:
        return Finding("judge", where, True, f"{options.judge_model} gave a verdict")
    return Finding("judge", where, False, trial.trouble, _judge_mend(options, key, trial.status))


def _judge_mend(options: RunOptions, key: str | None, status: int | None) -> str:
    match status:
        case 401 | 403:
            what = "no key was found" if key is None else "the key that was found is not the right one"
            return f"{what}: it comes from --judge-api-key, the variable {options.judge_api_key_name} or a .env"
        case 404 | 405 | 501:
            return "look at the path of --judge-url, mostly /v1/chat/completions, and at --judge-model"
        case None:
            return _NO_JUDGE
        case _ if status == 429 or status >= 500:
            return "wait until it has room again, or look at its log"
    return "look at --judge-url, --judge-model and the other options of the judge"


def _look(options: RunOptions, survey: _Survey) -> None:
    """Fill `survey`, bit by bit: whoever has waited for long enough takes what there is."""
    try:
        plan = make_plan(options, all_wanted=True)
    except LaunchError as error:
        survey.findings.append(Finding("scenarios", "", False, str(error), "--list shows what there is"))
        return
    try:
        survey.names = _still_to_run(options, plan)
        if not (options.demo or options.scenarios or options.domain):
            _tell(survey, [("", str(problem)) for problem in plan.catalog.errors], "mend the pack")
        _build(options, plan, survey)
    finally:
        plan.catalog.close()


def _still_to_run(options: RunOptions, plan: Plan) -> tuple[str, ...]:
    if options.resume is None:
        return plan.names
    session = layout.session_dir(options.output_dir, options.resume)
    return tuple(name for name in plan.names if classify(session, name, options.min_agent_turns).state != "completed")


def _build(options: RunOptions, plan: Plan, survey: _Survey) -> None:
    until, troubles, looked = time.monotonic() + BUILD_SECONDS, list[tuple[str, str]](), 0
    for name in survey.names:
        if looked and time.monotonic() > until:
            break
        looked += 1
        try:
            scenario = plan.catalog.get(name)
        except ScenarioError as error:
            troubles.append((name, str(error)))
        else:
            survey.first = survey.first or scenario
            survey.durations.append(options.duration or scenario.max_duration)
    count = len(survey.names)
    _tell(survey, troubles, "mend the scenario; the run goes on without it")
    if not troubles:
        which = "all" if looked == count else f"{looked} were looked at in {BUILD_SECONDS:g} s, all of these"
        survey.findings.append(Finding("scenarios", "", True, f"{count} to run; {which} can be built"))


def _tell(survey: _Survey, troubles: list[tuple[str, str]], mend: str) -> None:
    survey.findings += [Finding("scenarios", where, False, what, mend) for where, what in troubles[:MAX_TOLD]]
    if len(troubles) > MAX_TOLD:
        survey.findings.append(Finding("scenarios", "", False, f"{len(troubles) - MAX_TOLD} more cannot be used", mend))


def _disk(options: RunOptions, survey: _Survey) -> list[Finding]:
    folder = options.output_dir.absolute()
    place = room.nearest_folder(folder)
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        what = "is no folder" if not place.is_dir() else "cannot be written to"
        return [Finding("disk", str(folder), False, f"{place} {what}", "give another --output-dir")]
    if not survey.durations:
        return []
    count = len(survey.names)
    durations = [*survey.durations, *[max(survey.durations)] * (count - len(survey.durations))]
    needed, minutes = room.needed_bytes(durations, options.output_sample_rate), sum(durations) / 60
    try:
        free = room.free_bytes(folder)
    except OSError as error:
        return [Finding("disk", str(folder), False, f"cannot be looked at: {error.strerror}", "give another --output-dir")]
    what = f"{count} scenario{'s' * (count != 1)}, at most {minutes:.0f} min of recording at {options.output_sample_rate} Hz"
    found = f"needs up to {_size(needed)} ({what}), {_size(free)} are free"
    mend = "make room, or give an --output-dir on a larger disk; the run would pause while it is full"
    return [Finding("disk", str(folder), needed <= free, found, "" if needed <= free else mend)]


def _names(options: RunOptions, survey: _Survey) -> list[Finding]:
    folder = options.output_dir.absolute()
    try:
        unfit = room.unfit_names(folder, survey.names)
    except OSError as error:
        return [Finding("names", str(folder), False, f"cannot be checked: {error.strerror}", "give another --output-dir")]
    if not survey.names:
        return []
    mend = "give an --output-dir on another file system or with a shorter path, or a shorter name"
    told = [Finding("names", name, False, why, mend) for name, why in list(unfit.items())[:MAX_TOLD]]
    if len(unfit) > MAX_TOLD:
        told.append(Finding("names", "", False, f"{len(unfit) - MAX_TOLD} more do not fit", mend))
    longest = max(len(name.encode()) for name in survey.names)
    return told or [Finding("names", str(folder), True, f"fit, the longest has {longest} bytes")]


def _size(number: int) -> str:
    """Of bytes, with a unit that people read."""
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.0f} MB"


async def _in_thread(seconds: float, work: Callable[[], None]) -> None:
    """Wait for work that may never come back; unlike an executor's, its thread keeps no process alive. Raises TimeoutError, _Raised."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def end(error: _Raised | None) -> None:
        if not done.done():
            done.set_exception(error) if error else done.set_result(None)

    def run() -> None:
        error: _Raised | None = None
        try:
            work()
        except BaseException as raised:  # noqa: BLE001 - a pack's Python may raise anything, SystemExit too
            error = _Raised(repr(raised))
        with suppress(RuntimeError):  # nobody waits any more, the loop is closed
            loop.call_soon_threadsafe(end, error)

    threading.Thread(target=run, name="preflight", daemon=True).start()
    async with asyncio.timeout(seconds):
        await done
