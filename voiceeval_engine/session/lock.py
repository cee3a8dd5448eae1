"""Who may write into a session: one process at a time, told apart by a lock that dies with its holder.

The file is never removed, so that two processes can never hold locks on two files of one name. May import the standard library and
this folder. Rule: running page, "Processes".
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from voiceeval_engine.session import layout

_RECORD_BYTES = 4096
_TRIES = 20
_BETWEEN_TRIES = 0.01
"""s. Whoever asks for the holder holds a shared lock for a moment; that must not refuse an engine."""


@dataclass(frozen=True)
class Holder:
    """Who holds a session: process, host, when it started (local ISO 8601), its control socket (empty: none)."""

    pid: int
    host: str
    started_at: str
    socket: str


class SessionHeld(Exception):
    """Another process holds the session; `holder` is None where its record cannot be read."""

    def __init__(self, session: Path, holder: Holder | None) -> None:
        who = f"process {holder.pid} on {holder.host} since {holder.started_at}" if holder else "another process"
        super().__init__(f"{session} is in use by {who}")
        self.holder = holder


class SessionLock:
    """Held from construction to `release`, or to the end of the process. Raises SessionHeld or OSError."""

    def __init__(self, session: Path, started_at: str, socket_path: str = "") -> None:
        path = session / layout.LOCK
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock(self._file)
            record = json.dumps(asdict(Holder(os.getpid(), socket.gethostname(), started_at, socket_path))).encode() + b"\n"
            os.pwrite(self._file, record, 0)
            os.ftruncate(self._file, len(record))
        except BlockingIOError:
            holder = _read(self._file)
            os.close(self._file)
            raise SessionHeld(session, holder) from None
        except OSError:
            os.close(self._file)
            raise

    def release(self) -> None:
        """Let go; the record stays and tells who held it last."""
        os.close(self._file)


def holder(session: Path) -> Holder | None:
    """Who holds a session now; None where nobody does or the session has no lock."""
    try:
        file = os.open(session / layout.LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(file)
    else:
        return None
    finally:
        os.close(file)


def last_holder(session: Path) -> Holder | None:
    """Who holds a session or held it last, by its lock's record; None where that tells nobody."""
    try:
        file = os.open(session / layout.LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return _read(file)
    except OSError:
        return None
    finally:
        os.close(file)


def _lock(file: int) -> None:
    """Raises BlockingIOError where another process holds it."""
    for _ in range(_TRIES - 1):
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_BETWEEN_TRIES)
    return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _read(file: int) -> Holder | None:
    """The record is the first line: while a shorter one replaces it, the old one's end still follows."""
    try:
        record = json.loads(os.pread(file, _RECORD_BYTES, 0).partition(b"\n")[0])
        found = Holder(**record)
    except (ValueError, TypeError, RecursionError):
        return None
    texts = (found.host, found.started_at, found.socket)
    return found if type(found.pid) is int and all(isinstance(text, str) for text in texts) else None
