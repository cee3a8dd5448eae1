"""The operator's hand on a running engine: one command a connection over a Unix socket, acknowledged or refused with a reason.

A request is one JSON line and so is its answer. `ControlServer` serves; whoever asks uses `commands`, where the words that both share
stand. What comes in is untrusted: it costs the engine's loop a bounded moment and is answered or dropped. May import the standard
library, pydantic and `commands`. Rules: running page, "Processes", and console page, "Two processes".
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from voiceeval_engine.live.commands import PATIENCE, Command, ControlUnavailable, Reply, first_reason, is_ours, socket_path

MAX_REQUEST = 64 * 1024
MAX_CLIENTS = 50
CHECK_SECONDS = 3.0
"""Between two looks at whether the socket's file is still there: cleaners of temporary directories remove it."""
_CLOSE_SECONDS = 0.9

Handler = Callable[[Command], Reply]


class ControlServer:
    """Answers commands in the event loop, asyncio's or uvloop's. Only the holder of the session's lock may start one.

    `handler` is called in the loop and must not wait; what it raises becomes a refusal. `note` is told in a sentence what the log should
    know: a handler that raised, a socket that had to be made again or could not be.
    """

    def __init__(
        self, session: Path, handler: Handler, note: Callable[[str], None] = lambda _: None, check_every: float = CHECK_SECONDS
    ) -> None:
        self.path = socket_path(session)
        self._handler = handler
        self._note = note
        self._check_every = check_every
        self._server: asyncio.AbstractServer | None = None
        self._file: tuple[int, int] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._clients: set[_Client] = set()
        self._idle = asyncio.Event()
        self._closed = asyncio.Event()

    async def start(self) -> None:
        """Listen. Raises ControlUnavailable; the engine can go on without."""
        await self._open()
        self._watching = asyncio.create_task(self._watch(), name="control socket")

    async def close(self) -> None:
        """Stop listening, drop who is connected, remove the socket; within a second, whether started or not."""
        self._closed.set()
        if self._watching is not None:
            await asyncio.wait([self._watching], timeout=_CLOSE_SECONDS / 2)
        if self._is_there():
            with contextlib.suppress(OSError):
                self.path.unlink()
        self._stop_listening()
        for client in tuple(self._clients):
            client.drop()
        if self._clients:
            self._idle.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), _CLOSE_SECONDS / 2)

    def answer(self, line: bytes) -> bytes:
        """The answer to a request, both without their newlines; never raises."""
        try:
            command = Command.model_validate_json(line)
        except ValidationError as error:
            return _refused(f"not a command: {first_reason(error)}")
        try:
            return self._handler(command).model_dump_json().encode()
        except Exception as error:  # noqa: BLE001 - whatever it is, the operator is told and the run goes on
            self._note(f"the command {command.command} failed: {error!r}")
            return _refused(f"the engine could not carry out {command.command}: {error!r}")

    def enter(self, client: _Client) -> bool:
        """A client came; False where it finds no room."""
        self._clients.add(client)
        return len(self._clients) <= MAX_CLIENTS and not self._closed.is_set()

    def leave(self, client: _Client) -> None:
        """A client's connection is closed."""
        self._clients.discard(client)
        if not self._clients:
            self._idle.set()

    async def _open(self) -> None:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _make_private(self.path.parent)
            self.path.unlink(missing_ok=True)
            listening.bind(os.fspath(self.path))
            self.path.chmod(0o600)  # nobody can connect before it listens
            self._file = _identity(self.path)
            self._server = await asyncio.get_running_loop().create_unix_server(lambda: _Client(self), sock=listening)
        except OSError as error:
            listening.close()
            raise ControlUnavailable(f"no control socket at {self.path}: {error}") from error
        except BaseException:
            listening.close()
            raise

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _is_there(self) -> bool:
        return self._file is not None and _identity(self.path) == self._file

    async def _watch(self) -> None:
        trouble = ""
        while not await self._closing_within(self._check_every):
            if self._is_there():
                continue
            self._stop_listening()
            try:
                await self._open()
            except ControlUnavailable as error:
                if str(error) != trouble:
                    trouble = str(error)
                    self._note(trouble)
            else:
                trouble = ""
                self._note(f"the control socket {self.path} had gone and was made again")

    async def _closing_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closed.wait(), seconds)
        return self._closed.is_set()


class _Client(asyncio.Protocol):
    """One connection: a line in, a line out. It is dropped when either takes longer than PATIENCE."""

    def __init__(self, server: ControlServer) -> None:
        self._server = server
        self._request = bytearray()
        self._answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._expire)
        if not self._server.enter(self):
            self._reply(_refused("too many are asking at once, or the engine is about to end; try again"))
        elif not is_ours(transport):
            self._reply(_refused("only the engine's own user may command it"))

    def data_received(self, data: bytes) -> None:
        if self._answered:
            return
        self._request += data
        if len(self._request) > MAX_REQUEST:
            self._reply(_refused(f"a request has at most {MAX_REQUEST} bytes"))
        elif b"\n" in data:
            self._reply(self._server.answer(bytes(self._request.partition(b"\n")[0])))

    def eof_received(self) -> None:
        if self._request and not self._answered:
            self._reply(_refused("a request ends with a newline"))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._timer.cancel()
        self._server.leave(self)

    def drop(self) -> None:
        """Close at once, whatever is under way."""
        self._answered = True
        self._transport.abort()

    def _expire(self) -> None:
        if self._answered:
            self.drop()
        else:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._expire)
            self._reply(_refused(f"no request came within {PATIENCE:g} s"))

    def _reply(self, line: bytes) -> None:
        self._answered = True
        self._transport.write(line + b"\n")
        self._transport.close()


def _refused(why: str) -> bytes:
    return Reply(ok=False, message=why).model_dump_json().encode()


def _make_private(folder: Path) -> None:
    """Make the folder, or make sure that it is one of ours and closed to others; raises ControlUnavailable or OSError."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ControlUnavailable(f"no control socket: {folder} is not a folder of ours; remove it, or set TMPDIR to another place")
    if stat.S_IMODE(found.st_mode) != 0o700:
        folder.chmod(0o700)


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of a socket; None where there is none."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISSOCK(found.st_mode) else None
