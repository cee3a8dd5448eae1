"""What a bot announced and has not told yet, and who the words belong to that come after their turn."""

from __future__ import annotations

import pytest

from voiceeval_engine.bridge.words import Owed, untold


@pytest.mark.parametrize(
    ("announced", "told", "rest"),
    [
        (("One two.", "Three."), ("One two.",), "Three."),
        (("One two.", "Three."), (), "Onetwo.Three."),
        (("One two.",), ("One",), "two."),
        (("One two.",), ("One ", "two."), ""),
        (("One two.",), ("one two.",), ""),
        (("It is $5.",), ("It", "is", "five", "dollars."), ""),
        (("One.",), ("One.", "Two."), ""),
        ((), ("One.",), ""),
        ((), (), ""),
        (("你好。", "再见。"), ("你好。",), "再见。"),
    ],
)
def test_what_is_left_of_the_announced(announced: tuple[str, ...], told: tuple[str, ...], rest: str) -> None:
    assert untold(announced, told) == rest


def test_owed_words_are_taken_in_order_whole_or_word_by_word() -> None:
    owed = Owed("Thatisall.")
    assert [owed.takes(piece) for piece in ("That is", " ", "all.", "all.")] == [True, True, True, False]


def test_the_first_words_that_are_not_owed_end_the_debt() -> None:
    owed = Owed("That.")
    assert [owed.takes(piece) for piece in ("This.", "That.")] == [False, False]
