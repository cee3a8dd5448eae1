"""Untrusted text made safe to show: what bots, judges and files say reaches a terminal only through here.

May import the standard library only. Rule: console page, "Manners".
"""

from __future__ import annotations


def safe(text: str) -> str:
    """One line without control characters, bidi overrides or lone surrogates: each is shown as its escape instead."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def shortened(text: str, width: int) -> str:
    """`safe` text of at most `width` characters, ending in an ellipsis where it was longer."""
    clean = safe(text)
    return clean if len(clean) <= width else clean[: max(0, width - 1)] + "…"
