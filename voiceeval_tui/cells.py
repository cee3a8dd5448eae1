"""Untrusted text put into columns: what is drawn has exactly as many cells as are counted, on every terminal.

Terminals disagree about joined emoji, flags, variation selectors and skin tones, and those that know right-to-left text move neighbours
about. So such marks are left out, flags become their two letters, piles of combining marks are cut, and right-to-left text stands between
marks that keep its neighbours in place. May import `text` and rich's table of widths. Rule: console page, "Manners".
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from rich.cells import cell_len, get_character_cell_size

from voiceeval_tui.text import safe

Align = Literal["left", "right"]

MAX_MARKS = 3
"""Combining marks kept on one character; more would reach into other lines."""

_REMEMBERED = 200
"""Characters of a text that is worth keeping for the next time."""

_LEFT_OUT = re.compile("[\u200c\u200d\ufe00-\ufe0f\u20e3\U0001f3fb-\U0001f3ff]")
_FLAG_LETTER = re.compile("[\U0001f1e6-\U0001f1ff]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff]")
_LEFT_TO_RIGHT_MARK = "\u200e"
_CARRIER = "◌"
_ASCII = str.maketrans(
    {
        **dict.fromkeys("─━═╌╍┄┅▔▁", "-"),
        **dict.fromkeys("│┃║▏▕▎", "|"),
        **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯┏┓┗┛╔╗╚╝", "+"),
        **dict.fromkeys("▂▃", "."),
        **dict.fromkeys("▄▅", "="),
        **dict.fromkeys("▆▇█▓▒░▀▌▐", "#"),
        **dict.fromkeys("●◆■▪•∎", "*"),
        **dict.fromkeys("○◌◇□", "o"),
        "✓": "v", "✗": "x", "▶": ">", "▸": ">", "◀": "<", "→": ">", "←": "<", "↑": "^", "↓": "v", "▲": "^", "▼": "v",
        "…": "~", "·": ".", "–": "-", "—": "-", "‘": "'", "’": "'", "“": '"', "”": '"', "\u00a0": " ", _LEFT_TO_RIGHT_MARK: "",
    }
)  # fmt: skip


def drawable(text: str) -> str:
    """One line of untrusted text as it may be drawn, any length."""
    if text.isascii():
        return safe(text)
    return _drawable(text) if len(text) <= _REMEMBERED else _drawable.__wrapped__(text)


def width(text: str) -> int:
    """The cells that `drawable` text takes."""
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, cells: int, align: Align = "left") -> str:
    """Untrusted text in exactly `cells` cells: cut with an ellipsis, or filled with spaces."""
    clean = drawable(text[: 4 * cells + 16] if len(text) > 4 * cells + 16 else text)
    taken = width(clean)
    if taken > cells:
        clean = _cut(clean, cells - 1) + "…" if cells > 1 else _cut(clean, cells)
        taken = width(clean)
    blank = " " * (cells - taken)
    return blank + clean if align == "right" else clean + blank


def isolated(text: str) -> str:
    """Drawable text as it goes to the terminal: right-to-left letters do not move what stands beside them."""
    if text.isascii() or not _RIGHT_TO_LEFT.search(text):
        return text
    return f"{_LEFT_TO_RIGHT_MARK}{text}{_LEFT_TO_RIGHT_MARK}"


def short_name(name: str, cells: int) -> str:
    """A long name of a scenario gives up letters of its domain first: what tells scenarios apart stands at the end."""
    domain, mark, rest = name.partition("__")
    if len(name) <= cells or not mark:
        return name
    return f"{domain[: max(1, cells - len(rest) - 1)]}…{rest}"


def wrap(text: str, cells: int, most: int = 50, first: int | None = None) -> list[str]:
    """Untrusted text broken into lines of at most `cells` cells, at spaces where there are any; at most `most` lines, the last one cut.

    The first line has `first` cells where another number is given.
    """
    left = drawable(text.strip())
    lines: list[str] = []
    while left and len(lines) < most:
        room = max(1, cells if lines or first is None else first)
        part = _cut(left, room)
        if len(part) == len(left):
            lines.append(left)
            break
        if len(lines) == most - 1:
            lines.append(fit(left, room).rstrip())
            break
        part = part or left[0]
        if not left.startswith(" ", len(part)) and (space := part.rfind(" ")) > 0:
            part = part[:space]
        lines.append(part.rstrip())
        left = left[len(part) :].lstrip()
    return lines or [""]


def to_ascii(text: str) -> str:
    """Drawable text for a terminal that has ASCII only, cell for cell: what has no likeness becomes question marks."""
    if text.isascii():
        return text
    return "".join(each if each.isascii() else "?" * cell_len(each) for each in text.translate(_ASCII))


@lru_cache(4096)
def _drawable(text: str) -> str:
    text = _LEFT_OUT.sub("", text)
    text = _FLAG_LETTER.sub(lambda match: chr(ord(match[0]) - 0x1F1E6 + ord("A")), text)
    text = safe(text)
    if text.isascii() or all(map(get_character_cell_size, text)):
        return text
    kept: list[str] = []
    marks = MAX_MARKS
    for each in text:
        if get_character_cell_size(each) > 0:
            marks = 0
        elif marks == MAX_MARKS:
            if kept:
                continue
            kept.append(_CARRIER)
            marks = 1
        else:
            marks += 1
        kept.append(each)
    return "".join(kept)


def _cut(text: str, cells: int) -> str:
    """The longest beginning of drawable text that fits."""
    if text.isascii():
        return text[: max(0, cells)]
    taken = 0
    for number, each in enumerate(text):
        taken += get_character_cell_size(each)
        if taken > cells:
            return text[:number]
    return text
