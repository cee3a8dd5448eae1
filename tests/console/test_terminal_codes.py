"""What is sent to the terminal for its clipboard and as a notification."""

from __future__ import annotations

import base64
import re

import pytest
from hostile_text import HOSTILE

from voiceeval_tui.terminal_codes import MAX_BASE64, clipboard, for_clipboard, notification

XTERM = {"TERM": "xterm-256color"}
TMUX = {"TERM": "screen-256color", "TMUX": "/tmp/tmux-0/default,1,0"}
SCREEN = {"TERM": "screen", "STY": "1.pts"}


def _payload(sequence: str) -> str:
    return base64.b64decode(sequence.split("]52;c;")[1].partition("\x07")[0]).decode()


def test_a_bare_terminal_gets_osc_52() -> None:
    assert clipboard("a ü", XTERM) == f"\x1b]52;c;{base64.b64encode('a ü'.encode()).decode()}\x07"


@pytest.mark.parametrize("environ", [TMUX, {"TERM": "tmux-256color"}])
def test_tmux_gets_it_for_itself_and_to_pass_through(environ: dict[str, str]) -> None:
    bare = clipboard("text", XTERM)
    assert clipboard("text", environ) == bare + "\x1bPtmux;" + bare.replace("\x1b", "\x1b\x1b") + "\x1b\\"


@pytest.mark.parametrize("environ", [SCREEN, {"TERM": "screen.xterm-256color"}])
def test_screen_gets_it_in_parts_that_it_takes(environ: dict[str, str]) -> None:
    bare = clipboard("x" * 3000, XTERM)
    parts = re.findall(r"\x1bP(.*?)\x1b\\", clipboard("x" * 3000, environ).removeprefix(bare), re.DOTALL)
    assert "".join(parts) == bare
    assert max(map(len, parts)) <= 250


@pytest.mark.parametrize("term", ["linux", "dumb", ""])
def test_a_terminal_that_would_print_it_gets_none(term: str) -> None:
    assert clipboard("text", {"TERM": term}) == ""
    assert notification("text", {"TERM": term}) == "\x07"


@pytest.mark.parametrize("text", ["x" * 200_000, "é" * 100_000, "價" * 100_000, "👍" * 100_000])
def test_a_long_text_is_cut_at_a_character(text: str) -> None:
    kept, whole = for_clipboard(text)
    assert not whole
    assert text.startswith(kept)
    assert MAX_BASE64 - 8 <= len(base64.b64encode(kept.encode())) <= MAX_BASE64
    assert _payload(clipboard(text, XTERM)) == kept


def test_a_text_that_just_fits_is_whole() -> None:
    assert for_clipboard("x" * (MAX_BASE64 // 4 * 3)) == ("x" * (MAX_BASE64 // 4 * 3), True)


@pytest.mark.parametrize("environ", [XTERM, TMUX, SCREEN])
@pytest.mark.parametrize("text", HOSTILE)
def test_a_notification_holds_no_escape_of_the_text(text: str, environ: dict[str, str]) -> None:
    sent = notification(text, environ)
    assert sent.startswith("\x07")
    inner = sent[1:].replace("\x1bPtmux;", "").replace("\x1b\x1b", "\x1b").replace("\x1bP", "").replace("\x1b\\", "")
    assert re.fullmatch(r"\x1b\]9;[^\x00-\x1f\x7f-\x9f\u202e]{0,200}\x07", inner)
