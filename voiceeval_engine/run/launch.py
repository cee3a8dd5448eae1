"""From options to a run: which scenarios, from which source, on which bots; the command line and the engine's own process share it.

May import everything below and this folder. Rules: running page, "Commands" (selection, `--demo`) and "Resume" (the first selection).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from voiceeval_engine.live import events
from voiceeval_engine.run.embedded import EmbeddedPairsFailed, embedded_pairs
from voiceeval_engine.run.judging import KeyTrouble, find_key
from voiceeval_engine.run.options import DEFAULT_JUDGE_MODEL, DEFAULT_JUDGE_URL, RunOptions
from voiceeval_engine.run.resuming import ResumeError, find_session
from voiceeval_engine.run.runner import Runner
from voiceeval_engine.scenarios.catalog import Catalog
from voiceeval_engine.scenarios.model import ScenarioError
from voiceeval_engine.session.lock import SessionHeld
from voiceeval_engine.session.run_args import Selection, first_selection, invocations, newest_options

DEMO_PAIRS = 4
EMBEDDED_JUDGE = "embedded-rules"


class LaunchError(Exception):
    """There is nothing to run, or it cannot be started; the message is a sentence, `usage` tells that the command is at fault."""

    def __init__(self, message: str, *, usage: bool = False) -> None:
        super().__init__(message)
        self.usage = usage


@dataclass(frozen=True)
class Plan:
    """What is to run: `names` in queue order, out of `catalog`."""

    options: RunOptions
    catalog: Catalog
    names: tuple[str, ...]


def make_plan(options: RunOptions, *, all_wanted: bool) -> Plan:
    """Choose the scenarios; with nothing selected all of them where `all_wanted`. Raises LaunchError."""
    options = _with_recorded_source(options)
    try:
        catalog = Catalog.open(options.scenario_dir, options.source, options.scenarios_from)
    except ScenarioError as error:
        raise LaunchError(str(error)) from error
    first = _first_selection(options)
    if first is not None:
        return Plan(replace(options, scenarios=first.scenarios, domain=first.domain), catalog, first.names)
    return Plan(options, catalog, tuple(_select(catalog, options, all_wanted=all_wanted)))


async def run_plan(
    plan: Plan,
    argv: Sequence[str],
    listeners: Sequence[Callable[[events.Event], object]] = (),
    on_session: Callable[[Runner], None] = lambda _: None,
) -> bool:
    """Run it, on embedded bots for a demo; returns whether every scenario has its result. `on_session` is told when the session is there.

    Raises LaunchError where it cannot be started, OSError where the session cannot be written.
    """
    options = plan.options
    if not options.demo:
        return await _run(plan, options, argv, listeners, on_session)
    try:
        async with embedded_pairs(min(DEMO_PAIRS, len(plan.names))) as embedded:
            own = replace(options, pair=embedded.pairs)
            if (options.judge_url, options.judge_model) == (DEFAULT_JUDGE_URL, DEFAULT_JUDGE_MODEL):
                own = replace(own, judge_url=embedded.judge_url, judge_model=EMBEDDED_JUDGE)
            return await _run(plan, own, argv, listeners, on_session)
    except EmbeddedPairsFailed as error:
        raise LaunchError(str(error)) from error


async def _run(
    plan: Plan,
    own: RunOptions,
    argv: Sequence[str],
    listeners: Sequence[Callable[[events.Event], object]],
    on_session: Callable[[Runner], None],
) -> bool:
    try:
        key = find_key(own)
        runner = Runner(
            own, plan.catalog, plan.names, argv, listeners, judge_key=key, recorded=plan.options, unusable=plan.catalog.errors
        )
    except (ResumeError, SessionHeld, KeyTrouble) as error:
        raise LaunchError(str(error)) from error
    except OSError as error:
        raise LaunchError(f"--output-dir {own.output_dir}: the session cannot be made: {error}") from error
    on_session(runner)
    return await runner.run()


def _with_recorded_source(options: RunOptions) -> RunOptions:
    """A resume that names no source takes the session that the scenarios came from, where they came from one."""
    if options.resume is None or options.scenario_dir or options.source is not None or options.scenarios_from is not None:
        return options
    recorded = newest_options(invocations(_session(options))).get("scenarios_from")
    if not isinstance(recorded, str) or not recorded:
        return options
    if not os.path.isdir(recorded):  # noqa: PTH112 - unlike Path's it never raises
        raise LaunchError(
            f"--resume {options.resume}: its scenarios came from the session {recorded}, which is not there: give --scenarios-from"
        )
    return replace(options, scenarios_from=Path(recorded))


def _first_selection(options: RunOptions) -> Selection | None:
    """What a resume with no selection goes on with; None for any other run, or where the session does not tell."""
    if options.resume is None or options.scenarios or options.domain is not None:
        return None
    return first_selection(_session(options))


def _session(options: RunOptions) -> Path:
    try:
        return find_session(options.output_dir, options.resume or "")
    except ResumeError as error:
        raise LaunchError(str(error)) from error


def _select(catalog: Catalog, options: RunOptions, *, all_wanted: bool) -> list[str]:
    """The queue's names in order; raises LaunchError for unknown names, an empty domain or nothing to run."""
    if options.scenarios:
        try:
            for name in options.scenarios:
                catalog.is_embedded(name)
        except ScenarioError as error:
            raise LaunchError(str(error)) from error
        return list(dict.fromkeys(options.scenarios))
    if options.domain is not None:
        names = catalog.names(options.domain)
        if not names:
            raise LaunchError(f"--domain {options.domain}: no scenario's name starts with {options.domain}__")
        return names
    if options.scenarios_from is not None:
        if not catalog.names():
            raise LaunchError(f"--scenarios-from {options.scenarios_from}: no scenario can be had from it")
        return catalog.names()
    if options.demo:
        return catalog.embedded_names()
    if not all_wanted:
        raise LaunchError("nothing selected: give --scenarios, --domain or --demo, or --no-ui to run all scenarios", usage=True)
    names = catalog.names(include_embedded=False)
    if not names:
        raise LaunchError("no scenarios are registered: give --scenario-dir, or --demo for the embedded ones")
    return names
