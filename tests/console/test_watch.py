"""`voiceeval-tui watch`: plain lines without a terminal, the console in one, and every way to leave it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sessions import all_kinds, attempt, scored, started, write_session
from terminal import START, Terminal

from voiceeval_engine.live import events
from voiceeval_engine.session.lock import SessionLock
from voiceeval_tui.cli import main

REFERENCE = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"
NAMES = [f"retail__{number}" for number in range(36, 46)]
RESTORED = (b"\x1b[?1049l", b"\x1b[?25h")
MOUSE = b"\x1b[?1003h"


def _ended(complete: bool = True) -> events.RunEnded:
    return events.RunEnded(complete=complete, reason="finished" if complete else "interrupted", files=[], time=1_800_000_100.0)


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return write_session(tmp_path / "eval_20260618_072325", all_kinds(NAMES))


@pytest.mark.parametrize("complete", [True, False])
def test_without_a_terminal_it_prints_lines_until_the_run_has_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], complete: bool
) -> None:
    write_session(tmp_path / "eval_20260618_072325", [started(["a"]), *attempt("a"), scored("a"), _ended(complete)])
    assert main(["watch", "--output-dir", str(tmp_path)]) == (0 if complete else 1)
    printed = capsys.readouterr().out
    assert re.search(r"passed\s+a ", printed)
    assert "success" in printed


def test_a_session_of_files_is_printed_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(REFERENCE)]) == 0
    assert "domA__1" in capsys.readouterr().out


def test_a_run_whose_engine_is_gone_is_told(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(session)]) == 1
    assert "no engine runs on" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["nowhere"], ["20260101_000000"], []])
def test_no_session_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(["watch", *arguments, "--output-dir", str(tmp_path)]) == 1
    assert "no session" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["0", "-1", "1000", "nan", "many"])
def test_a_rate_that_is_none_is_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["watch", "--fps", value])
    assert exit_info.value.code == 2
    assert "--fps" in capsys.readouterr().err


def test_plain_lines_are_left_by_an_interrupt(session: Path) -> None:
    lock = SessionLock(session, "2026-06-18T07:23:25")
    process = subprocess.Popen(
        [sys.executable, "-c", START, "watch", str(session)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=10)
    lock.release()
    assert (process.returncode, errors) == (0, "left; the run goes on\n")


@pytest.mark.parametrize(
    "argv",
    [["--help"], ["--version"], ["--list-domains"], ["check-resume", str(REFERENCE)], ["watch", str(REFERENCE)]],
)
def test_commands_that_draw_nothing_import_no_screen(argv: list[str]) -> None:
    code = (
        "import sys; from voiceeval_tui.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "bad = sorted(name for name in sys.modules if name.split('.')[0] in {'textual', 'rich', 'plotext'})\n"
        "sys.exit(f'imported {bad}' if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_q_leaves_a_finished_session_and_gives_the_terminal_back(session: Path, tmp_path: Path) -> None:
    write_session(session, [_ended()])
    with Terminal("watch", str(session), home=tmp_path) as terminal:
        assert MOUSE in terminal.read(b"FINISHED")
        terminal.type("q")
        assert terminal.code() == 0
        assert all(part in terminal.seen for part in RESTORED)


def test_the_mouse_can_be_left_alone(session: Path, tmp_path: Path) -> None:
    with Terminal("watch", str(session), "--no-mouse", home=tmp_path) as terminal:
        assert MOUSE not in terminal.read(b"ENGINE GONE")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order(session: Path, tmp_path: Path, number: int) -> None:
    with Terminal("watch", str(session), home=tmp_path) as terminal:
        terminal.read(b"ENGINE GONE")
        terminal.kill(number)
        assert terminal.code() == 128 + number
        assert all(part in terminal.seen for part in RESTORED)
        assert b"Traceback" not in terminal.seen


def test_it_ends_when_its_terminal_goes_away(session: Path, tmp_path: Path) -> None:
    with Terminal("watch", str(session), home=tmp_path) as terminal:
        terminal.read(b"ENGINE GONE")
        terminal.hang_up()
        terminal.code(patience=5.0)


def test_it_ends_when_its_terminal_goes_away_and_nobody_tells(session: Path, tmp_path: Path) -> None:
    """The terminal's leader is a shell that ignores hang-ups, so the console gets no signal."""
    told = tmp_path / "told"
    command = f'trap "" HUP; "{sys.executable}" -c "{START}" watch "{session}"; echo $? > "{told}"'
    with Terminal(program=["sh", "-c", command], home=tmp_path) as terminal:
        terminal.read(b"ENGINE GONE")
        terminal.hang_up()
        deadline = time.monotonic() + 10
        while not (told.exists() and told.read_text()):
            assert time.monotonic() < deadline, "the console does not end"
            time.sleep(0.1)
    assert int(told.read_text()) == 128 + signal.SIGHUP


def test_it_ends_on_a_signal_though_nobody_reads_what_it_writes(session: Path, tmp_path: Path) -> None:
    with Terminal("watch", str(session), "--fps", "30", size=(200, 50), home=tmp_path) as terminal:
        terminal.read(b"ENGINE GONE")
        for _ in range(60):  # each repaints all of it: more than the terminal holds
            terminal.type("t")
            time.sleep(0.02)
        terminal.kill(signal.SIGTERM)
        assert terminal.code(patience=6.0, reading=False) == 128 + signal.SIGTERM


def test_a_live_run_is_left_by_the_second_interrupt(session: Path, tmp_path: Path) -> None:
    lock = SessionLock(session, "2026-06-18T07:23:25")
    with Terminal("watch", str(session), home=tmp_path) as terminal:
        terminal.read(b"RUNNING")
        terminal.type("\x03")
        terminal.read(b"stop after the current")
        terminal.type("\x03")
        assert terminal.code() == 0
    lock.release()


def test_a_crash_is_told_in_a_line_and_is_not_0(session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "sitecustomize.py"
    broken.write_text(
        "import threading, time\n"
        "def late():\n"
        "    import sys\n"
        "    while 'voiceeval_tui.screens.run' not in sys.modules: time.sleep(0.01)\n"
        "    time.sleep(0.3)\n"
        "    def boom(self): raise RuntimeError('[red]boom')\n"
        "    sys.modules['voiceeval_tui.screens.run'].RunScreen.do_order = boom\n"
        "threading.Thread(target=late, daemon=True).start()\n"
    )
    with Terminal("watch", str(session), home=tmp_path, PYTHONPATH=str(tmp_path)) as terminal:
        terminal.read(b"ENGINE GONE")
        time.sleep(0.5)
        terminal.type("o")
        assert terminal.code() == 1
        told = terminal.seen.rpartition(b"\x1b[?1049l")[2].decode()
        assert "ERROR: the console failed: RuntimeError: [red]boom; the run is not touched" in told
        assert "Traceback" not in told
    assert "RuntimeError" in next(tmp_path.rglob("console_crash.txt")).read_text()


def test_nothing_is_written_while_nothing_changes(session: Path, tmp_path: Path) -> None:
    write_session(session, [_ended()])
    with Terminal("watch", str(session), home=tmp_path) as terminal:
        terminal.read(b"FINISHED")
        terminal.take(1.5)
        before = terminal.cpu()
        assert terminal.take(3.0) == b""
        assert terminal.cpu() - before < 0.15


def test_no_colour_is_sent_where_none_is_wanted(session: Path, tmp_path: Path) -> None:
    with Terminal("watch", str(session), home=tmp_path, NO_COLOR="1") as terminal:
        terminal.read(b"ENGINE GONE")
        terminal.take(0.5)
        codes = {code for sequence in re.findall(rb"\x1b\[([\d;]*)m", terminal.seen) for code in sequence.split(b";")}
        assert not {
            code for code in codes if code.isdigit() and (30 <= int(code) <= 38 or 40 <= int(code) <= 48 or 90 <= int(code) <= 107)
        }
