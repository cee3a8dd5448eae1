"""Dialogs: a question with its answers, a line to fill in, the help. All answer to keys and to the mouse.

Rule: console page, "Keys" (no key loses work without asking).
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
from textual.widget import Widget
from textual.widgets import Input, Static

from voiceeval_tui.actions import Action
from voiceeval_tui.cells import drawable, fit
from voiceeval_tui.view import View
from voiceeval_tui.widgets.list_pane import ListPane
from voiceeval_tui.widgets.pane import Pane, Row

Value = TypeVar("Value")


@dataclass(frozen=True)
class Choice:
    """One answer: the key that gives it, what it says, what the asker gets."""

    key: str
    label: str
    value: str


class Dialog(ModalScreen[Value], Generic[Value]):
    """A box in the middle with a title; the last thing in it has the focus. Esc closes it without an answer."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss(None)")]

    def __init__(self, title: str, *content: Widget) -> None:
        super().__init__()
        self._box = Vertical(*content, id="box")
        self._box.border_title = Content(drawable(title))

    def compose(self) -> ComposeResult:
        yield self._box

    def on_mount(self) -> None:
        self._box.children[-1].focus()


class _Choices(ListPane):
    NAME = "choices"

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
        told = Content("\n".join(map(drawable, words.split("\n"))))
        super().__init__(title, Static(told, id="words", markup=False), _Choices(choices))
        self._choices = choices

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


class AskText(Dialog[str]):
    """A line to fill in. Dismissed with what was typed, or None; `masked` for what nobody may read."""

    def __init__(self, title: str, value: str = "", *, masked: bool = False) -> None:
        line = Input(value, password=masked, compact=True)
        line.cursor_blink = False
        super().__init__(title, line)

    def on_input_submitted(self, message: Input.Submitted) -> None:
        message.stop()
        self.dismiss(message.value)


class _Keys(Pane):
    NAME = "keys"

    def __init__(self, actions: Sequence[Action], panes: Sequence[str]) -> None:
        super().__init__()
        self._panes = panes
        self._actions = actions
        self.styles.height = len(self.rows(self.view, 0))

    def rows(self, view: View, width: int) -> Sequence[Row]:
        keys = [(action.key, action.help) for action in self._actions]
        if not self._panes:
            return [_key_row(*each) for each in keys]
        keys += [(str(number), f"the pane {name}") for number, name in enumerate(self._panes, start=1)]
        keys += [
            ("Tab", "the next pane"),
            ("arrows", "move; Page up/down, Home, End too"),
            ("Enter", "to what the chosen scenario said; Esc goes back"),
            ("", "in the queue and in trouble: a row chooses its scenario"),
            ("+  -", "in the lanes: finer, coarser; left and right (h, l) go back and on"),
            ("l", "in the log: the lowest level that shows"),
            ("Ctrl+P", "all actions by name"),
        ]
        return [_key_row(*each) for each in keys]


def _key_row(key: str, text: str) -> Row:
    return ((fit(key, 8), "accent"), (text, "text"))


class Help(Dialog[None]):
    """All keys of a screen with these actions; `panes` are those that have a number."""

    BINDINGS: ClassVar[list[BindingType]] = [("question_mark,q,enter", "dismiss(None)")]

    def __init__(self, actions: Sequence[Action], panes: Sequence[str] = ()) -> None:
        super().__init__("keys", _Keys(actions, panes))
