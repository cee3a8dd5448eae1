"""The run's latencies beside the fold: the engine's percentiles, the order of their happening, nothing of attempts that do not count."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_events import a_run
from sessions import attempt, scored, started

from voiceeval_engine.live import events
from voiceeval_engine.live.state import percentile
from voiceeval_tui.measurements import MAX_RECENT, Measurements
from voiceeval_tui.view import View

A, B = "cafe__a", "cafe__b"


def answer(name: str, latency: float, number: int = 1) -> events.TurnEnded:
    return events.TurnEnded(scenario=name, attempt=number, side="agent", text="x", start=1, end=2, latency_ms=latency)


def view_of(*stream: events.Event) -> View:
    view = View()
    view.apply_all([started([A, B]), *stream])
    return view


@given(a_run(), st.integers(1, 7))
def test_they_are_the_run_s_whatever_happens(stream: list[events.Event], every: int) -> None:
    view = View()
    for number, event in enumerate(stream):
        view.apply(event)
        if number % every == 0:
            assert list(view.measured.ordered) == sorted(view.run.latencies)
    assert list(view.measured.ordered) == sorted(view.run.latencies)
    assert sorted(view.measured.last(MAX_RECENT)) == sorted(view.run.latencies)
    for share in (0.0, 0.5, 0.95, 1.0):
        assert view.measured.percentile(share) == percentile(view.run.latencies, share)


def test_the_last_stand_in_the_order_of_their_happening() -> None:
    view = view_of(*attempt(A), *attempt(B), answer(B, 5.0), answer(A, 9.0), answer(B, 7.0))
    assert view.measured.last(2) == [9.0, 7.0]
    assert view.measured.last(9) == [5.0, 9.0, 7.0]
    view.apply(scored(B, latencies=[5.0, 7.0]))
    assert view.measured.last(9) == [5.0, 9.0, 7.0]
    view.apply(scored(B, latencies=[5.5, 7.5]))
    assert view.measured.last(9) == [5.5, 9.0, 7.5]
    view.apply(scored(B, latencies=[6.0]))
    assert view.measured.last(9) == [9.0, 6.0]


def test_a_discarded_attempt_leaves_nothing() -> None:
    view = view_of(*attempt(A), *attempt(B), answer(A, 5.0), answer(B, 9.0), answer(A, 6.0))
    before = view.measured.version
    view.apply(events.AttemptDiscarded(scenario=A, attempt=1, reason="0 turns", retry_in=1.0))
    assert (view.measured.last(9), list(view.measured.ordered)) == ([9.0], [9.0])
    assert view.measured.version != before


def test_an_attempt_whose_beginning_is_lost_leaves_nothing_of_the_one_before() -> None:
    view = view_of(*attempt(A), answer(A, 5.0))
    assert "latency" in view.apply(events.Words(scenario=A, attempt=2, side="agent", text="x", at=1.0))
    assert view.measured.last(9) == []


@pytest.mark.parametrize("again", [started([A]), None])
def test_another_run_begins_without_any(again: events.Event | None) -> None:
    view = view_of(*attempt(A), answer(A, 5.0))
    if again is None:
        view.restart()
    else:
        view.apply(again)
    assert (view.measured.last(9), view.measured.percentile(0.5)) == ([], None)


def test_ten_thousand_are_not_sorted_anew_for_every_answer() -> None:
    measured = Measurements()
    values = [random.lognormvariate(6.7, 0.4) for _ in range(10_000)]
    measured.put(A, values)
    assert len(measured.last(MAX_RECENT + 9)) == MAX_RECENT
    first = measured.ordered
    assert measured.ordered is first, "with nothing new, nothing is done"
    began = time.perf_counter()
    for _ in range(100):
        values.append(800.0)
        measured.put(A, values)
        assert measured.percentile(0.5) is not None
    assert time.perf_counter() - began < 0.5
    assert list(measured.ordered) == sorted(values)
