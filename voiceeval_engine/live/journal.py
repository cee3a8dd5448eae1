"""The journal `events.jsonl`: one JSON object a line, written as events happen, readable while it grows and after any crash.

`Journal` stamps events with a sequence number and the time, hands them to listeners in the process and appends them to the file from a
thread. May import the standard library and `events`. Rule: artifacts page, "Journal".
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from voiceeval_engine.live.events import BadEvent, Event, parse_event, to_line

_FLUSH_SECONDS = 0.25
_TAIL_BYTES = 64 * 1024
_MAX_UNWRITTEN = 50_000
"""Lines that are kept while the disk takes none."""

Listener = Callable[[Event], object]


@dataclass
class JournalReading:
    """What reading a journal met besides events."""

    bad_lines: int = 0


class Journal:
    """The one writer of a session's journal. Use it in the event loop; `close` writes what is left."""

    def __init__(self, path: Path, executor: Executor) -> None:
        self.error: OSError | None = None
        self.lost = 0
        """Lines that will stand nowhere."""
        self.failures: list[Exception] = []
        self._path = path
        self._executor = executor
        self._listeners: list[Listener] = []
        self._waiting: list[str] = []
        self._unwritten: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[None] | None = None
        self._seq = _last_number(path)
        self._start_line = _needs_newline(path)
        self._cut_at: int | None = None
        """Where the file ends without what was written by halves and could not be taken out again."""

    def listen(self, listener: Listener) -> None:
        """Also hand every event to `listener`, in the event loop. One that raises is told no more; `failures` keeps what it raised."""
        self._listeners.append(listener)

    def emit(self, event: Event) -> None:
        """Stamp an event, hand it to the listeners, write it within a quarter of a second."""
        self._seq += 1
        stamped = event.model_copy(update={"seq": self._seq, "time": time.time()})
        for listener in tuple(self._listeners):
            try:
                listener(stamped)
            except Exception as error:  # noqa: BLE001 - the engine never waits for a view, nor falls with one
                self._listeners.remove(listener)
                self.failures.append(error)
        self._waiting.append(to_line(stamped))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self._flush)

    async def close(self) -> None:
        """Write what waits. An error of the disk is kept in `error`, it never raises."""
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            await self._writing
        if self._waiting or self._unwritten:
            self._flush()
        if self._writing is not None:
            await self._writing

    def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        if self._writing is not None and not self._writing.done():
            self._timer = loop.call_later(_FLUSH_SECONDS, self._flush)
            return
        lines, self._waiting, self._timer = self._unwritten + self._waiting, [], None
        self._unwritten = []
        self._writing = loop.run_in_executor(self._executor, self._append, lines)

    def _append(self, lines: list[str]) -> None:
        """What finds no room is taken out again and written with what comes next, so that a full disk makes no gap for long."""
        text = "\n".join(lines) + "\n"
        try:
            with self._path.open("ab", buffering=0) as file:
                begin, rest = file.seek(0, os.SEEK_END), memoryview(("\n" + text if self._start_line else text).encode())
                if self._cut_at is not None and begin > self._cut_at:
                    begin = file.truncate(self._cut_at)
                try:
                    while rest:
                        rest = rest[file.write(rest) :]
                except OSError:
                    self._cut_at = begin
                    file.truncate(begin)
                    raise
                self._cut_at = None
        except OSError as error:
            self.error = error
            self._unwritten = lines[-_MAX_UNWRITTEN:]
            self.lost += len(lines) - len(self._unwritten)
        else:
            self.error = None
            self._start_line = False


def read_events(path: Path, reading: JournalReading) -> Iterator[Event]:
    """The events of a journal in order, none where there is no file; lines that are no events are counted in `reading`."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            if not line.strip():
                continue
            try:
                event = parse_event(line)
            except BadEvent:
                reading.bad_lines += 1
                continue
            yield event


def _last_number(path: Path) -> int:
    """The number of a journal's last event, 0 without one; found from the file's end, for there may be millions before it."""
    if not path.exists():
        return 0
    with path.open("rb") as file:
        begin, tail = file.seek(0, os.SEEK_END), _TAIL_BYTES
        while begin > 0:
            begin = max(file.seek(0, os.SEEK_END) - tail, 0)
            file.seek(begin)
            lines = file.read().split(b"\n")
            for line in reversed(lines[1:] if begin else lines):  # the first may have lost its beginning
                with suppress(BadEvent):
                    if (number := parse_event(line).seq) > 0:
                        return number
            tail *= 16
    return 0


def _needs_newline(path: Path) -> bool:
    """Whether the file lacks a final newline, because a crash cut its last line."""
    try:
        with path.open("rb") as file:
            file.seek(-1, 2)
            return file.read(1) != b"\n"
    except OSError:
        return False
