"""A field whose value is one of a few: Space, Enter, arrows or a click go to the next one.

Rule: console page, "Manners" (colour alone tells nothing; everything by keyboard and by mouse).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from voiceeval_tui.cells import drawable


class Cycle(Static, can_focus=True):
    """`value` is always one of the choices."""

    DEFAULT_CSS = """
    Cycle { height: 1; width: 1fr; }
    Cycle:focus { text-style: reverse; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("space,enter,right", "next(1)"), ("left", "next(-1)")]

    class Changed(Message):
        """Another value was chosen."""

        def __init__(self, cycle: Cycle) -> None:
            super().__init__()
            self.cycle = cycle

    def __init__(self, choices: Sequence[str], value: str, *, id: str) -> None:  # noqa: A002 - as all widgets call it
        super().__init__(markup=False, id=id)
        self._choices = choices
        self.value = value if value in choices else choices[0]

    def on_mount(self) -> None:
        self._show()

    def action_next(self, by: int) -> None:
        """Go on by so many."""
        self.value = self._choices[(self._choices.index(self.value) + by) % len(self._choices)]
        self._show()
        self.post_message(self.Changed(self))

    def on_click(self) -> None:
        """The mouse does as Space."""
        self.action_next(1)

    def _show(self) -> None:
        self.update(Content(drawable(f"< {self.value} >")))
