"""The sessions of an output directory at a glance: when, what, how far, how well, and whether an engine is at work.

Reads little: names, the newest record of `run_args.json`, the end of each `metrics.json`; what has not changed is not read again, and rates
come newest first, within a budget a look. Trusts nothing. May import the standard library, the engine's `session/` and `run/options`, and
`sessions`. Rule: console page ("a home screen with the sessions under `--output-dir`").
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.run.pairs_file import read_pairs
from voiceeval_engine.session import layout
from voiceeval_engine.session.files import changed_at, read_json_if_any
from voiceeval_engine.session.lock import holder
from voiceeval_engine.session.run_args import invocations, newest_options, recorded_names
from voiceeval_tui.sessions import session_timestamp

State = Literal["running", "finished", "stopped"]

BUDGET_SECONDS = 0.2
"""Spent on rates at one look."""

_TAIL_BYTES = 4096
_SUCCESSFUL = re.compile(rb'(?<!\\)"is_successful":\s*(true|false|null|")')
_FAILED = re.compile(rb'(?<!\\)"failed":\s*\[([^\]]*)\]')
_JUDGE_FAILED = re.compile(rb'(?<!\\)"reason":\s*"Error: ')
_JUDGES = {b"nl_assertion", b"judge_passed"}


@dataclass(frozen=True)
class Found:
    """One session. `foreign`: not made by our engine. `k` of `n` verdicts passed, None while they were not read yet.

    `urls` are those of its bots, as the newest invocation records them; `trouble` says what cannot be read.
    """

    path: Path
    started: datetime | None = None
    domain: str = ""
    done: int = 0
    total: int = 0
    k: int | None = None
    n: int | None = None
    state: State = "stopped"
    foreign: bool = False
    demo: bool = False
    urls: tuple[str, ...] = ()
    trouble: str = ""

    @property
    def name(self) -> str:
        return self.path.name


@dataclass
class _Known:
    stamp: tuple[object, ...]
    found: Found
    verdicts: dict[str, tuple[int, bool | None]] = field(default_factory=dict)


class Listing:
    """The sessions under `output_dir`. `look` may be called from any one thread at a time."""

    def __init__(self, output_dir: Path) -> None:
        self.output_dir = output_dir
        self._known: dict[Path, _Known] = {}

    def look(self, budget: float = BUDGET_SECONDS) -> tuple[Found, ...]:
        """All of them, newest first. Raises OSError where there is a folder that cannot be read; one that is not there has none."""
        try:
            with os.scandir(self.output_dir) as entries:
                names = sorted(
                    (each.name for each in entries if session_timestamp(each.name) and layout.is_folder(each)), reverse=True
                )
        except FileNotFoundError:
            names = []
        before, self._known = self._known, {}
        for name in names:
            path = self.output_dir / name
            self._known[path] = self._one(path, before.get(path))
        until = time.monotonic() + budget
        for known in self._known.values():
            if known.found.n is None and time.monotonic() < until:
                self._rate(known, until)
        return tuple(known.found for known in self._known.values())

    def _one(self, path: Path, before: _Known | None) -> _Known:
        held = holder(path) is not None
        files = (layout.RUN_ARGS, layout.EVALUATION_LOG, layout.ALL_SUMMARY, layout.LOCK, layout.JOURNAL)
        stamp = (held, changed_at(path), *(changed_at(path / name) for name in files))
        if before is not None and stamp == before.stamp:
            return before
        try:
            found = _read(path, held=held)
        except OSError as error:
            found = Found(path, _moment(path.name), n=0, k=0, trouble=f"cannot be read: {error.strerror or error}")
        return _Known(stamp, found, before.verdicts if before is not None else {})

    def _rate(self, known: _Known, until: float) -> None:
        """Read the verdicts that are not known yet, until the time is over."""
        session = known.found.path
        verdicts: dict[str, tuple[int, bool | None]] = {}
        for name, changed in _results(session):
            old = known.verdicts.get(name)
            if old is None or old[0] != changed:
                if time.monotonic() > until:
                    known.verdicts |= verdicts
                    return
                old = (changed, _verdict(session / name))
            verdicts[name] = old
        known.verdicts = verdicts
        given = [verdict for _, verdict in verdicts.values() if verdict is not None]
        known.found = replace(known.found, k=sum(given), n=len(given))


def used_by(output_dir: Path, options: RunOptions) -> Found | None:
    """The running session under `output_dir` that talks to one of the bots of `options`: a second client would disturb it."""
    urls = set() if options.demo else set(_urls(dict(options.parsed_args())))
    try:
        found = Listing(output_dir).look(budget=0.0)
    except OSError:
        return None
    return next((each for each in found if each.state == "running" and urls.intersection(each.urls)), None)


def _read(path: Path, *, held: bool) -> Found:
    records = invocations(path)
    newest = records[-1] if records else {}
    parsed = newest_options(records)
    names = recorded_names(newest)
    results = [name for name, _ in _results(path)]
    total = len({*names, *results})
    summary, args = changed_at(path / layout.ALL_SUMMARY), changed_at(path / layout.RUN_ARGS)
    complete = bool(summary) and summary >= args and len(results) >= total
    return Found(
        path,
        started=_moment(path.name),
        domain=_domain(parsed.get("domain"), names or tuple(results)),
        done=len(results),
        total=total,
        state="running" if held else "finished" if complete and total else "stopped",
        foreign=not (changed_at(path / layout.LOCK) or changed_at(path / layout.JOURNAL)),
        demo=parsed.get("demo") is True,
        urls=tuple(_urls(parsed)),
        trouble="" if records or results else "no record and no result in it",
    )


def _results(session: Path) -> Iterator[tuple[str, int]]:
    """The scenarios with a result, and when it was written, ns."""
    with os.scandir(session) as entries:
        for entry in entries:
            if not layout.is_killed(entry.name) and (changed := changed_at(f"{entry.path}/{layout.METRICS}")):
                yield entry.name, changed


def _verdict(folder: Path) -> bool | None:
    """Whether the scenario passed; None without a verdict, and where nothing but the judge's call failed: that says nothing of it."""
    tail = _end(folder / layout.METRICS)
    found = _SUCCESSFUL.findall(tail)
    if not found:
        metrics = read_json_if_any(folder / layout.METRICS)
        value = metrics.get("is_successful") if isinstance(metrics, dict) else None
        return value if isinstance(value, bool) else None
    if found[-1] not in (b"true", b"false"):
        return None
    failed = _FAILED.findall(tail)
    if found[-1] == b"false" and failed and b'"insufficient_agent_turns": true' not in tail:
        names = {name.strip().strip(b'"') for name in failed[-1].split(b",")} - {b""}
        if names <= _JUDGES and _judge_failed(folder):
            return None
    return bool(found[-1] == b"true")


def _end(path: Path) -> bytes:
    """The verdict stands at the end of `metrics.json`, after all that was said."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read()
    except OSError:
        return b""


def _judge_failed(folder: Path) -> bool:
    try:
        with (folder / layout.JUDGE_RESULT).open("rb") as file:
            return _JUDGE_FAILED.search(file.read(_TAIL_BYTES)) is not None
    except OSError:
        return False


def _domain(given: object, names: tuple[str, ...]) -> str:
    """The one that was asked for, else the one that all names begin with."""
    if isinstance(given, str) and given:
        return given
    prefixes = {name.partition("__")[0] if "__" in name else "" for name in names}
    return prefixes.pop() if len(prefixes) == 1 else f"{len(prefixes)} domains" if prefixes else ""


def _urls(parsed: dict[str, Any]) -> Iterator[str]:
    pairs, file = parsed.get("pair"), parsed.get("pairs_from")
    if isinstance(file, str) and file:
        yield from (url for pair in read_pairs(Path(file)).pairs for url in pair)
    elif isinstance(pairs, list) and pairs:
        yield from (url for pair in pairs if isinstance(pair, list) for url in pair if isinstance(url, str))
    elif parsed.get("demo") is not True:
        yield from (url for url in (parsed.get("agent_url"), parsed.get("user_url")) if isinstance(url, str))


def _moment(name: str) -> datetime | None:
    try:
        return datetime.strptime(name.removeprefix(layout.SESSION_PREFIX), layout.TIMESTAMP_FORMAT)
    except ValueError:
        return None
