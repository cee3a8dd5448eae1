"""Scenarios of an installed package (the stand-in) through the whole engine, and from the command line."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from bot_farm import serving
from engine_run import QUICK, Ran, run_engine

from voiceeval_engine.bots.server import BotPair
from voiceeval_engine.live import events
from voiceeval_engine.run.asking import list_scenarios
from voiceeval_engine.run.launch import LaunchError, make_plan
from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.scenarios.catalog import Catalog
from voiceeval_engine.scenarios.nemo import NemoSource
from voiceeval_engine.scenarios.nemo_process import HelperProcess
from voiceeval_tui.cli import main

STANDIN = Path(__file__).parent.parent / "data" / "nemo_standin"
ROAMING, GOOD = "phone_support__nemo_roaming", "greeting__good"
NAMES = [ROAMING, "bad__prompt", "bad__exits", "lamps__no_tool_map", GOOD]


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The stand-in is installed; the file has a line for each helper that imported it."""
    file = tmp_path_factory.mktemp("standin") / "starts"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(STANDIN))
        importlib.invalidate_caches()
        patch.setenv("STANDIN_STARTS", str(file))
        yield file


@pytest.fixture
def fresh(starts: Path) -> Path:
    starts.write_text("")
    return starts


@pytest.fixture(scope="module")
def ran(starts: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    catalog = Catalog([NemoSource(HelperProcess(request_seconds=10))])
    pairs = [BotPair(), BotPair()]
    with serving(*pairs):
        yield run_engine(tmp_path_factory.mktemp("results"), [(pair.agent, pair.user) for pair in pairs], catalog, NAMES)
    catalog.close()


def test_a_dual_side_scenario_is_synced_and_scored_by_the_packages_functions(ran: Ran) -> None:
    metrics = ran.metrics(ROAMING)
    assert metrics["success_breakdown"]["passed"] == ["is_action_match", "db_state_match", "db_state_assertion", "clean_exit"]
    assert metrics["is_successful"] is True
    assert metrics["db_state_assertion_verdicts"] == [
        {
            "func_name": "line_roaming",
            "side": "agent",
            "passed": True,
            "expected": True,
            "actual": True,
            "message": None,
            "error": None,
        },
        {
            "func_name": "service",
            "side": "user",
            "passed": True,
            "expected": "connected",
            "actual": "connected",
            "message": "the phone works",
            "error": None,
        },
    ]
    assert "cross-side sync" not in ran.bridge_log(ROAMING), "no trouble; and the phone had no service before the sync"


def test_a_one_sided_scenario_has_its_result(ran: Ran) -> None:
    assert ran.metrics(GOOD)["is_successful"] is True


def test_what_cannot_be_built_did_not_run_and_says_why(ran: Ran) -> None:
    assert ran.not_run("bad__prompt") == (
        "bad__prompt (of nemo_voice_agent): get_agent_prompt() raised ValueError: no prompt in the library"
    )
    assert "ended the helper process (exit code 7)" in ran.not_run("bad__exits")
    assert "_build_tool_map() raised" in ran.not_run("lamps__no_tool_map")


def test_what_a_scenario_printed_is_in_the_log_with_its_name(ran: Ran) -> None:
    assert f"{GOOD}: printed while it was built:\nbuilding a scenario" in ran.log
    assert "bad__prompt: printed before that:\nlooking for the prompt" in ran.log
    assert "bad__exits: printed before that:\nthe last thing that it says" in ran.log


def test_the_run_ends_as_any_other(ran: Ran) -> None:
    assert ran.tasks_left == []
    end = ran.events[-1]
    assert isinstance(end, events.RunEnded)
    assert (end.complete, end.reason) == (False, "finished")


def test_a_resume_of_what_is_complete_starts_no_helper(fresh: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pair = BotPair()
    with serving(pair):
        given = [
            "--no-ui", "--judge-url", "", "--pause", "0", "--min-agent-turns", "1", "--output-dir", str(tmp_path),
            "--agent-url", pair.agent.url, "--user-url", pair.user.url,
        ]  # fmt: skip
        assert main([*given, "--scenarios", GOOD]) == 0
        assert len(fresh.read_text().splitlines()) == 1
        (session,) = tmp_path.iterdir()
        assert main([*given, "--resume", session.name.removeprefix("eval_")]) == 0
    assert len(fresh.read_text().splitlines()) == 1
    assert "1 already completed" in (session / "evaluation_log.txt").read_text()


def test_nothing_selected_is_all_that_the_package_has(fresh: Path) -> None:
    plan = make_plan(RunOptions(source="nemo", **QUICK), all_wanted=True)
    plan.catalog.close()
    assert GOOD in plan.names
    assert not any(name.startswith("cafe__") for name in plan.names)


def test_the_demo_and_named_packs_start_no_helper(fresh: Path) -> None:
    assert make_plan(RunOptions(demo=True), all_wanted=True).names
    assert make_plan(RunOptions(scenarios=("cafe__two_lattes",)), all_wanted=True).names == ("cafe__two_lattes",)
    assert fresh.read_text() == ""


def test_the_source_can_be_left_out(fresh: Path) -> None:
    with pytest.raises(LaunchError, match="no scenarios are registered"):
        make_plan(RunOptions(source="packs"), all_wanted=True)
    assert fresh.read_text() == ""


def test_lists_show_them(fresh: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    out, err = capfd.readouterr()
    assert "greeting:\n  greeting__big\n  greeting__good\n" in out
    assert "hello on import" not in out + err
    assert "WARNING: nemo_voice_agent: scenario name 'bad/name' is not usable" in err
    assert main(["--source", "nemo", "--list-domains"]) == 0
    out, _ = capfd.readouterr()
    assert "  - greeting (2 scenarios)\n" in out
    assert "Legacy scenarios (no domain): keeps\n" in out
    assert main(["--source", "packs", "--list"]) == 0
    assert "greeting" not in capfd.readouterr().out
    assert len(fresh.read_text().splitlines()) == 2


def test_the_console_is_told_of_them(fresh: Path) -> None:
    told = list_scenarios(RunOptions())
    assert [GOOD, False] in told["scenarios"]
    assert len(told["problems"]) == 2


def test_a_source_that_is_not_there_is_refused(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.path", [entry for entry in __import__("sys").path if entry != str(STANDIN)])
    assert main(["--source", "nemo", "--list"]) == 1
    assert "--source nemo: there is no nemo_voice_agent in the environment of" in capfd.readouterr().err


def test_a_package_that_fails_does_not_take_the_packs_along(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STANDIN_IMPORT_FAILS", "1")
    assert main(["--list"]) == 0
    out, err = capfd.readouterr()
    assert "cafe__two_lattes" in out
    assert "WARNING: the scenarios of nemo_voice_agent cannot be listed: importing nemo_voice_agent raised RuntimeError" in err
