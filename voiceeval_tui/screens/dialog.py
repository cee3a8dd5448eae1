"""Dialogs: a question with its answers, and the help. Both answer to keys and to the mouse.

May import Textual, `widgets/pane`, `actions`. Rule: console page, "Keys" (no key loses work without asking).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from voiceeval_tui.actions import ACTIONS, Action
from voiceeval_tui.cells import drawable, fit
from voiceeval_tui.view import View
from voiceeval_tui.widgets.pane import ListPane, Pane, Row

Value = TypeVar("Value")


@dataclass(frozen=True)
class Choice:
    """One answer: the key that gives it, what it says, what the asker gets."""

    key: str
    label: str
    value: str


class Dialog(ModalScreen[Value], Generic[Value]):
    """A box in the middle with a title; Esc closes it without an answer."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss(None)")]


class _Choices(ListPane):
    NAME = "choices"
    TITLE = ""
    AREAS = frozenset()

    def __init__(self, choices: Sequence[Choice]) -> None:
        super().__init__()
        self._choices = {choice.value: choice for choice in choices}
        self.styles.height = len(choices)

    def items(self, view: View) -> Sequence[str]:
        return list(self._choices)

    def item_row(self, view: View, key: str, width: int) -> Row:
        choice = self._choices[key]
        return ((f" {choice.key} ", "accent"), (choice.label, "text"))


class Ask(Dialog[str]):
    """A question; its words may be several lines. Dismissed with the value of the answer, or None."""

    def __init__(self, title: str, words: str, choices: Sequence[Choice]) -> None:
        super().__init__()
        self._title = title
        self._words = words
        self._choices = choices

    def compose(self) -> ComposeResult:
        """As Textual asks."""
        box = Vertical(id="box")
        box.border_title = Content(drawable(self._title))
        with box:
            yield Static(Content("\n".join(map(drawable, self._words.split("\n")))), id="words", markup=False)
            yield _Choices(self._choices)

    def on_mount(self) -> None:
        """The answers have the focus."""
        self.query_one(_Choices).focus()

    def on_key(self, event: events.Key) -> None:
        """A letter answers at once."""
        for choice in self._choices:
            if event.character == choice.key:
                event.stop()
                self.dismiss(choice.value)

    def on_list_pane_chosen(self, message: ListPane.Chosen) -> None:
        """So does Enter, or a second click."""
        message.stop()
        if message.opened:
            self.dismiss(message.key)


class _Keys(Pane):
    NAME = "keys"
    TITLE = ""
    AREAS = frozenset()

    def __init__(self, panes: Sequence[str], actions: Sequence[Action]) -> None:
        super().__init__()
        self._panes = panes
        self._actions = actions
        self.styles.height = len(self.rows(self.view, 0))

    def rows(self, view: View, width: int) -> Sequence[Row]:
        keys = [(action.key, action.help) for action in self._actions]
        if not self._panes:
            return [((fit(key, 8), "accent"), (text, "text")) for key, text in keys]
        keys += [(str(number), f"the pane {name}") for number, name in enumerate(self._panes, start=1)]
        keys += [
            ("Tab", "the next pane"),
            ("arrows", "move; Page up/down, Home, End too"),
            ("Enter", "to what the chosen scenario said; Esc goes back"),
        ]
        keys += [("", "in the queue and in trouble: a row chooses its scenario")]
        keys += [("+  -", "in the lanes: finer, coarser; left and right (h, l) go back and on")]
        keys += [("l", "in the log: the lowest level that shows"), ("Ctrl+P", "all actions by name")]
        return [((fit(key, 8), "accent"), (text, "text")) for key, text in keys]


class Help(Dialog[None]):
    """All keys, made from the registry of actions; `panes` are those that have a number."""

    BINDINGS: ClassVar[list[BindingType]] = [("question_mark,q,enter", "dismiss(None)")]

    def __init__(self, panes: Sequence[str], actions: Sequence[Action] = ACTIONS) -> None:
        super().__init__()
        self._panes = panes
        self._actions = actions

    def compose(self) -> ComposeResult:
        """As Textual asks."""
        box = Vertical(id="box")
        box.border_title = "keys"
        with box:
            yield _Keys(self._panes, self._actions)

    def on_mount(self) -> None:
        """Arrows scroll."""
        self.query_one(_Keys).focus()
