"""Stalls and retries: a row for each thing that goes wrong, the most pressing first; a row chooses its scenario.

In a strip of a few lines the first ones show, and how many there are more; with the focus it is the whole list. Rule: console page,
"Panes" (stalls and retries).
"""

from __future__ import annotations

from collections.abc import Sequence

from voiceeval_tui.cells import fit, short_name
from voiceeval_tui.themes import StyleName
from voiceeval_tui.troubles import Kind, Trouble, troubles
from voiceeval_tui.view import View
from voiceeval_tui.widgets.list_pane import ListPane
from voiceeval_tui.widgets.pane import Row

_MARKS: dict[Kind, tuple[str, StyleName]] = {
    "pair out": ("!", "bad"),
    "silence": ("…", "warn"),
    "paused": ("=", "warn"),
    "not run": ("!", "bad"),
    "stalled": ("!", "warn"),
    "judge": ("?", "warn"),
    "discarded": ("o", "dim"),
}
_STRIP = 4
"""Lines up to which the pane tells how many rows do not show."""
_GAUGE = 10
_LEAST_NAME, _NAME_SHARE = 8, 3


class TroublePane(ListPane):
    """The cursor shows with the focus only, and Enter, a click or the arrows choose."""

    NAME = "trouble"
    TITLE = "trouble"
    AREAS = frozenset({"trouble", "run", "clock", "link"})

    def __init__(self) -> None:
        super().__init__()
        self._troubles: dict[str, Trouble] = {}
        self._names = 0

    def collect(self) -> int:
        """As `ListPane`; a strip without the focus has no more rows than lines, and begins at its beginning."""
        if self._is_strip:
            self.cursor, self._place = None, 0
            self.scroll_to(y=0, animate=False, immediate=True)
        count = super().collect()
        if not self.has_focus:
            self._foot, count = 0, len(self.keys)
        return max(1, min(count, self.size.height) if self._is_strip else count)

    def items(self, view: View) -> Sequence[str]:
        self._troubles = {each.key: each for each in troubles(view)}
        longest = max((len(each.scenario) for each in self._troubles.values() if each.scenario), default=0)
        self._names = min(longest, max(_LEAST_NAME, self.row_width // _NAME_SHARE))
        return list(self._troubles)

    def whole(self, view: View, key: str) -> str:
        """As `ListPane`: what is wrong."""
        return self._troubles[key].words

    def room(self, width: int) -> int:
        return max(0, width - 2 - (self._names + 2 if self._names else 0))

    def row_at(self, index: int) -> Row:
        """As `ListPane`; the last line of a strip tells of the rest."""
        if not self.keys:
            return (("no trouble so far", "dim"),) if index == 0 else ()
        if self.has_focus or index >= len(self.keys):
            return super().row_at(index)
        rest = len(self.keys) - self.size.height
        if not self._is_strip or rest <= 0 or index != self.size.height - 1:
            return self.item_row(self.view, self.keys[index], self.row_width)
        more = f"  ... {rest} more"
        row = self.item_row(self.view, self.keys[index], self.row_width - len(more))
        return (*row, (more, "dim"))

    def item_row(self, view: View, key: str, width: int) -> Row:
        trouble = self._troubles[key]
        mark, style = _MARKS[trouble.kind]
        name = f"{fit(short_name(trouble.scenario, self._names), self._names)}  " if trouble.scenario is not None else ""
        bar = f"  {gauge(trouble.share)}" if trouble.kind == "silence" else ""
        left = width - 2 - (self._names + 2 if name else 0)
        return ((f"{mark} ", style), (name, "text"), (fit(trouble.words + bar, max(0, left)), style))

    def scenario_of(self, key: str) -> str | None:
        trouble = self._troubles.get(key)
        return trouble.scenario if trouble is not None else None

    def watch_has_focus(self, has_focus: bool) -> None:
        """With the focus the whole list can be gone through; without it a strip goes back to what is most pressing."""
        super().watch_has_focus(has_focus)
        self.redraw()

    @property
    def _is_strip(self) -> bool:
        return self.size.height <= _STRIP and not self.has_focus


def gauge(share: float) -> str:
    """How much of a time has passed, in ten cells."""
    full = max(0, min(_GAUGE, int(share * _GAUGE)))
    return "█" * full + "░" * (_GAUGE - full)
