"""Where a view's events come from: the session's journal, followed as it grows, or its files where there is none.

`poll` never waits and never takes much longer than its budget, so that the first paint comes early and keys are answered while a long
journal is read. May import the standard library, the engine's `live/` and `session/`, `errors`, `view`, `files_source`.
Rule: console page, "Two processes".
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Protocol

from voiceeval_engine.live.events import BadEvent, Event, parse_event, parse_events
from voiceeval_engine.session import layout
from voiceeval_engine.session.lock import holder
from voiceeval_tui.errors import CommandError
from voiceeval_tui.view import Link

BUDGET_SECONDS = 0.05
MAX_LINE_BYTES = 64 * 1024 * 1024
"""A line without an end grows no further in memory; a queue of 10,000 longest names is 3 MB."""

_BEGINNING_BYTES = 512
_CHUNK_BYTES = 128 * 1024
_LINK_SECONDS = 1.0


class SourceError(CommandError):
    """There is nothing to watch; the message says where it was looked for."""


@dataclass(frozen=True)
class Batch:
    """What a poll found. `behind`: there is more at once. `restarted`: these events begin anew, what was folded is void."""

    events: list[Event]
    behind: bool = False
    restarted: bool = False


class Source(Protocol):
    """A session that is watched."""

    session: Path

    def poll(self, budget: float = BUDGET_SECONDS) -> Batch:
        """The events since the last poll, in order. Raises OSError where the session cannot be read."""
        ...

    def link(self, *, ended: bool) -> Link:
        """How it stands with the engine; `ended` is whether the events told that the run is over."""
        ...


class JournalSource:
    """Follows `events.jsonl`. A file that is not there yet has no events; one that was cut or replaced begins anew."""

    def __init__(self, session: Path) -> None:
        self.session = session
        self.bad_lines = 0
        self._path = session / layout.JOURNAL
        self._beginning = b""
        self._offset = 0
        self._rest = b""
        self._skipping = False
        self._behind = True
        self._held = False
        self._asked_holder = float("-inf")

    def poll(self, budget: float = BUDGET_SECONDS) -> Batch:
        self._behind = False
        try:
            file = self._path.open("rb", buffering=0)
        except (FileNotFoundError, NotADirectoryError):
            return Batch([], restarted=self._forget())
        found: list[Event] = []
        with file:
            restarted = self._is_another(file) and self._forget()
            file.seek(self._offset)
            until = time.monotonic() + budget
            while chunk := file.read(_CHUNK_BYTES):
                self._offset += len(chunk)
                self._parse(chunk, found)
                if time.monotonic() >= until:
                    self._behind = True
                    break
        return Batch(found, behind=self._behind, restarted=restarted)

    def link(self, *, ended: bool) -> Link:
        if self._behind:
            return Link("opening", self.bad_lines)
        if ended:
            return Link("finished", self.bad_lines)
        now = time.monotonic()
        if now - self._asked_holder >= _LINK_SECONDS:
            self._asked_holder, self._held = now, holder(self.session) is not None
        return Link("alive" if self._held else "gone", self.bad_lines)

    def _is_another(self, file: FileIO) -> bool:
        """Whether the file is not the one that was read so far (a new one may have got the old one's number), or was cut."""
        before, start = self._beginning, file.read(_BEGINNING_BYTES)
        self._beginning = start
        return not start.startswith(before) or os.fstat(file.fileno()).st_size < self._offset

    def _forget(self) -> bool:
        """Begin anew; returns whether anything had been read."""
        void = self._offset > 0
        self._offset, self._rest, self._skipping, self.bad_lines = 0, b"", False, 0
        return void

    def _parse(self, chunk: bytes, found: list[Event]) -> None:
        first, *others = chunk.split(b"\n")
        if not others:
            self._keep(first)
            return
        lines = [self._rest + first, *others[:-1]]
        if self._skipping:
            lines[0], self._skipping = b"", False
        self._rest = others[-1]
        lines = [line for line in lines if line and not line.isspace()]
        try:
            found += parse_events(lines)
        except BadEvent:
            self._parse_each(lines, found)

    def _parse_each(self, lines: list[bytes], found: list[Event]) -> None:
        """Where some of the lines are no events."""
        for line in lines:
            try:
                found.append(parse_event(line))
            except BadEvent:
                self.bad_lines += 1

    def _keep(self, part: bytes) -> None:
        if self._skipping:
            return
        if len(self._rest) + len(part) > MAX_LINE_BYTES:
            self._rest, self._skipping = b"", True
            self.bad_lines += 1
        else:
            self._rest += part


def open_source(session: Path) -> Source:
    """The source for a session's folder. Raises SourceError where there is no such folder."""
    if not session.is_dir():
        raise SourceError(f"there is no session at {session}")
    if (session / layout.JOURNAL).exists() or _is_beginning(session):
        return JournalSource(session)
    from voiceeval_tui.files_source import FilesSource

    return FilesSource(session)


def _is_beginning(session: Path) -> bool:
    """Whether our engine has taken the folder and written nothing yet."""
    return holder(session) is not None and not any(session.glob(f"*/{layout.METRICS}"))
