"""The all_* files against a session that the reference wrote, and the lines that are ours."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.session.aggregate import RunAggregate, RunReport
from voiceeval_engine.session.files import read_json
from voiceeval_engine.session.summary import (
    SummaryNotes,
    render_latencies_csv,
    render_summary,
    wilson_interval,
    write_aggregates,
)

DATA = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"
QUEUE = ("domA__1", "domB__1", "domB__2", "simple", "domA__2")


def reference_report() -> RunReport:
    aggregate = RunAggregate(QUEUE, 2)
    for name in sorted(QUEUE):
        aggregate.add(name, read_json(DATA / name / "metrics.json"), read_json(DATA / name / "judge_result.json"))
    return aggregate.report()


def summary_of(value: dict[str, Any], judge: Any = None, notes: SummaryNotes | None = None) -> str:
    aggregate = RunAggregate()
    aggregate.add("dom__1", value, judge)
    return render_summary(aggregate.report(), queued=1, timestamp="20260101_000000", notes=notes)


def test_the_aggregates_of_the_reference_session_come_out_byte_for_byte(tmp_path: Path) -> None:
    report = reference_report()
    summary = render_summary(report, queued=5, timestamp="20260101_000000")
    write_aggregates(tmp_path, report, summary=summary)
    for name in ("all_metrics.json", "all_latencies.csv"):
        assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes()
    expected = (DATA / "all_summary.txt").read_bytes().replace(b"<TIMESTAMP>", b"20260101_000000")
    assert (tmp_path / "all_summary.txt").read_bytes() == expected


def test_the_summary_is_not_written_before_the_end(tmp_path: Path) -> None:
    write_aggregates(tmp_path, reference_report())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all_latencies.csv", "all_metrics.json"]


def test_a_run_of_nothing_has_a_summary() -> None:
    assert render_summary(RunAggregate().report(), queued=0, timestamp="t").split("\n")[3:] == [
        "Total Scenarios: 0",
        "Total Duration: 0.0mins",
        "Total Turns: 0",
        "",
        "Per-Scenario Results:",
        "-" * 80,
        "",
        "",
        "Overall Latency Statistics:",
        "-" * 80,
        "  Total Measurements: 0",
        "  Mean: -1.0ms",
        "  P50: -1.0ms",
        "  P95: -1.0ms",
        "  Min: -1.0ms",
        "  Max: -1.0ms",
        "",
        "",
        "Overall Success Rate: N/A (no scenarios had any applicable signal)",
        "",
        "Per-signal pass rates:",
        "",
    ]


def test_our_warnings_follow_the_stall_warning_in_order() -> None:
    aggregate = RunAggregate(("a", "b", "c", "d"), 2)
    aggregate.add("a", {"total_turns": 1, "insufficient_agent_turns": True, "stop_reason": "[AGENT_DISCONNECTED]"})
    aggregate.add("b", {"total_turns": 1}, {"reason": "Error: 500"})
    aggregate.add("c", None)
    aggregate.add("d", {"total_turns": 1}, {"reason": "Error: verdict pending"})
    notes = SummaryNotes((("x", "refused"), ("y", "skipped")), ("z",), ("v", "w"))
    text = render_summary(aggregate.report(), queued=6, timestamp="20260101_000000", notes=notes)
    assert text.partition("Max: -1.0ms\n")[2].partition("Overall Success")[0].split("\n") == [
        "",
        "",
        "WARNING: 1 scenario(s) had fewer than 2 agent turn(s) (likely stalled LLM / server hang) and were counted as failures.",
        "Stalled scenarios: a",
        "Run with --resume 20260101_000000 --min-agent-turns 2 to retry them.",
        "WARNING: 1 judge call(s) failed and were scored 0.0: b",
        "WARNING: 2 scenario(s) did not run: x (refused), y (skipped)",
        "WARNING: 1 scenario(s) could not be read and are in no rate: c (the root is no object)",
        "WARNING: 1 verdict(s) are still pending and in no rate: d",
        "WARNING: 1 scenario(s) were re-run by hand: z",
        "WARNING: 1 conversation(s) ended because the agent disconnected: a",
        "WARNING: 2 scenario(s) on disk are not in this run: v, w",
        "",
        "",
        "",
    ]


def test_every_optional_line_of_a_scenario() -> None:
    value = {
        "total_turns": 3,
        "scenario_duration": 90.0,
        "db_state_match": False,
        "db_state_assertion_pass_rate": 1 / 3,
        "nl_assertion_pass_rate": 0.5,
        "judge_score": 0.875,
        "db_state_assertion_verdicts": [{"passed": True}, {"passed": False}, {"passed": False}],
    }
    text = summary_of(value, {"reason": "r", "nl_assertion_verdicts": [{"passed": True}, {"passed": False}]})
    for line in (
        "    DB-state match: False\n    DB-state-assertion pass rate: 33.33%\n    NL-assertion pass rate: 50.00%\n",
        "    Judge score: 0.88\n  Turns: 3\n  Duration: 90.0s\n  Turns/min: 2.0\n",
        "  DB-State match:                0.00% (0/1 scenarios)\n",
        "  DB-State-Assertion pass:      33.33% (1/3 predicates)\n",
        "  NL-Assertion pass:            50.00% (1/2 assertions)\n",
        "  Judge score mean:            0.875 (across 1 scenarios)\n",
    ):
        assert line in text


def test_without_token_events_there_is_no_token_block() -> None:
    assert "Token Usage" not in summary_of({"total_turns": 1, "token_usage": {"agent": {"n_calls": 0}}})


def test_texts_in_the_table_are_quoted_and_doubled() -> None:
    aggregate = RunAggregate()
    latency = {"user_transcript": 'a,"b"\n', "agent_transcript": "", "latency_ms": 0.25}
    aggregate.add("dom__1", {"total_turns": 1, "latencies": [latency]})
    assert render_latencies_csv(aggregate.report()).partition("\n")[2] == '"dom__1","a,""b""\n","",0.2\n'


def test_values_that_are_no_json_do_not_stop_the_aggregates(tmp_path: Path) -> None:
    aggregate = RunAggregate()
    latency = {"user_transcript": "\ud83d", "latency_ms": 1.0}
    aggregate.add("a", {"total_turns": 1, "trace_metrics": {"x": math.nan}, "latencies": [latency]})
    write_aggregates(tmp_path, aggregate.report(), summary="")
    assert read_json(tmp_path / "all_metrics.json")[0]["trace_metrics"] == {"x": "nan"}


@pytest.mark.parametrize(("k", "n", "low", "high"), [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0)])
def test_the_wilson_interval_is_the_textbooks(k: int, n: int, low: float, high: float) -> None:
    assert wilson_interval(k, n) == pytest.approx((low, high), abs=1e-4)


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_wilson_interval_holds_the_rate(pair: tuple[int, int]) -> None:
    low, high = wilson_interval(*pair)
    assert 0 <= low <= pair[0] / pair[1] + 1e-12
    assert pair[0] / pair[1] - 1e-12 <= high <= 1


def test_no_trial_tells_nothing_and_nonsense_is_refused() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)
    with pytest.raises(ValueError):
        wilson_interval(2, 1)
