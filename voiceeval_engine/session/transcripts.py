"""What was said in a conversation, read back from the files an attempt left: its log, else the turns of its metrics.

Trusts nothing: other programs write these files, some while we read. May import the standard library and this folder only. Rule:
artifacts page, "Scenario directory".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from voiceeval_engine.session.evidence import LogSegment

MAX_BYTES = 8 * 1024 * 1024
"""A conversation log is read up to here; an hour of talk has 100 KB."""

_SEGMENT = re.compile(r"\[\s*(\d{1,9}\.\d+)s - \s*(\d{1,9}\.\d+)s\] \([^)]*\) (USER|AGENT): ?(.*)")
_LATENCY = re.compile(r"\s+\S+ Response latency: (\d{1,12}(?:\.\d+)?)ms")


def read_log(path: Path) -> tuple[LogSegment, ...]:
    """The segments of a `conversation_log.txt`, as they stand in it; none where there is no such file or no segment."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES).decode(errors="backslashreplace")
    except OSError:
        return ()
    found = []
    lines = text.split("\n")
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if match := _SEGMENT.match(line):
            latency = _LATENCY.match(following)
            latency_ms = float(latency[1]) if latency else None
            found.append(LogSegment(float(match[1]), float(match[2]), match[3].lower(), match[4], latency_ms))
    return tuple(found)


def turns_of(metrics: Mapping[str, Any]) -> tuple[LogSegment, ...]:
    """The turns in a `metrics.json` value; start and end of each are its one moment, in s since the first."""
    turns = metrics.get("turns")
    found: list[LogSegment] = []
    first: float | None = None
    for turn in turns if isinstance(turns, list) else ():
        if not isinstance(turn, Mapping) or not isinstance(turn.get("text"), str):
            continue
        moment = local_time(str(turn.get("timestamp"))) or 0.0
        first = moment if first is None else first
        role = "agent" if str(turn.get("role")).lower() == "agent" else "user"
        at = max(0.0, moment - first)
        found.append(LogSegment(at, at, role, turn["text"]))
    return tuple(found)


def local_time(text: str) -> float | None:
    """Local ISO 8601 as s since the epoch; None for anything else."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
