"""The fold: what a watcher knows of a run, from events alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_events import NAMES, a_run, some_event

from voiceeval_engine.live import events
from voiceeval_engine.live.events import parse_event, to_line
from voiceeval_engine.live.state import Count, Discarded, RunState, percentile

A, B, C = NAMES


def _start(time: float = 100.0) -> events.RunStarted:
    return events.RunStarted(
        session="/s", scenarios=list(NAMES), pairs=[("ws://a", "ws://u")], inactivity_timeout=8.0, min_agent_turns=2, time=time
    )


def _attempt(scenario: str, attempt: int = 1) -> events.AttemptStarted:
    return events.AttemptStarted(scenario=scenario, attempt=attempt, pair=0, number=1, max_duration=60.0)


def _turn(scenario: str, attempt: int = 1, latency: float | None = None, side: events.Side = "agent") -> events.TurnEnded:
    return events.TurnEnded(scenario=scenario, attempt=attempt, side=side, text="x", start=0.0, end=1.0, latency_ms=latency)


def _scored(scenario: str, attempt: int = 1, **values: Any) -> events.ScenarioScored:
    given: dict[str, Any] = {
        "verdict": True, "task_verdict": True, "failed_signals": [], "signals": {"clean_exit": True}, "stalled": False,
        "stop_reason": "[EXIT]", "turns": 3, "latencies": [600.0], "tokens": 10, "retries": attempt - 1, "duration": 12.0,
    }  # fmt: skip
    return events.ScenarioScored(scenario=scenario, attempt=attempt, **{**given, **values})


def _discarded(scenario: str, attempt: int = 1, tokens: int = 7) -> events.AttemptDiscarded:
    return events.AttemptDiscarded(scenario=scenario, attempt=attempt, reason="no turn", retry_in=1.0, tokens=tokens)


def _fold(*stream: events.Event) -> RunState:
    state = RunState()
    for event in stream:
        state.apply(event)
    return state


def test_a_scenario_goes_through_its_states() -> None:
    state = _fold(_start())
    seen = [state.scenarios[A].status]
    for event in (
        _attempt(A),
        events.ConversationStarted(scenario=A, attempt=1),
        events.ConversationEnded(scenario=A, attempt=1, stop_reason="[EXIT]", duration=3.0, turns=1),
        _discarded(A),
        _attempt(A, 2),
        _scored(A, 2),
    ):
        state.apply(event)
        seen.append(state.scenarios[A].status)
    assert seen == ["queued", "setting up", "talking", "scoring", "retrying", "setting up", "passed"]


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({}, "passed"),
        ({"verdict": False}, "failed"),
        ({"verdict": None}, "no verdict"),
        ({"verdict": False, "stalled": True}, "stalled"),
    ],
)
def test_a_verdict_is_a_status(values: dict[str, Any], status: str) -> None:
    assert _fold(_start(), _attempt(A), _scored(A, **values)).scenarios[A].status == status


def test_rates_count_verdicts_alone_and_stalled_ones_are_in_no_signal() -> None:
    state = _fold(
        _start(),
        _scored(A),
        _scored(B, verdict=False, task_verdict=False, stalled=True, signals={"clean_exit": False}),
        _scored(C, verdict=None, task_verdict=None, signals={}),
    )
    assert (state.success, state.task_success) == (Count(1, 2), Count(1, 2))
    assert state.signal("clean_exit") == Count(1, 1)
    assert state.signal("judge_passed") == Count(0, 0)
    assert (state.done, state.tokens) == (3, 30)


def test_a_discarded_attempt_adds_nothing_and_is_remembered_apart() -> None:
    state = _fold(_start(), _attempt(A), _turn(A, latency=900.0), _discarded(A, tokens=7))
    assert (state.latencies, state.scenarios[A].turns, state.tokens) == ([], 0, 0)
    assert state.scenarios[A].discarded == [Discarded(1, "no turn", 7)]


def test_what_comes_late_from_a_discarded_attempt_adds_nothing() -> None:
    late = (_turn(A, latency=900.0), _scored(A), events.ConversationStarted(scenario=A, attempt=1))
    state = _fold(_start(), _attempt(A), _discarded(A), *late)
    assert (state.latencies, state.scenarios[A].turns, state.scenarios[A].status) == ([], 0, "retrying")
    state = _fold(_start(), _attempt(A), _discarded(A), _attempt(A, 2), *late)
    assert (state.latencies, state.scenarios[A].turns, state.scenarios[A].status) == ([], 0, "setting up")


def test_an_attempt_whose_beginning_was_lost_begins_with_what_is_there() -> None:
    state = _fold(_start(), _attempt(A), _turn(A, latency=900.0), _turn(A, 2, latency=500.0))
    assert (state.latencies, state.scenarios[A].turns, state.scenarios[A].attempt) == ([500.0], 1, 2)
    assert state.scenarios[A].status == "talking"


def test_a_scenario_that_did_not_run_has_a_reason_and_no_numbers() -> None:
    state = _fold(
        _start(), _attempt(A), _turn(A, latency=900.0), _discarded(A), events.ScenarioNotRun(scenario=A, attempt=1, reason="no bot")
    )
    assert (state.scenarios[A].status, state.scenarios[A].reason, state.latencies) == ("not run", "no bot", [])


def test_latencies_of_a_running_attempt_are_seen_and_then_replaced() -> None:
    state = _fold(_start(), _attempt(A), _turn(A, latency=500.0), _turn(A, side="user"))
    assert (state.latencies, state.scenarios[A].turns) == ([500.0], 2)
    state.apply(_scored(A, latencies=[510.0, 520.0]))
    assert state.latencies == [510.0, 520.0]


def test_a_resume_begins_anew() -> None:
    state = _fold(_start(), _scored(A), events.RunEnded(complete=False, reason="interrupted", files=[]), _start(500.0))
    assert (state.done, state.ended, state.started) == (0, None, 500.0)


def test_unknown_scenarios_change_nothing() -> None:
    state = _fold(_start())
    assert state.apply(_scored("nobody")) == frozenset()
    assert list(state.scenarios) == list(NAMES)


def test_the_eta_is_what_is_left_at_the_rate_so_far() -> None:
    state = _fold(_start(100.0))
    assert state.eta(200.0) is None
    state.apply(_scored(A))
    assert state.eta(130.0) == 60.0
    assert state.eta(100.0) is None, "no time has passed"
    assert state.eta(50.0) is None, "the clock was set back"
    state.apply(_scored(B))
    state.apply(events.ScenarioNotRun(scenario=C, attempt=0, reason="x"))
    assert state.eta(130.0) == 0.0


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([], 0.5, None),
        ([7.0], 0.5, 7.0),
        ([7.0], 1.0, 7.0),
        ([3.0, 1.0, 2.0, 4.0], 0.5, 3.0),
        ([1.0, 2.0], 0.95, 2.0),
        ([1.0, 2.0], 0.0, 1.0),
    ],
)
def test_a_percentile_is_the_value_at_that_share(values: list[float], share: float, expected: float | None) -> None:
    assert percentile(values, share) == expected


@given(st.lists(some_event(), max_size=40))
def test_no_sequence_of_events_is_too_strange(stream: list[Any]) -> None:
    state = _fold(*stream)
    assert 0 <= state.done <= len(state.scenarios)
    assert state.success.k <= state.success.n <= state.done
    state.eta(1e9)


@given(a_run())
def test_the_fold_of_the_lines_is_the_fold_of_the_events(stream: list[Any]) -> None:
    from_lines = _fold(*(parse_event(to_line(event)) for event in stream))
    direct = _fold(*stream)
    assert vars(from_lines) == vars(direct)


@given(a_run())
def test_only_what_an_event_names_is_changed(stream: list[Any]) -> None:
    state = RunState()
    for event in stream:
        before = {name: repr(scenario) for name, scenario in state.scenarios.items()}
        areas = state.apply(event)
        changed = {name for name, scenario in state.scenarios.items() if before.get(name, repr(scenario)) != repr(scenario)}
        if not isinstance(event, events.RunStarted):
            assert changed <= {getattr(event, "scenario", None)}
            assert not changed or areas


@given(a_run())
def test_numbers_come_from_attempts_that_count(stream: list[Any]) -> None:
    state = _fold(*stream)
    for scenario in state.scenarios.values():
        if scenario.status in ("retrying", "not run"):
            assert (scenario.turns, scenario.latencies) == (0, [])


def test_a_scenario_that_is_queued_again_waits_and_runs_as_a_new_one() -> None:
    state = _fold(_start(), _attempt(A), _discarded(A))
    changed = state.apply(events.Requeued(scenario=A, attempt=1, reason="another pair takes it"))
    waiting = state.scenarios[A]
    assert (waiting.status, waiting.pair, waiting.reason) == ("queued", None, "another pair takes it")
    assert "queue" in changed
    state.apply(_attempt(A, 2))
    assert (waiting.status, waiting.attempt, waiting.pair, waiting.reason) == ("setting up", 2, 0, None)
    assert not waiting.by_hand


def test_a_result_may_come_back_after_a_scenario_was_queued_by_hand() -> None:
    state = _fold(_start(), _attempt(A), _scored(A, verdict=False, failed_signals=["clean_exit"]))
    assert (state.done, state.success) == (1, Count(0, 1))
    state.apply(events.Requeued(scenario=A, attempt=1, reason="by hand", by_hand=True))
    assert (state.done, state.success) == (0, Count(0, 0))
    for event in (_attempt(A, 2), _discarded(A, 2), _scored(A, 2, verdict=False, restored=True)):
        state.apply(event)
    assert (state.done, state.success, state.scenarios[A].by_hand) == (1, Count(0, 1), False)


def test_a_pause_an_outage_and_the_stop_are_told() -> None:
    state = _fold(_start(), events.Paused(reason="by the operator"), events.PairOut(pair=1, reason="refused", since=5.0))
    assert (state.paused, state.outages[1].reason, state.stopping) == ("by the operator", "refused", None)
    for event in (events.GoneOn(), events.PairBack(pair=1), events.Stopping(after_current=True)):
        state.apply(event)
    assert (state.paused, state.outages, state.stopping is not None) == (None, {}, True)
