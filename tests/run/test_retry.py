"""The retry policy as a table."""

from __future__ import annotations

import pytest

from voiceeval_engine.run.retry import NO_TURNS, Decision, RetryPolicy, decide

LOST = "simulator lost"


@pytest.mark.parametrize(
    ("on_stale", "used", "failure", "turns", "decision"),
    [
        (True, 0, None, 3, Decision("keep")),
        (True, 1, None, 1, Decision("keep")),
        (True, 0, None, 0, Decision("retry", NO_TURNS)),
        (True, 1, None, 0, Decision("keep", NO_TURNS)),
        (False, 0, None, 0, Decision("keep")),
        (True, 0, LOST, 0, Decision("retry", LOST)),
        (True, 0, LOST, 4, Decision("retry", LOST)),
        (True, 1, LOST, 4, Decision("give_up", LOST)),
        (False, 0, LOST, 0, Decision("give_up", LOST)),
    ],
)
def test_an_attempt_is_kept_tried_again_or_given_up(
    on_stale: bool, used: int, failure: str | None, turns: int, decision: Decision
) -> None:
    assert decide(RetryPolicy(on_stale, 1), used, failure=failure, turns=turns) == decision


def test_no_retry_where_none_is_allowed() -> None:
    assert decide(RetryPolicy(True, 0), 0, failure=None, turns=0) == Decision("keep", NO_TURNS)
    assert decide(RetryPolicy(True, 3), 2, failure=LOST, turns=0) == Decision("retry", LOST)
