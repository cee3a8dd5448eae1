"""Real engines as processes: commanded from the shell, two on one session, killed, and in places that cannot be written."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from bot_farm import serving
from driven_run import passes, until
from hostile_bots import HostileBot

from voiceeval_engine.live.commands import Command, EngineGone, send_now, socket_path
from voiceeval_engine.session.lock import holder

CLI = [str(Path(sys.executable).with_name("voiceeval-tui"))]
PACK = str(Path(__file__).parent.parent / "data" / "short_pack")
PATIENCE = 60.0

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    made = threading.Event()
    yield made
    made.set()


@pytest.fixture
def bots(gate: threading.Event) -> Iterator[list[str]]:
    """Options for a pair whose conversations end when the gate is open."""
    agent, user = HostileBot(until(gate, passes)), HostileBot()
    with serving(agent, user):
        yield ["--agent-url", agent.url, "--user-url", user.url]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts commands, each in a session of its own; what a failed test leaves of them is ended by its id."""
    with ExitStack() as stack:
        short = stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp"))
        os.environ["TMPDIR"], kept = short, os.environ.get("TMPDIR")

        def restore() -> None:
            if kept is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = kept

        stack.callback(restore)

        def new(*arguments: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [*CLI, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield new


@pytest.fixture
def run(start: Start, bots: list[str], tmp_path: Path) -> Start:
    """Starts an engine on the pair; further arguments are appended."""

    def engine(*arguments: str) -> subprocess.Popen[str]:
        return start(
            "--no-ui", "--scenario-dir", PACK, "--scenarios", "short__order", "short__forgotten", *bots, "--output-dir",
            str(tmp_path / "out"), "--pause", "0", "--judge-url", "", "--min-agent-turns", "1", *arguments,
        )  # fmt: skip

    return engine


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def talking(process: subprocess.Popen[str], output: Path, number: int = 1) -> Path:
    """Wait for the `number`-th conversation of the session; returns its folder."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for journal in output.glob("eval_*/events.jsonl"):
            if journal.read_bytes().count(b'"conversation_started"') >= number:
                return journal.parent
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("no conversation began")


def timestamp(session: Path) -> str:
    return session.name.removeprefix("eval_")


def test_the_shell_commands_a_running_engine(run: Start, start: Start, tmp_path: Path, gate: threading.Event) -> None:
    engine = run()
    session = talking(engine, tmp_path / "out")
    code, out, err = ended(start("status", str(session), "--json"))
    assert (code, err) == (0, "")
    status = json.loads(out)
    assert (status["pid"], status["state"], status["total"], status["running"]) == (engine.pid, "running", 2, ["short__order"])
    assert ended(start("resume-queue", str(session)))[0] == 1
    code, out, err = ended(start("pause", str(session)))
    assert (code, out, err) == (0, "the queue is paused; conversations that run go on\n", "")
    code, out, err = ended(start("pause", str(session)))
    assert (code, out, err) == (1, "", "ERROR: the queue is paused already\n")
    assert "paused: by the operator" in ended(start("status", str(session)))[1]
    assert ended(start("resume-queue", str(session)))[:2] == (0, "the queue goes on\n")
    assert ended(start("stop", str(session)))[0] == 0
    gate.set()
    code, out, err = ended(engine)
    assert (code, err) == (1, "")
    assert "1 of 2 scenarios have a result" in out
    code, out, err = ended(start("status", str(session)))
    assert (code, out) == (1, "")
    assert "no engine runs on" in err
    assert ended(run("--resume", timestamp(session)))[0] == 0


def test_of_two_engines_on_one_session_one_runs_and_the_other_says_who_holds_it(
    run: Start, tmp_path: Path, gate: threading.Event
) -> None:
    first = run()
    session = talking(first, tmp_path / "out")
    first.send_signal(signal.SIGINT)
    assert ended(first)[0] == 1
    both = [run("--resume", timestamp(session)) for _ in range(2)]
    deadline = time.monotonic() + PATIENCE
    while all(each.poll() is None for each in both) and time.monotonic() < deadline:
        time.sleep(0.02)
    (loser,) = [each for each in both if each.poll() is not None]
    (winner,) = [each for each in both if each is not loser]
    code, out, err = ended(loser)
    assert (code, out) == (1, "")
    assert err.startswith(f"ERROR: {session} is in use by process {winner.pid} on {socket.gethostname()} since ")
    gate.set()
    assert ended(winner)[0] == 0
    invocations = json.loads((session / "run_args.json").read_text())["invocations"]
    assert len(invocations) == 2
    lines = [json.loads(line) for line in (session / "events.jsonl").read_text().splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))


def test_after_a_kill_the_next_engine_takes_the_socket_over(run: Start, tmp_path: Path, gate: threading.Event) -> None:
    first = run()
    session = talking(first, tmp_path / "out")
    first.kill()
    ended(first)
    assert socket_path(session).exists()
    assert holder(session) is None
    with pytest.raises(EngineGone):
        send_now(session, Command(command="status"))
    second = run("--resume", timestamp(session))
    talking(second, tmp_path / "out", 2)
    status = send_now(session, Command(command="status")).status
    assert status is not None
    assert status.pid == second.pid
    gate.set()
    assert ended(second)[0] == 0
    assert not socket_path(session).exists()


def test_an_output_directory_that_cannot_be_made_is_one_sentence(start: Start, bots: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    code, out, err = ended(
        start("--no-ui", "--scenario-dir", PACK, "--domain", "short", *bots, "--judge-url", "", "--output-dir", "file/out")
    )
    assert (code, out) == (1, "")
    assert err.startswith("ERROR: --output-dir ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["session.lock", "events.jsonl", "evaluation_log.txt"])
def test_a_session_in_which_a_file_cannot_be_written_is_one_sentence(run: Start, tmp_path: Path, name: str) -> None:
    session = tmp_path / "out" / "eval_20260101_000000"
    (session / name).mkdir(parents=True)
    code, _, err = ended(run("--resume", "20260101_000000"))
    assert code == 1
    assert err.startswith("ERROR: ")
    assert err.count("\n") == 1
    assert name in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_session_is_one_sentence(run: Start, tmp_path: Path) -> None:
    session = tmp_path / "out" / "eval_20260101_000000"
    session.mkdir(parents=True)
    session.chmod(0o500)
    try:
        code, _, err = ended(run("--resume", "20260101_000000"))
    finally:
        session.chmod(0o700)
    assert code == 1
    assert err.startswith("ERROR: ")
    assert err.count("\n") == 1
