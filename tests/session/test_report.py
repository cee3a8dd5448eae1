"""What a report holds of a session: the reference's, ours in every state, and broken ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from outputs import metrics, put_record, put_result

from voiceeval_engine.session.evidence import ConversationLog, LogSegment, write_conversation_log
from voiceeval_engine.session.report import MAX_TEXT, SessionReport, read_report
from voiceeval_engine.session.run_args import REDACTED, shareable
from voiceeval_engine.session.transcripts import read_log, turns_of

REFERENCE = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"


def outcomes(report: SessionReport) -> dict[str, str]:
    return {each.name: each.outcome for each in report.scenarios}


def test_a_session_of_the_reference_without_its_record() -> None:
    report = read_report(REFERENCE)
    assert outcomes(report) == {
        "domA__1": "passed",
        "domA__2": "stalled",
        "domB__1": "failed",
        "domB__2": "stalled",
        "simple": "no verdict",
    }
    first, _, third, *_ = report.scenarios
    assert (first.retries, first.retry_reasons) == (1, ("0 conversation turns (bots never exchanged audio)",))
    assert first.moved_aside == ("domA__1.killed.autoretry1.20261130_161728",)
    assert [(check.what, check.passed) for check in third.predicates] == [("agent assert_x", True), ("user assert_x", False)]
    assert [(rate.key, rate.k, rate.n) for rate in report.rates] == [
        ("success", 1, 4),
        ("task_success", 1, 4),
        ("is_action_match", 1, 1),
        ("db_state_match", 1, 1),
        ("db_state_assertion", 1, 2),
        ("judge_passed", 3, 3),
        ("clean_exit", 2, 3),
    ]
    assert all(0 <= rate.low <= rate.k / rate.n <= rate.high <= 1 for rate in report.rates)
    assert report.complete
    assert report.invocations == ()
    assert report.warnings[0].startswith("WARNING: 2 scenario(s) had fewer than 2 agent turn(s)")


def test_every_state_has_its_outcome_in_queue_order(tmp_path: Path) -> None:
    put_record(tmp_path, ["d__z", "d__cut", "d__fresh", "d__pending", "d__bad", "d__judge", "d__a"])
    put_result(tmp_path, "d__z")
    (tmp_path / "d__cut" / "scenario_config").mkdir(parents=True)
    put_result(tmp_path, "d__pending", metrics(verdict=False), judge="Error: verdict pending")
    put_result(tmp_path, "d__bad", '{"total_turns": ')
    put_result(tmp_path, "d__judge", metrics(verdict=False, failed=["judge_passed"]), judge="Error: out of order")
    put_result(tmp_path, "d__a", metrics(verdict=False, failed=["clean_exit"]))
    put_result(tmp_path, "d__later")
    report = read_report(tmp_path, did_not_run={"d__fresh": "skipped by hand"})
    assert outcomes(report) == {
        "d__z": "passed",
        "d__cut": "not run",
        "d__fresh": "not run",
        "d__pending": "pending",
        "d__bad": "unreadable",
        "d__judge": "failed",
        "d__a": "failed",
        "d__later": "passed",
    }
    reasons = {each.name: each.reason for each in report.scenarios}
    assert (reasons["d__cut"], reasons["d__fresh"]) == ("no metrics.json (in-flight)", "skipped by hand")
    assert [each.name for each in report.scenarios if each.failed_by_judge_alone] == ["d__judge"]
    assert not report.complete
    assert "WARNING: 2 scenario(s) did not run: d__cut (no metrics.json (in-flight)), d__fresh (skipped by hand)" in report.warnings


def test_a_queue_limits_the_report_and_what_it_leaves_out_is_named(tmp_path: Path) -> None:
    put_record(tmp_path, ["d__a", "d__b"])
    put_result(tmp_path, "d__a")
    put_result(tmp_path, "d__b")
    report = read_report(tmp_path, queue=["d__b"])
    assert list(outcomes(report)) == ["d__b"]
    assert report.warnings == ["WARNING: 1 scenario(s) on disk are not in this run: d__a"]


def test_an_old_session_that_lacks_nearly_every_key(tmp_path: Path) -> None:
    put_result(tmp_path, "old", {"total_turns": 1, "turns": [{"role": "user", "text": "Hello?"}]})
    (each,) = read_report(tmp_path).scenarios
    assert (each.outcome, each.retries, each.turns[0].text) == ("no verdict", 0, "Hello?")


def test_the_judges_key_and_passwords_are_in_no_invocation(tmp_path: Path) -> None:
    record = {
        "started_at": "2026-01-01T00:00:00",
        "argv": ["--judge-api-key", "sk-1", "--judge-url", "http://me:pw@host/v1?key=sk-1"],
        "parsed_args": {"judge_api_key": "sk-1", "judge_url": "http://me:pw@host/v1?key=sk-1", "min_agent_turns": 2},
    }
    (tmp_path / "run_args.json").write_text(json.dumps({"invocations": [record]}))
    told = repr(read_report(tmp_path).invocations)
    assert "sk-1" not in told
    assert "pw" not in told
    assert "host/v1" in told
    assert shareable({"parsed_args": {"judge_api_key": ""}})["parsed_args"] == {"judge_api_key": ""}
    assert shareable({"argv": ["--judge-api-key=sk-2", "x"]})["argv"] == [f"--judge-api-key={REDACTED}", "x"]
    assert shareable({"argv": ["--agent-url", "ws://h/a@b"]})["argv"] == ["--agent-url", "ws://h/a@b"]


def test_turns_come_from_the_log_with_their_latency_and_long_ones_are_cut(tmp_path: Path) -> None:
    put_result(tmp_path, "d__a")
    segments = (LogSegment(0.5, 1.0, "user", "Hi"), LogSegment(1.6, 2.0, "agent", "x" * (MAX_TEXT + 7), 612.3))
    write_conversation_log(tmp_path / "d__a", ConversationLog("2026-01-01T00:00:00", "2026-01-01T00:00:03", "[EXIT]", segments))
    assert read_log(tmp_path / "d__a" / "conversation_log.txt") == segments
    (each,) = read_report(tmp_path).scenarios
    assert (each.turns[0].text, each.turns[0].latency_ms, each.turns[1].latency_ms) == ("Hi", None, 612.3)
    assert each.turns[1].text == "x" * MAX_TEXT + "… [7 more characters]"


def test_moments_of_turns_count_from_the_first() -> None:
    turns = [
        {"timestamp": "2026-01-01T00:00:10", "role": "user", "text": "a"},
        {"timestamp": "2026-01-01T00:00:12.5", "role": "agent", "text": "b"},
        {"timestamp": "?", "role": "agent", "text": "c"},
        {"role": "agent"},
        "no turn",
    ]
    assert [(turn.start, turn.role) for turn in turns_of({"turns": turns})] == [(0.0, "user"), (2.5, "agent"), (0.0, "agent")]
    assert turns_of({"turns": "none"}) == ()


def test_a_folder_that_is_not_there_raises(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        read_report(tmp_path / "nowhere")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
KEYS = ("turns", "latencies", "success_breakdown", "auto_retry_count", "auto_retry_reasons", "db_state_assertion_verdicts",
        "conversation_end_reason", "stop_reason", "token_usage", "judge_score", "is_successful", "scenario_duration")  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    values=st.dictionaries(st.sampled_from(KEYS), ANYTHING),
    judged=ANYTHING | st.fixed_dictionaries({"reason": ANYTHING, "nl_assertion_verdicts": ANYTHING | st.lists(ANYTHING)}),
    record=ANYTHING | st.fixed_dictionaries({"argv": ANYTHING, "parsed_args": ANYTHING, "resolved_scenario_names": ANYTHING}),
)
def test_no_content_of_the_files_makes_it_fail(tmp_path: Path, values: dict[str, Any], judged: Any, record: Any) -> None:
    put_result(tmp_path, "d__a", {"total_turns": 1, **values})
    (tmp_path / "d__a" / "judge_result.json").write_text(json.dumps(judged))
    (tmp_path / "run_args.json").write_text(json.dumps({"invocations": [record]}))
    report = read_report(tmp_path)
    assert "d__a" in outcomes(report)
