"""`--json`: standard output is one document of a known shape, whatever else there is to say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bot_farm import serving
from hostile_bots import HostileBot, says_goodbye
from outputs import put_result

from voiceeval_engine.wire import link
from voiceeval_tui.cli import main

PACK = str(Path(__file__).parent.parent / "data" / "short_pack")
RUN = ["--scenario-dir", PACK, "--domain", "short", "--json", "--pause", "0", "--judge-url", "", "--output-dir", "out",
       "--min-agent-turns", "0", "--max-auto-retries", "0", "--auto-retry-backoff-secs", "0.01"]  # fmt: skip


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(link.BotLink.open, "__defaults__", ((0.01, 0.01), 0.016))


def document(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> tuple[dict[str, Any], str]:
    assert main(arguments) == code
    out, err = capsys.readouterr()
    found: dict[str, Any] = json.loads(out)
    return found, err


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    found, err = document(capsys, 0, "--list", "--json", "--scenario-dir", PACK)
    assert {"name": "short__order", "domain": "short", "embedded": False} in found["scenarios"]
    assert {"name": "cafe__two_lattes", "domain": "cafe", "embedded": True} in found["scenarios"]
    assert err == ""
    found, _ = document(capsys, 0, "--list-domains", "--json", "--scenario-dir", PACK)
    assert {"name": "short", "scenarios": 2, "embedded": False} in found["domains"]
    assert found["legacy_scenarios"] == []


def test_check_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_result(tmp_path / "s", "d__ok", {"total_turns": 3, "auto_retry_count": 1})
    put_result(tmp_path / "s", "d__silent", {"total_turns": 0, "auto_retry_count": 2})
    found, _ = document(capsys, 0, "check-resume", "s", "--json")
    assert found == {
        "directory": "s",
        "min_agent_turns": 2,
        "total": 2,
        "completed": [{"name": "d__ok", "reason": None, "auto_retry_count": 1}],
        "would_rerun": [{"name": "d__silent", "reason": "0 turns (bot crashed before audio)", "auto_retry_count": 2}],
        "fresh": [],
    }


def test_a_run_that_is_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent, user = HostileBot(says_goodbye), HostileBot()
    with serving(agent, user):
        found, err = document(capsys, 0, *RUN, "--agent-url", agent.url, "--user-url", user.url)
    (session,) = (tmp_path / "out").glob("eval_*")
    assert Path(found["session"]).resolve() == session
    assert (found["complete"], found["reason"], found["resume_command"]) == (True, "finished", None)
    assert [Path(file).name for file in found["files"]] == ["all_metrics.json", "all_latencies.csv", "all_summary.txt"]
    assert found["counts"]["scenarios"] == 2
    assert found["rates"]["clean_exit"]["n"] == 2
    assert "Evaluation finished" in err, "the lines for people go to standard error"


def test_a_run_that_could_not_reach_its_bots(capsys: pytest.CaptureFixture[str]) -> None:
    found, _ = document(
        capsys, 1, *RUN, "--agent-url", "ws://127.0.0.1:9", "--user-url", "ws://127.0.0.1:7", "--backend-wait", "0.1"
    )
    assert not found["complete"]
    assert found["counts"]["without_result"] == 2
    assert {each["name"] for each in found["not_run"]} == {"short__forgotten", "short__order"}
    assert all("set-up" in each["reason"] for each in found["not_run"])
    assert found["rates"] == {}
    assert found["latency_ms"] is None


def test_what_cannot_start_prints_no_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN[:2], "--json", "--domain", "nowhere"]) == 1
    assert capsys.readouterr().out == ""
