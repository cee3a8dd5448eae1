"""What resuming a session would do now, before anything is done: the engine's own functions, put together for a preview.

Reads only, and may take a while for a large session: call `plan_resume` in a thread. May import the standard library, the engine's
`session/` and `run/options`, `sessions` and `starting`. Rules: console page ("Resume preview"), running page ("Resume").
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from voiceeval_engine.run.options import OptionError, RunOptions
from voiceeval_engine.session.lock import holder, last_holder
from voiceeval_engine.session.resume import Classified, classify, scenario_names, soft_check
from voiceeval_engine.session.run_args import REDACTED, Selection, first_selection, invocations
from voiceeval_tui.sessions import session_timestamp
from voiceeval_tui.starting import wants_key


@dataclass(frozen=True)
class ResumePlan:
    """What would be done with each scenario, in the queue's order. `options` start it; None where nothing can, `obstacle` says why.

    `differs` are the soft check's lines without its frame; `left_out` are scenarios on disk that are not in the queue; `dangers` are what
    a record that was made elsewhere would have this machine do.
    """

    session: Path
    floor: int
    scenarios: tuple[Classified, ...] = ()
    differs: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    options: RunOptions | None = None
    had_key: bool = False
    notes: tuple[str, ...] = ()
    obstacle: str = ""
    dangers: tuple[str, ...] = ()

    def count(self, state: str) -> int:
        """How many scenarios are in one of the three states."""
        return sum(each.state == state for each in self.scenarios)

    @property
    def again(self) -> tuple[Classified, ...]:
        """What would run: those in flight, then those that never began."""
        return tuple(each for state in ("in-flight", "fresh") for each in self.scenarios if each.state == state)


def plan_resume(session: Path, floor: int | None = None, defaults: RunOptions | None = None) -> ResumePlan:
    """A resume with the latest invocation's options, or `defaults` where none is recorded. `floor` None: as recorded. Raises OSError."""
    session = session.absolute()
    records = invocations(session)
    latest = records[-1].get("parsed_args") if records else None
    parsed: Mapping[str, Any] = latest if isinstance(latest, dict) else {}
    timestamp, notes = session_timestamp(session.name), []
    if timestamp is None:
        return ResumePlan(session, floor or 0, obstacle=f"{session.name} is not named as a session is: eval_YYYYMMDD_HHMMSS")
    held = holder(session)
    if held is not None:
        return ResumePlan(session, floor or 0, obstacle=f"process {held.pid} on {held.host} runs it since {held.started_at}")
    try:
        options = RunOptions.from_record(parsed) if parsed else defaults or RunOptions()
        if floor is not None:
            options = replace(options, min_agent_turns=floor)
    except OptionError as error:
        return ResumePlan(session, floor or 0, obstacle=f"its options cannot be used: {error}")
    if not parsed:
        notes.append("its options are not recorded: bots, judge and limits are the usual ones")
    first = first_selection(session)
    chosen = first or Selection(names := tuple(scenario_names(session)), names, None)
    if first is None:
        notes.append("its scenarios are not recorded: those on disk are taken")
    if not chosen.names:
        return ResumePlan(session, options.min_agent_turns, obstacle="there is no scenario in it")
    found = tuple(classify(session, name, options.min_agent_turns) for name in chosen.names)
    compared = replace(options, scenarios=chosen.scenarios, domain=chosen.domain)
    return ResumePlan(
        session,
        options.min_agent_turns,
        scenarios=found,
        differs=tuple(line.strip() for line in soft_check(parsed, compared.parsed_args()) if line.startswith("  ")),
        left_out=tuple(scenario_names(session, chosen.names)),
        options=replace(
            options, resume=timestamp, output_dir=session.parent, domain=None, scenarios=() if first else chosen.scenarios
        ),
        had_key=parsed.get("judge_api_key") == REDACTED,
        notes=tuple(notes),
        dangers=() if _made_here(session) else tuple(_dangers(options, defaults or RunOptions())),
    )


def _made_here(session: Path) -> bool:
    last = last_holder(session)
    return last is not None and last.host == socket.gethostname()


def _dangers(options: RunOptions, usual: RunOptions) -> Iterator[str]:
    """Code that would be run and a key that would be sent because a record says so, the console's own options do not."""
    known = {folder.absolute() for folder in usual.scenario_dir}
    yield from (f"it runs the code of the packs in {each}" for each in options.scenario_dir if each.absolute() not in known)
    if not options.judged or not wants_key(options.judge_url):
        return
    if (options.judge_url, options.judge_api_key_name) != (usual.judge_url, usual.judge_api_key_name):
        yield f"it sends the key in ${options.judge_api_key_name} to {options.judge_url}"
