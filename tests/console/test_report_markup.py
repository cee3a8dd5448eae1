"""Untrusted text in HTML and XML: whatever it holds, it stays text."""

from __future__ import annotations

import ast
import unicodedata
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hostile_text import HOSTILE
from hypothesis import example, given
from hypothesis import strategies as st

from voiceeval_tui.markup import Html, joined, tag, visible, xml_text

ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.sampled_from(
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "' onmouseover='x",
        "&lt;&amp;&#0;",
        "]]>",
        "<!--",
        "\r\n\r",
        *HOSTILE,
    ]
)


class _Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.text = ""
        self.other: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.other.append(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


@given(ANY_TEXT, ANY_TEXT)
@example("\ud800\x00\x1b", "\u202e</p>")
def test_any_text_stays_text_in_an_element_and_in_an_attribute(content: str, attribute: str) -> None:
    seen = _Seen()
    seen.feed(tag("p", content, title=attribute))
    seen.close()
    assert seen.tags == [("p", [("title", visible(attribute))])]
    assert (seen.text, seen.other) == (visible(content), [])


@given(ANY_TEXT)
def test_what_is_shown_can_be_written_and_hides_nothing(text: str) -> None:
    shown = visible(text)
    shown.encode()
    bidi = {unicodedata.bidirectional(each) for each in shown}
    assert bidi.isdisjoint({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
    assert not any(unicodedata.category(each) in ("Cc", "Cs") for each in shown if each not in "\n\t")


def test_what_people_write_is_left_as_it_is() -> None:
    for text in ("שלום", "👨‍👩‍👧", "สวัสดี", "a\u00a0b", "two\nlines", "co\u00adop"):
        assert visible(text) == text
    assert visible("a\x00\u202eb\ud83d") == "a\\x00\\u202eb\\ud83d"


@pytest.mark.parametrize("name", ["p", "td"])
def test_only_what_tag_made_is_markup(name: str) -> None:
    assert tag(name, tag("b", "<"), "<b>") == f"<{name}><b>&lt;</b>&lt;b&gt;</{name}>"
    assert joined("<", Html("<br>")) == "&lt;<br>"
    assert tag("meta", http_equiv="x", class_=None) == '<meta http-equiv="x">'


@given(ANY_TEXT)
def test_xml_parses_whatever_the_text(text: str) -> None:
    element = ET.Element("a", {"b": xml_text(text)})
    element.text = xml_text(text)
    again = ET.fromstring(ET.tostring(element))
    assert (again.text or "") == xml_text(text).replace("\r\n", "\n").replace("\r", "\n")
    for lost in set(text) - set(xml_text(text)):
        assert unicodedata.category(lost) in ("Cc", "Cs", "Cn"), "only what XML 1.0 has no room for goes"


def test_only_texts_of_our_own_are_taken_for_markup() -> None:
    package = Path(__file__).parents[2] / "voiceeval_tui"
    for path in sorted(package.glob("*.py")):
        if path.name == "markup.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Html":
                names = {each.id for argument in node.args for each in ast.walk(argument) if isinstance(each, ast.Name)}
                assert names <= {"STYLE", "SCRIPT"}, f"{path.name}:{node.lineno}: markup made of something else than `tag`s"
