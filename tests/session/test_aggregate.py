"""The aggregate: what counts where, and that the order of adding counts nowhere."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceeval_engine.session.aggregate import OUTCOMES, Rate, RunAggregate, RunReport
from voiceeval_engine.session.summary import render_latencies_csv, render_summary

PENDING = {"score": 0.0, "reason": "Error: verdict pending"}
NAMES = ("domB__1", "domA__1", "plain", "domA__2", "domC__1")


def metrics(**changed: Any) -> dict[str, Any]:
    """A scenario in which everything was right."""
    return {
        "total_turns": 4,
        "latencies": [{"user_transcript": "a", "agent_transcript": "b", "latency_ms": 100.0}],
        "scenario_duration": 30.0,
        "stop_reason": "[EXIT]",
        "clean_exit": True,
        "is_action_match": True,
        "judge_score": 1.0,
        "judge_passed": True,
        "token_usage": {
            "agent": {"n_calls": 4, "prompt": 100, "completion": 10},
            "user": {"n_calls": 3, "prompt": 7, "completion": 1},
        },
        "db_state_match": True,
        "db_state_assertion_verdicts": [{"passed": True}, {"passed": False}],
        "success_breakdown": {"passed": ["is_action_match", "clean_exit"], "failed": []},
        "is_successful": True,
        "is_task_successful": True,
    } | changed


def stalled(**changed: Any) -> dict[str, Any]:
    return (
        metrics(
            insufficient_agent_turns=True,
            is_successful=False,
            is_task_successful=False,
            token_usage={"agent": {"n_calls": 1, "prompt": 5, "completion": 5}},
        )
        | changed
    )


def one(value: Any, judge: Any = None, floor: int = 2, **kwargs: Any) -> RunReport:
    aggregate = RunAggregate(NAMES, floor)
    aggregate.add("domA__1", value, judge, **kwargs)
    return aggregate.report()


scenarios = st.fixed_dictionaries(
    {},
    optional={
        "total_turns": st.integers(0, 9),
        "scenario_duration": st.floats(0, 500),
        "latencies": st.lists(st.fixed_dictionaries({"latency_ms": st.floats(0, 9000)}), max_size=3),
        "judge_score": st.floats(0, 1) | st.just(math.nan),
        "is_successful": st.booleans() | st.just("N/A"),
        "is_action_match": st.booleans() | st.just("N/A"),
        "insufficient_agent_turns": st.just(True),
        "clean_exit": st.booleans() | st.none(),
        "db_state_assertion_verdicts": st.lists(st.fixed_dictionaries({"passed": st.booleans()}), max_size=3),
    },
)
judges = st.sampled_from([None, PENDING, {"reason": "Error: 500"}, {"reason": "r", "nl_assertion_verdicts": [{"passed": True}]}])


@settings(deadline=None)
@given(added=st.lists(st.tuples(scenarios, judges), min_size=5, max_size=5), order=st.permutations(range(5)))
def test_any_order_of_adding_gives_the_same_result(added: list[tuple[dict[str, Any], Any]], order: list[int]) -> None:
    names = (*NAMES[:3], "unqueued__2", "unqueued__1")
    reports = []
    for indexes in (range(5), order):
        aggregate = RunAggregate(names[:3])
        for index in indexes:
            aggregate.add(names[index], *added[index])
        reports.append(aggregate.report())
    assert reports[0] == reports[1]
    assert render_latencies_csv(reports[0]) == render_latencies_csv(reports[1])
    texts = [render_summary(report, queued=5, timestamp="t") for report in reports]
    assert texts[0] == texts[1]


def test_queue_order_first_then_the_rest_by_name() -> None:
    aggregate = RunAggregate(("z", "b"))
    for name in ("y", "b", "a", "z"):
        aggregate.add(name, metrics())
    assert [entry.name for entry in aggregate.report().entries] == ["z", "b", "a", "y"]


def test_a_good_scenario_is_in_every_bucket() -> None:
    report = one(metrics(), {"reason": "r", "nl_assertion_verdicts": [{"passed": True}, {"passed": "true"}, {}]})
    assert report.rates == dict.fromkeys(OUTCOMES, Rate(1, 1)) | {"db_state_assertion": Rate(1, 2), "nl_assertion": Rate(1, 3)}
    assert report.by_domain == {"domA": report.rates}
    assert (report.judge_score_mean, report.judge_score_count) == (1.0, 1)
    assert (report.total_turns, report.duration, report.latency["count"]) == (4, 30.0, 1)
    assert Rate(1, 8).percent == 12.5


def test_a_stalled_scenario_fails_and_is_in_no_signal_but_in_the_tokens() -> None:
    report = one(stalled(), {"reason": "r", "nl_assertion_verdicts": [{"passed": True}]})
    assert report.stalled == ("domA__1",)
    assert report.rates == {"success": Rate(0, 1), "task_success": Rate(0, 1)}
    assert report.by_domain == {"domA": report.rates}
    assert report.judge_score_mean is None
    assert report.agent_tokens.total == 10


@pytest.mark.parametrize(
    ("passed", "failed", "verdicts"),
    [
        (["is_action_match"], [], (True, True)),
        (["is_action_match"], ["clean_exit"], (False, True)),
        (["clean_exit"], ["is_action_match"], (False, False)),
        ([], [], (None, None)),
    ],
)
def test_a_scenario_that_clears_todays_floor_is_counted_on_its_own_merits(
    passed: list[str], failed: list[str], verdicts: tuple[bool | None, bool | None]
) -> None:
    saved = stalled(success_breakdown={"passed": passed, "failed": failed})
    before = dict(saved)
    report = one(saved, floor=1)
    [entry] = report.entries
    assert report.stalled == ()
    assert (entry.metrics.is_successful, entry.metrics.is_task_successful) == verdicts
    assert entry.metrics.raw.get("is_successful") == ("N/A" if verdicts[0] is None else verdicts[0])
    assert "insufficient_agent_turns" not in entry.metrics.raw
    assert report.rates["clean_exit"] == Rate(1, 1)
    assert saved == before


@pytest.mark.parametrize("breakdown", [None, [], {}, {"passed": 1, "failed": []}])
def test_a_stall_without_a_readable_breakdown_stays_a_stall(breakdown: Any) -> None:
    assert one(stalled(success_breakdown=breakdown), floor=0).stalled == ("domA__1",)


def test_the_saved_context_can_clear_the_floor() -> None:
    saved = stalled(token_usage={})
    assert one(saved).stalled == ("domA__1",)
    assert one(saved, context_loader=lambda: [{"role": "assistant"}] * 2).stalled == ()


def test_a_pending_verdict_is_in_nothing_until_it_comes() -> None:
    report = one(metrics(), PENDING)
    assert (report.pending, report.entries, report.rates, report.judge_failed) == (("domA__1",), (), {}, ())
    come = one(metrics(), {"score": 1.0, "reason": "r"})
    assert (come.pending, come.rates["success"]) == ((), Rate(1, 1))


def test_a_failed_judge_call_is_named() -> None:
    assert one(metrics(judge_score=0.0), {"reason": "Error: 500"}).judge_failed == ("domA__1",)


@pytest.mark.parametrize(
    "bad", [None, [], "x", {}, metrics(total_turns=None), metrics(judge_score=math.nan), metrics(scenario_duration="1")]
)
def test_bad_values_are_reported_and_counted_nowhere(bad: Any) -> None:
    report = one(bad)
    assert report.entries == ()
    assert [name for name, _ in report.unreadable] == ["domA__1"]
    assert report.unreadable[0][1]


@pytest.mark.parametrize("judge", [[], "x", {"nl_assertion_verdicts": 3}, {"reason": None}])
def test_a_bad_judge_result_costs_only_itself(judge: Any) -> None:
    report = one(metrics(), judge)
    assert (report.rates["success"], report.judge_failed) == (Rate(1, 1), ())
    assert "nl_assertion" not in report.rates


def test_keys_that_an_older_session_lacks_contribute_nothing() -> None:
    report = one({"total_turns": 2})
    assert (report.rates, report.judge_score_mean) == ({}, None)
    assert report.latency == {"count": 0, "mean_ms": -1, "p50_ms": -1, "p95_ms": -1, "min_ms": -1, "max_ms": -1}


def test_a_moved_session_shows_where_it_is_now() -> None:
    [entry] = one(metrics(scenario_directory="old"), scenario_directory="new").entries
    assert entry.metrics.raw["scenario_directory"] == "new"


def test_a_disconnected_agent_is_named() -> None:
    assert one(metrics(stop_reason="[AGENT_DISCONNECTED]")).agent_disconnected == ("domA__1",)


def test_a_report_can_go_to_a_worker_process() -> None:
    report = one(metrics())
    assert pickle.loads(pickle.dumps(report)) == report
