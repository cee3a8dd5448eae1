"""`--preflight`: one line a finding or one document, the exit code, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bot_farm import serving
from hostile_bots import HostileBot, Refusal
from judges import WatchedJudge
from outputs import put_session

from voiceeval_engine.session.lock import SessionLock
from voiceeval_tui.cli import main
from voiceeval_tui.documents import preflight as document
from voiceeval_tui.preflight import lines
from voiceeval_tui.starting import Finding

PACK = str(Path(__file__).parents[1] / "data" / "short_pack")
COMMAND = ["--preflight", "--scenario-dir", PACK, "--domain", "short"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JUDGE_API_KEY", raising=False)


def told(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    assert main([*COMMAND, *arguments]) == code
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_where_all_is_well_every_line_is_ok_and_no_file_is_made(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    agent, user = HostileBot(), HostileBot()
    with serving(agent, user), WatchedJudge() as judge:
        out = told(capsys, 0, "--pair", f"{agent.url},{user.url}", "--judge-url", judge.url)
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["ok", each] for each in ("agent", "user", "judge", "scenarios:", "disk", "names")
    ]
    assert len(agent.requests) == len(user.requests) == 6
    assert not list(tmp_path.iterdir())


def test_what_is_wrong_is_told_and_no_escape_reaches_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    agent = HostileBot(replies={"update_system_prompt": Refusal("\x1b]52;c;aGk=\x07 no")})
    with serving(agent):
        pair = ("--pair", f"{agent.url},ws://127.0.0.1:9")
        out = told(capsys, 1, *pair, "--judge-url", "")
        found = json.loads(told(capsys, 1, *pair, "--judge-url", "", "--json"))
    assert "\x1b" not in out
    assert "WRONG  user ws://127.0.0.1:9: nothing listens there (connection refused). To mend it: start it there" in out
    assert "ok     judge: is switched off" in out
    assert not found["good"]
    assert [each["subject"] for each in found["findings"] if not each["good"]] == ["agent", "user"]


def test_bots_that_a_run_uses_are_left_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    agent, user = HostileBot(), HostileBot()
    with serving(agent, user):
        session = put_session(tmp_path, 60, ["a"], 1, pair=((agent.url, user.url),))
        lock = SessionLock(session, "2026-06-18T07:23:25")
        out = told(capsys, 1, "--pair", f"{agent.url},{user.url}", "--judge-url", "", "--output-dir", str(tmp_path))
        lock.release()
    assert f"WRONG  bots: {session.name} runs on one of them" in out
    assert "ok     disk" in out
    assert agent.most_clients == user.most_clients == 0


@pytest.mark.parametrize("wrong", [["--pause", "-1"], ["--agent-url", "http://x"], ["--demo", "--agent-url", "ws://x"]])
def test_a_wrong_command_line_is_2(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--preflight", *wrong]) == 2
    assert capsys.readouterr().err.startswith("ERROR: --")


def test_ctrl_c_ends_it_and_the_engine_that_asks(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"ws://127.0.0.1:{mute.getsockname()[1]}"
        script = "import sys; from voiceeval_tui.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", script, *COMMAND, "--judge-url", "", "--agent-url", url]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, start_new_session=True
        ) as asking:
            client, _ = mute.accept()  # the engine asks: it is there, and waits
            with client:
                os.kill(asking.pid, signal.SIGINT)
                _, err = asking.communicate(timeout=60)
                client.settimeout(30)
                while client.recv(65536):
                    pass
    assert (asking.returncode, err) == (1, b"interrupted\n")


def test_the_document_has_null_where_there_is_nothing_to_say() -> None:
    findings = [Finding("judge", "", True, "is switched off"), Finding("agent", "ws://a", False, "refused", "start it")]
    made: dict[str, Any] = document(findings)
    assert made["good"] is False
    assert made["findings"][0] == {"subject": "judge", "where": None, "good": True, "found": "is switched off", "mend": None}
    assert lines(findings) == ["ok     judge: is switched off", "WRONG  agent ws://a: refused. To mend it: start it"]
