"""Screens with actions: keys, the line below, help and the command palette come from one list.

An action is carried out by the screen's method `do_<name>`. Rule: console page, "Keys".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TypeVar

from textual.binding import Binding, BindingType
from textual.notifications import SeverityLevel
from textual.screen import Screen

from voiceeval_tui.actions import Action
from voiceeval_tui.cells import drawable
from voiceeval_tui.screens.dialog import Ask, Choice, Help
from voiceeval_tui.widgets.footer import Footer

Value = TypeVar("Value")


def bindings(actions: Sequence[Action]) -> list[BindingType]:
    """For a screen's BINDINGS. What a field or list with the focus does with a key itself comes first."""
    return [Binding(action.keys, f"act('{action.name}')", action.help, show=False, id=action.name) for action in actions]


class KeyedScreen(Screen[Value], Generic[Value]):
    """Subclasses set ACTIONS, and BINDINGS to `bindings(ACTIONS)`."""

    ACTIONS: ClassVar[Sequence[Action]] = ()

    def offered(self) -> Sequence[Action]:
        """The actions that apply now."""
        return self.ACTIONS

    def action_act(self, name: str) -> None:
        getattr(self, f"do_{name}")()

    def on_footer_pressed(self, message: Footer.Pressed) -> None:
        message.stop()
        self.action_act(message.action)

    def do_help(self) -> None:
        self.app.push_screen(Help(self.ACTIONS))

    def do_theme(self) -> None:
        self.app.run_worker(self.app.run_action("app.next_theme"))

    def say(self, message: str, severity: SeverityLevel = "information") -> None:
        """A word to the operator that goes away by itself."""
        self.app.clear_notifications()
        self.app.notify(drawable(message), severity=severity, timeout=6, markup=False)

    def ask_first(self, title: str, words: str, yes: str, no: str, then: Callable[[], object]) -> None:
        """A question whose answers are `yes` and `no`; `then` is done after a yes."""

        def answered(answer: str | None) -> None:
            if answer == "yes":
                then()

        self.app.push_screen(Ask(title, words, (Choice("y", yes, "yes"), Choice("n", no, "no"))), answered)
