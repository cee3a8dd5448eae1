"""What a turn's text is made of: pieces joined to one text, and what a bot announced but has not told yet.

A Pipecat server announces a sentence when its sound begins (`bot-output`, "new") and tells it when it was spoken. Where its voice
ends each sentence's sound itself, the words come after "stopped", and the server keeps them back until it speaks again: the last
sentence of a turn is told at the start of the next one, the last of a conversation never. Plain values in, plain values out. May
import the standard library only. Rule: wire page, "Turns".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_NO_SPACE_BEFORE = re.compile(r"[.,!?;:%)\]}’'…、。，！？；：]")


def join_words(pieces: Sequence[str]) -> str:
    """One text from what came piece by piece: verbatim where any piece has white space at an edge, else with single spaces.

    No space goes before punctuation, nor between two CJK characters.
    """
    pieces = [piece for piece in pieces if piece]
    if any(piece != piece.strip() for piece in pieces):
        return "".join(pieces).strip()
    text = ""
    for piece in pieces:
        glued = not text or _NO_SPACE_BEFORE.match(piece) or (_is_cjk(text[-1]) and _is_cjk(piece[0]))
        text += piece if glued else f" {piece}"
    return text


def untold(announced: Sequence[str], told: Sequence[str]) -> str:
    """What is left of the announced sentences when what was told is taken off, without white space.

    Empty where the told is no beginning of the announced: then the words were changed on their way to the voice.
    """
    whole, begun = _squeezed(*announced), _squeezed(*told)
    return whole[len(begun) :] if whole.startswith(begun) else ""


class Owed:
    """Words of a turn that is over, and that were counted as its text before they came: they are not the next turn's."""

    def __init__(self, rest: str = "") -> None:
        self._rest = rest

    def takes(self, piece: str) -> bool:
        """Whether this piece is the next of the owed words; the first that is not ends the debt."""
        words = _squeezed(piece)
        if self._rest and self._rest.startswith(words):
            self._rest = self._rest[len(words) :]
            return True
        self._rest = ""
        return False


def _squeezed(*pieces: str) -> str:
    return "".join("".join(pieces).split())


def _is_cjk(character: str) -> bool:
    return unicodedata.east_asian_width(character) in ("W", "F") and unicodedata.category(character)[0] in "LP"
