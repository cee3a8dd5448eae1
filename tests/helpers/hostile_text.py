"""Texts that bots may say and that must not harm a terminal or a column."""

from __future__ import annotations

HOSTILE = (
    "",
    "plain",
    "\x1b[31mred\x1b[0m \x9b2J \x07\x08\x00",
    "[red]not markup[/red] [/INST] [unclosed [@click=app.quit]x[/]",
    "line\nbreak\r\nand\ttab\u2028sep",
    "價格是多少？請告訴我。",
    "한국어 텍스트",
    "family 👨‍👩‍👧‍👦 flag 🇩🇪 tone 👍🏽 heart ❤️ key 1️⃣",
    "e\u0301 a\u0300\u0301\u0302\u0303\u0304\u0305 \u0301start",
    "שלום עולם 123",
    "مرحبا بالعالم",
    "over\u202eride \u2066iso\u2069 \u200fmark \u200b\u2060\ufeff",
    "\ud800 lone",
    "\ue000 private \U000e0041 tag",
    "สวัสดี नमस्ते",
    "\\n not a break",
    "x" * 5000,
    "\x1b]0;title\x07 \x1b]52;c;AAAA\x07 \x1bPq\x1b\\",
)
