"""The line of keys under a screen that has its own actions, each of which can be clicked.

May import `footer`, `pane`, `actions`. Rule: console page, "Keys".
"""

from __future__ import annotations

from collections.abc import Sequence

from voiceeval_tui.actions import Action
from voiceeval_tui.view import View
from voiceeval_tui.widgets.footer import Footer, fitting
from voiceeval_tui.widgets.pane import Row


class KeyLine(Footer, can_focus=False):
    """Of the actions that are given, those with a label; the last ones are left out first where there is no room."""

    DEFAULT_CSS = """
    KeyLine { position: relative; dock: bottom; height: 1; width: 100%; border: none; background: $surface; overflow-y: hidden; }
    """

    AREAS = frozenset()

    def __init__(self, actions: Sequence[Action]) -> None:
        super().__init__()
        self._actions = actions

    def rows(self, view: View, width: int) -> Sequence[Row]:
        """As `Pane`."""
        spans, self._places = fitting(self._actions, width)
        return (tuple(spans),)
