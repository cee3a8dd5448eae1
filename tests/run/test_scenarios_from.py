"""What an earlier session holds is run again: from the command line, through a resume, and as the console starts it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from bot_farm import patient_pair, serving
from engine_run import QUICK, run_engine, scenario

from voiceeval_engine.run.asking import list_scenarios
from voiceeval_engine.run.launch import LaunchError, make_plan
from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.scenarios.script import Step
from voiceeval_tui.cli import main
from voiceeval_tui.resuming import plan_resume

NAMES = ["talk__1", "talk__2", "other__1"]
AGENT = [Step(say="Hello."), Step(say="Goodbye.", exit="done")]
USER = [Step(say="Hi.")]


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of three scenarios, one of which had a database."""
    held = {
        name: scenario(name, AGENT, USER, agent_state={"db": {"orders": {}}} if name == "talk__2" else {}, reference_answer=[])
        for name in NAMES
    }
    pair = patient_pair()
    with serving(pair):
        ran = run_engine(tmp_path_factory.mktemp("first"), [(pair.agent, pair.user)], held)
    assert ran.complete
    return ran.session


@pytest.fixture
def quick(earlier: Path, tmp_path: Path) -> Iterator[list[str]]:
    """A command line on bots that serve, the earlier session beside its own."""
    shutil.copytree(earlier, tmp_path / "eval_20260101_000000")
    pair = patient_pair()
    with serving(pair):
        yield [
            "--no-ui", "--judge-url", "", "--pause", "0", "--min-agent-turns", "1", "--output-dir", str(tmp_path),
            "--agent-url", pair.agent.url, "--user-url", pair.user.url,
        ]  # fmt: skip


def new_session(output_dir: Path) -> Path:
    (session,) = (each for each in output_dir.iterdir() if each.name != "eval_20260101_000000")
    return session


def config(session: Path, name: str) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (session / name / "scenario_config").iterdir()}


def test_a_session_is_run_again_but_for_what_had_a_database(
    quick: list[str], earlier: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*quick, "--scenarios-from", "20260101_000000"]) == 1
    session = new_session(tmp_path)
    for name in ("talk__1", "other__1"):
        metrics = json.loads((session / name / "metrics.json").read_text())
        assert (metrics["stop_reason"], metrics["success_breakdown"]["passed"]) == ("[EXIT]", ["clean_exit"])
        assert config(session, name) == config(earlier, name)
    assert not (session / "talk__2").exists()
    why = "talk__2 of eval_20260101_000000: its bots had a database"
    assert why in (session / "all_summary.txt").read_text()
    assert f"did not run    talk__2: {why}" in capfd.readouterr().out


def test_a_resume_finds_the_scenarios_where_the_run_took_them(quick: list[str], tmp_path: Path) -> None:
    assert main([*quick, "--scenarios-from", str(tmp_path / "eval_20260101_000000"), "--domain", "talk"]) == 1
    session = new_session(tmp_path)
    (session / "talk__1" / "metrics.json").unlink()
    assert main([*quick, "--resume", session.name.removeprefix("eval_")]) == 1
    assert (session / "talk__1" / "metrics.json").exists()
    records = json.loads((session / "run_args.json").read_text())["invocations"]
    assert [each["parsed_args"]["scenarios_from"] for each in records] == [str(tmp_path / "eval_20260101_000000")] * 2
    assert [each["resolved_scenario_names"] for each in records] == [["talk__1", "talk__2"]] * 2
    (tmp_path / "eval_20260101_000000").rename(tmp_path / "elsewhere")
    with pytest.raises(LaunchError, match=r"its scenarios came from the session .*/eval_20260101_000000, which is not there: give"):
        make_plan(RunOptions(resume=session.name.removeprefix("eval_"), output_dir=tmp_path), all_wanted=True)
    (tmp_path / "elsewhere").rename(tmp_path / "eval_20260101_000000")
    plan = plan_resume(session)
    assert plan.options is not None
    assert make_plan(plan.options, all_wanted=True).catalog.get("talk__1").name == "talk__1"


def test_a_session_is_resumed_from_itself(quick: list[str], tmp_path: Path) -> None:
    (tmp_path / "eval_20260101_000000" / "talk__1" / "metrics.json").unlink()
    assert main([*quick, "--resume", "20260101_000000", "--scenarios-from", "20260101_000000"]) == 0
    metrics = json.loads((tmp_path / "eval_20260101_000000" / "talk__1" / "metrics.json").read_text())
    assert metrics["stop_reason"] == "[EXIT]"


def test_it_is_listed_selected_and_told_to_the_console(earlier: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--scenarios-from", str(earlier)]) == 0
    assert capfd.readouterr().out == "other:\n  other__1\ntalk:\n  talk__1\n  talk__2\n"
    options = RunOptions(scenarios_from=earlier, **QUICK)
    assert list_scenarios(options)["scenarios"] == [["other__1", False], ["talk__1", False], ["talk__2", False]]
    assert make_plan(options, all_wanted=False).names == ("other__1", "talk__1", "talk__2")
    chosen = RunOptions(scenarios_from=earlier, scenarios=("talk__1",), demo=True)
    assert make_plan(chosen, all_wanted=False).names == ("talk__1",)


def test_what_it_does_not_hold_is_refused(earlier: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LaunchError, match="there is no scenario 'cafe__two_lattes'"):
        make_plan(RunOptions(scenarios_from=earlier, scenarios=("cafe__two_lattes",)), all_wanted=True)
    with pytest.raises(LaunchError, match=f"--scenarios-from {tmp_path}: no scenario can be had from it"):
        make_plan(RunOptions(scenarios_from=tmp_path), all_wanted=True)
    assert main(["--scenarios-from", "20200101_000000", "--output-dir", str(tmp_path), "--list"]) == 1
    assert "--scenarios-from: there is no session 20200101_000000: no folder" in capfd.readouterr().err
    assert main(["--scenarios-from", str(earlier), "--source", "packs", "--list"]) == 2
    assert "leave out --scenario-dir and --source" in capfd.readouterr().err
