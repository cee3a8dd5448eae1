"""Cells of a stretch of a conversation: what each stands for, and where times and latencies are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_tui.tape import SCALES, Gap, Stretch, best_scale, gaps, lanes, newest, ticks
from voiceeval_tui.transcript import Line, Speech


def test_a_cell_is_what_most_of_it_is() -> None:
    speech = [Speech("user", 0.0, 2.0), Speech("user", 3.0, 3.4), Speech("agent", 5.0, None)]
    found = lanes(Stretch(0.0, 1.0, 10), speech, [], [], now=7.0)
    assert found == {"user": "██─▄────  ", "agent": "─────██─  "}


def test_brief_pauses_between_sentences_do_not_break_a_block() -> None:
    speech = [Speech("agent", 0.0, 0.9), Speech("agent", 0.92, 2.0)]
    assert lanes(Stretch(0.0, 1.0, 3), speech, [], [], now=3.0)["agent"] == "██─"


def test_where_both_speak_stands_in_both_lanes_but_not_for_an_instant() -> None:
    speech = [Speech("user", 0.0, 3.0), Speech("agent", 2.0, 5.0)]
    assert lanes(Stretch(0.0, 1.0, 5), speech, [], [], 5.0) == {"user": "██x──", "agent": "──x██"}
    speech = [Speech("user", 0.0, 2.05), Speech("agent", 2.0, 5.0)]
    assert "x" not in lanes(Stretch(0.0, 1.0, 5), speech, [], [], 5.0)["user"]


def test_interruptions_stand_in_the_lane_of_who_was_interrupted() -> None:
    found = lanes(Stretch(0.0, 1.0, 4), [Speech("agent", 0.0, 3.0)], [("agent", 2.5), ("user", 99.0)], [], 4.0)
    assert found == {"agent": "██!─", "user": "────"}


def test_a_latency_is_a_wait_before_the_agents_answer() -> None:
    waits = gaps(
        [Line("turn", "agent", "Yes.", 4.0, 2000.0), Line("turn", "user", "No.", 6.0), Line("turn", "agent", "So.", 0.5, 900.0)]
    )
    assert waits == [Gap(2.0, 4.0, 2000.0), Gap(0.0, 0.5, 900.0)]
    speech = [Speech("user", 0.5, 2.0), Speech("agent", 4.0, 6.0)]
    assert lanes(Stretch(0.0, 1.0, 7), speech, [], waits, 7.0)["agent"] == "·─··██─"


def test_only_what_is_within_the_stretch_is_drawn() -> None:
    speech = [Speech("user", 0.0, 12.0), Speech("user", 18.5, 40.0)]
    assert lanes(Stretch(10.0, 1.0, 10), speech, [("user", 3.0)], [Gap(1.0, 2.0, 1000.0)], 50.0)["user"] == "██──────▄█".replace(
        "▄", "█"
    )


@given(
    st.floats(0, 500),
    st.sampled_from(SCALES),
    st.integers(1, 300),
    st.lists(st.tuples(st.sampled_from(["agent", "user"]), st.floats(0, 600), st.floats(0, 60)), max_size=30),
    st.floats(0, 700),
)
def test_lanes_have_their_cells_whatever_was_said(
    start: float, scale: float, cells: int, spans: list[tuple[str, float, float]], now: float
) -> None:
    speech = [Speech(side, begin, begin + length) for side, begin, length in spans]  # type: ignore[arg-type]
    waits = [Gap(begin, begin + length, 1.0) for _, begin, length in spans]
    stretch = Stretch(start, scale, cells)
    found = lanes(stretch, speech, [(each.side, each.start) for each in speech], waits, now)
    assert [len(found[side]) for side in ("agent", "user")] == [cells, cells]
    assert all(0 <= place < cells for place, _ in ticks(stretch))


@pytest.mark.parametrize("cells", [10, 28, 44, 68, 113, 300])
def test_a_minute_or_two_are_in_view(cells: int) -> None:
    seconds = cells * SCALES[best_scale(cells)]
    assert 60 <= seconds <= max(120, cells * 0.5)


def test_times_stand_at_round_moments_with_room_between_them() -> None:
    assert ticks(Stretch(0.0, 1.0, 45)) == [(0, 0), (10, 10), (20, 20), (30, 30), (40, 40)]
    assert ticks(Stretch(57.0, 3.0, 30)) == [(1, 60), (11, 90), (21, 120)]


def test_what_follows_moves_on_by_steps() -> None:
    assert [newest(end, 1.0, 60, 10) for end in (0.0, 59.0, 60.0, 69.9, 70.0)] == [0.0, 0.0, 10.0, 10.0, 20.0]
    assert [newest(end, 0.5, 60, 60) for end in (29.9, 30.0, 59.9, 60.0)] == [0.0, 30.0, 30.0, 60.0]
