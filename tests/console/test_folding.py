"""Where panes stand: no size leaves a hole, an overlap, or the stage out of sight."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_tui.folding import Box, fold

ALL = ["queue", "transcript", "latency", "trouble", "lanes", "details", "log"]


@given(
    st.integers(1, 300),
    st.integers(1, 100),
    st.lists(st.sampled_from(ALL), unique=True, min_size=1).flatmap(
        lambda panes: st.tuples(st.just(panes), st.sampled_from(panes))
    ),
    st.booleans(),
)
def test_boxes_cover_the_board_once(width: int, height: int, chosen: tuple[list[str], str], zoomed: bool) -> None:
    panes, stage = chosen
    boxes = fold(width, height, panes, stage, zoomed=zoomed)
    assert stage in boxes
    assert set(boxes) <= set(panes)
    assert all(box.width > 0 and box.height > 0 for box in boxes.values())
    assert sum(box.width * box.height for box in boxes.values()) == width * height
    assert all(0 <= box.x <= width - box.width and 0 <= box.y <= height - box.height for box in boxes.values())


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        ((50, 12), {"queue"}),
        ((80, 21), {"queue", "transcript", "latency", "trouble"}),
        ((120, 37), {"queue", "transcript", "latency", "trouble", "lanes"}),
        ((200, 47), {"queue", "transcript", "details", "latency", "trouble", "lanes"}),
    ],
)
def test_what_shows_at_a_size(size: tuple[int, int], shown: set[str]) -> None:
    assert set(fold(*size, ALL, "queue")) == shown


def test_a_zoomed_pane_is_alone() -> None:
    assert fold(200, 47, ALL, "latency", zoomed=True) == {"latency": Box(0, 0, 200, 47)}


def test_a_board_without_room_shows_nothing() -> None:
    assert fold(0, 10, ALL, "queue") == {}
