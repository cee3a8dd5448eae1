"""The engine's control socket: what is acknowledged, what is refused, and that nothing that comes in harms or holds the engine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import socket
import stat
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from voiceeval_engine.live import commands, control
from voiceeval_engine.live.commands import (
    Command,
    ControlFailed,
    ControlUnavailable,
    EngineGone,
    Reply,
    Status,
    send,
    send_now,
    socket_path,
)
from voiceeval_engine.live.control import ControlServer

SESSION = Path("/nowhere/eval_20260101_000000")
STATUS = Status(
    session="eval_20260101_000000", pid=1, started_at="2026-01-01T00:00:00", state="running", total=3, done=1,
    running=("a", "b"), success_k=1, success_n=1, elapsed=12.5, eta=25.0, pairs=2, pairs_out=("agent ws://a:1 does not answer",),
)  # fmt: skip
Work = Callable[[], Awaitable[None]]


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short temporary directory of the test's own: a socket's path has some hundred bytes."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Work], None]:
    """Runs a coroutine on either loop; what it leaves open fails the test."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def runner(work: Work) -> None:
        async def checked() -> None:
            before = _descriptors()
            await work()
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert _descriptors() == before

        with asyncio.Runner(loop_factory=factory) as loop:
            loop.run(checked())

    return runner


def _descriptors() -> set[int]:
    """The process's open sockets."""
    found = set()
    for entry in Path("/dev/fd").iterdir():
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(int(entry.name)).st_mode):
                found.add(int(entry.name))
    return found


def _acknowledge(command: Command) -> Reply:
    return Reply(ok=True, message=f"{command.command} {command.scenario or ''}".strip(), status=STATUS)


@contextlib.asynccontextmanager
async def _serving(handler: Callable[[Command], Reply] = _acknowledge, **options: Any) -> AsyncIterator[ControlServer]:
    server = ControlServer(SESSION, handler, **options)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


async def _raw(path: Path, request: bytes, *, end: bool = False) -> bytes:
    """All that comes back for bytes."""
    reader, writer = await asyncio.open_unix_connection(path)
    with contextlib.suppress(OSError):
        writer.write(request)
        await writer.drain()
        if end:
            writer.write_eof()
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _refusal(raw: bytes) -> str:
    assert raw.count(b"\n") == 1
    reply = Reply.model_validate_json(raw)
    assert not reply.ok
    return reply.message


def test_a_command_is_handed_over_and_its_answer_comes_back(run: Callable[[Work], None]) -> None:
    async def work() -> None:
        seen: list[Command] = []

        def handler(command: Command) -> Reply:
            seen.append(command)
            return _acknowledge(command)

        async with _serving(handler) as server:
            asked = [Command(command="status"), Command(command="run-again", scenario="käse\x1b\n", confirmed=True)]
            answers = [await send(server.path, each) for each in asked]
        assert seen == asked
        assert answers[0] == Reply(ok=True, message="status", status=STATUS)
        assert answers[1].message == "run-again käse\x1b\n".strip()

    run(work)


def test_a_refusal_comes_back_with_its_reason(run: Callable[[Work], None]) -> None:
    async def work() -> None:
        async with _serving(lambda _: Reply(ok=False, message="the run is not paused")) as server:
            assert await send(server.path, Command(command="resume-queue")) == Reply(ok=False, message="the run is not paused")

    run(work)


def test_a_session_is_reached_by_its_folder_however_it_is_spelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        server = ControlServer(tmp_path / "eval_x", _acknowledge)
        await server.start()
        try:
            for folder in (tmp_path / "eval_x", Path("eval_x"), Path("here") / ".." / "eval_x", Path("here/link")):
                assert (await send(folder, Command(command="status"))).ok
        finally:
            await server.close()

    (tmp_path / "eval_x").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "link").symlink_to(tmp_path / "eval_x")
    monkeypatch.chdir(tmp_path)
    asyncio.run(work())


def test_a_thread_without_a_loop_can_ask(run: Callable[[Work], None]) -> None:
    async def work() -> None:
        async with _serving() as server:
            assert (await asyncio.to_thread(send_now, server.path, Command(command="stop"))).message == "stop"
        await asyncio.get_running_loop().shutdown_default_executor()

    run(work)


@pytest.mark.parametrize("command", ["skip", "stop-attempt", "run-again"])
def test_what_is_about_a_scenario_needs_one(command: Any) -> None:
    with pytest.raises(ValidationError, match=f"{command} needs a scenario"):
        Command(command=command)


@pytest.mark.parametrize(
    ("request_line", "words"),
    [
        (b"\n", "not a command"),
        (b"hello\n", "not a command"),
        (b"[]\n", "not a command"),
        (b"\xff\xfe\n", "not a command"),
        (b'{"command": "status"\n', "not a command"),
        (b"[" * 60_000 + b"\n", "not a command"),
        (b'{"command": "explode"}\n', "command: Input should be 'status'"),
        (b'{"command": 1}\n', "command:"),
        (b'{"command": "skip"}\n', "skip needs a scenario"),
        (b'{"command": "skip", "scenario": 7}\n', "scenario:"),
        (b'{"command": "skip", "scenario": "\\ud800"}\n', "not a command"),
        (b'{"command": "run-again", "scenario": "a", "confirmed": "yes"}\n', "confirmed:"),
        (b'{"command": "status", "more": 1}\n', "more:"),
        (b'{"command": "' + b"x" * 70_000 + b'"}\n', "at most 65536 bytes"),
        (b"x" * 70_000, "at most 65536 bytes"),
    ],
    ids=lambda value: repr(value[:40]),
)
def test_what_is_no_command_is_refused_with_a_reason(run: Callable[[Work], None], request_line: bytes, words: str) -> None:
    async def work() -> None:
        def never(_: Command) -> Reply:
            raise AssertionError("handed over")

        async with _serving(never) as server:
            assert words in _refusal(await _raw(server.path, request_line))

    run(work)


def test_a_request_without_its_newline_is_refused_and_none_at_all_is_let_go(run: Callable[[Work], None]) -> None:
    async def work() -> None:
        async with _serving() as server:
            assert "newline" in _refusal(await _raw(server.path, b'{"command": "status"}', end=True))
            assert await _raw(server.path, b"", end=True) == b""

    run(work)


def test_only_the_first_line_counts(run: Callable[[Work], None]) -> None:
    async def work() -> None:
        seen: list[str] = []

        def handler(command: Command) -> Reply:
            seen.append(command.command)
            return _acknowledge(command)

        async with _serving(handler) as server:
            raw = await _raw(server.path, b'{"command": "pause"}\n{"command": "stop-now"}\n')
        assert (Reply.model_validate_json(raw).message, seen) == ("pause", ["pause"])

    run(work)


def test_who_sends_nothing_is_told_so_and_let_go(run: Callable[[Work], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "PATIENCE", 0.05)

    async def work() -> None:
        async with _serving() as server:
            assert "no request came within 0.05 s" in _refusal(await _raw(server.path, b'{"command"'))

    run(work)


def test_who_never_reads_is_dropped(run: Callable[[Work], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "PATIENCE", 0.05)

    async def work() -> None:
        async with _serving(lambda _: Reply(ok=True, message="x" * 4_000_000)) as server:
            with socket.socket(socket.AF_UNIX) as deaf:
                deaf.setblocking(False)
                deaf.connect(str(server.path))
                await asyncio.get_running_loop().sock_sendall(deaf, b'{"command": "status"}\n')
                while not server._clients:
                    await asyncio.sleep(0.001)
                while server._clients:
                    await asyncio.sleep(0.001)

    run(work)


def test_a_handler_that_raises_refuses_and_the_next_command_is_served(run: Callable[[Work], None]) -> None:
    async def work() -> None:
        notes: list[str] = []

        def handler(command: Command) -> Any:
            if command.command == "pause":
                raise RuntimeError("boom")
            return None if command.command == "stop" else _acknowledge(command)

        async with _serving(handler, note=notes.append) as server:
            refused = await send(server.path, Command(command="pause"))
            assert (refused.ok, refused.message) == (False, "the engine could not carry out pause: RuntimeError('boom')")
            assert not (await send(server.path, Command(command="stop"))).ok
            assert (await send(server.path, Command(command="status"))).ok
        assert notes[0] == "the command pause failed: RuntimeError('boom')"
        assert len(notes) == 2

    run(work)


def test_a_hundred_at_once_are_all_answered_or_told_to_come_again(run: Callable[[Work], None]) -> None:
    async def work() -> None:
        async with _serving() as server:
            raw = await asyncio.gather(*[_raw(server.path, b'{"command": "status"}\n') for _ in range(100)])
            assert (await send(server.path, Command(command="status"))).ok
        replies = [Reply.model_validate_json(each) for each in raw if each]
        assert len([each for each in replies if each.ok]) >= control.MAX_CLIENTS
        assert all("too many" in each.message for each in replies if not each.ok)

    run(work)


def test_a_hundred_that_hang_neither_hold_the_loop_nor_the_end(run: Callable[[Work], None]) -> None:
    async def work() -> None:
        with contextlib.ExitStack() as hanging:
            async with _serving() as server:
                for _ in range(100):
                    client = hanging.enter_context(socket.socket(socket.AF_UNIX))
                    client.setblocking(False)
                    client.connect(str(server.path))
                    client.send(b'{"command"')
                    await asyncio.sleep(0)
                while len(server._clients) < control.MAX_CLIENTS:
                    await asyncio.sleep(0.001)
                began = time.monotonic()
            assert time.monotonic() - began < 1.0
            assert server._clients == set()

    run(work)


def test_the_end_with_clients_that_are_just_coming_in_leaves_none(run: Callable[[Work], None]) -> None:
    async def work() -> None:
        with contextlib.ExitStack() as coming:
            async with _serving() as server:
                for _ in range(20):
                    client = coming.enter_context(socket.socket(socket.AF_UNIX))
                    client.connect(str(server.path))
            while server._clients:
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)

    run(work)


def test_close_without_start_and_close_twice_do_nothing(run: Callable[[Work], None]) -> None:
    async def work() -> None:
        await ControlServer(SESSION, _acknowledge).close()
        async with _serving() as server:
            pass
        await server.close()
        assert not server.path.exists()

    run(work)


def test_the_folder_and_the_socket_are_for_their_owner_only(temporary: Path, run: Callable[[Work], None]) -> None:
    async def work() -> None:
        async with _serving() as server:
            assert server.path.parent == temporary / f"voiceeval-{os.getuid()}"
            assert len(server.path.stem) == 16
            assert stat.S_IMODE(server.path.parent.stat().st_mode) == 0o700
            assert stat.S_IMODE(server.path.stat().st_mode) == 0o600
        assert list(server.path.parent.iterdir()) == []

    previous = os.umask(0)
    try:
        run(work)
    finally:
        os.umask(previous)


def test_a_folder_of_ours_that_is_open_to_others_is_closed(temporary: Path, run: Callable[[Work], None]) -> None:
    folder = temporary / f"voiceeval-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)

    async def work() -> None:
        async with _serving():
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    run(work)


@pytest.mark.parametrize("kind", ["symlink", "dangling symlink", "file", "another's"])
def test_a_folder_that_is_not_ours_is_refused_and_left_alone(
    temporary: Path, run: Callable[[Work], None], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = temporary / f"voiceeval-{os.getuid()}"
    (temporary / "elsewhere").mkdir(mode=0o755)
    match kind:
        case "symlink":
            folder.symlink_to(temporary / "elsewhere")
        case "dangling symlink":
            folder.symlink_to(temporary / "nowhere")
        case "file":
            folder.touch()
        case _:
            folder.mkdir()
    before = folder.lstat()
    server = ControlServer(SESSION, _acknowledge)
    if kind == "another's":
        uid = os.getuid()
        monkeypatch.setattr(control.os, "getuid", lambda: uid + 1)

    async def work() -> None:
        with pytest.raises(ControlUnavailable, match="is not a folder of ours"):
            await server.start()
        await server.close()

    run(work)
    assert folder.lstat() == before
    assert list((temporary / "elsewhere").iterdir()) == []


def test_a_temporary_directory_with_too_long_a_name_is_a_sentence(
    tmp_path: Path, run: Callable[[Work], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))

    async def work() -> None:
        server = ControlServer(SESSION, _acknowledge)
        with pytest.raises(ControlUnavailable, match=r"no control socket at .*too long"):
            await server.start()
        await server.close()

    run(work)


def test_asking_at_too_long_a_path_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ControlFailed, match="too long"):
        send_now(tmp_path / ("x" * 120), Command(command="status"))


@pytest.mark.parametrize("named", ["", "relative", "/nowhere/at/all"])
def test_a_temporary_directory_that_is_none_is_not_used(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv("TMPDIR", named)
    assert socket_path(SESSION).parent == Path(f"/tmp/voiceeval-{os.getuid()}")
    monkeypatch.delenv("TMPDIR")
    assert socket_path(SESSION).parent == Path(f"/tmp/voiceeval-{os.getuid()}")


@pytest.mark.parametrize("kind", ["socket", "file", "symlink"])
def test_what_a_dead_engine_left_at_the_place_is_replaced(temporary: Path, run: Callable[[Work], None], kind: str) -> None:
    path = socket_path(SESSION)
    path.parent.mkdir(mode=0o700)
    (temporary / "kept").write_text("kept")
    if kind == "socket":
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
    elif kind == "file":
        path.touch()
    else:
        path.symlink_to(temporary / "kept")

    async def work() -> None:
        async with _serving() as server:
            assert (await send(server.path, Command(command="status"))).ok

    run(work)
    assert (temporary / "kept").read_text() == "kept"


def _remove_socket(path: Path) -> None:
    path.unlink()


def _remove_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def _replace_by_file(path: Path) -> None:
    path.unlink()
    path.touch()


def _replace_by_socket(path: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))


@pytest.mark.parametrize("harm", [_remove_socket, _remove_folder, _replace_by_file, _replace_by_socket])
def test_a_socket_that_vanished_is_made_again(run: Callable[[Work], None], harm: Callable[[Path], None]) -> None:
    async def work() -> None:
        told = asyncio.Event()
        notes: list[str] = []

        def note(text: str) -> None:
            notes.append(text)
            told.set()

        async with _serving(note=note, check_every=0.01) as server:
            harm(server.path)
            async with asyncio.timeout(10):
                await told.wait()
            assert (await send(server.path, Command(command="status"))).ok
        assert notes == [f"the control socket {server.path} had gone and was made again"]
        assert not server.path.exists()

    run(work)


def test_a_socket_that_cannot_be_made_again_is_told_once_and_tried_on(temporary: Path, run: Callable[[Work], None]) -> None:
    async def work() -> None:
        notes: list[str] = []
        told = asyncio.Event()

        def note(text: str) -> None:
            notes.append(text)
            told.set()

        async with _serving(note=note, check_every=0.01) as server:
            shutil.rmtree(server.path.parent)
            server.path.parent.touch()
            async with asyncio.timeout(10):
                await told.wait()
                told.clear()
                looks = 0
                while looks < 5:  # it is tried again and again, and told no more
                    await asyncio.sleep(0.01)
                    looks += 1
                server.path.parent.unlink()
                await told.wait()
            assert (await send(server.path, Command(command="status"))).ok
        assert len(notes) == 2
        assert "is not a folder of ours" in notes[0]
        assert "was made again" in notes[1]

    run(work)


def test_a_socket_that_is_anothers_now_is_not_removed_at_the_end(run: Callable[[Work], None]) -> None:
    async def work() -> None:
        async with _serving(check_every=60.0) as server:
            _replace_by_socket(server.path)
        assert server.path.exists()

    run(work)


def test_where_nothing_listens_the_engine_is_gone(temporary: Path, tmp_path: Path) -> None:
    left = temporary / "left"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(left))
    (temporary / "file").touch()
    for target in (tmp_path, tmp_path / "nowhere", left, temporary / "file", temporary / "file" / "below"):
        with pytest.raises(EngineGone, match="no engine listens at "):
            send_now(target, Command(command="status"))


@contextlib.contextmanager
def _answering(path: Path, answer: bytes | None) -> Iterator[None]:
    """Something else listens there: it takes one line and answers so, or (None) not at all until it is left."""
    done = threading.Event()

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            if answer is None:
                done.wait()
            else:
                connection.recv(65536)
                with contextlib.suppress(OSError):
                    connection.sendall(answer)

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "hung up without an answer"),
        (b'{"ok": true', "hung up without an answer"),
        (b"hello\n", "the engine's answer is none"),
        (b'{"ok": true}\n', "message: Field required"),
        (b'{"ok": true, "message": "m", "status": {}}\n', "status.session: Field required"),
        (b"x" * (commands.MAX_REPLY + 200_000), "did not answer"),
        (None, "did not answer within 0.05 s"),
    ],
    ids=lambda value: repr(value[:40]) if value is not None else "silence",
)
def test_what_is_no_answer_is_a_failure_with_a_reason(temporary: Path, answer: bytes | None, words: str) -> None:
    timeout = 0.05 if answer is None else 10.0
    with _answering(temporary / "s", answer), pytest.raises(ControlFailed, match=words):
        send_now(temporary / "s", Command(command="status"), timeout)


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="the system does not tell the peer's user")
def test_another_users_commands_and_answers_are_not_taken(run: Callable[[Work], None], monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with _serving() as server:
            with monkeypatch.context() as patch:
                patch.setattr(control, "is_ours", lambda _: False)
                assert "only the engine's own user" in (await send(server.path, Command(command="status"))).message
            with monkeypatch.context() as patch:
                patch.setattr(commands, "is_ours", lambda _: False)
                with pytest.raises(ControlFailed, match="another user serves"):
                    await send(server.path, Command(command="status"))

    run(work)


@settings(deadline=None, max_examples=60)
@given(
    junk=st.lists(
        st.binary(max_size=200)
        | st.sampled_from([b"\n", b'{"command": "', b"status", b'"}', b'{"command": "status"}', b"\x00" * 300, b"[" * 5000]),
        max_size=6,
    )
)
def test_random_bytes_never_break_the_server(junk: list[bytes]) -> None:
    raised: list[Any] = []

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
        async with _serving() as server:
            raw = await _raw(server.path, b"".join(junk), end=True)
            if raw:
                assert isinstance(json.loads(raw)["ok"], bool)
            assert (await send(server.path, Command(command="status"))).ok

    with contextlib.ExitStack() as restore:
        folder = tempfile.mkdtemp(dir="/tmp")
        restore.callback(shutil.rmtree, folder)
        patch = restore.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("TMPDIR", folder)
        asyncio.run(work())
    assert raised == []


def test_asyncio_logs_nothing_of_all_that(run: Callable[[Work], None], caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with _serving() as server:
            for request in (b"", b"x", b"x" * 100_000, b'{"command": "status"}\n'):
                _, writer = await asyncio.open_unix_connection(server.path)
                writer.write(request)
                writer.transport.abort()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
            assert (await send(server.path, Command(command="status"))).ok

    with caplog.at_level(logging.WARNING):
        run(work)
    assert caplog.records == []
