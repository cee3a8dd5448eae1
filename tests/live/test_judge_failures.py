"""What a failed judge call, and what an earlier invocation, may not do to the numbers that a watcher sees."""

from __future__ import annotations

import io
from typing import Any

import pytest

from voiceeval_engine.live import events
from voiceeval_engine.live.state import Count, RunState
from voiceeval_tui.plain import PlainOutput

NAMES = ["s__judged", "s__it", "s__third", "s__fourth"]
JUDGE_SIGNALS = [["judge_passed"], ["nl_assertion"], ["nl_assertion", "judge_passed"]]
OTHERS = ["is_action_match", "db_state_match", "db_state_assertion", "clean_exit"]


def _start(time: float = 100.0) -> events.RunStarted:
    return events.RunStarted(
        session="/s", scenarios=NAMES, pairs=[("ws://a", "ws://u")], inactivity_timeout=8.0, min_agent_turns=2, time=time
    )


def _attempt(scenario: str) -> events.AttemptStarted:
    return events.AttemptStarted(scenario=scenario, attempt=1, pair=0, number=1, max_duration=60.0)


def _scored(scenario: str, attempt: int = 1, **values: Any) -> events.ScenarioScored:
    given: dict[str, Any] = {
        "verdict": True, "task_verdict": True, "failed_signals": [], "signals": {"clean_exit": True, "judge_passed": True},
        "stalled": False, "stop_reason": "[EXIT]", "turns": 3, "latencies": [600.0], "tokens": 10, "retries": 0, "duration": 12.0,
        "judge_score": 1.0, "assertions": (2, 2),
    }  # fmt: skip
    return events.ScenarioScored(scenario=scenario, attempt=attempt, **{**given, **values})


def _unjudged(failed: list[str], **values: Any) -> events.ScenarioScored:
    given: dict[str, Any] = {
        "verdict": not failed, "task_verdict": not set(failed) - {"clean_exit"}, "failed_signals": failed,
        "signals": {"clean_exit": "clean_exit" not in failed, "judge_passed": False}, "judge_score": 0.0, "judge_failed": True,
        "assertions": (0, 2),
    }  # fmt: skip
    return _scored("s__it", **{**given, **values})


def _watch(*stream: events.Event) -> tuple[RunState, str]:
    out = io.StringIO()
    plain = PlainOutput(out)
    end = events.RunEnded(complete=True, reason="finished", files=[])
    for event in (_start(), *stream, end):
        plain(event)
    return plain.state, out.getvalue()[out.getvalue().index("Evaluation finished") :]


def _in_no_judge_rate(state: RunState) -> bool:
    """Only the scenario that was judged is in them."""
    return (state.signal("judge_passed"), state.signal("nl_assertion"), state.judge_scores) == (Count(1, 1), Count(2, 2), [1.0])


@pytest.mark.parametrize("failed", JUDGE_SIGNALS, ids="+".join)
@pytest.mark.parametrize("attempt", [0, 1], ids=["loaded", "ran"])
def test_a_scenario_that_failed_only_because_the_judge_did_is_in_no_rate_and_no_failure(failed: list[str], attempt: int) -> None:
    state, printed = _watch(_scored("s__judged"), _unjudged(failed).model_copy(update={"attempt": attempt}))
    assert (state.success, state.task_success) == (Count(1, 1), Count(1, 1))
    assert _in_no_judge_rate(state)
    assert state.signal("clean_exit") == Count(2, 2), "what does not come of the judge still counts"
    assert "1/1 100.0%" in printed
    assert not [line for line in printed.splitlines() if line.split()[:1] == ["failed"]]
    (told,) = [line for line in printed.splitlines() if "s__it" in line]
    assert told.split()[:2] == ["judge", "failed"]
    assert "not the agent's failure" in told


@pytest.mark.parametrize("failed", JUDGE_SIGNALS, ids="+".join)
@pytest.mark.parametrize("other", OTHERS)
def test_a_scenario_that_failed_otherwise_too_is_counted_and_listed(failed: list[str], other: str) -> None:
    state, printed = _watch(_scored("s__judged"), _unjudged([other, *failed]))
    assert state.success == Count(1, 2)
    if other != "clean_exit":
        assert state.task_success == Count(1, 2)
    assert _in_no_judge_rate(state)
    (line,) = [line for line in printed.splitlines() if line.split()[:1] == ["failed"]]
    assert f"s__it: {other}" in line
    assert "judge failed" in printed


def test_a_stalled_scenario_whose_judge_failed_is_still_a_failure() -> None:
    state, printed = _watch(_scored("s__judged"), _unjudged(["judge_passed"], stalled=True))
    assert (state.success, state.task_success) == (Count(1, 2), Count(1, 2))
    assert _in_no_judge_rate(state)
    assert "s__it: too few agent turns" in printed


def test_a_scenario_that_needs_no_judge_passes_though_the_call_failed() -> None:
    state, _ = _watch(_scored("s__judged"), _unjudged([]))
    assert (state.success, state.task_success) == (Count(2, 2), Count(2, 2))
    assert _in_no_judge_rate(state)


def test_a_judgement_that_comes_after_all_takes_the_failed_calls_place() -> None:
    state, printed = _watch(_unjudged(["judge_passed"]), _scored("s__it", verdict=False, failed_signals=["judge_passed"]))
    assert state.success == Count(0, 1)
    assert "judge failed" not in printed


def test_what_an_earlier_invocation_did_is_no_part_of_the_rate() -> None:
    state = RunState()
    for event in (_start(), _scored(NAMES[0], 0), _scored(NAMES[1], 0)):
        state.apply(event)
    assert (state.done, state.rate(130.0), state.eta(130.0)) == (2, 0.0, None)
    for event in (_attempt(NAMES[2]), _scored(NAMES[2])):
        state.apply(event)
    assert (state.done, state.rate(130.0), state.eta(130.0)) == (3, 1 / 30, 30.0)


def test_a_loaded_scenario_whose_verdict_comes_now_is_no_part_of_the_rate() -> None:
    state = RunState()
    for event in (_start(), _scored(NAMES[0], 0, verdict=None, task_verdict=None, pending=True), _scored(NAMES[0], 0)):
        state.apply(event)
    assert (state.done, state.rate(130.0), state.eta(130.0)) == (1, 0.0, None)


def test_a_loaded_scenario_that_runs_again_after_all_is_part_of_the_rate() -> None:
    state = RunState()
    for event in (_start(), _scored(NAMES[0], 0), _attempt(NAMES[0]), _scored(NAMES[0])):
        state.apply(event)
    assert state.rate(130.0) == 1 / 30


def test_a_task_that_failed_by_the_judge_alone_is_in_no_rate_though_the_exit_was_unclean() -> None:
    passing = _scored("s__judged")
    state, _ = _watch(
        _attempt("s__judged"), passing, _attempt("s__it"), _unjudged(["clean_exit", "judge_passed"], task_verdict=False)
    )
    assert (state.task_success, state.success) == (Count(1, 1), Count(1, 2))
