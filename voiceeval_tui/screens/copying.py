"""The key `y`: what the focused pane has goes to the clipboard or into a file, whichever the operator chooses.

Text leaves as it is drawn, without escapes. Rule: console page, "Manners".
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from functools import partial
from pathlib import Path

from voiceeval_engine.session import layout
from voiceeval_tui.cells import drawable
from voiceeval_tui.figures import counted, size
from voiceeval_tui.saved_copies import NotSaved, save_copy
from voiceeval_tui.screens.dialog import Ask, Choice
from voiceeval_tui.screens.operator import OperatorScreen
from voiceeval_tui.terminal_codes import for_clipboard
from voiceeval_tui.widgets.pane import Pane
from voiceeval_tui.widgets.queue import QueuePane

_CHOICES = (
    Choice("c", "copy: into the terminal's clipboard", "copy"),
    Choice("w", "write to a file", "write"),
    Choice("n", "neither", "no"),
)


def offer(screen: OperatorScreen, session: Path, pane: Pane) -> None:
    """Ask what is to be done with what a pane has, and do it."""
    text = what_it_has(pane, session)
    if not text:
        screen.say(f"the pane {pane.NAME} has nothing to copy", "warning")
        return
    _, whole = for_clipboard(text)
    amount = f"{counted(text.count(chr(10)) + 1, 'line')}, {size(len(text.encode()))}"
    cut = "" if whole else " The clipboard takes the beginning only; a file takes it all."
    words = text if "\n" not in text and len(text) < 300 else f"{pane.NAME}: {amount}.{cut}"
    about = pane.cursor if isinstance(pane, QueuePane) else pane.view.shown
    name = pane.NAME if about is None else f"{about}_{pane.NAME}"
    screen.app.push_screen(Ask("copy", words, _CHOICES), partial(_carry_out, screen, session, name, text))


def what_it_has(pane: Pane, session: Path) -> str:
    """The text of a pane; of the queue the folder of the scenario under the cursor."""
    if isinstance(pane, QueuePane):
        return drawable(str(layout.scenario_dir(session.absolute(), pane.cursor))) if pane.cursor is not None else ""
    rows = (pane.row_at(index) for index in range(pane.collect()))
    lines = ["".join(drawable(text) for text, _ in row).rstrip() for row in rows]
    return "\n".join(lines).strip("\n")


def _carry_out(screen: OperatorScreen, session: Path, name: str, text: str, answer: str | None) -> None:
    if answer == "copy":
        screen.app.copy_to_clipboard(text)
        taken, whole = for_clipboard(text)
        if whole:
            screen.say("sent to the terminal's clipboard; where it does not arrive: y w writes a file")
        else:
            screen.say(
                f"cut: the first {size(len(taken.encode()))} of {size(len(text.encode()))} were sent; y w writes all", "warning"
            )
    elif answer == "write":
        screen.run_worker(_write(screen, session, name, text), group="copies")


async def _write(screen: OperatorScreen, session: Path, name: str, text: str) -> None:
    try:
        path = await asyncio.to_thread(save_copy, f"{text}\n", name, session, datetime.now())
    except NotSaved as error:
        screen.draw(screen.view.note("ERROR", f"not written: {error}"))
        screen.say(f"not written: {error}", "error")
    else:
        screen.draw(screen.view.note("INFO", f"written to {path}"))
        screen.say(f"written to {path}")
