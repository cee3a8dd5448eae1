"""The line below: the keys that apply now, each of which can be clicked.

Rule: console page, "Keys".
"""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from voiceeval_tui.actions import Action
from voiceeval_tui.cells import width
from voiceeval_tui.view import View
from voiceeval_tui.widgets.pane import Band, Row, Span

_KEPT = frozenset({"help", "detach", "quit", "leave"})
"""Actions that are told however narrow the screen is."""


class Footer(Band):
    """Of the actions that are given, those that apply; what finds no room is in the help."""

    DEFAULT_CSS = "Footer { dock: bottom; height: 1; }"

    NAME = "footer"
    AREAS = frozenset({"run", "queue", "link", "selection"})

    class Pressed(Message):
        """An action's label was clicked."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def __init__(self, actions: Sequence[Action]) -> None:
        super().__init__()
        self._actions = actions
        self._places: list[tuple[int, int, str]] = []

    def rows(self, view: View, width: int) -> Sequence[Row]:
        spans, self._places = fitting([each for each in self._actions if each.when(view)], width)
        return (tuple(spans),)

    def on_click(self, event: events.Click) -> None:
        """Find the label under the pointer."""
        for start, end, action in self._places:
            if start <= event.x < end:
                self.post_message(self.Pressed(action))


def fitting(offered: Sequence[Action], cells: int) -> tuple[list[Span], list[tuple[int, int, str]]]:
    """The labels that find room, the way out always among them, and where each stands: first cell, end, action."""
    actions = [action for action in offered if action.label]
    spare = [each for each in actions if each.name not in _KEPT]
    while spare and sum(_cells(each.key, each.label) for each in actions) > cells:
        actions.remove(spare.pop())
    spans: list[Span] = []
    places: list[tuple[int, int, str]] = []
    x = 0
    for action in actions:
        spans += [(f" {action.key}", "accent"), (f" {action.label} ", "text")]
        places.append((x, x := x + _cells(action.key, action.label), action.name))
    return spans, places


def _cells(key: str, label: str) -> int:
    return width(key) + width(label) + 3
