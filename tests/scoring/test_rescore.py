"""A later verdict in metrics that are already there: only the judge's keys change, and what follows from them."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from attempts import DOMAIN, RECORD, SCENARIO
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceeval_engine.scenarios.model import SIGNALS, Scenario
from voiceeval_engine.scoring.rescore import judge_score, rescore, saved_verdicts
from voiceeval_engine.scoring.score import METRICS_KEYS, AttemptRecord, JudgeScore, score_attempt
from voiceeval_engine.scoring.verdict import AssertionVerdict, Verdict, failed_verdict
from voiceeval_engine.session.metrics import TokenCount, no_context

DATA = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"
GOOD, BAD = JudgeScore(1.0, True, 1.0), JudgeScore(0.0, False, 0.0)
judges = st.builds(JudgeScore, st.floats(0, 1), st.none() | st.booleans(), st.none() | st.sampled_from([0.0, 0.5, 1.0]))
records = st.builds(
    lambda calls, stop, prediction, db_hash, db, reasons, trace, turns: replace(
        RECORD, agent_tokens=TokenCount(calls, 1, 1), stop_reason=stop, prediction=prediction, db_hash=db_hash,
        agent_db=db, retry_reasons=reasons, trace_metrics=trace, turns=RECORD.turns[:turns],
    ),
    st.integers(0, 3),
    st.sampled_from(["[EXIT]", "[TIMEOUT]"]),
    st.sampled_from([None, [], [{"a": 1}]]),
    st.sampled_from([None, "h"]),
    st.sampled_from([None, {"x": 1}, {"x": 2}]),
    st.sampled_from([(), ("stale",)]),
    st.sampled_from([None, {"k": [1]}]),
    st.integers(0, 3),
)  # fmt: skip
scenarios = st.builds(
    lambda whitelist, reference, predicates, expected: replace(
        SCENARIO, success_signals=tuple(whitelist), reference_answer=reference, db_state_assertions=predicates,
        expected_db_hash=expected,
    ),
    st.lists(st.sampled_from(SIGNALS), min_size=1, unique=True),
    st.sampled_from([None, [{"a": 1}]]),
    st.sampled_from([(), ({"side": "agent", "func_name": "assert_x", "arguments": {"v": 1}, "assert_value": True},)]),
    st.sampled_from([None, "h"]),
)  # fmt: skip


def scored(record: AttemptRecord = RECORD, scenario: Scenario = SCENARIO, floor: int = 2) -> dict[str, Any]:
    return score_attempt(record, scenario, DOMAIN, min_agent_turns=floor, strict_match=False).metrics


def again(
    metrics: dict[str, Any], judge: JudgeScore, whitelist: Any = SIGNALS, floor: int = 2, context: Any = None
) -> dict[str, Any]:
    return rescore(metrics, whitelist, judge, min_agent_turns=floor, context_loader=lambda: context)


@settings(deadline=None)
@given(records, scenarios, judges, st.none() | judges, st.integers(0, 4), st.integers(0, 4))
def test_rescoring_gives_what_scoring_with_that_judge_gives(
    record: AttemptRecord, scenario: Scenario, judge: JudgeScore, earlier: JudgeScore | None, floor: int, earlier_floor: int
) -> None:
    expected = scored(replace(record, judge=judge), scenario, floor)
    before = scored(replace(record, judge=earlier), scenario, earlier_floor)
    after = again(json.loads(json.dumps(before)), judge, list(scenario.success_signals), floor)
    assert json.dumps(after) == json.dumps(expected)


@settings(deadline=None)
@given(records, judges)
def test_the_given_metrics_are_left_alone(record: AttemptRecord, judge: JudgeScore) -> None:
    before = scored(record)
    copy = json.dumps(before)
    again(before, judge)
    assert json.dumps(before) == copy


def test_keys_stand_in_order_and_foreign_ones_last() -> None:
    before = {
        "zeta": 1,
        **dict(reversed(scored(replace(RECORD, retry_reasons=("r",), trace_metrics={"t": 1})).items())),
        "alpha": 2,
    }
    keys = list(again(before, GOOD))
    assert keys[-2:] == ["zeta", "alpha"]
    places = [METRICS_KEYS.index(key) for key in keys[:-2]]
    assert all(earlier < later for earlier, later in pairwise(places))
    assert {"judge_score", "judge_passed", "nl_assertion_pass_rate"} <= set(keys)


def test_the_judges_keys_are_replaced() -> None:
    metrics = again(scored(replace(RECORD, judge=GOOD)), JudgeScore(0.25, False, 0.5))
    assert (metrics["judge_score"], metrics["judge_passed"], metrics["nl_assertion_pass_rate"]) == (0.25, False, 0.5)
    assert metrics["success_breakdown"]["failed"] == ["nl_assertion", "judge_passed"]
    assert metrics["is_successful"] is metrics["is_task_successful"] is False


def test_keys_that_the_judge_no_longer_gives_are_removed() -> None:
    metrics = again(scored(replace(RECORD, judge=GOOD)), JudgeScore(0.25, None, None))
    assert metrics["judge_score"] == 0.25
    assert not {"judge_passed", "nl_assertion_pass_rate"} & set(metrics)
    assert "judge_passed" in metrics["success_breakdown"]["not_applicable"]


def test_the_composite_is_derived_again_both_ways() -> None:
    pending = scored(replace(RECORD, judge=BAD))
    assert pending["is_successful"] is False
    done = again(pending, GOOD)
    assert done["is_successful"] is done["is_task_successful"] is True
    assert again(done, BAD) == pending


def test_a_signal_that_is_not_whitelisted_is_saved_and_excluded() -> None:
    metrics = again(scored(), BAD, ["clean_exit"])
    assert metrics["is_successful"] is True
    assert metrics["success_breakdown"]["excluded"] == ["nl_assertion", "judge_passed"]


def test_the_task_verdict_is_absent_exactly_where_there_is_no_composite() -> None:
    none = again(scored(replace(RECORD, judge=GOOD)), JudgeScore(1.0, None, None), ["judge_passed", "nl_assertion"])
    assert none["is_successful"] == "N/A"
    assert "is_task_successful" not in none
    some = again(none, GOOD, ["judge_passed", "nl_assertion"])
    assert some["is_successful"] is some["is_task_successful"] is True


def test_only_clean_exit_failing_is_a_task_done() -> None:
    metrics = again(scored(replace(RECORD, stop_reason="[TIMEOUT]")), GOOD)
    assert (metrics["is_successful"], metrics["is_task_successful"]) == (False, True)


def test_the_floor_fails_a_stalled_scenario_whatever_the_judge_says_and_keeps_the_score() -> None:
    metrics = again(scored(), GOOD, floor=4)
    assert (metrics["insufficient_agent_turns"], metrics["is_successful"], metrics["is_task_successful"]) == (True, False, False)
    assert metrics["judge_score"] == 1.0
    assert metrics["success_breakdown"]["failed"] == []


@pytest.mark.parametrize("floor", [0, 3])
def test_a_floor_that_is_cleared_now_lifts_the_stall(floor: int) -> None:
    stalled = scored(floor=9)
    metrics = again(stalled, GOOD, floor=floor)
    assert "insufficient_agent_turns" not in metrics
    assert metrics["is_successful"] is True


@pytest.mark.parametrize(
    ("context", "stalled"),
    [(None, False), ([], False), ("x", False), ([{"role": "assistant"}], True), ([{"role": "assistant"}] * 2, False),
     ([{"role": "user"}], True), ([{"role": "unparsed"}], False)],
)  # fmt: skip
def test_without_a_count_of_calls_the_saved_context_tells(context: Any, stalled: bool) -> None:
    metrics = {key: value for key, value in scored().items() if key != "token_usage"}
    assert again(metrics, GOOD, context=context).get("insufficient_agent_turns", False) is stalled


@pytest.mark.parametrize("key", [*METRICS_KEYS, None])
def test_foreign_metrics_without_some_keys_are_rescored(key: str | None) -> None:
    metrics = {} if key is None else {name: value for name, value in scored().items() if name != key}
    after = again(metrics, GOOD)
    assert after["judge_score"] == 1.0
    assert after["is_successful"] is True
    assert set(metrics) - set(after) == set()


@pytest.mark.parametrize("value", ["true", 1, 0, None, [], {}, "N/A", 1e999])
def test_a_verdict_of_another_type_is_none(value: Any) -> None:
    verdicts = saved_verdicts(dict.fromkeys(("is_action_match", "db_state_match", "judge_passed", "clean_exit"), value))
    assert set(verdicts.values()) == {None}


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(1.0, True), (1, True), (0.999, False), (0, False), (True, None), ("1.0", None), (None, None), (float("nan"), False)],
)
def test_a_saved_rate_is_true_only_at_exactly_one(rate: Any, expected: bool | None) -> None:
    verdicts = saved_verdicts({"db_state_assertion_pass_rate": rate, "nl_assertion_pass_rate": rate})
    assert (verdicts["db_state_assertion"], verdicts["nl_assertion"]) == (expected, expected)


@pytest.mark.parametrize(
    "name", sorted(path.parent.name for path in DATA.glob("*/metrics.json") if ".killed" not in path.parent.name)
)
def test_the_references_scenarios_keep_their_bytes_under_their_own_verdict(name: str) -> None:
    metrics = json.loads((DATA / name / "metrics.json").read_text())
    metadata = json.loads((DATA / name / "scenario_config" / "metadata.json").read_text())
    if "judge_score" not in metrics:
        pytest.skip("not judged")
    judge = JudgeScore(metrics["judge_score"], metrics.get("judge_passed"), metrics.get("nl_assertion_pass_rate"))
    floor = 2 if metrics.get("insufficient_agent_turns") else 0
    after = rescore(metrics, metadata["success_signals"], judge, min_agent_turns=floor, context_loader=no_context)
    assert json.dumps(after, indent=2) == json.dumps(metrics, indent=2)


@pytest.mark.parametrize(("threshold", "passed"), [(None, None), (0.5, True), (0.75, True), (0.7500001, False), (1.0, False)])
def test_judge_passed_is_the_score_against_the_threshold_where_one_is_set(threshold: float | None, passed: bool | None) -> None:
    assert judge_score(Verdict(0.75, ""), threshold) == JudgeScore(0.75, passed, None)


def test_the_rate_over_assertions_counts_those_that_passed() -> None:
    verdicts = tuple(AssertionVerdict(index, "a", index < 3, "") for index in range(1, 5))
    assert judge_score(Verdict(1.0, "", verdicts), None).nl_assertion_pass_rate == 0.5
    assert judge_score(failed_verdict("down", ["a", "b"]), 0.9) == JudgeScore(0.0, False, 0.0)


def test_a_failed_call_never_passes_whatever_the_threshold() -> None:
    assert judge_score(failed_verdict("no answer", ()), 0.0) == JudgeScore(0.0, False, None)
