"""Themes: one YAML file each, ours in `themes/`, the user's in the configuration directory; a wrong one is reported and skipped.

Panes name what a text is ("bad", "agent"), never a colour; `to_palette` says how that looks under a theme. May import Textual, pydantic,
yaml, platformdirs. Rule: console page, "Manners".
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

import yaml
from platformdirs import user_config_path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from rich.style import Style
from textual.color import Color, ColorParseError
from textual.theme import Theme

StyleName = Literal[
    "text", "dim", "strong", "ok", "bad", "warn", "info", "agent", "user", "accent", "title", "cursor", "cursor-idle"
]  # fmt: skip
"""What a text can be. `cursor` is the chosen line of the pane that has the focus, `cursor-idle` of another one."""

DARK, LIGHT, ANSI = "voiceeval-dark", "voiceeval-light", "voiceeval-16"


def _colour(value: str) -> str:
    try:
        Color.parse(value)
    except ColorParseError as error:
        raise ValueError(f"{value!r} is no colour") from error
    return value


Colour = Annotated[str, AfterValidator(_colour)]


class Colors(BaseModel):
    """The colours of a theme: `#rrggbb`, or `ansi_red` and the like for the terminal's own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    primary: Colour
    secondary: Colour
    accent: Colour
    foreground: Colour
    background: Colour
    surface: Colour
    panel: Colour
    success: Colour
    warning: Colour
    error: Colour


class ThemeFile(BaseModel):
    """What a theme's file holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    dark: bool
    ansi: bool = False
    """Whether the colours are the terminal's own sixteen."""
    muted: Colour
    """Of what matters less, still readable on the background."""
    colors: Colors


class BadTheme(Exception):
    """A file that is no theme; the message says which and why."""


@dataclass(frozen=True)
class Themes:
    """The themes that can be chosen, ours first, and what was wrong with others."""

    by_name: Mapping[str, ThemeFile]
    problems: tuple[str, ...]

    def first(self, environ: Mapping[str, str], *, colours: int) -> str:
        """The theme to begin with. `colours` is how many the terminal has; COLORFGBG tells a light one."""
        if environ.get("NO_COLOR") or colours <= 16:
            return ANSI
        return LIGHT if environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15") else DARK

    def after(self, name: str) -> str:
        """The next one to `t`."""
        names = list(self.by_name)
        return names[(names.index(name) + 1) % len(names)] if name in names else names[0]


Palette = Mapping[StyleName, Style]
"""How what a text is looks under a theme."""


def to_palette(theme: ThemeFile) -> Palette:
    """What panes paint with under this theme."""
    colors = theme.colors
    strong = Style(bold=True)
    return {
        "text": Style(),
        "dim": _paint(theme.muted),
        "strong": strong,
        "ok": _paint(colors.success),
        "bad": _paint(colors.error) + strong,
        "warn": _paint(colors.warning),
        "info": _paint(colors.primary),
        "agent": _paint(colors.primary),
        "user": _paint(colors.secondary),
        "accent": _paint(colors.accent),
        "title": strong,
        "cursor": Style(reverse=True),
        "cursor-idle": Style(bold=True, underline=True) if theme.ansi else _paint(None, colors.panel) + strong,
    }


def to_textual(theme: ThemeFile) -> Theme:
    variables = {"muted": theme.muted, "rule": theme.muted if theme.ansi else theme.colors.panel}
    if theme.ansi:
        variables["ansi-background"] = theme.colors.background  # Textual's own style sheet asks for it
    return Theme(name=theme.name, dark=theme.dark, ansi=theme.ansi, variables=variables, **theme.colors.model_dump())


def load_themes(config_dir: Path | None = None) -> Themes:
    """Ours and the user's; a user's of the same name takes the place of ours. Raises nothing for files that are wrong."""
    users = config_dir if config_dir is not None else user_config_path("voiceeval-tui") / "themes"
    found: dict[str, ThemeFile] = {}
    problems: list[str] = []
    for folder in (_shipped(), users):
        for path in sorted(folder.glob("*.yaml")) if folder.is_dir() else ():
            try:
                theme = read_theme(path)
            except BadTheme as error:
                problems.append(str(error))
            else:
                found[theme.name] = theme
    return Themes(found, tuple(problems))


def read_theme(path: Path) -> ThemeFile:
    """One theme's file; raises BadTheme."""
    try:
        return ThemeFile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BadTheme(f"theme {path}: {where + ': ' if where else ''}{first['msg']}") from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise BadTheme(f"theme {path}: {' '.join(str(error).split())}") from error


def ascii_only(environ: Mapping[str, str]) -> bool:
    """Whether the terminal shows ASCII only, by what its locale says; where nothing is said, it is taken to be able."""
    locale = next((environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), "")
    return bool(locale) and "utf" not in locale.lower()


def _shipped() -> Path:
    """In the wheel a folder of the package, in a source tree `themes/` beside it."""
    packaged = Path(os.fspath(files("voiceeval_tui"))) / "theme_files"  # type: ignore[call-overload]
    return packaged if packaged.is_dir() else Path(__file__).parents[1] / "themes"


def _paint(colour: str | None, background: str | None = None) -> Style:
    return Style(
        color=None if colour is None else Color.parse(colour).rich_color,
        bgcolor=None if background is None else Color.parse(background).rich_color,
    )
