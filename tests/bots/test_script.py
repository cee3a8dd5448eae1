from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.bots.script import Attempts, Cue, Manners, Performance, generic_script, is_spoken_over
from voiceeval_engine.scenarios.script import Script, ScriptManners, Step

HELLO, MORE, BYE = Step(say="Hello."), Step(say="More."), Step(say="Bye.", exit="done")


def performance(*steps: Step, attempt: int = 1) -> Performance:
    return Performance(Script(name="x", steps=steps), attempt, 0.6)


def test_the_opening_comes_at_once_and_answers_after_the_delay() -> None:
    play = performance(HELLO, BYE)
    assert play.opening(10.0) == Cue(HELLO, 10.3)
    play.said(HELLO)
    assert play.other_ended(20.0) == Cue(BYE, 20.6, 20.0)
    play.said(BYE)
    assert play.finished
    assert play.other_ended(30.0) is None


def test_a_cue_that_was_not_said_comes_again() -> None:
    play = performance(HELLO, BYE)
    assert play.other_ended(1.0) == Cue(HELLO, 1.6, 1.0)
    assert play.other_ended(2.0) == Cue(HELLO, 2.6, 2.0)


def test_only_a_step_that_barges_in_starts_while_the_other_speaks() -> None:
    rude = Step(say="Wait.", barge_in=1.5)
    play = performance(HELLO, rude)
    assert play.other_started(5.0) is None
    play.said(HELLO)
    assert play.other_started(5.0) == Cue(rude, 6.5)


@given(st.integers(min_value=1, max_value=5), st.integers(min_value=1, max_value=8))
def test_a_stall_on_the_first_attempts_is_passed_over_later(stalls: int, attempt: int) -> None:
    play = performance(Step(stall=stalls), HELLO, attempt=attempt)
    cue = play.opening(0.0)
    assert (cue is None) == (attempt <= stalls)
    assert not play.finished


def test_a_stall_that_stays_says_nothing_on_any_attempt() -> None:
    play = performance(HELLO, Step(stall="always"), BYE, attempt=99)
    play.said(HELLO)
    assert play.other_ended(1.0) is None
    assert not play.finished


def test_a_repeated_step_never_ends() -> None:
    again = Step(say="And again.", repeat=True)
    play = performance(again, BYE)
    for turn in range(5):
        play.said(again)
        assert play.other_ended(float(turn)) == Cue(again, turn + 0.6, turn)


def test_attempts_are_counted_by_side_and_script_until_one_finishes() -> None:
    attempts = Attempts()
    assert [attempts.begin("agent", "a"), attempts.begin("agent", "a"), attempts.begin("user", "a")] == [1, 2, 1]
    attempts.finished("agent", "a")
    assert attempts.begin("agent", "a") == 1


@pytest.mark.parametrize(
    ("now", "talking_since", "other_since", "yields"),
    [
        (5.31, 4.0, 5.0, True),
        (5.29, 4.0, 5.0, False),
        (9.0, 5.0, 4.0, False),
        (9.0, 5.0, None, False),
    ],
)
def test_a_bot_yields_to_speech_that_began_later_and_lasts(
    now: float, talking_since: float, other_since: float | None, yields: bool
) -> None:
    assert is_spoken_over(now, talking_since, other_since) is yields


def test_a_script_changes_only_the_manners_it_names() -> None:
    manners = Manners(rate=8000, speed=3.0).overridden(ScriptManners(speed=1.0, stopped_after=None))
    assert manners == Manners(rate=8000, speed=1.0, stopped_after=None)


@given(st.floats(min_value=0.1, max_value=10))
def test_the_end_of_speech_is_known_before_the_answer_is_due(delay: float) -> None:
    assert (0.2 if delay >= 0.3 else 0.04) < Manners(delay=delay).hang_over < delay


def test_small_talk_ends_with_the_agent() -> None:
    assert generic_script("agent").steps[-1].exit
    assert not any(step.exit for step in generic_script("user").steps)
