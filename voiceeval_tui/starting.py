"""Starting an engine as a process of its own, and asking one what the console must not find out itself.

The engine has a session of its own and keeps no end of ours: closing the terminal, Ctrl+C in it or the console's death never reach it. The
judge's key goes into its environment, never into the order or a command line. All of this waits (at most PATIENCE): call it in a thread.
May import the standard library, the engine's `run/options` and `session/run_args`, `errors`. Rule: console page, "Two processes".
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.session.run_args import redact
from voiceeval_tui.errors import CommandError

PATIENCE = 45.0
"""s. What an engine may take until it answers."""
CHECK_PATIENCE = 120.0
"""s. Scenarios may take 45 s, then each bot 40; the judge, meanwhile, 60."""

_LOCAL = ("localhost", "127.0.0.1", "::1")
_DEFAULT_KEY_NAME = "JUDGE_API_KEY"
_COMMAND = (sys.executable, "-m", "voiceeval_engine")
_MAX_ANSWER = 16 * 2**20
_TOLD_BYTES = 2000


class StartError(CommandError):
    """No engine, or no answer; `code` 2 where the options are at fault."""


@dataclass(frozen=True)
class Finding:
    """One thing that a check looked at: the `subject` (agent, user, judge, scenarios, disk, names, bots), `where` it is (may be empty),
    what was found, and how to mend it where it is not `good`.
    """

    subject: str
    where: str
    good: bool
    found: str
    mend: str = ""

    def __str__(self) -> str:
        named = " ".join(filter(None, (self.subject, self.where)))
        return f"{named}: {self.found}" + (f". To mend it: {self.mend}" if self.mend else "")


@dataclass(frozen=True)
class Checked:
    """What a check found; `has_key`: a key for the judge was found."""

    findings: tuple[Finding, ...]
    has_key: bool

    @property
    def good(self) -> bool:
        return all(each.good for each in self.findings)


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


def start_engine(options: RunOptions, argv: Sequence[str], key: str | None = None) -> Path:
    """Start a run; returns its session's folder when that is there. `argv` is recorded as the command line. Raises StartError."""
    answer = _ask(options, key, PATIENCE, argv=redact(list(argv), [key or options.judge_api_key or ""]))
    with _reading(answer):
        return Path(answer["session"])


def check(options: RunOptions, key: str | None = None, *, bots: bool = True) -> Checked:
    """Whether a run could start now; writes nothing. `bots` False where another run uses them. Raises StartError."""
    answer = _ask(options, key, CHECK_PATIENCE, ask="check", bots=bots)
    with _reading(answer):
        findings = (
            Finding(str(each["subject"]), str(each["where"]), each["good"] is True, str(each["found"]), str(each["mend"]))
            for each in answer["findings"]
        )
        return Checked(tuple(findings), bool(answer["key"]))


def list_scenarios(options: RunOptions) -> Listed:
    """The scenarios that a run with these options could choose from. Raises StartError."""
    answer = _ask(options, None, PATIENCE, ask="scenarios")
    with _reading(answer):
        found = tuple((str(name), bool(embedded)) for name, embedded in answer["scenarios"])
        return Listed(found, tuple(map(str, answer["problems"])))


@contextmanager
def _reading(answer: Mapping[str, Any]) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError):
        raise StartError(f"the engine's answer is none: {str(answer)[:200]}") from None


def _with_key(options: RunOptions, key: str | None) -> tuple[RunOptions, dict[str, str]]:
    """The options without a key, and the environment with it; a key that has no variable to travel in gets the usual one."""
    key = key or options.judge_api_key
    if key is None:
        return options, dict(os.environ)
    name = options.judge_api_key_name or _DEFAULT_KEY_NAME
    if "=" in name or "\0" in name + key:
        raise StartError("--judge-api-key-name: not the name of a variable that can hold the key", 2)
    return replace(options, judge_api_key=None, judge_api_key_name=name), {**os.environ, name: key}


def _ask(options: RunOptions, key: str | None, patience: float, **more: Any) -> Mapping[str, Any]:
    """What a new process answers to an order of these options and `more`; one that does not in time (s) is ended. Raises StartError."""
    options, environ = _with_key(options, key)
    order = json.dumps({"options": dict(options.parsed_args()), **more}).encode() + b"\n"
    with tempfile.TemporaryFile() as errors:
        try:
            engine = subprocess.Popen(  # noqa: S603 - our own interpreter
                _COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environ, start_new_session=True
            )
        except OSError as error:
            raise StartError(f"the engine cannot be started: {error}") from error
        try:
            answer = _exchange(engine, order, patience, errors)
        except BaseException:
            engine.kill()
            engine.wait()
            raise
        finally:
            for stream in (engine.stdin, engine.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
    # Take note of its end whenever that is, so that no zombie stays while we live; the thread never holds us up.
    threading.Thread(target=engine.wait, name=f"engine {engine.pid}", daemon=True).start()
    return answer


def _exchange(engine: subprocess.Popen[bytes], order: bytes, patience: float, errors: IO[bytes]) -> Mapping[str, Any]:
    deadline = time.monotonic() + patience
    with suppress(BrokenPipeError):  # it ended at once: what it wrote to its end tells why
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
        raise StartError(str(answer["error"]), 2 if answer.get("usage") is True else 1)
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
