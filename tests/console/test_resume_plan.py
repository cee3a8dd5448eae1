"""What a resume would do, put together from the engine's own functions."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import pytest
from outputs import metrics, put_record, put_result, put_session

from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.session import layout
from voiceeval_engine.session.lock import SessionLock
from voiceeval_tui.resuming import plan_resume

NAMES = ["retail__a", "retail__b", "retail__c", "retail__d"]
REFERENCE = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    found = put_session(tmp_path, 1, NAMES, 1, min_agent_turns=2, judge_threshold=0.8, domain="retail")
    put_result(found, NAMES[1], metrics(responses=1))
    (found / NAMES[2] / layout.SCENARIO_CONFIG).mkdir(parents=True)
    return found


def test_the_queue_is_the_first_invocations(session: Path) -> None:
    put_record(session, NAMES[:1], scenarios=(NAMES[0],), min_agent_turns=1)
    plan = plan_resume(session, 2)
    assert [(each.name, each.state) for each in plan.scenarios] == [
        (NAMES[0], "completed"), (NAMES[1], "in-flight"), (NAMES[2], "in-flight"), (NAMES[3], "fresh")
    ]  # fmt: skip
    assert [each.name for each in plan.again] == NAMES[1:]
    assert plan.again[0].reason == "1 agent LLM response(s) < 2 ([TIMEOUT])"
    assert [plan.count(state) for state in ("completed", "in-flight", "fresh")] == [1, 2, 1]


def test_the_options_are_the_latest_invocations_and_the_selection_is_left_to_the_engine(session: Path) -> None:
    put_record(session, NAMES, domain="retail", judge_threshold=0.5, min_agent_turns=3)
    plan = plan_resume(session)
    assert plan.options is not None
    assert plan.floor == 3
    assert (plan.options.judge_threshold, plan.options.domain, plan.options.scenarios) == (0.5, None, ())
    assert (plan.options.resume, plan.options.output_dir) == ("20260618_000001", session.parent)
    assert plan.differs == ()


def test_another_floor_changes_what_runs(session: Path) -> None:
    assert plan_resume(session, 0).count("completed") == 2
    assert plan_resume(session, 6).count("completed") == 0
    assert plan_resume(session, 1).floor == 1


def test_a_selection_that_differs_from_the_latest_is_told(session: Path) -> None:
    put_record(session, NAMES[:1], scenarios=(NAMES[0],), domain=None, judge_threshold=0.8)
    (line, other) = plan_resume(session).differs
    assert line.startswith("domain: original=None resume='retail'")
    assert other.startswith("scenarios: original=['retail__a'] resume=None")


def test_scenarios_out_of_the_queue_are_told(session: Path) -> None:
    put_result(session, "other__1")
    assert plan_resume(session).left_out == ("other__1",)


def test_a_session_that_runs_cannot_be_resumed(session: Path) -> None:
    lock = SessionLock(session, "2026-06-18T07:23:25")
    plan = plan_resume(session)
    lock.release()
    assert plan.options is None
    assert "runs it since 2026-06-18T07:23:25" in plan.obstacle


def test_a_folder_by_another_name_cannot_be_resumed(session: Path) -> None:
    assert "is not named" in plan_resume(session.rename(session.with_name("copy"))).obstacle


def test_options_that_cannot_be_used_are_told(session: Path) -> None:
    record = json.loads((session / layout.RUN_ARGS).read_text())
    record["invocations"][-1]["parsed_args"]["pause"] = "soon"
    (session / layout.RUN_ARGS).write_text(json.dumps(record))
    assert "--pause 'soon'" in plan_resume(session).obstacle


def test_a_session_of_the_reference_takes_what_is_on_disk(tmp_path: Path) -> None:
    session = tmp_path / REFERENCE.name
    shutil.copytree(REFERENCE, session)
    plan = plan_resume(session, defaults=RunOptions(agent_url="ws://mine"))
    assert plan.options is not None
    assert plan.options.agent_url == "ws://mine"
    assert set(plan.options.scenarios) == {"domA__1", "domA__2", "domB__1", "domB__2", "simple"}
    assert len(plan.notes) == 2
    assert plan.count("fresh") == 0


def test_an_empty_session_has_nothing_to_resume(tmp_path: Path) -> None:
    session = tmp_path / "eval_20260618_000001"
    session.mkdir()
    assert plan_resume(session).obstacle == "there is no scenario in it"


@pytest.mark.parametrize("host", [None, "elsewhere", socket.gethostname()])
def test_what_a_strangers_record_would_run_and_send_is_told(session: Path, tmp_path: Path, host: str | None) -> None:
    packs = [tmp_path / "packs", tmp_path / "known"]
    record = {"judge_url": "https://judge.example/", "judge_api_key_name": "AWS_SECRET"}
    put_record(session, NAMES, scenario_dir=tuple(packs), **record)
    if host is not None:
        (session / layout.LOCK).write_text(json.dumps({"pid": 1, "host": host, "started_at": "", "socket": ""}) + "\n")
    told = (f"it runs the code of the packs in {packs[0]}", "it sends the key in $AWS_SECRET to https://judge.example/")
    usual = RunOptions(scenario_dir=(packs[1],))
    assert plan_resume(session, defaults=usual).dangers == (() if host == socket.gethostname() else told)
    assert plan_resume(session, defaults=RunOptions(scenario_dir=tuple(packs), **record)).dangers == ()  # type: ignore[arg-type]
    put_record(session, NAMES, judge_url="http://localhost:1/", judge_api_key_name="OTHER")
    assert plan_resume(session).dangers == ()


def test_a_key_that_was_given_is_remembered_as_such(session: Path) -> None:
    record = json.loads((session / layout.RUN_ARGS).read_text())
    record["invocations"][-1]["parsed_args"]["judge_api_key"] = "<redacted>"
    (session / layout.RUN_ARGS).write_text(json.dumps(record))
    plan = plan_resume(session)
    assert plan.had_key
    assert plan.options is not None
    assert plan.options.judge_api_key is None
