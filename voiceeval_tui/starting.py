"""Starting an engine as a process of its own, and asking one what the console must not find out itself.

The engine has a session of its own and keeps no end of ours: closing the terminal, Ctrl+C in it or the console's death never reach it. The
judge's key goes into its environment, never into the order or a command line. All of this waits (at most PATIENCE): call it in a thread.
May import the standard library, the engine's `run/options` and `session/run_args`. Rule: console page, "Two processes".
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.session.run_args import redact

PATIENCE = 45.0
"""s. What an engine may take until it answers."""
CHECK_PATIENCE = 30.0
"""s. A bot may take 10 s to connect and 5 to say that it is ready."""

_LOCAL = ("localhost", "127.0.0.1", "::1")
_DEFAULT_KEY_NAME = "JUDGE_API_KEY"
_COMMAND = (sys.executable, "-m", "voiceeval_engine")
_MAX_ANSWER = 16 * 2**20
_TOLD_BYTES = 2000


class StartError(Exception):
    """No engine, or no answer; the message is a sentence, `usage` tells that the options are at fault."""

    def __init__(self, message: str, *, usage: bool = False) -> None:
        super().__init__(message)
        self.usage = usage


@dataclass(frozen=True)
class Started:
    """A run that goes on by itself: its session's folder and its process."""

    session: Path
    pid: int


@dataclass(frozen=True)
class BotCheck:
    """Whether a bot, `agent` or `user`, answers; `trouble` is empty where it does."""

    side: str
    url: str
    trouble: str


@dataclass(frozen=True)
class Checked:
    """What a check found. `judge_trouble` is None where none is asked, empty where it answers; `has_key`: a key for it was found."""

    bots: tuple[BotCheck, ...]
    judge_url: str
    judge_trouble: str | None
    has_key: bool

    @property
    def lacks_key(self) -> bool:
        """Whether the judge is likely to want a key that was not found."""
        return self.judge_trouble is not None and not self.has_key and wants_key(self.judge_url)

    @property
    def good(self) -> bool:
        """Whether all that was asked answers."""
        return not self.judge_trouble and not any(bot.trouble for bot in self.bots)


@dataclass(frozen=True)
class Listed:
    """The scenarios there are, each with whether it is embedded, and what is wrong with packs."""

    scenarios: tuple[tuple[str, bool], ...]
    problems: tuple[str, ...]


def wants_key(judge_url: str) -> bool:
    """Whether a judge there is likely to want a key: one on this machine is not."""
    try:
        return urlsplit(judge_url).hostname not in _LOCAL
    except ValueError:
        return True


def start_engine(options: RunOptions, argv: Sequence[str], key: str | None = None) -> Started:
    """Start a run; returns when its session is there. `argv` is recorded as the command line. Raises StartError."""
    options, key = _with_key(options, key)
    order = {"options": _recorded(options), "argv": redact(list(argv), [key or ""])}
    engine, answer = _ask(order, _environ(options, key), PATIENCE)
    _reap(engine)
    try:
        return Started(Path(answer["session"]), int(answer["pid"]))
    except (KeyError, TypeError, ValueError):
        raise StartError(f"the engine's answer is none: {str(answer)[:200]}") from None


def check(options: RunOptions, key: str | None = None) -> Checked:
    """Whether bots and judge answer. It connects to them: not while another run uses them. Raises StartError."""
    answer = _question("check", options, key, CHECK_PATIENCE)
    try:
        bots = tuple(BotCheck(*map(str, bot)) for bot in answer["bots"])
        judge = answer["judge"]
        return Checked(bots, str(judge[0]) if judge else "", str(judge[1]) if judge else None, bool(answer["key"]))
    except (KeyError, TypeError, IndexError):
        raise StartError(f"the engine's answer is none: {str(answer)[:200]}") from None


def list_scenarios(options: RunOptions) -> Listed:
    """The scenarios that a run with these options could choose from. Raises StartError."""
    answer = _question("scenarios", options, None, PATIENCE)
    try:
        found = tuple((str(name), bool(embedded)) for name, embedded in answer["scenarios"])
        return Listed(found, tuple(map(str, answer["problems"])))
    except (KeyError, TypeError, ValueError):
        raise StartError(f"the engine's answer is none: {str(answer)[:200]}") from None


def _question(question: str, options: RunOptions, key: str | None, patience: float) -> Mapping[str, Any]:
    options, key = _with_key(options, key)
    engine, answer = _ask({"ask": question, "options": _recorded(options)}, _environ(options, key), patience)
    _reap(engine)
    return answer


def _with_key(options: RunOptions, key: str | None) -> tuple[RunOptions, str | None]:
    """The options without a key, and the key; a key that has no variable to travel in gets the usual one."""
    key = key or options.judge_api_key
    name = options.judge_api_key_name if key is None else options.judge_api_key_name or _DEFAULT_KEY_NAME
    return replace(options, judge_api_key=None, judge_api_key_name=name), key


def _recorded(options: RunOptions) -> dict[str, Any]:
    return dict(options.parsed_args())


def _environ(options: RunOptions, key: str | None) -> dict[str, str]:
    if key is None:
        return dict(os.environ)
    if "=" in options.judge_api_key_name or "\0" in options.judge_api_key_name + key:
        raise StartError("--judge-api-key-name: not the name of a variable that can hold the key", usage=True)
    return {**os.environ, options.judge_api_key_name: key}


def _ask(
    order: Mapping[str, Any], environ: Mapping[str, str], patience: float
) -> tuple[subprocess.Popen[bytes], Mapping[str, Any]]:
    """A process that answered, and its answer; one that did not in time (s) is ended. Raises StartError."""
    with tempfile.TemporaryFile() as errors:
        try:
            engine = subprocess.Popen(  # noqa: S603 - our own interpreter
                _COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environ, start_new_session=True
            )
        except OSError as error:
            raise StartError(f"the engine cannot be started: {error}") from error
        try:
            return engine, _exchange(engine, json.dumps(order).encode() + b"\n", patience, errors)
        except BaseException:
            engine.kill()
            engine.wait()
            raise
        finally:
            for stream in (engine.stdin, engine.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()


def _exchange(engine: subprocess.Popen[bytes], order: bytes, patience: float, errors: IO[bytes]) -> Mapping[str, Any]:
    deadline = time.monotonic() + patience
    with contextlib.suppress(BrokenPipeError):  # it ended at once: what it wrote to its end tells why
        _write(engine, order, deadline)
    line = _read_line(engine, deadline)
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        what = "ended without an answer" if time.monotonic() < deadline else f"did not answer within {patience:g} s"
        raise StartError(f"the engine {what}{_said(errors)}")
    if "error" in answer:
        raise StartError(str(answer["error"]), usage=answer.get("usage") is True)
    return answer


def _write(engine: subprocess.Popen[bytes], order: bytes, deadline: float) -> None:
    """All of the order, as it is taken: one of many scenarios does not fit into a pipe."""
    if engine.stdin is None:
        return
    pipe = engine.stdin.fileno()
    os.set_blocking(pipe, False)
    left = memoryview(order)
    while left and (wait := deadline - time.monotonic()) > 0:
        if select.select([], [pipe], [], wait)[1]:
            left = left[os.write(pipe, left) :]
    engine.stdin.close()


def _read_line(engine: subprocess.Popen[bytes], deadline: float) -> bytes:
    """Up to the line's end, the pipe's end or the deadline."""
    if engine.stdout is None:
        return b""
    pipe, line = engine.stdout.fileno(), b""
    while (wait := deadline - time.monotonic()) > 0 and len(line) < _MAX_ANSWER:
        if not select.select([pipe], [], [], wait)[0]:
            break
        part = os.read(pipe, 65536)
        line += part
        if not part or b"\n" in part:
            break
    return line.partition(b"\n")[0]


def _said(errors: IO[bytes]) -> str:
    """The last line that it wrote to standard error, as the end of a sentence."""
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - _TOLD_BYTES))
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return f": {lines[-1].strip()}" if lines else ""


def _reap(engine: subprocess.Popen[bytes]) -> None:
    """Take note of its end whenever that is, so that no zombie stays while we live; it never waits for us."""
    threading.Thread(target=engine.wait, name=f"engine {engine.pid}", daemon=True).start()
