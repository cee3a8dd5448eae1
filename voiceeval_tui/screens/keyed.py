"""Screens with actions of their own: keys, the line below, help and the command palette come from one list, as on a session's screen.

An action is carried out by the screen's method `do_<name>`. May import Textual, `actions`, `cells`, `widgets`, `screens/dialog`.
Rule: console page, "Keys".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.widgets import Input

from voiceeval_tui.actions import Action
from voiceeval_tui.cells import drawable
from voiceeval_tui.screens.dialog import Dialog, Help
from voiceeval_tui.widgets.footer import Footer

Value = TypeVar("Value")


def bindings(actions: Sequence[Action]) -> list[BindingType]:
    """For a screen's BINDINGS. What a field or list with the focus does with a key itself comes first."""
    return [Binding(action.keys, f"act('{action.name}')", action.help, show=False, id=action.name) for action in actions]


class KeyedScreen(Screen[Value], Generic[Value]):
    """Subclasses set ACTIONS, and BINDINGS to `bindings(ACTIONS)`."""

    ACTIONS: ClassVar[Sequence[Action]] = ()

    def action_act(self, name: str) -> None:
        """Carry out an action of the list."""
        getattr(self, f"do_{name}")()

    def on_footer_pressed(self, message: Footer.Pressed) -> None:
        """The mouse on a key."""
        message.stop()
        self.action_act(message.action)

    def do_help(self) -> None:
        """All keys."""
        self.app.push_screen(Help((), self.ACTIONS))

    def do_theme(self) -> None:
        """The app has the themes."""
        self.app.run_worker(self.app.run_action("app.next_theme"))

    def say(self, message: str, severity: SeverityLevel = "information") -> None:
        """A word to the operator that goes away by itself."""
        self.app.clear_notifications()
        self.app.notify(drawable(message), severity=severity, timeout=6, markup=False)


class AskText(Dialog[str]):
    """A line to fill in. Dismissed with what was typed, or None; `masked` for what nobody may read."""

    def __init__(self, title: str, value: str = "", *, masked: bool = False) -> None:
        super().__init__()
        self._title = title
        self._line = Input(value, password=masked, compact=True)
        self._line.cursor_blink = False

    def compose(self) -> ComposeResult:
        """As Textual asks."""
        box = Vertical(id="box")
        box.border_title = Content(drawable(self._title))
        with box:
            yield self._line

    def on_mount(self) -> None:
        """Ready to type."""
        self._line.focus()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Enter."""
        message.stop()
        self.dismiss(message.value)
