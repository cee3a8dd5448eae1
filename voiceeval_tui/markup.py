"""Untrusted text made safe in HTML and XML: what bots, judges and files say reaches a report only through here.

HTML is built from `tag`s: a plain text in one is always escaped, only what `tag` made is not. May import the standard library only.
"""

from __future__ import annotations

import html
import re

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufdd0-\ufdef\ufeff\ufff9-\uffff"
    "\U000e0000-\U000e0fff]"
)
"""Control characters, bidi marks and overrides, lone surrogates, invisible tags; line feeds and tabs are text."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_VOID = frozenset({"br", "col", "link", "meta"})


class Html(str):
    """Markup that is safe as it stands; only `tag` and `joined` make it, and texts of our own."""

    __slots__ = ()


def tag(name: str, /, *content: str, **attributes: str | None) -> Html:
    """An element. Plain texts in content and attributes are escaped, None attributes left out; `class_` is `class`, `_` is `-`."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"' for key, value in attributes.items() if value is not None
    )
    inner = joined(*content)
    return Html(f"<{name}{said}>" if name in _VOID else f"<{name}{said}>{inner}</{name}>")


def joined(*content: str) -> Html:
    """Content in a row, plain texts escaped."""
    return Html("".join(each if isinstance(each, Html) else escaped(each) for each in content))


def escaped(text: str) -> Html:
    """A text for an element or a quoted attribute; what no one would see, or what would turn the line around, is its escape."""
    return Html(html.escape(visible(text)))


def visible(text: str) -> str:
    """A text without characters that hide or disguise something: each is shown as its escape. Line ends are line feeds."""
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))


def xml_text(text: str) -> str:
    """A text without the characters that XML 1.0 cannot hold, not even escaped."""
    return _NOT_XML.sub("", text)
