"""`voiceeval-tui` in a terminal: what opens, what is refused before anything opens, and a run that outlives its console."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from terminal import Terminal

from voiceeval_engine.live import events
from voiceeval_engine.live.journal import JournalReading, read_events
from voiceeval_engine.session import layout
from voiceeval_engine.session.lock import holder

PACK = Path(__file__).parents[1] / "data" / "short_pack"
NAMES = ("short__order", "short__forgotten")
SCREEN = b"\x1b[?1049h"
MOUSE = b"\x1b[?1003h"


def demo(output_dir: Path) -> tuple[str, ...]:
    return ("--demo", "--scenarios", *NAMES, "--scenario-dir", str(PACK), "--output-dir", str(output_dir))


def wait_until_ended(session: Path, patience: float = 90.0) -> list[events.Event]:
    """The events of a run that nobody watches."""
    deadline = time.monotonic() + patience
    while holder(session) is not None:
        assert time.monotonic() < deadline, "the run does not end"
        time.sleep(0.1)
    return list(read_events(session / layout.JOURNAL, JournalReading()))


def assert_complete(session: Path) -> None:
    told = wait_until_ended(session)
    assert {event.scenario for event in told if isinstance(event, events.ScenarioScored)} == set(NAMES)
    assert isinstance(told[-1], events.RunEnded)
    assert told[-1].complete


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_a_run_is_opened_left_and_watched_again(tmp_path: Path, size: tuple[int, int]) -> None:
    with Terminal(*demo(tmp_path), size=size, home=tmp_path / "home") as terminal:
        terminal.read(b"RUNNING", patience=30.0)
        assert MOUSE in terminal.seen
        terminal.type("d")
        assert terminal.code() == 0
    (session,) = (each for each in tmp_path.iterdir() if each.name.startswith("eval_"))
    assert holder(session) is not None
    assert_complete(session)
    with Terminal("watch", str(session), size=size, home=tmp_path / "home") as terminal:
        terminal.read(b"FINISHED")
        terminal.take(0.5)
        assert b"2/2" in terminal.seen
        assert all(name.encode() in terminal.seen for name in NAMES)
        terminal.type("q")
        assert terminal.code() == 0


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGHUP, "hang up"])
def test_a_run_goes_on_when_its_console_dies(tmp_path: Path, end: signal.Signals | str) -> None:
    with Terminal(*demo(tmp_path), "--no-mouse", "--fps", "2") as terminal:
        assert MOUSE not in terminal.read(b"RUNNING", patience=30.0)
        (session,) = tmp_path.iterdir()
        if isinstance(end, signal.Signals):
            terminal.kill(end)
        else:
            terminal.hang_up()
        terminal.code(reading=isinstance(end, signal.Signals))
    assert holder(session) is not None
    assert_complete(session)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--scenarios", "nobody__knows"), 1, b"nobody__knows"),
        (("--domain", "nowhere"), 1, b"nowhere"),
        (("--resume", "20000101_000000"), 1, b"directory not found"),
        (("--demo", "--pause", "-1"), 2, b"--pause"),
        (("--demo", "--agent-url", "ws://x"), 2, b"--demo brings its own bots"),
        (("--fps", "0"), 2, b"--fps"),
    ],
)
def test_what_cannot_start_is_told_before_the_screen_is_taken(
    tmp_path: Path, arguments: tuple[str, ...], code: int, told: bytes
) -> None:
    with Terminal(*arguments, *(("--output-dir", str(tmp_path)) if code == 1 else ())) as terminal:
        assert terminal.code(patience=20.0) == code
        assert told in terminal.seen
        assert SCREEN not in terminal.seen
        assert b"Traceback" not in terminal.seen


def test_headless_runs_import_no_screen(tmp_path: Path) -> None:
    """httpx imports rich where that is installed, so it is not asked about."""
    code = (
        "import sys; from voiceeval_tui.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "sys.exit(f'imported {code}' if code != 1 or {'textual', 'plotext', 'voiceeval_tui.app'} & set(sys.modules) else 0)"
    )
    arguments = ["--no-ui", "--scenarios", "nobody__knows", "--output-dir", str(tmp_path)]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "nobody__knows" in done.stderr


def test_with_nothing_selected_it_opens_on_the_sessions(tmp_path: Path) -> None:
    with Terminal("--output-dir", str(tmp_path / "results"), "--no-mouse", home=tmp_path) as terminal:
        assert MOUSE not in terminal.read(b"no session here yet")
        terminal.type("q")
        assert terminal.code() == 0
    assert not (tmp_path / "results").exists()


def test_the_demo_is_a_key_away(tmp_path: Path) -> None:
    with Terminal("--output-dir", str(tmp_path / "results"), home=tmp_path) as terminal:
        terminal.read(b"no session here yet")
        terminal.type("D")
        terminal.read(b"RUNNING", patience=30.0)
        terminal.type("q")
        terminal.read(b"stop now")
        terminal.type("n")
        terminal.read(b"interrupted")
        terminal.type("q")
        assert terminal.code() == 0
    (session,) = (tmp_path / "results").iterdir()
    wait_until_ended(session)
