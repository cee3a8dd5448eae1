"""Scenarios picked from the list of all there are: filter as you type, mark one, or all that show.

Rule: console page ("a form for a new run").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input

from voiceeval_tui.actions import Action
from voiceeval_tui.cells import fit
from voiceeval_tui.screens.keyed import KeyedScreen, bindings
from voiceeval_tui.starting import Listed
from voiceeval_tui.view import View
from voiceeval_tui.widgets.footer import Footer
from voiceeval_tui.widgets.list_pane import ListPane
from voiceeval_tui.widgets.pane import Row


class _Scenarios(ListPane):
    NAME = "scenarios"
    TITLE = "scenarios"

    def __init__(self, listed: Listed, chosen: Sequence[str]) -> None:
        super().__init__()
        self.words = ""
        self.marked = set(chosen)
        self._embedded = dict(listed.scenarios)
        self._problems = listed.problems

    def heading(self, view: View) -> str:
        troubles = f"  {len(self._problems)} packs cannot be used: {self._problems[0]}" if self._problems else ""
        return f"{len(self.marked)} of {len(self._embedded)} chosen{troubles}"

    def items(self, view: View) -> Sequence[str]:
        words = self.words.casefold().split()
        return [name for name in self._embedded if all(word in name.casefold() for word in words)]

    def item_row(self, view: View, key: str, width: int) -> Row:
        marked = key in self.marked
        name = fit(key, max(1, width - 4 - 10))
        return (
            (f"[{'x' if marked else ' '}] ", "accent" if marked else "dim"),
            (name, "strong" if marked else "text"),
            (" embedded" if self._embedded[key] else "", "dim"),
        )

    def toggle(self, names: Sequence[str]) -> None:
        """Mark all of these; where all are marked, none."""
        self.marked = self.marked - set(names) if self.marked.issuperset(names) else self.marked | set(names)
        self.redraw()


class PickScreen(KeyedScreen[tuple[str, ...]]):
    """Dismissed with the names that were marked, in the list's order; None where it was left."""

    ACTIONS = (
        Action("toggle", "space", "mark", "choose the scenario under the cursor, or not"),
        Action("all", "a", "all shown", "choose all that show, or none of them"),
        Action("filter", "slash", "filter", "show only names with these words; Enter goes back to the list"),
        Action("done", "enter", "done", "take what is marked"),
        Action("help", "question_mark", "help", "all keys"),
        Action("leave", "escape,q", "leave", "change nothing"),
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)

    def __init__(self, listed: Listed, chosen: Sequence[str]) -> None:
        super().__init__()
        self._listed = listed
        known = {name for name, _ in listed.scenarios}
        self._unknown = tuple(name for name in chosen if name not in known)
        self._pane = _Scenarios(listed, [name for name in chosen if name in known])
        self._words = Input(placeholder="words that the name has", compact=True, id="words")
        self._words.cursor_blink = False

    def compose(self) -> ComposeResult:
        yield self._words
        yield self._pane
        yield Footer(self.ACTIONS)

    def on_mount(self) -> None:
        self._pane.focus()
        self._pane.redraw()

    def on_input_changed(self, message: Input.Changed) -> None:
        self._pane.words = message.value
        self._pane.redraw()

    def on_input_submitted(self) -> None:
        self._pane.focus()

    def on_list_pane_chosen(self, message: ListPane.Chosen) -> None:
        """A click marks; Enter takes what is marked, or what it stands on."""
        message.stop()
        if message.opened:
            self.do_done()

    def do_toggle(self) -> None:
        """The one under the cursor, then the next."""
        if self._pane.cursor is not None:
            self._pane.toggle([self._pane.cursor])
            self._pane.action_move(1)

    def do_all(self) -> None:
        self._pane.toggle(list(self._pane.keys))

    def do_filter(self) -> None:
        self._words.focus()

    def do_done(self) -> None:
        """Names that are not in the list stay: they are told when the run starts."""
        marked = self._pane.marked or ({self._pane.cursor} if self._pane.cursor else set())
        self.dismiss((*(name for name, _ in self._listed.scenarios if name in marked), *self._unknown))

    def do_leave(self) -> None:
        self.dismiss(None)
