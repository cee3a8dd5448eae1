"""Logs of a run: `evaluation_log.txt` for people and their searches, one `bridge_log.txt` an attempt for everything else.

Records go through one queue to one thread, so no log line ever waits for a disk in the event loop. Bots' words arrive here already
shown as escapes; the formatter makes sure. May import the standard library and session's names. Rule: artifacts page, `evaluation_log.txt`.
"""

from __future__ import annotations

import asyncio
import logging
import queue
from collections.abc import Callable, MutableMapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from logging.handlers import QueueHandler, QueueListener
from pathlib import Path
from typing import Any, Literal

from voiceeval_engine.live import events
from voiceeval_engine.session import layout
from voiceeval_engine.session.run_args import redact

Log = logging.LoggerAdapter[logging.Logger]

_FORMAT = "%(asctime)s | %(filename)s:%(funcName)s:%(lineno)d | [%(levelname)s]: %(message)s"
_CLOSED = "voiceeval_closed"
TOLD = {"told": True}
"""`extra` of a log line that has an event of its own, so that no view shows both."""
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)}


class _Formatter(logging.Formatter):
    def __init__(self, secrets: Sequence[str]) -> None:
        super().__init__(_FORMAT, "%Y-%m-%d %H:%M:%S")
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        return str(redact(super().format(record), self._secrets)).translate(_CONTROL)


class _Router(logging.Handler):
    """Writes each record to the files of its logger; runs in the listener's thread."""

    def __init__(self, evaluation_log: Path, secrets: Sequence[str]) -> None:
        super().__init__(logging.DEBUG)
        self.evaluation_log = _file_handler(evaluation_log, secrets)
        self.attempts: dict[str, logging.Handler] = {}

    def emit(self, record: logging.LogRecord) -> None:
        closed: Future[None] | None = getattr(record, _CLOSED, None)
        if closed is not None:
            self.attempts.pop(record.name).close()
            if closed.set_running_or_notify_cancel():  # nobody waits where the run was stopped meanwhile
                closed.set_result(None)
            return
        attempt = self.attempts.get(record.name)
        if attempt is not None:
            attempt.handle(record)
        if attempt is None or record.levelno >= logging.WARNING:
            self.evaluation_log.handle(record)


class RunLogs:
    """Opens the evaluation log of a session; `attempt` opens an attempt's. `close` writes what is queued and closes all files."""

    def __init__(self, session: Path, emit: Callable[[events.Event], None], secrets: Sequence[str] = ()) -> None:
        """`secrets` stand in no line, wherever they come from."""
        self._secrets = secrets
        self._queue: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
        self._router = _Router(session / layout.EVALUATION_LOG, secrets)
        self._listener = QueueListener(self._queue, self._router, respect_handler_level=False)
        self._emit = emit
        self.run: Log = _Log(self._logger("voiceeval.run", logging.INFO))
        self._listener.start()

    def attempt(self, scenario: str, number: int, folder: Path) -> Log:
        """A log that goes to the attempt's `bridge_log.txt`; its warnings go to the evaluation log too, naming the scenario."""
        name = f"voiceeval.attempt.{scenario}#{number}"
        self._router.attempts[name] = _file_handler(folder / layout.BRIDGE_LOG, self._secrets)
        return _Log(self._logger(name, logging.DEBUG), f"[{scenario}] ")

    async def end_attempt(self, log: Log) -> None:
        """Close the attempt's file, once what is queued for it has been written."""
        closed: Future[None] = Future()
        self._queue.put(logging.makeLogRecord({"name": log.logger.name, _CLOSED: closed}))
        await asyncio.wrap_future(closed)

    def close(self) -> None:
        self._listener.stop()
        for handler in (self._router.evaluation_log, *self._router.attempts.values()):
            handler.close()

    def _logger(self, name: str, level: int) -> logging.Logger:
        """A logger of this run only: it is not registered, so nothing outlives the run."""
        logger = logging.Logger(name, level)
        logger.addHandler(QueueHandler(self._queue))
        logger.addHandler(_ToEvents(self._emit, self._secrets))
        return logger


class _Log(logging.LoggerAdapter[logging.Logger]):
    def __init__(self, logger: logging.Logger, prefix: str = "") -> None:
        super().__init__(logger)
        self._prefix = prefix

    def process(self, msg: str, kwargs: MutableMapping[str, Any]) -> tuple[str, MutableMapping[str, Any]]:
        """The base class would put its own `extra` in place of the caller's."""
        return self._prefix + msg, kwargs


class _ToEvents(logging.Handler):
    """The run's lines and every attempt's warnings as events, for the views."""

    def __init__(self, emit: Callable[[events.Event], None], secrets: Sequence[str]) -> None:
        super().__init__(logging.INFO)
        self._emit = emit
        self._secrets = secrets

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "told", False) or (record.levelno < logging.WARNING and record.name != "voiceeval.run"):
            return
        level: Literal["INFO", "WARNING", "ERROR"]
        level = "INFO" if record.levelno < logging.WARNING else "WARNING" if record.levelno < logging.ERROR else "ERROR"
        self._emit(events.Logged(level=level, message=events.clip(redact(record.getMessage(), self._secrets))))


class _LogFile(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the standard library's name
        """A line that cannot be written is lost; the evidence that matters reports a full disk itself."""

    def close(self) -> None:
        """Lines that still wait for room are lost too: raised in the listener's thread, the error would end all logging."""
        with suppress(OSError):
            super().close()


def _file_handler(path: Path, secrets: Sequence[str]) -> logging.Handler:
    handler = _LogFile(path, encoding="utf-8", errors="replace")
    handler.setFormatter(_Formatter(secrets))
    return handler
