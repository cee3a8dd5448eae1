"""One writer a session: who is refused, what it is told, and that a lock dies with its holder and with nobody else."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from voiceeval_engine.offload import Offload
from voiceeval_engine.run.embedded import embedded_pairs
from voiceeval_engine.session import lock as lock_module
from voiceeval_engine.session.lock import Holder, SessionHeld, SessionLock, holder, last_holder

PATIENCE = 30
HOLD = (
    "import sys; from pathlib import Path; from voiceeval_engine.session.lock import SessionLock\n"
    "lock = SessionLock(Path(sys.argv[1]), '2026-01-01T00:00:00', '/tmp/socket'); print('held', flush=True); sys.stdin.read()"
)


@contextmanager
def held_elsewhere(session: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process holds the lock."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(session)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_engine_is_refused_with_the_holders_process_and_host(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as process:
        with pytest.raises(SessionHeld) as caught:
            SessionLock(tmp_path, "now")
        assert caught.value.holder == Holder(process.pid, socket.gethostname(), "2026-01-01T00:00:00", "/tmp/socket")
        assert str(caught.value) == (
            f"{tmp_path} is in use by process {process.pid} on {socket.gethostname()} since 2026-01-01T00:00:00"
        )
        assert holder(tmp_path) == caught.value.holder


def test_being_refused_changes_nothing(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path):
        before = (tmp_path / "session.lock").read_bytes()
        with pytest.raises(SessionHeld):
            SessionLock(tmp_path, "now")
        assert (tmp_path / "session.lock").read_bytes() == before
        assert holder(tmp_path) is not None


def test_a_lock_whose_holder_was_killed_is_taken_over(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as process:
        file = (tmp_path / "session.lock").stat().st_ino
        process.kill()
        process.wait(PATIENCE)
        assert holder(tmp_path) is None
        lock = SessionLock(tmp_path, "later")
    assert holder(tmp_path) == Holder(os.getpid(), socket.gethostname(), "later", "")
    assert (tmp_path / "session.lock").stat().st_ino == file
    lock.release()


def test_a_released_lock_can_be_had_again_and_its_file_stays(tmp_path: Path) -> None:
    lock = SessionLock(tmp_path, "a")
    with pytest.raises(SessionHeld):
        SessionLock(tmp_path, "b")
    file = (tmp_path / "session.lock").stat().st_ino
    lock.release()
    assert holder(tmp_path) is None
    assert json.loads((tmp_path / "session.lock").read_bytes())["started_at"] == "a"
    SessionLock(tmp_path, "c").release()
    assert (tmp_path / "session.lock").stat().st_ino == file


def test_a_session_without_a_lock_has_no_holder(tmp_path: Path) -> None:
    assert holder(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    assert holder(tmp_path / "nowhere") is None


def test_a_session_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SessionLock(tmp_path / "nowhere", "now")


GARBAGE = [
    b"", b"{", b"[]", b"null", b"\xff\xfe", b"{}", b'{"pid": 1}', b"[" * 4096, b"x" * 100_000,
    b'{"pid": "1", "host": "h", "started_at": "s", "socket": ""}', b'{"pid": 1, "host": 2, "started_at": "s", "socket": ""}',
    b'{"pid": 1, "host": "h", "started_at": "s", "socket": "", "more": 1}',
]  # fmt: skip


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda raw: repr(raw[:40]))
def test_a_holder_whose_record_is_garbage_is_another_process(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / "session.lock").write_bytes(garbage)
    with (tmp_path / "session.lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert holder(tmp_path) is None
        with pytest.raises(SessionHeld, match="is in use by another process") as caught:
            SessionLock(tmp_path, "now")
        assert caught.value.holder is None


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda raw: repr(raw[:40]))
def test_garbage_that_nobody_holds_is_replaced_by_the_record(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / "session.lock").write_bytes(garbage)
    lock = SessionLock(tmp_path, "now")
    assert json.loads((tmp_path / "session.lock").read_bytes())["pid"] == os.getpid()
    assert holder(tmp_path) is not None
    lock.release()


def test_the_end_of_an_older_and_longer_record_does_not_hide_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SessionLock(tmp_path, "2026-01-01T00:00:00", "/tmp/" + "x" * 100).release()
    seen: list[Holder | None] = []
    monkeypatch.setattr(lock_module.os, "ftruncate", lambda *_: seen.append(holder(tmp_path)))
    lock = SessionLock(tmp_path, "now", "/tmp/s")
    assert seen == [Holder(os.getpid(), socket.gethostname(), "now", "/tmp/s")]
    lock.release()


def test_who_asks_for_the_holder_does_not_refuse_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "session.lock").touch()
    asking = (tmp_path / "session.lock").open("rb")
    fcntl.flock(asking, fcntl.LOCK_SH)
    monkeypatch.setattr(lock_module.time, "sleep", lambda _: asking.close())
    lock = SessionLock(tmp_path, "now")
    assert asking.closed
    lock.release()


def test_the_holder_can_be_asked_for_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = SessionLock(tmp_path, "now")
    really, flags = os.open, []
    monkeypatch.setattr(lock_module.os, "open", lambda path, mode: (flags.append(mode), really(path, mode))[1])
    assert holder(tmp_path) is not None
    assert flags[0] & os.O_ACCMODE == os.O_RDONLY
    assert not flags[0] & os.O_CREAT
    lock.release()


def test_a_disk_that_refuses_the_record_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(lock_module.os, "pwrite", full)
        with pytest.raises(OSError, match="No space left"):
            SessionLock(tmp_path, "now")
    SessionLock(tmp_path, "now").release()


async def test_the_engines_children_do_not_keep_its_lock(tmp_path: Path) -> None:
    lock = SessionLock(tmp_path, "now")
    offload = Offload()
    try:
        assert await offload.run(10**9, os.getpid) != os.getpid()
        async with embedded_pairs(1):
            lock.release()
            SessionLock(tmp_path, "later").release()
    finally:
        offload.close()


def test_a_program_that_inherits_what_it_can_does_not_keep_the_lock(tmp_path: Path) -> None:
    lock = SessionLock(tmp_path, "now")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False) as child:
        lock.release()
        assert child.poll() is None
        SessionLock(tmp_path, "later").release()
        child.send_signal(signal.SIGKILL)


def test_a_named_pipe_in_place_of_a_lock_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "session.lock")
    assert holder(tmp_path) is None
    assert last_holder(tmp_path) is None


def test_the_last_holder_is_known_after_it_let_go(tmp_path: Path) -> None:
    assert last_holder(tmp_path) is None
    SessionLock(tmp_path, "2026-01-01T00:00:00", "s").release()
    assert last_holder(tmp_path) == Holder(os.getpid(), socket.gethostname(), "2026-01-01T00:00:00", "s")
