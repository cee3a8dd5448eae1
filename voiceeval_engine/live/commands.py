"""What may be asked of a running engine, what it answers, where it listens, and asking it: all that a shell or a console needs.

May import the standard library and pydantic only. Rules: console page, "Two processes" (the commands), and running page, "Processes" (the
socket's place) and "The operator's hand".
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
import struct
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

MAX_REPLY = 1024 * 1024
PATIENCE = 5.0
"""s. What either end waits for the other."""
_NEEDS_SCENARIO = frozenset({"skip", "stop-attempt", "run-again"})


class ControlError(Exception):
    """Base of what goes wrong between an operator and an engine; the message is a sentence."""


class ControlUnavailable(ControlError):
    """The socket cannot be made, or lies where others could reach it."""


class EngineGone(ControlError):
    """Nothing listens: the engine has ended, or never was."""


class ControlFailed(ControlError):
    """Something listens but gave no answer that is one."""


class Command(BaseModel):
    """What an operator asks for. `stop` lets the current attempts end, `stop-now` does not; `confirmed` says that a warning was read."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    command: Literal["status", "pause", "resume-queue", "skip", "stop-attempt", "run-again", "stop", "stop-now"]
    scenario: str | None = None
    confirmed: bool = False

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Command:
        if self.command in _NEEDS_SCENARIO and not self.scenario:
            raise ValueError(f"{self.command} needs a scenario")
        return self


class Status(BaseModel):
    """The run in plain values: counts of scenarios, `elapsed` and `eta` in s, `reason` for not simply running, a sentence a pair out."""

    model_config = ConfigDict(frozen=True)

    session: str
    pid: int
    started_at: str
    state: Literal["running", "paused", "stopping"]
    reason: str = ""
    total: int
    done: int
    running: tuple[str, ...] = ()
    not_run: int = 0
    stalled: int = 0
    success_k: int = 0
    success_n: int = 0
    elapsed: float
    eta: float | None = None
    pairs: int
    pairs_out: tuple[str, ...] = ()


class Reply(BaseModel):
    """Done (`ok`) or refused, and a sentence for a person either way."""

    model_config = ConfigDict(frozen=True)

    ok: bool
    message: str
    status: Status | None = None


def socket_path(session: Path) -> Path:
    """Where the engine of a session listens, whether it does or not.

    The temporary directory is taken as named: `tempfile` writes a file to choose one, so that a full disk would move the socket.
    """
    named = Path(os.environ.get("TMPDIR", ""))
    temporary = named if named.is_absolute() and named.is_dir() else Path("/tmp")  # noqa: S108 - in a folder of ours, checked
    name = hashlib.sha256(os.fsencode(session.resolve())).hexdigest()[:16]
    return temporary / f"voiceeval-{os.getuid()}" / f"{name}.sock"


async def send(target: Path, command: Command, timeout: float = PATIENCE) -> Reply:  # noqa: ASYNC109 - a caller without a loop has none
    """Give a command to the engine of a session (its folder, or the socket that its lock names) and return the answer.

    Raises EngineGone where nothing listens, ControlFailed for a time-out (s) or what is no answer.
    """
    path = _socket_of(target)
    try:
        async with asyncio.timeout(timeout):
            line = await _ask(path, command.model_dump_json().encode() + b"\n")
    except TimeoutError:
        raise ControlFailed(f"the engine did not answer within {timeout:g} s") from None
    except (OSError, ValueError) as error:
        raise ControlFailed(f"the engine at {path} did not answer: {error}") from error
    try:
        return Reply.model_validate_json(line)
    except ValidationError as error:
        raise ControlFailed(f"the engine's answer is none: {first_reason(error)}") from error


def send_now(target: Path, command: Command, timeout: float = PATIENCE) -> Reply:
    """`send` for a thread without an event loop."""
    return asyncio.run(send(target, command, timeout))


def is_ours(transport: asyncio.BaseTransport) -> bool:
    """Whether the peer is our own user, where the system tells (Linux); the folder keeps others out anyway."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    peer = transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", peer)[1] == os.getuid())


def first_reason(error: ValidationError) -> str:
    """What is wrong, in short and without the value."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else first["msg"]


async def _ask(path: Path, request: bytes) -> bytes:
    try:
        reader, writer = await asyncio.open_unix_connection(path, limit=MAX_REPLY)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        raise EngineGone(f"no engine listens at {path}") from None
    try:
        if not is_ours(writer.transport):
            raise ControlFailed(f"another user serves {path}")
        writer.write(request)
        line = await reader.readline()
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    if not line.endswith(b"\n"):
        raise ControlFailed(f"the engine at {path} hung up without an answer")
    return line


def _socket_of(target: Path) -> Path:
    return socket_path(target) if target.is_dir() else target
