"""The helper process as its owner sees it: started when it is first asked, asked one thing at a time, replaced when it dies or hangs.

A request that kills the helper, or takes longer than it may, is that request's failure alone: the next one has a fresh helper. All calls
wait, so call them in a thread. May import the standard library and `nemo_helper`'s mark.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from voiceeval_engine.scenarios.nemo_helper import END_MARK

START_SECONDS = 60.0
"""The package takes some seconds to import, on a slow disk many."""
REQUEST_SECONDS = 30.0
"""A scenario takes up to 200 ms to build."""
MAX_BAD = 10
"""Helpers that came to nothing in a row (not started, died, hung) before no other is started."""
ROOM = 2**30
"""A package may keep its scenarios: a helper that grew by so many bytes is replaced."""
_LINES, _LINE_LENGTH = 20, 500
_MARK_SECONDS = 1.0


class HelperError(Exception):
    """No answer, or one that says why there is none. `printed` is what was printed meanwhile. `lost`: it has not those databases."""

    def __init__(self, message: str, printed: str = "", *, lost: bool = False) -> None:
        super().__init__(message)
        self.printed = printed
        self.lost = lost


class HelperProcess:
    """Any thread may ask; who asks meanwhile waits. Limits in s and bytes."""

    def __init__(
        self,
        *,
        start_seconds: float = START_SECONDS,
        request_seconds: float = REQUEST_SECONDS,
        room: int = ROOM,
        max_bad: int = MAX_BAD,
    ) -> None:
        self._limits = start_seconds, request_seconds
        self._room = room
        self._max_bad = max_bad
        self._asking = threading.Lock()
        self._changing = threading.Lock()
        self._running: _Running | None = None
        self._closed = False
        self._bad = 0
        self._drop: deque[str] = deque()

    @property
    def pid(self) -> int | None:
        """The running helper's process, None where there is none."""
        running = self._running
        return None if running is None else running.process.pid

    def ask(self, what: str, raw: Mapping[str, str] | None = None, **fields: Any) -> tuple[Any, str]:
        """The answer and what was printed meanwhile. `raw` are fields that are JSON text already: large ones are not parsed here.

        Raises HelperError.
        """
        with self._asking:
            running = self._running or self._start()
            drop = [self._drop.popleft() for _ in range(len(self._drop))]
            line = json.dumps({"ask": what, "drop": drop, **fields}, default=str)
            for name, text in (raw or {}).items():
                line = f'{line[:-1]}, "{name}": {text}}}'
            reply, printed = self._exchange(running, line.replace("\n", " "), self._limits[1])
            self._bad = 0
            if reply.get("memory", 0) > running.first_memory + self._room:
                self._end(running)
        if "ok" not in reply:
            raise HelperError(str(reply.get("error")), printed, lost=reply.get("lost") is True)
        return reply["ok"], printed

    def drop(self, key: str) -> None:
        """Databases that the helper need not keep; told with the next request. Never waits."""
        self._drop.append(key)

    def close(self) -> None:
        """End the helper, in the middle of an answer too; nothing can be asked any more. May be called from any thread."""
        with self._changing:
            self._closed = True
            running = self._running
        if running is not None:
            self._end(running)

    def _start(self) -> _Running:
        if self._bad >= self._max_bad:
            raise HelperError(f"the helper process failed {self._bad} times in a row and is not started again")
        with self._changing:
            if self._closed:
                raise HelperError("the helper process was ended: the run is over")
            try:
                running = self._running = _Running()
            except OSError as error:
                raise HelperError(f"the helper process cannot be started: {error}") from error
        reply, printed = self._exchange(running, None, self._limits[0])
        if "ok" not in reply:
            self._bad += 1
            self._end(running)
            raise HelperError(str(reply.get("error")), printed)
        running.first_memory = reply.get("memory", 0)
        return running

    def _exchange(self, running: _Running, line: str | None, seconds: float) -> tuple[dict[str, Any], str]:
        """Send a request (None: only wait for the first line) and wait for the reply; a helper that gives none is ended."""
        overdue = threading.Event()

        def give_up() -> None:
            overdue.set()
            running.process.kill()

        timer = threading.Timer(seconds, give_up)
        timer.daemon = True
        timer.start()
        answer = b""
        try:
            if line is not None:
                running.begin()
                running.requests.write(line.encode(errors="replace") + b"\n")
                running.requests.flush()
            answer = running.replies.readline()
            reply = json.loads(answer) if answer.endswith(b"\n") else None
        except (OSError, ValueError, RecursionError):
            reply = None
        finally:
            timer.cancel()
        if isinstance(reply, dict):
            return reply, running.printed()
        self._bad += 1
        self._end(running)
        printed, code = running.printed(), running.process.returncode
        why = f"took longer than {seconds:g} s" if overdue.is_set() else f"ended the helper process (exit code {code})"
        if answer and not overdue.is_set():
            why = "made the helper process answer what is no JSON"
        last = printed.rsplit("\n", 1)[-1]
        raise HelperError(f"{why}{'; it last printed: ' + last if last else ''}", printed)

    def _end(self, running: _Running) -> None:
        with self._changing:
            if self._running is running:
                self._running = None
        running.end()


class _Running:
    """One process. It sees the modules that we see, and neither our terminal's signals nor our output."""

    def __init__(self) -> None:
        environ = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path),
            "PYTHONUNBUFFERED": "1",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "voiceeval_engine.scenarios.nemo_helper"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ, start_new_session=True,
        )  # fmt: skip
        self.requests, self.replies, errors = _open(self.process.stdin), _open(self.process.stdout), _open(self.process.stderr)
        self.first_memory = 0
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._answered = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(errors,), daemon=True)
        self._reader.start()

    def begin(self) -> None:
        """A request follows."""
        self._answered.clear()
        self._lines.clear()

    def printed(self) -> str:
        """The last lines that were printed since the request began."""
        self._answered.wait(_MARK_SECONDS)
        return "\n".join(list(self._lines))

    def end(self) -> None:
        """By its process id; it has nothing to save."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.requests, self.replies):
            with suppress(OSError):
                pipe.close()

    def _read(self, errors: IO[bytes]) -> None:
        with errors:
            for line in iter(lambda: errors.readline(65536), b""):
                text = line.decode(errors="replace").rstrip()
                if text.endswith(END_MARK):
                    text = text.removesuffix(END_MARK)
                    self._note(text)
                    self._answered.set()
                else:
                    self._note(text)
        self._answered.set()

    def _note(self, text: str) -> None:
        if text:
            self._lines.append(text[:_LINE_LENGTH])


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise OSError("a pipe is missing")
    return pipe
