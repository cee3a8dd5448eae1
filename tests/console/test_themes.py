"""Themes as files: ours are complete and readable, a wrong one is reported and skipped."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from pilots import assert_harmless, lines, text
from screens import until
from textual.color import Color

from voiceeval_engine.run.options import RunOptions
from voiceeval_tui.app import ConsoleApp
from voiceeval_tui.themes import ANSI, DARK, LIGHT, StyleName, ascii_only, load_themes, to_palette, to_textual

GOOD = """
name: mine
dark: true
muted: "#888888"
colors: {primary: "#00f", secondary: "#0f0", accent: "#ff0", foreground: "#fff", background: "#000", surface: "#111", panel: "#222",
         success: "#0f0", warning: "#ff0", error: "#f00"}
"""


def test_ours_are_there_and_without_fault(tmp_path: Path) -> None:
    themes = load_themes(tmp_path)
    assert themes.problems == ()
    assert {DARK, LIGHT, ANSI, "voiceeval-high-contrast"} <= set(themes.by_name)


@pytest.mark.parametrize("name", sorted(load_themes(Path("/nowhere")).by_name))
def test_every_style_is_known_and_readable(name: str) -> None:
    theme = load_themes(Path("/nowhere")).by_name[name]
    palette = to_palette(theme)
    to_textual(theme).to_color_system().generate()
    assert all(palette[style] is not None for style in get_args(StyleName))
    if theme.ansi:
        return
    background, least = Color.parse(theme.colors.background), 7.0 if "contrast" in name else 4.5
    for colour in (
        theme.muted,
        theme.colors.success,
        theme.colors.error,
        theme.colors.warning,
        theme.colors.primary,
        theme.colors.accent,
    ):
        assert _contrast(background, Color.parse(colour)) >= least, colour


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("name: [", "while parsing"),
        ("just text", "valid dictionary"),
        (GOOD.replace("mine", "UPPER CASE"), "name"),
        (GOOD.replace('"#f00"', '"reddish"'), "colors.error"),
        (GOOD.replace("success", "succes"), "colors"),
        (GOOD.replace("dark: true", "dark: perhaps"), "dark"),
        ("\x00", "special characters"),
    ],
)
def test_a_wrong_one_is_reported_and_skipped(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    (tmp_path / "good.yaml").write_text(GOOD)
    themes = load_themes(tmp_path)
    assert "mine" in themes.by_name
    assert len(themes.problems) == 1
    assert "bad.yaml" in themes.problems[0]
    assert why in themes.problems[0]
    assert "\n" not in themes.problems[0]


def test_a_users_theme_takes_the_place_of_ours(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(GOOD.replace("mine", DARK))
    assert load_themes(tmp_path).by_name[DARK].muted == "#888888"


@pytest.mark.parametrize(
    ("environ", "colours", "name"),
    [
        ({}, 1 << 24, DARK),
        ({"COLORFGBG": "0;15"}, 256, LIGHT),
        ({"COLORFGBG": "15;0"}, 256, DARK),
        ({"NO_COLOR": "1"}, 1 << 24, ANSI),
        ({}, 16, ANSI),
    ],
)
def test_the_theme_to_begin_with(tmp_path: Path, environ: dict[str, str], colours: int, name: str) -> None:
    assert load_themes(tmp_path).first(environ, colours=colours) == name


async def test_the_console_tells_of_a_theme_that_it_cannot_use(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("name: [mine\x1b]\n")
    app = ConsoleApp(None, defaults=RunOptions(output_dir=tmp_path), environ={}, themes=load_themes(tmp_path))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: "mine.yaml" in text(pilot))
        assert_harmless(lines(pilot), 80)


def test_themes_follow_each_other_round(tmp_path: Path) -> None:
    themes = load_themes(tmp_path)
    name, seen = DARK, set()
    for _ in themes.by_name:
        seen.add(name)
        name = themes.after(name)
    assert (name, seen) == (DARK, set(themes.by_name))
    assert themes.after("gone") in themes.by_name


@pytest.mark.parametrize(
    ("environ", "only"),
    [({}, False), ({"LANG": "C"}, True), ({"LANG": "de_DE.UTF-8"}, False), ({"LC_ALL": "POSIX", "LANG": "en_US.utf8"}, True)],
)
def test_whether_the_terminal_has_ascii_only(environ: dict[str, str], only: bool) -> None:
    assert ascii_only(environ) is only


def _contrast(one: Color, other: Color) -> float:
    def luminance(colour: Color) -> float:
        parts = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in colour.normalized]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
