"""The sessions of the output directory as lines: when, domain, how far, how well, how it stands; without any, what to do.

Rule: console page ("a home screen with the sessions").
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from voiceeval_tui.cells import fit
from voiceeval_tui.figures import counted, rate
from voiceeval_tui.listing import Found, State
from voiceeval_tui.themes import StyleName
from voiceeval_tui.view import View
from voiceeval_tui.widgets.list_pane import ListPane
from voiceeval_tui.widgets.pane import Band, Row

MARKS: dict[State, tuple[str, StyleName]] = {"running": ("▶", "accent"), "finished": ("✓", "ok"), "stopped": ("!", "warn")}

_WHEN, _DONE, _RATE, _INTERVAL, _STATE = 20, 10, 14, 23, 20
_DOMAIN = 40
"""Cells of a domain at most; a state that says more has the rest."""
_WIDE = 100
"""Cells from which the rate has its interval."""
_EMPTY = (
    ("", "There is no session here yet."),
    ("", ""),
    ("D", "the demo: bots and scenarios of its own, a minute and a half, no set-up"),
    ("n", "a new run against your own bots, checked before it starts"),
    ("", ""),
    ("", "Elsewhere? Start with --output-dir DIR."),
)


class SessionsPane(ListPane):
    """`put` gives it what to show. Keys are the folders' names."""

    NAME = "sessions"
    TITLE = "sessions"

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[str, Found] = {}
        self._read = False
        self._problem_of_folder = ""

    def put(self, found: Sequence[Found], problem: str = "") -> None:
        """The sessions, newest first, or why the folder cannot be read."""
        self._found, self._read, self._problem_of_folder = {each.name: each for each in found}, True, problem
        self.redraw()

    def chosen(self) -> Found | None:
        """The session under the cursor."""
        return self._found.get(self.cursor or "")

    def heading(self, view: View) -> str:
        if not self._found:
            return self.TITLE
        running = sum(each.state == "running" for each in self._found.values())
        return f"{counted(len(self._found), 'session')}{f'  {running} running' if running else ''}"

    def collect(self) -> int:
        return super().collect() or (len(_EMPTY) if self._read else 1)

    def row_at(self, index: int) -> Row:
        if self.keys:
            return super().row_at(index)
        if not self._read or self._problem_of_folder:
            return (
                ((f"  {self._problem_of_folder or 'reading'}", "bad" if self._problem_of_folder else "dim"),) if not index else ()
            )
        key, words = _EMPTY[index] if index < len(_EMPTY) else ("", "")
        return ((f"  {key}  " if key else "  ", "accent"), (words, "text"))

    def items(self, view: View) -> Sequence[str]:
        return list(self._found)

    def item_row(self, view: View, key: str, width: int) -> Row:
        found = self._found[key]
        mark, style = MARKS[found.state]
        when = found.started.strftime("%Y-%m-%d %H:%M:%S") if found.started is not None else found.name
        told = found.trouble or f"{found.state}{' demo' if found.demo else ''}{', by another harness' if found.foreign else ''}"
        wide, domain = _columns(width)
        success = "…" if found.n is None else rate(found.k or 0, found.n, interval=wide)
        return (
            (f"{mark} ", style),
            (fit(when, _WHEN), "text"),
            (fit(found.domain or "-", domain), "strong"),
            (fit(f"{found.done}/{found.total}", _DONE - 2, "right"), "text"),
            (f"  {fit(success, (_INTERVAL if wide else _RATE))}", "text"),
            (f" {told}", "bad" if found.trouble else style if found.state != "finished" else "dim"),
        )


class SessionsHeader(Band):
    """Where one looks, and what the columns mean."""

    DEFAULT_CSS = "SessionsHeader { dock: top; height: 2; }"

    NAME = "header"

    def __init__(self, output_dir: Path) -> None:
        super().__init__()
        self._output_dir = output_dir

    def rows(self, view: View, width: int) -> Sequence[Row]:
        wide, domain = _columns(width - 1)
        names = (fit("when", _WHEN), fit("domain", domain), fit("done", _DONE - 2, "right"))
        line = f"  {''.join(names)}  {fit('success', _INTERVAL if wide else _RATE)} state"
        return (((" voiceeval-tui  ", "title"), (str(self._output_dir.absolute()), "text")), ((line, "dim"),))


def _columns(width: int) -> tuple[bool, int]:
    """Whether the rate has its interval, and the cells of the domain."""
    wide = width >= _WIDE
    return wide, max(6, min(_DOMAIN, width - 2 - _WHEN - _DONE - 1 - (_INTERVAL if wide else _RATE) - _STATE))
