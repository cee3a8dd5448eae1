"""`check-resume` as a command: its words, its exit codes, and that it only reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from voiceeval_tui.cli import main

REFERENCE = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"


def save(session: Path, name: str, **metrics: Any) -> None:
    (session / name).mkdir(parents=True)
    (session / name / "metrics.json").write_text(json.dumps({"total_turns": 4, "stop_reason": "[EXIT]", **metrics}))


def tree(folder: Path) -> list[tuple[str, int, int]]:
    """Everything in a folder with its times and inodes."""
    return [(str(path), path.lstat().st_mtime_ns, path.lstat().st_ino) for path in sorted([folder, *folder.rglob("*")])]


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["check-resume", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_a_session_of_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    before = tree(REFERENCE)
    assert output(capsys, str(REFERENCE)) == (
        f"Eval dir : {REFERENCE}\n"
        "Min agent turns: 2\n"
        "Total scenarios: 5  (3 completed, 2 would re-run, 0 fresh)\n"
        "\n"
        "Would re-run (2):\n"
        "  domA__2  [0 turns (bot crashed before audio); already auto-retried 1x in-run]\n"
        "  domB__2  [1 agent LLM response(s) < 2 ([TIMEOUT])]\n"
        "\n"
        "Completed after an automatic in-run retry (1):\n"
        "  domA__1  [auto_retry_count=1]\n"
    )
    assert tree(REFERENCE) == before


def test_without_a_floor_stalls_are_complete(capsys: pytest.CaptureFixture[str]) -> None:
    assert output(capsys, str(REFERENCE), "--min-agent-turns", "0") == (
        f"Eval dir : {REFERENCE}\n"
        "Min agent turns: 0\n"
        "Total scenarios: 5  (4 completed, 1 would re-run, 0 fresh)\n"
        "\n"
        "Would re-run (1):\n"
        "  domA__2  [0 turns (bot crashed before audio); already auto-retried 1x in-run]\n"
        "\n"
        "Completed after an automatic in-run retry (1):\n"
        "  domA__1  [auto_retry_count=1]\n"
    )


def test_a_session_with_every_kind_of_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    usage = {"token_usage": {"agent": {"n_calls": 1}}}
    save(tmp_path, "dom__stuck", stop_reason="[TIMEOUT]", auto_retry_count=1, **usage)
    save(tmp_path, "dom__ok", auto_retry_count=1)
    save(tmp_path, "dom__fine")
    save(tmp_path, "dom__fine.killed.20260101_000000")
    (tmp_path / "dom__cut" / "scenario_config").mkdir(parents=True)
    save(tmp_path, "dom__bad", total_turns=None)
    (tmp_path / "events.jsonl").touch()
    before = tree(tmp_path)
    assert output(capsys, str(tmp_path)) == (
        f"Eval dir : {tmp_path}\n"
        "Min agent turns: 2\n"
        "Total scenarios: 5  (2 completed, 3 would re-run, 0 fresh)\n"
        "\n"
        "Would re-run (3):\n"
        "  dom__bad  [metrics.json unreadable (total_turns is None, not a number of turns)]\n"
        "  dom__cut  [no metrics.json (in-flight)]\n"
        "  dom__stuck  [1 agent LLM response(s) < 2 ([TIMEOUT]); already auto-retried 1x in-run]\n"
        "\n"
        "Completed after an automatic in-run retry (1):\n"
        "  dom__ok  [auto_retry_count=1]\n"
    )
    assert tree(tmp_path) == before


def test_a_complete_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path, "dom__fine")
    assert output(capsys, str(tmp_path)) == (
        f"Eval dir : {tmp_path}\n"
        "Min agent turns: 2\n"
        "Total scenarios: 1  (1 completed, 0 would re-run, 0 fresh)\n"
        "\n"
        "All scenarios are complete — nothing to resume.\n"
    )


def test_the_directory_is_printed_as_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "eval_x", "dom__fine")
    monkeypatch.chdir(tmp_path)
    assert output(capsys, "./eval_x/").startswith("Eval dir : ./eval_x/\n")


@pytest.mark.parametrize("given", ["nowhere", "file"])
def test_what_is_no_directory_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str) -> None:
    (tmp_path / "file").touch()
    assert main(["check-resume", str(tmp_path / given)]) == 1
    assert capsys.readouterr() == ("", f"ERROR: {tmp_path / given} is not a directory\n")


def test_a_floor_below_0_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-resume", str(tmp_path), "--min-agent-turns", "-1"]) == 2
    assert "--min-agent-turns -1" in capsys.readouterr().err
