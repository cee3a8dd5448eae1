"""What is said to the terminal beside the picture: text for its clipboard (OSC 52) and notifications (OSC 9), through tmux and screen.

Textual writes OSC 52 bare, which ends in the multiplexer. Plain values in, plain values out. May import `text`. Rule: console page,
"Manners".
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

from voiceeval_tui.text import shortened

MAX_BASE64 = 74_994
"""What tmux and many terminals take of a clipboard text; longer ones are dropped whole there, so they are cut here."""
MAX_CLIPBOARD_BYTES = MAX_BASE64 // 4 * 3
MAX_NOTICE = 200

_SCREEN_PART = 200
"""Bytes in one of GNU screen's strings, of which old versions take 256."""
_ESC, _BEL, _ST = "\x1b", "\x07", "\x1b\\"
_SILENT = {"", "dumb", "linux"}
"""Terminals (by TERM) that would print an OSC."""


def for_clipboard(text: str) -> tuple[str, bool]:
    """As much of a text as a clipboard takes, and whether that is all of it."""
    raw = text.encode(errors="replace")
    if len(raw) <= MAX_CLIPBOARD_BYTES:
        return text, True
    return raw[:MAX_CLIPBOARD_BYTES].decode(errors="ignore"), False


def clipboard(text: str, environ: Mapping[str, str]) -> str:
    """The sequence that puts a text, at most `for_clipboard`, into the clipboard of the person's terminal.

    Under a multiplexer it is sent twice: for itself (tmux's `set-clipboard on`) and passed through (its `allow-passthrough on`).
    """
    if environ.get("TERM", "") in _SILENT:
        return ""
    encoded = base64.b64encode(for_clipboard(text)[0].encode(errors="replace")).decode()
    sequence = f"{_ESC}]52;c;{encoded}{_BEL}"
    passed = _passed_through(sequence, environ)
    return sequence if passed == sequence else sequence + passed


def notification(text: str, environ: Mapping[str, str]) -> str:
    """A bell, and an OSC 9 with the text, which is untrusted, where the terminal would not print it."""
    if environ.get("TERM", "") in _SILENT:
        return _BEL
    return _BEL + _passed_through(f"{_ESC}]9;{shortened(text, MAX_NOTICE)}{_BEL}", environ)


def _passed_through(sequence: str, environ: Mapping[str, str]) -> str:
    """The sequence as the multiplexer hands it on. Over SSH only TERM tells of one; what tmux does not know it leaves out."""
    term = environ.get("TERM", "")
    if environ.get("TMUX") or term.startswith("tmux"):
        return f"{_ESC}Ptmux;{sequence.replace(_ESC, _ESC + _ESC)}{_ST}"
    if environ.get("STY") or term.startswith("screen"):
        parts = [sequence[start : start + _SCREEN_PART] for start in range(0, len(sequence), _SCREEN_PART)]
        return "".join(f"{_ESC}P{part}{_ST}" for part in parts)
    return sequence
