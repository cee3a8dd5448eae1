"""Untrusted text in columns: exactly as wide as asked, nothing in it that a terminal obeys."""

from __future__ import annotations

import unicodedata

import pytest
from hostile_text import HOSTILE
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from voiceeval_tui.cells import drawable, fit, isolated, to_ascii, width, wrap
from voiceeval_tui.text import safe


def _harmless(text: str) -> bool:
    return all(unicodedata.category(each) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} for each in text)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("cells", [0, 1, 2, 5, 20, 80])
def test_a_column_is_as_wide_as_it_is_asked_to_be(text: str, cells: int) -> None:
    for align in ("left", "right"):
        shown = fit(text, cells, align)  # type: ignore[arg-type]
        assert cell_len(shown) == cells
        assert _harmless(shown)


@given(st.text(), st.integers(0, 40))
def test_any_text_fits(text: str, cells: int) -> None:
    shown = fit(text, cells)
    assert cell_len(shown) == cells
    assert _harmless(shown)


@given(st.text(max_size=200), st.integers(2, 40))
def test_wrapped_lines_fit_and_lose_no_word(text: str, cells: int) -> None:
    lines = wrap(text, cells, most=1000)
    assert all(width(line) <= cells for line in lines)
    assert "".join("".join(lines).split()) == "".join(drawable(text.strip()).split())


def test_a_text_of_many_lines_is_cut() -> None:
    lines = wrap("word " * 100, 10, most=3)
    assert lines == ["word word", "word word", "word word…"]


@given(st.text())
def test_what_was_made_safe_once_stays_as_it_is(text: str) -> None:
    assert safe(safe(text)) == safe(text)
    assert drawable(drawable(text)) == drawable(text)


def test_right_to_left_text_stands_between_marks() -> None:
    assert isolated(fit("שלום", 6)) == "\u200eשלום  \u200e"
    assert isolated("plain é") == "plain é"
    assert cell_len(isolated(fit("مرحبا", 9))) == 9


def test_joined_emoji_flags_and_tones_are_taken_apart() -> None:
    assert drawable("👨‍👩‍👧 🇩🇪 👍🏽 ❤️") == "👨👩👧 DE 👍 ❤"


def test_piles_of_marks_are_cut_and_a_mark_of_nothing_gets_a_carrier() -> None:
    assert drawable("a" + "\u0301" * 10) == "a" + "\u0301" * 3
    assert drawable("\u0301x") == "◌\u0301x"


@pytest.mark.parametrize("text", HOSTILE)
def test_ascii_takes_the_same_cells(text: str) -> None:
    shown = fit(text, 30)
    assert to_ascii(shown).isascii()
    assert len(to_ascii(shown)) == 30
    assert to_ascii("── ✓ ✗ ▶ … │") == "-- v x > ~ |"
