"""When the console rings: for what is new, and seldom."""

from __future__ import annotations

from typing import Any

import pytest
from sessions import scored, started

from voiceeval_engine.live import events
from voiceeval_tui.notices import EVERY_SECONDS, Notices
from voiceeval_tui.view import Link

ALIVE = Link("alive")
ENDED = events.RunEnded(complete=True, reason="finished", files=[])
OUT = events.PairOut(pair=1, reason="agent ws://a does not answer", since=1.0)


def _stalled(name: str = "a", attempt: int = 1, **values: Any) -> events.ScenarioScored:
    return scored(name, attempt, stalled=True, verdict=False, **values)


@pytest.fixture
def caught_up() -> Notices:
    notices = Notices()
    notices.note([started(["a", "b"])], ALIVE, behind=False, restarted=True)
    return notices


@pytest.mark.parametrize("event", [ENDED, OUT, _stalled()])
def test_what_stood_in_the_journal_rings_nothing(event: events.Event) -> None:
    notices = Notices()
    for behind in (True, True, False):
        notices.note([event], Link("opening"), behind=behind)
    notices.note([], ALIVE, behind=False)
    assert notices.due(100.0) is None


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (ENDED, "the run is complete"), (OUT, "pair 2 is out: agent ws://a does not answer"), (_stalled(), "a stalled"),
        (events.Paused(reason="the disk is full"), "the run pauses: the disk is full"),
        (events.RunEnded(complete=False, reason="stopped by the operator", files=[]), "the run has ended: stopped by the operator"),
    ],
)  # fmt: skip
def test_what_is_new_rings_once(caught_up: Notices, event: events.Event, words: str) -> None:
    caught_up.note([event], ALIVE, behind=False)
    assert caught_up.due(1.0) == words
    assert caught_up.due(100.0) is None


@pytest.mark.parametrize(
    "event",
    [
        scored("a"),
        _stalled(attempt=0),
        events.PairBack(pair=1),
        events.Paused(reason=events.BY_OPERATOR),
        events.Logged(level="ERROR", message="x"),
    ],
)
def test_other_events_ring_nothing(caught_up: Notices, event: events.Event) -> None:
    caught_up.note([event], ALIVE, behind=False)
    assert caught_up.due(1.0) is None


def test_a_stall_is_told_once_though_its_verdict_comes_later(caught_up: Notices) -> None:
    caught_up.note([_stalled(pending=True)], ALIVE, behind=False)
    assert caught_up.due(1.0) == "a stalled"
    caught_up.note([_stalled()], ALIVE, behind=False)
    assert caught_up.due(100.0) is None
    caught_up.note([_stalled(attempt=2)], ALIVE, behind=False)
    assert caught_up.due(200.0) == "a stalled"


def test_many_events_ring_once_and_the_most_urgent_come_first(caught_up: Notices) -> None:
    caught_up.note([_stalled(), OUT, _stalled("b"), _stalled("c"), ENDED], ALIVE, behind=False)
    assert caught_up.due(1.0) == "the run is complete; pair 2 is out: agent ws://a does not answer; a stalled; and 2 other events"


def test_what_comes_too_soon_waits(caught_up: Notices) -> None:
    caught_up.note([_stalled()], ALIVE, behind=False)
    assert caught_up.due(10.0) == "a stalled"
    caught_up.note([_stalled("b")], ALIVE, behind=False)
    assert caught_up.due(10.0 + EVERY_SECONDS - 0.1) is None
    assert caught_up.due(10.0 + EVERY_SECONDS) == "b stalled"


def test_another_journal_is_read_in_silence(caught_up: Notices) -> None:
    caught_up.note([_stalled()], ALIVE, behind=False)
    caught_up.note([_stalled("b"), ENDED], ALIVE, behind=False, restarted=True)
    assert caught_up.due(100.0) is None


def test_an_engine_that_goes_rings_once(caught_up: Notices) -> None:
    for _ in range(3):
        caught_up.note([], Link("gone"), behind=False)
    assert caught_up.due(1.0) == "the engine is gone and the run has not ended"
    assert caught_up.due(100.0) is None


def test_an_engine_whose_last_words_come_a_look_later_is_not_missed(caught_up: Notices) -> None:
    caught_up.note([], Link("gone"), behind=False)
    caught_up.note([ENDED], Link("finished"), behind=False)
    assert caught_up.due(1.0) == "the run is complete"


def test_a_session_that_is_dead_when_it_is_opened_rings_nothing() -> None:
    notices = Notices()
    for _ in range(3):
        notices.note([], Link("gone"), behind=False)
    assert notices.due(1.0) is None
