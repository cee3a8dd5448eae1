"""The start of a resumed run: what is complete is loaded, what is in flight is moved aside, nothing is deleted.

Runs in a thread, before any scenario. May import lower floors and `results`. Rule: running page, "Resume".
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from voiceeval_engine.live import events
from voiceeval_engine.run.results import loaded_event
from voiceeval_engine.session import layout
from voiceeval_engine.session.resume import classify, examine, scenario_names, soft_check
from voiceeval_engine.session.run_args import invocations, newest_options


class ResumeError(Exception):
    """There is no such session to resume; the message says what is missing."""


@dataclass(frozen=True)
class Prepared:
    """What a resume found: completed scenarios as events, those moved aside with their new folder's name, others on disk."""

    loaded: tuple[events.ScenarioScored, ...] = ()
    moved: tuple[tuple[str, str], ...] = ()
    not_in_run: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def find_session(output_dir: Path, timestamp: str) -> Path:
    """The folder of a session; raises ResumeError where there is none."""
    session = layout.session_dir(output_dir, timestamp)
    if Path(timestamp).name != timestamp or not session.is_dir():
        raise ResumeError(f"--resume {timestamp}: directory not found at {session}")
    return session


def prepare(session: Path, names: Sequence[str], min_agent_turns: int, resume_ts: str, parsed_args: dict[str, Any]) -> Prepared:
    """Classify every queued scenario, move what is in flight aside, read what is complete. Raises OSError.

    Call it before this invocation is recorded: its options are compared with the latest record.
    """
    loaded, moved = [], []
    back = [
        name for name, old in layout.replaced_results(session, names).items() if _bring_back(session, name, old, min_agent_turns)
    ]
    for name in names:
        found, metrics = examine(session, name, min_agent_turns)
        if metrics is not None:
            loaded.append(loaded_event(session, name, min_agent_turns, metrics))
        elif found.state == "in-flight":
            moved.append((name, layout.move_aside(layout.scenario_dir(session, name), resume_ts).name))
    earlier = newest_options(invocations(session))
    _keep_summary(session, resume_ts)
    return Prepared(
        loaded=tuple(loaded),
        moved=tuple(moved),
        not_in_run=tuple(scenario_names(session, names)),
        warnings=(
            *(f"{name}: the attempt by hand at it never began, its earlier result counts again." for name in back),
            *soft_check(earlier, parsed_args),
        ),
    )


def _bring_back(session: Path, name: str, old: Path, min_agent_turns: int) -> bool:
    """Whether a result that an attempt by hand was to replace is in its place again: the engine was killed before that attempt began."""
    if classify(session, name, min_agent_turns).state != "fresh" or old.is_symlink():
        return False
    if classify(session, old.name, min_agent_turns).state != "completed":
        return False
    layout.bring_back(old, layout.scenario_dir(session, name))
    return True


def _keep_summary(session: Path, resume_ts: str) -> None:
    """Scripts take `all_summary.txt` as "finished", which a session that is being resumed is not: its old one is kept by another name."""
    summary = session / layout.ALL_SUMMARY
    if os.path.lexists(summary):
        summary.rename(layout.unused(summary.with_name(f"{summary.stem}.{resume_ts}{summary.suffix}")))


def timestamp_now() -> str:
    """Local wall-clock time as sessions and moved folders are named by it."""
    return datetime.now().strftime(layout.TIMESTAMP_FORMAT)
