"""Reading metrics back, latency statistics, the count of agent responses."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.session.files import write_json
from voiceeval_engine.session.metrics import (
    BadMetrics,
    TokenCount,
    count_agent_responses,
    latency_stats,
    no_context,
    parse_metrics,
    saved_context,
)

AGENT_TURN = {"role": "agent", "text": "hello"}
USER_TURN = {"role": "user", "text": "hello"}
CUT_OFF = {"role": "agent", "text": "[INTERRUPTED]"}


def calls(n: Any, *turns: dict[str, str]) -> dict[str, Any]:
    return {"token_usage": {"agent": {"n_calls": n}}, "turns": list(turns)}


def test_statistics_without_a_value_are_integer_zeros() -> None:
    assert latency_stats([]) == dict.fromkeys(("count", "mean_ms", "p50_ms", "p95_ms", "min_ms", "max_ms"), 0)
    assert all(type(value) is int for value in latency_stats([]).values())


def test_percentiles_are_elements_at_fixed_places() -> None:
    stats = latency_stats([float(value) for value in range(20, 0, -1)])
    assert (stats["count"], stats["p50_ms"], stats["p95_ms"]) == (20, 11.0, 20.0)
    assert (stats["mean_ms"], stats["min_ms"], stats["max_ms"]) == (10.5, 1.0, 20.0)


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_statistics_stay_within_the_values(values: list[float]) -> None:
    stats = latency_stats(values)
    assert stats["count"] == len(values)
    assert stats["min_ms"] <= stats["p50_ms"] <= stats["p95_ms"] <= stats["max_ms"]


@pytest.mark.parametrize(
    ("metrics", "context", "count"),
    [
        (calls(5), None, 5),
        (calls("5"), None, 5),
        (calls(5.0), None, 5),
        (calls(1, AGENT_TURN, AGENT_TURN, AGENT_TURN), None, 1),
        (calls(0), [{"role": "assistant"}], 0),
        (calls(0, USER_TURN), None, 0),
        (calls(0, AGENT_TURN, USER_TURN, AGENT_TURN), None, 2),
        (calls(0, AGENT_TURN, CUT_OFF), None, 1),
        (calls(0, CUT_OFF), None, 0),
        (calls(2.5), [{"role": "assistant"}], 1),
        (calls(True), None, None),
        (calls(-1), None, None),
        (calls("many"), None, None),
        (calls(math.nan), None, None),
        (calls(None), [{"role": "system"}, {"role": "assistant"}, {"role": "assistant"}], 2),
        ({}, [{"role": "assistant"}, "noise", 3], 1),
        ({}, [{"role": "user"}], 0),
        ({}, [], None),
        ({}, [{"role": "unparsed", "content": "..."}], None),
        ({}, {"role": "assistant"}, None),
        ({"token_usage": None, "turns": [AGENT_TURN]}, None, None),
        ({"token_usage": []}, None, None),
    ],
)
def test_agent_responses_are_counted_by_the_best_evidence(metrics: dict[str, Any], context: Any, count: int | None) -> None:
    assert count_agent_responses(metrics, lambda: context) == count


def test_the_context_is_not_loaded_when_usage_tells() -> None:
    def forbidden() -> Any:
        raise AssertionError("loaded")

    assert count_agent_responses(calls(3), forbidden) == 3


def test_a_saved_context_is_read_where_there_is_one(tmp_path: Path) -> None:
    assert saved_context(tmp_path)() is None
    (tmp_path / "bot_logs_agent").mkdir()
    write_json(tmp_path / "bot_logs_agent" / "llm_context.json", [{"role": "assistant"}])
    assert count_agent_responses({}, saved_context(tmp_path)) == 1


@pytest.mark.parametrize("turns", [None, "3", math.nan, math.inf, True, 1.5, -1, [], [10**5000], 10**4000])
def test_turns_that_are_no_number_make_the_file_unreadable(turns: Any) -> None:
    with pytest.raises(BadMetrics, match="total_turns"):
        parse_metrics({"total_turns": turns})


@pytest.mark.parametrize("root", [None, [], "x", 3, [{"total_turns": 1}]])
def test_a_root_that_is_no_object_is_unreadable(root: Any) -> None:
    with pytest.raises(BadMetrics, match="root"):
        parse_metrics(root)


@pytest.mark.parametrize("bad", [math.nan, math.inf, "12", None, True, [], 10**400])
@pytest.mark.parametrize("key", ["scenario_duration", "judge_score", "nl_assertion_pass_rate", "db_state_assertion_pass_rate"])
def test_a_number_that_is_none_is_unreadable(key: str, bad: Any) -> None:
    with pytest.raises(BadMetrics, match=key):
        parse_metrics({"total_turns": 1, key: bad})


@pytest.mark.parametrize("latencies", [None, {}, [1], [{}], [{"latency_ms": math.nan}], [{"latency_ms": "9"}]])
def test_latencies_that_cannot_be_pooled_are_unreadable(latencies: Any) -> None:
    with pytest.raises(BadMetrics, match="latenc"):
        parse_metrics({"total_turns": 1, "latencies": latencies})


def test_absent_keys_and_verdicts_of_another_type_count_for_nothing() -> None:
    parsed = parse_metrics({"total_turns": 1, "is_successful": "N/A", "clean_exit": None, "judge_passed": "yes"})
    assert parsed.is_successful is parsed.clean_exit is parsed.judge_passed is parsed.judge_score is None
    assert parsed.agent_tokens == TokenCount()
    assert parsed.assertions == parsed.latencies == parsed.failed_signals == ()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "total_turns",
                        "turns",
                        "token_usage",
                        "agent",
                        "n_calls",
                        "latencies",
                        "latency_ms",
                        "success_breakdown",
                        "failed",
                        "db_state_assertion_verdicts",
                        "passed",
                        "scenario_duration",
                        "judge_score",
                        "role",
                        "text",
                    ]
                ),
                inner,
                max_size=6,
            )
        ),
    )
)
def test_nothing_but_a_typed_error_comes_out_of_foreign_metrics(value: Any) -> None:
    try:
        parsed = parse_metrics(value)
    except BadMetrics:
        return
    count_agent_responses(parsed.raw, no_context)
