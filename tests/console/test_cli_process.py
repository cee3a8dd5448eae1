"""The console script as a process of its own: what it imports, signals, pipes, and the demo."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from bot_farm import serving
from hostile_bots import HostileBot, Stage, says_goodbye

SCRIPT = str(Path(sys.executable).with_name("voiceeval-tui"))
PACK = str(Path(__file__).parent.parent / "data" / "short_pack")
PATIENCE = 60.0


async def _talks_on(stage: Stage) -> None:
    await stage.speak("Hello.")


@pytest.mark.parametrize("argument", ["--help", "--version", "--list", "--list-domains", "--duration=nan"])
def test_what_needs_no_audio_imports_none(argument: str) -> None:
    code = (
        "import sys; from voiceeval_tui.cli import main\n"
        f"try: main([{argument!r}])\n"
        "except SystemExit: pass\n"
        "print('|'.join({name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    loaded = set(done.stdout.splitlines()[-1].split("|"))
    assert loaded & {"numpy", "soxr", "textual", "rich", "websockets", "google", "hypothesis"} == set()
    if argument in ("--help", "--version"):
        assert loaded & {"pydantic", "yaml"} == set()


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[list[str]]:
    """A command whose conversation never ends of itself."""
    agent, user = HostileBot(_talks_on), HostileBot()
    with serving(agent, user):
        yield [
            SCRIPT, "--scenario-dir", PACK, "--domain", "short", "--agent-url", agent.url, "--user-url", user.url,
            "--output-dir", str(tmp_path / "out"), "--pause", "0", "--judge-url", "",
        ]  # fmt: skip


Start = Callable[[list[str]], subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts commands, each in a session of its own; what a failed test leaves of them is ended."""
    with ExitStack() as processes:

        def new(command: list[str]) -> subprocess.Popen[bytes]:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, env=_environment()
            )
            processes.enter_context(process)
            processes.callback(process.kill)
            return process

        yield new


def _environment(**more: str) -> dict[str, str]:
    """Ours, with output buffered as it is by default."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"} | more


def _wait_for_conversation(process: subprocess.Popen[bytes], folder: Path, number: int = 1) -> Path:
    """Wait until the beginning of a conversation stands in the journal, the `number`-th; returns the session."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for journal in folder.glob("eval_*/events.jsonl"):
            if journal.read_bytes().count(b'"conversation_started"') >= number:
                return journal.parent
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("no conversation began")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda signum: signum.name)
def test_a_signal_ends_the_run_in_good_order(endless: list[str], tmp_path: Path, signum: signal.Signals, start: Start) -> None:
    process = start(endless)
    session = _wait_for_conversation(process, tmp_path / "out")
    began = time.monotonic()
    os.killpg(process.pid, signum)
    out, err = process.communicate(timeout=PATIENCE)
    assert time.monotonic() - began < 10
    assert process.returncode == 1
    assert err == b""
    assert b"Evaluation interrupted: 0 of 2 scenarios have a result" in out
    assert (
        "2 scenario(s) did not run: short__forgotten (interrupted), short__order (not started)"
        in (session / "all_summary.txt").read_text()
    )
    assert (session / "short__forgotten").is_dir()
    assert not (session / "short__forgotten" / "metrics.json").exists()
    assert json.loads((session / "all_metrics.json").read_text()) == []


def test_ctrl_c_while_a_worker_process_waits_prints_no_traceback(tmp_path: Path, start: Start) -> None:
    large = {"actions": [], "db_hash": None, "db": {"orders": {str(number): "x" * 1000 for number in range(1000)}}}
    conversations: list[Stage] = []

    async def exits_the_first_time(stage: Stage) -> None:
        conversations.append(stage)
        await stage.speak("Hello.")
        if len(conversations) == 1:
            await stage.exit()

    agent, user = HostileBot(exits_the_first_time, {"get_scenario_summary": large}), HostileBot()
    with serving(agent, user):
        process = start(
            [SCRIPT, "--scenario-dir", PACK, "--scenarios", "short__order", "short__forgotten", "--agent-url", agent.url,
             "--user-url", user.url, "--output-dir", str(tmp_path / "out"), "--pause", "0", "--judge-url", ""]
        )  # fmt: skip
        _wait_for_conversation(process, tmp_path / "out", 2)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert b"Evaluation interrupted: 1 of 2 scenarios have a result" in out
    assert err == b""


def test_a_second_signal_ends_it_at_once(endless: list[str], tmp_path: Path, start: Start) -> None:
    process = start(endless)
    session = _wait_for_conversation(process, tmp_path / "out")
    process.send_signal(signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode in (1, -signal.SIGTERM)
    assert not list(session.glob("**/*.tmp"))


def test_an_ignored_hang_up_stays_ignored(endless: list[str], tmp_path: Path, start: Start) -> None:
    process = start(["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *endless])
    _wait_for_conversation(process, tmp_path / "out")
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.0)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 1


def test_a_reader_that_goes_away_does_not_end_the_run(tmp_path: Path, start: Start) -> None:
    agent, user = HostileBot(says_goodbye), HostileBot()
    with serving(agent, user):
        process = start(
            [
                SCRIPT,
                "--scenario-dir",
                PACK,
                "--domain",
                "short",
                "--agent-url",
                agent.url,
                "--user-url",
                user.url,
                "--pause",
                "0",
                "--judge-url",
                "",
                "--output-dir",
                str(tmp_path / "out"),
                "--min-agent-turns",
                "0",
                "--max-auto-retries",
                "0",
            ]
        )
        assert process.stdout is not None
        assert process.stderr is not None
        assert select.select([process.stdout], [], [], PATIENCE)[0]
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        assert process.wait(PATIENCE) == 0
    assert err == b""
    (summary,) = (tmp_path / "out").glob("eval_*/all_summary.txt")
    assert "Total Scenarios: 2" in summary.read_text()
    assert "did not run" not in summary.read_text()


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("argument", ["--list", "--list-domains", "--help"])
def test_a_list_into_a_closed_pipe_is_no_traceback(argument: str, unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [SCRIPT, argument],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
        timeout=PATIENCE,
        env=_environment(PYTHONUNBUFFERED=unbuffered),
    )
    os.close(writing)
    assert done.returncode in (0, 1)
    assert done.stderr == b""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("arguments", "code"), [(["--list-domains"], 0), (["check-resume", "/nowhere"], 1)])
def test_a_stream_that_is_closed_from_the_start_changes_no_exit_code(closed: str, arguments: list[str], code: int) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" "$@" {closed}', SCRIPT, *arguments], capture_output=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == code
    assert b"Traceback" not in done.stderr


def test_the_demo_runs_on_its_own_bots(tmp_path: Path) -> None:
    names = ["cafe__guest_hangs_up", "phone_support__airplane_mode"]
    done = subprocess.run(
        [SCRIPT, "--demo", "--output-dir", str(tmp_path / "out"), "--scenarios", *names],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Evaluation finished: 2 of 2 scenarios have a result" in done.stdout
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout
    (session,) = (tmp_path / "out").glob("eval_*")
    metrics = json.loads((session / "all_metrics.json").read_text())
    assert [each["scenario_name"] for each in metrics] == names
    assert [each["conversation_end_reason"] for each in metrics] == [
        "simulator_reported_end",
        "agent_end_conversation_tool",
    ]
    assert all(each["is_successful"] is True for each in metrics)
    (record,) = json.loads((session / "run_args.json").read_text())["invocations"]
    assert record["parsed_args"]["conversation_end_policy"] == "valid-terminal-state"
    assert record["parsed_args"]["inactivity_timeout"] == 8.0
    assert record["parsed_args"]["pair"] == [], "the demo's own bots are no option of the user's"
