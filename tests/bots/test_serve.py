from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest

from voiceeval_engine.bots.serve import main
from voiceeval_engine.bots.server import BotServer

LINE = re.compile(r"pair (\d+): agent ws://127\.0\.0\.1:(\d+) user ws://127\.0\.0\.1:(\d+)\n")


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "voiceeval_engine.bots", "--agent-port", "0", "--user-port", "0", *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(program: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = program.communicate(timeout=20)
    return program.returncode, errors


def test_the_program_prints_a_line_a_pair_and_ends_on_sigterm() -> None:
    with start("--pairs", "3") as program:
        assert program.stdout is not None
        found = [LINE.fullmatch(program.stdout.readline()) for _ in range(3)]
        assert [match and match.group(1) for match in found] == ["1", "2", "3"]
        assert len({port for match in found if match for port in match.groups()[1:]}) == 6
        program.send_signal(signal.SIGTERM)
        assert end(program) == (0, "")


def test_the_program_ends_with_its_standard_input_where_asked() -> None:
    with start("--end-with-stdin") as program:
        assert program.stdout is not None
        assert LINE.fullmatch(program.stdout.readline())
        assert end(program) == (0, "")


async def test_a_taken_port_is_a_sentence_and_exit_code_1() -> None:
    async with BotServer("agent") as bot:
        with start("--agent-port", bot.url.rsplit(":", 1)[1]) as program:
            code, errors = end(program)
    assert code == 1
    assert errors.startswith("the agent bot cannot listen on ws://127.0.0.1:")
    assert errors.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--pairs", "0"], ["--pairs", "x"], ["--agent-port", "65536"], ["--user-port", "-1"]])
def test_bad_options_exit_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert arguments[0] in capsys.readouterr().err
