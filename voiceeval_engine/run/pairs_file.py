"""The file of `--pairs-from`: which pairs of bots there are now, one `AGENT_URL USER_URL` a line, as a cluster's scheduler keeps it.

Blank lines and those that begin with # say nothing. Whatever the file holds, it is read to its end: lines that cannot be used are told
and the others count. May import the standard library and this folder's `options`. Rule: running page, "Commands".
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from voiceeval_engine.run.options import OptionError, check_url, place

MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class Listed:
    """`pairs` are (agent URL, user URL) in the file's order, `bad` sentences about what cannot be used."""

    pairs: tuple[tuple[str, str], ...] = ()
    bad: tuple[str, ...] = ()


def read_pairs(path: Path) -> Listed:
    """What the file says now; one that is missing or cannot be read names no pair."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return Listed(bad=("it is no regular file",))
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        return Listed(bad=(f"it cannot be read: {error.strerror}",))
    if len(content) > MAX_BYTES:
        return Listed(bad=(f"it is larger than {MAX_BYTES} bytes",))
    return parse_pairs(content)


def parse_pairs(content: bytes) -> Listed:
    """As `read_pairs`, of a file's content. A bot is in one pair only, the first that names it; the same pair twice is one pair."""
    pairs: dict[tuple[object, object], tuple[str, str]] = {}
    used: set[object] = set()
    bad: list[str] = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        words = line.decode("utf-8", "replace").split()
        if not words or words[0].startswith("#"):
            continue
        try:
            agent, user = _pair(words)
        except OptionError as error:
            bad.append(f"line {number}: {error}")
            continue
        key = place(agent), place(user)
        if key in pairs:
            continue
        if len({*key} - used) < 2:
            bad.append(f"line {number}: one of its bots is given twice; a bot talks to one client at a time")
            continue
        pairs[key] = agent, user
        used.update(key)
    return Listed(tuple(pairs.values()), tuple(bad))


def _pair(words: list[str]) -> tuple[str, str]:
    if len(words) != 2:
        raise OptionError(f"{' '.join(words)[:100]!r} is not AGENT_URL USER_URL")
    agent, user = words
    check_url("agent", agent)
    check_url("user", user)
    return agent, user
