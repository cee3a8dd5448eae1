"""What a session's invocations tell whoever goes on with it: the records that can be read, and what the first one ran.

Sessions come from other programs too, so nothing in a record is trusted. May import the standard library and this folder. Rule: running
page, "Resume" (a resume with no selection takes the first invocation's scenario names).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voiceeval_engine.session import layout
from voiceeval_engine.session.files import UnreadableFile
from voiceeval_engine.session.run_args import read_invocations


@dataclass(frozen=True)
class Selection:
    """What an invocation ran: its names, and the options that chose them."""

    names: tuple[str, ...]
    scenarios: tuple[str, ...]
    domain: str | None


def first_selection(session: Path) -> Selection | None:
    """The selection of the session's first invocation, None where it is not known. Names that can be no folder are left out."""
    for invocation in invocations(session):
        names, parsed = recorded_names(invocation), invocation.get("parsed_args")
        if names:
            given = parsed if isinstance(parsed, dict) else {}
            scenarios, domain = given.get("scenarios"), given.get("domain")
            chosen = tuple(map(str, scenarios)) if isinstance(scenarios, list) else ()
            return Selection(names, chosen, domain if isinstance(domain, str) else None)
    return None


def recorded_names(invocation: dict[str, Any]) -> tuple[str, ...]:
    """The scenarios of an invocation's record, each once; a session may be a stranger's, so only names that can be a folder in it."""
    names = invocation.get("resolved_scenario_names")
    if not isinstance(names, list):
        return ()
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str) and layout.is_folder_name(name)))


def invocations(session: Path) -> list[dict[str, Any]]:
    """The readable records of a session's invocations, oldest first; none where its `run_args.json` is not there or bad."""
    try:
        return [each for each in read_invocations(session) if isinstance(each, dict)]
    except UnreadableFile:
        return []
