"""Results that cannot be read, and conversations of which a bot tells nothing: told as what they are, never as a failed judge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bot_farm import serving
from engine_run import run_engine, scenario
from hostile_bots import HostileBot, Refusal, says_goodbye
from judges import WatchedJudge

from voiceeval_engine.live import events
from voiceeval_engine.run.results import rewrite_aggregates
from voiceeval_engine.run.runner import Runner
from voiceeval_engine.session.files import read_json, write_json
from voiceeval_engine.session.summary import SummaryNotes

BRIEF: dict[str, Any] = {"max_auto_retries": 0, "min_agent_turns": 0}
GOOD: dict[str, Any] = {
    "scenario_name": "s__good", "total_turns": 3, "token_usage": {"agent": {"n_calls": 3}}, "stop_reason": "[EXIT]",
    "is_successful": True, "is_task_successful": True, "clean_exit": True, "judge_score": 1.0, "judge_passed": True,
    "is_action_match": True, "db_state_match": True, "success_breakdown": {"passed": ["clean_exit"], "failed": []},
}  # fmt: skip


def _bytes(raw: bytes) -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(raw)


UNREADABLE: dict[str, Callable[[Path], Any]] = {
    "empty": _bytes(b""),
    "cut": _bytes(b'{"total_turns": 3, "is_successful": false, "turns": ['),
    "zeros": _bytes(b"\0" * 4096),
    "not_utf8": _bytes(b'{"total_turns": 3, "stop_reason": "\xff"}'),
    "bom": _bytes(b'\xef\xbb\xbf{"total_turns": 3}'),
    "deep": _bytes(b"[" * 100_000),
    "nan": _bytes(b'{"total_turns": NaN, "is_successful": false}'),
    "list": _bytes(b"[]"),
    "null": _bytes(b"null"),
    "text_turns": _bytes(b'{"total_turns": "3", "is_successful": false}'),
    "folder": Path.mkdir,
    "link_to_itself": lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.parametrize("judged", [False, True], ids=["unjudged", "judged"])
def test_a_result_that_cannot_be_read_is_told_and_is_in_no_rate(tmp_path: Path, kind: str, judged: bool) -> None:
    names = ["s__bad", "s__good"]
    for name in names:
        (tmp_path / name).mkdir()
        if judged:
            write_json(
                tmp_path / name / "judge_result.json", {"score": 1.0, "reason": "r", "nl_assertion_verdicts": [{"passed": True}]}
            )
    write_json(tmp_path / "s__good" / "metrics.json", GOOD)
    UNREADABLE[kind](tmp_path / "s__bad" / "metrics.json")
    warnings = rewrite_aggregates(tmp_path, names, 2, "20260101_000000", SummaryNotes(), finished=True)
    summary = (tmp_path / "all_summary.txt").read_text()
    (line,) = [line for line in summary.splitlines() if "s__bad" in line]
    assert line.startswith("WARNING: 1 scenario(s) could not be read and are in no rate: s__bad (")
    assert line.endswith(")")
    assert len(line) < 400
    assert line in warnings
    assert "Overall Success Rate: 100.00% (1/1 scenarios" in summary
    rates = [line for line in summary.splitlines() if "/" in line and "%" in line]
    assert all("1/1" in line for line in rates), rates
    assert [each["scenario_name"] for each in read_json(tmp_path / "all_metrics.json")] == ["s__good"]


def test_a_result_that_is_not_there_is_no_result_that_cannot_be_read(tmp_path: Path) -> None:
    for name in ("s__bad", "s__good"):
        (tmp_path / name).mkdir()
    write_json(tmp_path / "s__good" / "metrics.json", GOOD)
    rewrite_aggregates(tmp_path, ["s__bad", "s__good", "s__gone"], 2, "20260101_000000", SummaryNotes(), finished=True)
    assert "could not be read" not in (tmp_path / "all_summary.txt").read_text()


def test_a_result_that_breaks_during_the_run_is_told_at_its_end(tmp_path: Path) -> None:
    def watch(runner: Runner, event: events.Event) -> None:
        if isinstance(event, events.ScenarioScored) and event.scenario == "s__bad":
            (runner.session / "s__bad" / "metrics.json").write_text("{")

    agent, user = HostileBot(says_goodbye), HostileBot()
    with serving(agent, user):
        ran = run_engine(tmp_path, [(agent, user)], {name: scenario(name) for name in ("s__bad", "s__good")}, watch=watch, **BRIEF)
    summary = (ran.session / "all_summary.txt").read_text()
    assert "WARNING: 1 scenario(s) could not be read and are in no rate: s__bad (" in summary
    assert "(1/1 scenarios" in summary
    assert "could not be read and are in no rate: s__bad" in ran.log


# -- bots that tell nothing

NO_SUMMARY: dict[str, Any] = {
    "refused": Refusal("not now"),
    "null": None,
    "text": "a summary",
    "list": [{"actions": []}],
    "number": 3,
}
NO_CONTEXT: dict[str, Any] = {
    "refused": Refusal("not now"),
    "null": None,
    "no_messages": {"context": None},
    "empty": {"context": "[]"},
}


def _telling_nothing(summary: Any, context: Any) -> tuple[HostileBot, HostileBot]:
    replies = {"get_scenario_summary": summary, "get_context_history": context}
    return HostileBot(says_goodbye, replies), HostileBot(None, replies)


@pytest.mark.parametrize(
    ("summary", "context"), [(key, "refused") for key in NO_SUMMARY] + [("refused", key) for key in NO_CONTEXT if key != "refused"]
)
def test_without_summary_and_context_the_answer_is_empty_and_no_judge_is_asked(tmp_path: Path, summary: str, context: str) -> None:
    fields = {"success_signals": ("judge_passed", "nl_assertion", "clean_exit"), "nl_assertions": ('The agent says "hi".',)}
    fields["reference_answer"] = {"actions": [{"side": "agent", "name": "order", "arguments": {}}]}
    agent, user = _telling_nothing(NO_SUMMARY[summary], NO_CONTEXT[context])
    with serving(agent, user), WatchedJudge() as judge:
        ran = run_engine(tmp_path, [(agent, user)], {"s__1": scenario("s__1", **fields)}, judge_url=judge.url, **BRIEF)
    assert ran.complete
    assert read_json(ran.session / "s__1" / "final_agent_response.json") == []
    assert judge.asked == 0
    result = read_json(ran.session / "s__1" / "judge_result.json")
    assert result["score"] == 0.0
    assert result["reason"].startswith("nothing to judge")
    assert [each.judge_failed for each in ran.of("s__1", events.ScenarioScored)] == [False, False]
    assert ran.metrics("s__1")["is_successful"] is False
    assert "judge call" not in (ran.session / "all_summary.txt").read_text() + ran.log
    assert "judge failed" not in ran.printed


@pytest.mark.parametrize("summary", NO_SUMMARY)
def test_without_a_summary_the_judge_grades_the_context(tmp_path: Path, summary: str) -> None:
    agent, user = _telling_nothing(NO_SUMMARY[summary], {"context": "[{'role': 'assistant', 'content': 'Hello'}]"})
    with serving(agent, user), WatchedJudge() as judge:
        ran = run_engine(
            tmp_path, [(agent, user)], {"s__1": scenario("s__1", success_signals=("judge_passed",))}, judge_url=judge.url, **BRIEF
        )
    assert read_json(ran.session / "s__1" / "final_agent_response.json") == []
    assert judge.asked == 1
    assert "<prediction>" not in read_json(ran.session / "s__1" / "judge_result.json")["judge_input"]["user_content"]
    assert ran.metrics("s__1")["is_successful"] is True


def test_without_summary_and_context_the_judge_grades_a_conversation_that_it_is_shown(tmp_path: Path) -> None:
    agent, user = _telling_nothing(Refusal("not now"), Refusal("not now"))
    with serving(agent, user), WatchedJudge() as judge:
        run_engine(
            tmp_path, [(agent, user)], {"s__1": scenario("s__1")}, judge_url=judge.url, judge_include_conversation=True, **BRIEF
        )
    assert judge.asked == 1


def test_an_empty_summary_is_an_answer_without_actions(tmp_path: Path) -> None:
    agent, user = _telling_nothing({}, Refusal("not now"))
    with serving(agent, user):
        ran = run_engine(tmp_path, [(agent, user)], {"s__1": scenario("s__1")}, **BRIEF)
    assert read_json(ran.session / "s__1" / "final_agent_response.json") == [{"actions": []}]
