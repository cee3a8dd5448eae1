"""metrics.json from an attempt: the reference's own results, its key order, and when keys are there at all."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attempts import DOMAIN, RECORD, SCENARIO

from voiceeval_engine.domains.state import db_hash
from voiceeval_engine.scenarios.model import Scenario
from voiceeval_engine.scoring.score import AttemptRecord, JudgeScore, ScoredAttempt, score_attempt
from voiceeval_engine.session.metrics import LatencyRecord, TokenCount, TurnRecord

DATA = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"


def score(record: AttemptRecord = RECORD, scenario: Scenario = SCENARIO, floor: int = 2, strict: bool = False) -> ScoredAttempt:
    return score_attempt(record, scenario, DOMAIN, min_agent_turns=floor, strict_match=strict)


def load(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else None


@pytest.mark.parametrize("name", ["domA__1", "domB__1", "domB__2", "simple", "domA__2"])
def test_the_references_attempts_score_as_the_reference_scored_them(name: str) -> None:
    folder = DATA / name
    expected, metadata = load(folder / "metrics.json"), load(folder / "scenario_config" / "metadata.json")
    usage = expected["token_usage"]
    record = AttemptRecord(
        turns=tuple(TurnRecord(**turn) for turn in expected["turns"]),
        latencies=tuple(LatencyRecord(**latency) for latency in expected["latencies"]),
        duration_seconds=expected["duration_seconds"],
        scenario_directory=expected["scenario_directory"],
        scenario_duration=expected["scenario_duration"],
        stop_reason=expected["stop_reason"],
        simulator_end_reported=False,
        conversation_end_policy="tool-only",
        inactivity_timeout_seconds=120.0,
        agent_tokens=TokenCount(**usage["agent"]),
        user_tokens=TokenCount(**usage["user"]),
        prediction=load(folder / "final_agent_response.json"),
        db_hash=expected.get("db_state_actual_hash"),
        agent_db={"x": 1},
        retry_reasons=tuple(expected.get("auto_retry_reasons", ())),
        judge=JudgeScore(expected["judge_score"], expected["judge_passed"], None),
    )
    scenario = replace(
        SCENARIO,
        name=name,
        success_signals=tuple(metadata["success_signals"]),
        db_state_assertions=tuple(metadata.get("db_state_assertions", ())),
        expected_db_hash=metadata.get("expected_db_hash"),
        reference_answer=load(folder / "scenario_config" / "reference_answer.json"),
    )
    metrics = score(record, scenario).metrics
    for verdicts in (metrics, expected):
        for verdict in verdicts.get("db_state_assertion_verdicts", ()):
            verdict["error"] = verdict["error"] and "a sentence of one's own"
    assert json.dumps(metrics) == json.dumps(expected)


def test_all_keys_stand_in_the_documented_order() -> None:
    scenario = replace(
        SCENARIO,
        expected_db_hash=db_hash({"a": 1}),
        db_state_assertions=({"side": "agent", "func_name": "assert_x", "arguments": {"v": 1}, "assert_value": True},),
    )
    record = replace(
        RECORD,
        agent_tokens=TokenCount(1),
        agent_db={"x": 1},
        db_hash=db_hash({"a": 1.0}),
        judge=JudgeScore(0.5, False, 1.0),
        retry_reasons=("r",),
        trace_metrics={"x": float("nan")},
    )
    metrics = score(pickle.loads(pickle.dumps(record)), scenario).metrics
    assert " ".join(metrics) == (
        "total_turns duration_seconds turns latency_stats latencies scenario_name scenario_directory scenario_duration stop_reason "
        "conversation_end_policy inactivity_timeout_seconds end_conversation_tool_called simulator_end_reported last_speaker "
        "clean_exit conversation_end_reason insufficient_agent_turns is_action_match judge_score judge_passed token_usage "
        "db_state_expected_hash db_state_match db_state_actual_hash nl_assertion_pass_rate db_state_assertion_verdicts "
        "db_state_assertion_pass_rate success_breakdown auto_retry_count auto_retry_reasons is_successful is_task_successful "
        "trace_metrics"
    )
    assert metrics["success_breakdown"] == {
        "passed": ["db_state_match", "db_state_assertion", "nl_assertion", "clean_exit"],
        "failed": ["judge_passed"],
        "not_applicable": ["is_action_match"],
        "excluded": [],
    }
    json.dumps(metrics, allow_nan=False)


def test_keys_that_do_not_apply_are_absent() -> None:
    metrics = score(scenario=replace(SCENARIO, success_signals=("judge_passed",))).metrics
    absent = {
        "insufficient_agent_turns",
        "judge_score",
        "judge_passed",
        "db_state_match",
        "nl_assertion_pass_rate",
        "trace_metrics",
    }
    assert not absent & set(metrics)
    assert metrics["is_successful"] == "N/A"
    assert "is_task_successful" not in metrics
    assert "auto_retry_reasons" not in metrics
    assert metrics["success_breakdown"]["excluded"] == ["clean_exit"]


def test_a_score_without_a_threshold_has_no_verdict() -> None:
    metrics = score(replace(RECORD, judge=JudgeScore(0.5, None, None))).metrics
    assert metrics["judge_score"] == 0.5
    assert "judge_passed" not in metrics


def test_an_agent_that_reports_no_usage_is_counted_by_its_turns() -> None:
    silent = replace(RECORD, agent_tokens=TokenCount())
    assert "insufficient_agent_turns" not in score(silent).metrics
    assert score(silent, floor=3).metrics["insufficient_agent_turns"] is True
    assert "insufficient_agent_turns" not in score(silent, floor=0).metrics


def test_a_missing_hash_is_a_failure_with_null() -> None:
    metrics = score(scenario=replace(SCENARIO, expected_db_hash=db_hash({}))).metrics
    assert (metrics["db_state_match"], metrics["db_state_actual_hash"]) == (False, None)


@pytest.mark.parametrize("source", ["scenario", "run"])
def test_strict_comes_from_the_scenario_or_the_run(source: str) -> None:
    scenario = replace(SCENARIO, reference_answer={"actions": []}, disallow_extra_items=source == "scenario")
    record = replace(RECORD, prediction=[{"actions": [{"name": "x"}]}])
    assert score(record, replace(scenario, disallow_extra_items=False)).metrics["is_action_match"] is True
    assert score(record, scenario, strict=source == "run").metrics["is_action_match"] is False


def test_a_text_answer_is_compared_as_its_message_and_the_reason_is_told() -> None:
    result = score(replace(RECORD, prediction=[{"message": "4"}]), replace(SCENARIO, reference_answer="5"))
    assert result.metrics["is_action_match"] is False
    assert "reference item 1" in result.action_match_reason
