"""`status`, `pause`, `resume-queue`, `stop` and `clean` as commands: whom they reach, what they print, their exit codes."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from voiceeval_engine.live import commands as live_commands
from voiceeval_engine.live.commands import Command, Reply, Status
from voiceeval_engine.live.control import ControlServer
from voiceeval_engine.session import clean as clean_module
from voiceeval_engine.session.lock import SessionLock, holder
from voiceeval_tui.cli import main

STATUS = Status(
    session="eval_20260101_000000", pid=4711, started_at="2026-01-01T00:00:00", state="paused", reason="by the operator",
    total=114, done=37, running=("retail__41", "retail__44"), not_run=1, stalled=2, success_k=21, success_n=34,
    elapsed=8040.0, eta=16860.0, pairs=3, pairs_out=("pair 2: agent ws://gpu2:8765 does not answer since 12:00:00",),
)  # fmt: skip
PATIENCE = 30.0


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    short = tempfile.mkdtemp(dir="/tmp")
    monkeypatch.setenv("TMPDIR", short)
    yield
    shutil.rmtree(short)


@pytest.fixture
def session(tmp_path: Path) -> Path:
    folder = tmp_path / "eval_results" / "eval_20260101_000000"
    folder.mkdir(parents=True)
    (folder / "run_args.json").write_text("{}")
    return folder


@contextmanager
def engine(session: Path, handler: Callable[[Command], Reply]) -> Iterator[ControlServer]:
    """A control socket on a loop in a thread, and the session's lock that names it."""
    server = ControlServer(session, handler)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(PATIENCE)
    lock = SessionLock(session, "2026-01-01T00:00:00", str(server.path))
    try:
        yield server
    finally:
        lock.release()
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()


def acknowledge(command: Command) -> Reply:
    return Reply(ok=True, message=f"did {command.command}", status=STATUS)


def exit_code(*arguments: str) -> int:
    try:
        return main(arguments)
    except SystemExit as end:
        return int(end.code or 0)


def test_the_status_is_a_few_plain_lines(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with engine(session, acknowledge):
        assert exit_code("status") == 0
    assert capsys.readouterr() == (
        "eval_20260101_000000  paused: by the operator\n"
        "  process    4711 since 2026-01-01T00:00:00\n"
        "  done       37/114  2 stalled  1 not run\n"
        "  success    21/34 61.8%    [45-76]\n"
        "  running    retail__41, retail__44\n"
        "  pairs      2 of 3\n"
        "  pair out   pair 2: agent ws://gpu2:8765 does not answer since 12:00:00\n"
        "  elapsed    2h14m, ETA 4h41m\n",
        "",
    )


def test_the_status_of_a_run_that_has_just_begun(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun = Status(session=session.name, pid=1, started_at="now", state="running", total=2, done=0, elapsed=3.0, pairs=1)
    with engine(session, lambda _: Reply(ok=True, message="", status=begun)):
        assert exit_code("status", str(session)) == 0
    assert capsys.readouterr().out == (
        "eval_20260101_000000  running\n"
        "  process    1 since now\n"
        "  done       0/2\n"
        "  success    -\n"
        "  running    -\n"
        "  pairs      1 of 1\n"
        "  elapsed    3s\n"
    )


def test_the_status_as_json_is_the_status_alone(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with engine(session, acknowledge):
        assert exit_code("status", "--json") == 0
    printed = capsys.readouterr()
    assert Status.model_validate_json(printed.out) == STATUS
    assert printed.err == ""


@pytest.mark.parametrize(
    ("arguments", "command"),
    [(("pause",), "pause"), (("resume-queue",), "resume-queue"), (("stop",), "stop"), (("stop", "--now"), "stop-now")],
)
def test_a_command_is_given_and_its_answer_printed(
    session: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], command: str
) -> None:
    with engine(session, acknowledge):
        assert exit_code(*arguments) == 0
        assert capsys.readouterr() == (f"did {command}\n", "")
        assert exit_code(*arguments, "--json") == 0
        assert json.loads(capsys.readouterr().out)["message"] == f"did {command}"


def test_a_refusal_is_an_error_with_the_engines_words(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with engine(session, lambda _: Reply(ok=False, message="the queue is not paused")):
        assert exit_code("resume-queue", "--json") == 1
    assert capsys.readouterr() == ("", "ERROR: the queue is not paused\n")


def test_what_the_engine_says_is_made_safe(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = STATUS.model_copy(update={"running": ("a\x1b[31m\n  done       0/0\u202e",), "reason": "\x07"})
    with engine(session, lambda command: Reply(ok=command.command != "stop", message="\x1b]0;x\x07", status=evil)):
        assert [exit_code(*each) for each in (["status"], ["status", "--json"], ["pause"], ["pause", "--json"], ["stop"])] == [
            0,
            0,
            0,
            0,
            1,
        ]
    printed = capsys.readouterr()
    assert not {"\x1b", "\x07", "\u202e"} & set(printed.out + printed.err)
    assert "  running    a\\x1b[31m\\n  done       0/0\\u202e\n" in printed.out


def test_an_engine_without_a_status_is_an_error(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with engine(session, lambda _: Reply(ok=True, message="ready soon")):
        assert exit_code("status") == 1
    assert capsys.readouterr().err.endswith("gave no status: ready soon\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("eval_results/eval_20260101_000000",),
        ("20260101_000000",),
        ("eval_20260101_000000",),
        ("20260101_000000", "--output-dir", "eval_results"),
        ("--output-dir", "eval_results"),
        (),
    ],
)
def test_a_session_is_a_path_a_timestamp_or_the_newest(session: Path, arguments: tuple[str, ...]) -> None:
    for older in ("eval_20251231_235959", "eval_20251231_235959.bak", "eval_zzz", "other"):
        (session.parent / older).mkdir()
    (session.parent / "eval_20990101_000000").touch()
    with engine(session, acknowledge):
        assert exit_code("status", *arguments) == 0


def test_a_path_that_is_there_counts_before_a_timestamp(session: Path, tmp_path: Path) -> None:
    here = tmp_path / session.name
    here.mkdir()
    with engine(here, acknowledge):
        assert exit_code("status", session.name) == 0
        assert exit_code("status", "20260101_000000") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere",), "there is no session nowhere: it is neither a folder nor a timestamp like 20260618_072325"),
        (("",), "it is neither a folder nor a timestamp"),
        (("20990101_000000",), "no folder eval_results/eval_20990101_000000"),
        (("20990101_000000\n",), "it is neither a folder nor a timestamp"),
        (("--output-dir", "nowhere"), "there is no session in nowhere: No such file or directory"),
        (("--output-dir", "."), "there is no session in ."),
        (("\x1b[31m",), "\\x1b[31m"),
    ],
)
def test_a_session_that_is_none_is_an_error(
    session: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    assert exit_code("status", *arguments) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("ERROR: ")
    assert words in printed.err
    assert (printed.out, printed.err.count("\n")) == ("", 1)


@pytest.mark.parametrize("command", ["status", "pause", "resume-queue", "stop"])
def test_without_an_engine_there_is_none_to_command(session: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert exit_code(command) == 1
    SessionLock(session, "earlier", "/nowhere/socket").release()
    assert exit_code(command) == 1
    assert capsys.readouterr() == ("", "ERROR: no engine runs on eval_results/eval_20260101_000000\n" * 2)


def test_a_holder_that_takes_no_commands_is_named(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = SessionLock(session, "2026-01-01T00:00:00")
    assert exit_code("status") == 1
    lock.release()
    assert capsys.readouterr().err.startswith(
        f"ERROR: process {os.getpid()} on {socket.gethostname()} holds eval_results/eval_20260101_000000 since 2026-01-01T00:00:00 "
        "but takes no commands here: no engine listens at "
    )


def test_an_engine_that_does_not_answer_is_named(
    session: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_commands.send_now, "__defaults__", (0.05,))
    released = threading.Event()

    def stuck(_: Command) -> Reply:
        released.wait(PATIENCE)
        return Reply(ok=True, message="late")

    with engine(session, stuck):
        assert exit_code("pause") == 1
        released.set()
    assert f"process {os.getpid()} on " in (err := capsys.readouterr().err)
    assert "the engine did not answer within 0.05 s" in err


def test_an_engine_with_another_temporary_directory_is_found_by_its_lock(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine(session, acknowledge):
        monkeypatch.setenv("TMPDIR", "/")
        assert exit_code("status") == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("status", "a", "b"), ("status", "--now"), ("pause", "--nonsense"), ("stop", "--no"),
        ("clean",), ("clean", "a", "b"), ("clean", "--ye", "a"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_2(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(*arguments) == 2
    assert capsys.readouterr().err.startswith("usage: voiceeval-tui ")


@pytest.mark.parametrize("command", ["status", "pause", "resume-queue", "stop", "clean"])
def test_each_has_a_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(command, "--help") == 0
    assert f"voiceeval-tui {command}" in capsys.readouterr().out
    assert exit_code("--help") == 0
    assert command in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["status"], ["clean", "."]])
def test_no_screen_and_no_audio_are_imported(arguments: list[str], session: Path) -> None:
    code = (
        "import sys; from voiceeval_tui.cli import main\n"
        f"main({arguments!r})\n"
        "print('|'.join({name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    loaded = set(done.stdout.splitlines()[-1].split("|"))
    assert loaded & {"numpy", "soxr", "textual", "rich", "websockets", "google", "httpx", "uvloop", "yaml"} == set()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def littered(session: Path) -> Path:
    for name in ("a", "a.killed.20260101_000000", "b.killed.autoretry1.20260101_000000"):
        (session / name).mkdir()
        (session / name / "conversation_log.wav").write_bytes(bytes(600_000))
    (session / ".all_metrics.json.0a1b2c3d.tmp").write_bytes(bytes(1500))
    return session


def left(session: Path) -> list[str]:
    return sorted(each.name for each in session.iterdir())


LISTED = (
    "  a.killed.20260101_000000  600.0 kB\n"
    "  b.killed.autoretry1.20260101_000000  600.0 kB\n"
    "  .all_metrics.json.0a1b2c3d.tmp  1.5 kB\n"
)
CLEANED = ["a", "run_args.json", "session.lock"]


@pytest.mark.parametrize("answer", ["y\n", "Y\n", "yes\n", " YES \n"])
def test_clean_lists_asks_and_removes(
    littered: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    assert exit_code("clean", str(littered)) == 0
    assert capsys.readouterr() == (
        LISTED + "removed 2 folders and 1 temporary file, 1.2 MB\n",
        "Remove 2 folders and 1 temporary file, 1.2 MB? [y/N] ",
    )
    assert left(littered) == CLEANED
    assert (littered / "a" / "conversation_log.wav").stat().st_size == 600_000
    assert holder(littered) is None


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "no\n", "yep\n", "ja\n"])
def test_clean_removes_nothing_without_a_yes(
    littered: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    before = left(littered)
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    assert exit_code("clean", str(littered)) == 0
    assert capsys.readouterr().out == LISTED
    assert left(littered) == sorted([*before, "session.lock"])


def test_clean_does_not_ask_where_nobody_can_answer(
    littered: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    before = left(littered)
    assert exit_code("clean", str(littered)) == 2
    assert capsys.readouterr().err == "ERROR: clean asks before it removes anything; without a terminal give --yes\n"
    assert left(littered) == sorted([*before, "session.lock"])
    assert exit_code("clean", str(littered), "--yes") == 0
    assert left(littered) == CLEANED


def test_clean_of_a_clean_session(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("clean", str(session)) == 0
    assert capsys.readouterr() == (f"{session}: nothing to remove\n", "")


def test_clean_refuses_while_somebody_writes_the_session(littered: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = SessionLock(littered, "2026-01-01T00:00:00")
    before = left(littered)
    assert exit_code("clean", str(littered), "--yes") == 1
    lock.release()
    assert capsys.readouterr() == (
        "",
        f"ERROR: {littered} is in use by process {os.getpid()} on {socket.gethostname()} since 2026-01-01T00:00:00; "
        "nothing is removed meanwhile\n",
    )
    assert left(littered) == before


def test_clean_keeps_engines_out_while_it_asks(littered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holders: list[int | None] = []

    class Slow(Terminal):
        def readline(self, *_: object) -> str:
            held = holder(littered)
            holders.append(held.pid if held else None)
            return "y\n"

    monkeypatch.setattr(sys, "stdin", Slow())
    assert exit_code("clean", str(littered)) == 0
    assert holders == [os.getpid()]


@pytest.mark.parametrize(
    ("given", "words"),
    [("nowhere", "nowhere is not a directory"), ("eval_results", "eval_results is no session"), (".", ". is no session")],
)
def test_clean_takes_one_session_only(littered: Path, capsys: pytest.CaptureFixture[str], given: str, words: str) -> None:
    before = left(littered)
    assert exit_code("clean", given, "--yes") == 1
    assert words in capsys.readouterr().err
    assert left(littered) == before
    assert not (Path(given) / "session.lock").exists()


def test_clean_tells_what_it_could_not_remove(
    littered: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied", f"{path}\x1b")

    with monkeypatch.context() as patch:
        patch.setattr(clean_module.shutil, "rmtree", refused)
        assert exit_code("clean", str(littered), "--yes") == 1
    printed = capsys.readouterr()
    assert printed.out == LISTED + "removed 1 temporary file, 1.5 kB\n"
    assert printed.err.count("ERROR: not removed: [Errno 13] Permission denied: ") == 2
    assert "\x1b" not in printed.err
    assert holder(littered) is None


def test_clean_shows_names_safely(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (session / "a\x1b[2J\n.killed.1").mkdir()
    assert exit_code("clean", str(session), "--yes") == 0
    assert capsys.readouterr().out == "  a\\x1b[2J\\n.killed.1  0 B\nremoved 1 folder, 0 B\n"
