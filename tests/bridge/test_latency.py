from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.bridge.latency import agent_start, find_handoffs, in_order, overlap_seconds
from voiceeval_engine.bridge.turns import Side, Speech, Turn, TurnTracker

BUFFER = 0.1
"""What the play-out holds speech back, in s."""


def turn(side: Side, start: float, end: float, *, heard: float | None = None) -> Turn:
    """A turn whose speech was sent on from `start` to `end`; it arrived a tenth of a second before."""
    arrived = start - BUFFER
    return Turn(
        side=side,
        text=f"{side} {start:g}",
        start=start,
        end=end,
        start_tick=0,
        end_tick=0,
        speech=True,
        arrived=arrived,
        heard=arrived if heard is None else heard,
        last_arrived=end - BUFFER,
        started=None,
        stopped=None,
    )


def agent(arrived: float, end: float, *, heard: float | None = None) -> Turn:
    return turn("agent", arrived + BUFFER, end, heard=heard)


def user(start: float, end: float) -> Turn:
    return turn("user", start, end)


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([agent(1.0, 3.0)], [], id="the opening turn is no reply"),
        pytest.param([agent(1.0, 3.0), user(4.0, 5.0)], [], id="no reply came"),
        pytest.param([agent(1.0, 3.0), user(4.0, 5.0), agent(5.6, 7.0)], [(1, 2, 600.0)], id="one handoff"),
        pytest.param(
            [user(1.0, 2.0), agent(2.5, 3.0), user(4.0, 5.0), agent(5.7, 6.0)], [(0, 1, 500.0), (2, 3, 700.0)], id="two handoffs"
        ),
        pytest.param([user(1.0, 2.0), user(3.0, 4.0), agent(4.8, 6.0)], [(1, 2, 800.0)], id="the last of several user turns"),
        pytest.param([user(1.0, 2.0), agent(2.5, 3.0), agent(4.0, 5.0)], [(0, 1, 500.0)], id="only the first agent turn replies"),
        pytest.param([user(1.0, 5.0), agent(4.0, 6.0)], [], id="an agent that began before the user's end does not reply"),
        pytest.param([user(1.0, 5.0), agent(4.0, 6.0), agent(7.0, 8.0)], [(0, 2, 2000.0)], id="the turn after an overlap does"),
        pytest.param(
            [user(1.0, 5.0), agent(5.6, 10.0), user(7.0, 8.0), agent(10.6, 12.0)],
            [(0, 1, 600.0), (2, 3, 2600.0)],
            id="a user that barges in is answered by the next turn",
        ),
        pytest.param([user(1.0, 2.0), user(2.2, 9.0), agent(2.5, 3.0)], [(0, 2, 500.0)], id="a later user turn still goes on"),
        pytest.param([user(1.0, 2.0), agent(2.2, 4.0, heard=2.6)], [(0, 1, 600.0)], id="a burst gains nothing"),
        pytest.param([user(1.0, 2.0), agent(2.7, 4.0, heard=2.6)], [(0, 1, 700.0)], id="late audio is late"),
        pytest.param([user(1.0, 2.0), agent(1.9, 4.0, heard=2.1)], [(0, 1, 100.0)], id="a burst before the end, heard after it"),
        pytest.param([user(1.0, 2.0), agent(2.0, 4.0)], [], id="at the very moment of the end is not after it"),
    ],
)
def test_handoffs(turns: list[Turn], expected: list[tuple[int, int, float]]) -> None:
    found = find_handoffs(turns)
    assert [(each.user, each.agent, pytest.approx(each.latency_ms)) for each in found] == expected


def test_handoffs_name_their_turns_in_whatever_order_they_are_given() -> None:
    turns = in_order([agent(5.6, 7.0), user(4.0, 5.0), agent(1.0, 3.0)])
    assert [each.end for each in turns] == [3.0, 5.0, 7.0]
    assert [(each.user, each.agent) for each in find_handoffs(turns)] == [(1, 2)]
    assert [(each.user, each.agent) for each in find_handoffs(turns[::-1])] == [(1, 0)]


def test_overlap_is_how_long_the_other_side_spoke_during_a_turn() -> None:
    turns = [agent(0.9, 5.0), user(2.0, 3.0), user(4.5, 6.0), agent(6.9, 8.0)]
    assert [round(overlap_seconds(each, turns), 3) for each in turns] == [1.5, 1.0, 0.5, 0.0]


TURNS = st.lists(
    st.builds(
        lambda side, start, length, ahead: turn(side, start, start + length, heard=start - BUFFER + ahead),
        st.sampled_from(["agent", "user"]),
        st.floats(0.2, 100),
        st.floats(0, 20),
        st.floats(-1, 5),
    ),
    max_size=20,
)


@given(TURNS)
def test_every_latency_is_positive_and_every_turn_hands_off_at_most_once(turns: list[Turn]) -> None:
    found = find_handoffs(turns)
    assert all(each.latency_ms > 0 for each in found)
    assert all(turns[each.user].side == "user" and turns[each.agent].side == "agent" for each in found)
    assert len({each.user for each in found}) == len({each.agent for each in found}) == len(found)
    for each in found:
        between = [t for t in turns if t.side == "user" and each.user_end < t.end < each.agent_start]
        assert not between
        assert not [t for t in turns if t.side == "agent" and each.user_end < agent_start(t) < each.agent_start]


def test_a_turn_of_text_alone_is_no_side_of_a_handoff() -> None:
    tracker = TurnTracker()
    tracker.advance(1.0, 62)
    tracker.on_started("user", 1.0)
    tracker.on_text("user", "Typed, never heard.", "spoken")
    tracker.on_stopped("user", 1.0)
    tracker.advance(2.0, 125)
    tracker.on_started("agent", 2.0)
    tracker.on_speech("agent", Speech(2.1, 131, 2.1, 2.1))
    tracker.on_text("agent", "Yes?", "spoken")
    turns = tracker.advance(2.2, 137) + tracker.finish(3.0)
    assert [turn.text for turn in tracker.turns] == ["Typed, never heard.", "Yes?"]
    assert turns
    assert find_handoffs(tracker.turns) == []
