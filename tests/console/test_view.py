"""The fold that panes draw from: what is held, what is let go, which areas a change touches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from random_events import a_run

from voiceeval_engine.live import events
from voiceeval_engine.live.state import RunState
from voiceeval_tui.transcript import MAX_LINES, Transcript
from voiceeval_tui.view import ALL_AREAS, KEPT_LOG_LINES, KEPT_TRANSCRIPTS, RUNNING, Link, View

A, B = "cafe__a", "cafe__b"


def _start(*names: str) -> events.RunStarted:
    return events.RunStarted(session="/s", scenarios=list(names), pairs=[], inactivity_timeout=8, min_agent_turns=2, time=100.0)


def _attempt(name: str, attempt: int = 1, time: float = 101.0) -> events.AttemptStarted:
    return events.AttemptStarted(scenario=name, attempt=attempt, pair=0, number=1, max_duration=60, time=time)


def _words(name: str, text: str, at: float, side: Any = "agent", attempt: int = 1) -> events.Words:
    return events.Words(scenario=name, attempt=attempt, side=side, text=text, at=at, time=110.0)


def _turn(name: str, text: str, start: float, end: float, side: Any = "agent", attempt: int = 1) -> events.TurnEnded:
    return events.TurnEnded(
        scenario=name, attempt=attempt, side=side, text=text, start=start, end=end, latency_ms=700.0, time=111.0
    )


def _scored(name: str, attempt: int = 1, **values: Any) -> events.ScenarioScored:
    given: dict[str, Any] = {
        "verdict": True, "task_verdict": True, "failed_signals": [], "signals": {}, "stalled": False, "stop_reason": "[EXIT]", "turns": 2,
        "latencies": [700.0], "tokens": 1, "retries": 0, "duration": 3.0, "time": 120.0,
    }  # fmt: skip
    return events.ScenarioScored(scenario=name, attempt=attempt, **{**given, **values})


def _view(*stream: events.Event) -> View:
    view = View()
    view.apply_all(stream)
    return view


def test_words_are_shown_until_their_turn_is_settled() -> None:
    view = _view(_start(A), _attempt(A), _words(A, "Good", 1.0), _words(A, "day.", 1.4), _words(A, "Next", 2.5))
    held = view.transcript(A)
    assert held is not None
    assert [(line.kind, line.text, line.at) for line in held.lines] == [("words", "Good day. Next", 1.0)]
    view.apply(_turn(A, "Good day.", 1.0, 2.0))
    assert [(line.kind, line.text) for line in held.lines] == [("turn", "Good day."), ("words", "Next")]


def test_lines_stand_in_the_order_of_their_times() -> None:
    tool = events.ToolCalled(scenario=A, attempt=1, side="agent", name="book", applied=True, at=1.5)
    view = _view(_start(A), _attempt(A), tool, _turn(A, "one", 1.0, 2.0))
    held = view.transcript(A)
    assert held is not None
    assert [(line.kind, line.text) for line in held.lines] == [("turn", "one"), ("tool", "book (changed the database)")]


def test_speech_is_a_stretch_from_on_to_off_and_open_while_it_lasts() -> None:
    def speaking(side: Any, on: bool, at: float) -> events.Speaking:
        return events.Speaking(scenario=A, attempt=1, side=side, on=on, at=at)

    view = _view(_start(A), _attempt(A), speaking("user", True, 1.0), speaking("user", False, 2.0), speaking("agent", True, 2.6))
    held = view.transcript(A)
    assert held is not None
    assert [(each.side, each.start, each.end) for each in held.speech] == [("user", 1.0, 2.0), ("agent", 2.6, None)]
    view.apply(events.ConversationEnded(scenario=A, attempt=1, stop_reason="[EXIT]", duration=3.0, turns=2))
    assert held.speaking == {}
    assert all(each.end is not None for each in held.speech)


def test_a_new_attempt_begins_a_new_text() -> None:
    discarded = events.AttemptDiscarded(scenario=A, attempt=1, reason="0 turns", retry_in=1.0)
    view = _view(_start(A), _attempt(A), _turn(A, "old", 1, 2), discarded, _attempt(A, 2), _turn(A, "new", 1, 2, attempt=2))
    held = view.transcript(A)
    assert held is not None
    assert [line.text for line in held.lines] == ["new"]


def test_what_is_said_elsewhere_touches_nothing_that_is_shown() -> None:
    view = _view(_start(A, B), _attempt(A), _attempt(B, time=102.0))
    assert view.shown == A
    assert "transcript" in view.apply(_words(A, "hello", 1.0))
    assert view.apply(_words(B, "hello", 1.0)) == frozenset()
    assert view.select(B) >= {"selection", "transcript"}
    assert "transcript" in view.apply(_words(B, "again", 1.5))


def test_without_a_choice_the_next_that_runs_is_followed_and_a_choice_stays() -> None:
    view = _view(_start(A, B), _attempt(A), _attempt(B, time=102.0))
    assert "selection" in view.apply(_scored(A))
    assert view.shown == B
    view.select(A)
    view.apply(_scored(B))
    assert view.shown == A


def test_texts_of_ended_scenarios_are_let_go_and_wanted_from_disk() -> None:
    names = [f"d__{number}" for number in range(100)]
    view = _view(_start(*names))
    for name in names:
        view.apply_all([_attempt(name), _turn(name, "x" * 1000, 1, 2), _scored(name)])
    held = [name for name in names if view.transcript(name) is not None]
    assert len(held) <= KEPT_TRANSCRIPTS + 2
    view.select(names[0])
    assert view.wants_saved() == names[0]
    assert view.put_saved(names[0], Transcript()) == {"transcript"}
    assert view.wants_saved() is None


def test_a_running_scenario_keeps_its_text_however_many_end_beside_it() -> None:
    names = [f"d__{number}" for number in range(50)]
    view = _view(_start(A, *names), _attempt(A), _turn(A, "mine", 1, 2))
    view.select(names[0])
    for name in names:
        view.apply_all([_attempt(name), _turn(name, "x", 1, 2), _scored(name)])
    assert view.transcript(A) is not None


def test_a_long_conversation_holds_its_last_lines_and_counts_the_others() -> None:
    view = _view(_start(A), _attempt(A), *(_turn(A, str(number), number, number + 0.5) for number in range(MAX_LINES + 10)))
    held = view.transcript(A)
    assert held is not None
    assert (len(held.settled), held.dropped, held.settled[0].text) == (MAX_LINES, 10, "10")


def test_the_log_is_bounded_and_counted() -> None:
    view = View()
    for number in range(KEPT_LOG_LINES + 5):
        assert view.apply(events.Logged(level="INFO", message=str(number))) == {"log"}
    assert (len(view.log), view.log_count, view.log[-1].message) == (KEPT_LOG_LINES, KEPT_LOG_LINES + 5, str(KEPT_LOG_LINES + 4))


def test_the_clock_changes_once_a_second_and_the_link_when_it_is_another() -> None:
    view = View()
    assert view.tick(10.2) == {"clock"}
    assert view.tick(10.9) == frozenset()
    assert view.tick(11.0) == {"clock"}
    assert "link" in view.set_link(Link("alive"))
    assert view.set_link(Link("alive")) == frozenset()


def test_another_invocation_or_another_journal_forgets_what_was_folded() -> None:
    view = _view(_start(A), _attempt(A), _turn(A, "x", 1, 2))
    assert view.apply(_start(B)) == ALL_AREAS
    assert (view.transcript(A), view.shown, view.running()) == (None, B, [])
    assert view.restart() == ALL_AREAS
    assert (view.run.scenarios, view.shown) == ({}, None)


@pytest.mark.parametrize("chosen", ["nobody", None])
def test_choosing_nobody_follows(chosen: str | None) -> None:
    view = _view(_start(A, B), _attempt(B))
    view.select(chosen)
    assert (view.selected, view.shown) == (None, B)


@given(a_run())
def test_any_run_folds_to_the_state_that_it_has(stream: list[events.Event]) -> None:
    view, state = View(), RunState()
    for event in stream:
        assert view.apply(event) <= ALL_AREAS
        state.apply(event)
    assert view.run.scenarios == state.scenarios
    assert {each.name for each in view.running()} == {name for name, each in state.scenarios.items() if each.status in RUNNING}
    assert view.shown is None or view.shown in state.scenarios
