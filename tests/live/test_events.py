"""Events as lines: every kind comes back as it went, whatever bots put into the texts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_events import KINDS, of_kind

from voiceeval_engine.live.events import MAX_TEXT, BadEvent, Logged, clip, parse_event, to_line


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=20)
@given(data=st.data())
def test_every_event_comes_back_from_its_line(kind: type[Any], data: st.DataObject) -> None:
    event = data.draw(of_kind(kind))
    line = to_line(event)
    assert "\n" not in line
    assert parse_event(line) == event
    assert parse_event(line.encode() + b"\n") == event


def test_every_kind_has_a_name_of_its_own() -> None:
    assert len({kind.model_fields["type"].default for kind in KINDS}) == len(KINDS)


@given(st.text(st.characters(), max_size=50))
def test_any_text_can_be_told_once_it_is_clipped(text: str) -> None:
    event = Logged(level="INFO", message=clip(text))
    assert parse_event(to_line(event)) == event


def test_a_long_text_is_cut_and_says_so() -> None:
    assert clip("x" * MAX_TEXT) == "x" * MAX_TEXT
    assert clip("x" * (MAX_TEXT + 1)) == "x" * (MAX_TEXT - 1) + "…"


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_what_is_no_event_is_a_bad_event(line: bytes | str) -> None:
    with pytest.raises(BadEvent):
        parse_event(line)
