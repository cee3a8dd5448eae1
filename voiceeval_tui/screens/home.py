"""The home screen: the sessions under the output directory, to be watched or resumed, and the way to a new run.

The folder is read in a thread every few seconds while the screen shows. Rule: console page ("Start with no session and no selection").
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message

from voiceeval_engine.run.options import DEMO_DEFAULTS, RunOptions
from voiceeval_tui.actions import Action
from voiceeval_tui.listing import Found, Listing
from voiceeval_tui.screens.form import FormScreen
from voiceeval_tui.screens.keyed import KeyedScreen, bindings
from voiceeval_tui.screens.resume import ResumeScreen
from voiceeval_tui.starting import StartError, start_engine
from voiceeval_tui.widgets.footer import Footer
from voiceeval_tui.widgets.list_pane import ListPane
from voiceeval_tui.widgets.sessions import SessionsHeader, SessionsPane

LOOK_SECONDS = 3.0
_SOON = 0.1
"""s until the next look while rates are still being read."""
_DEMO_BRINGS = (
    "agent_url",
    "user_url",
    "pair",
    "pairs_from",
    "scenarios",
    "domain",
    "scenario_dir",
    "source",
    "scenarios_from",
    "resume",
)
"""Options of the command line that a demo leaves aside: its bots and scenarios are its own."""


class HomeScreen(KeyedScreen[None]):
    """`defaults` are the options that the command line gave, the output directory among them."""

    ACTIONS = (
        Action("open", "enter", "watch", "the session, live or finished"),
        Action("resume", "r", "resume", "what a resume of the session would do; Enter there starts it"),
        Action("new", "n", "new run", "fill in a form, check the bots, start"),
        Action("demo", "D,upper_d", "demo", "a demo run on bots of its own, a minute and a half; no set-up"),
        Action("theme", "t", "", "the next theme"),
        Action("help", "question_mark", "help", "all keys"),
        Action("quit", "q,d", "quit", "leave; runs go on"),
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)

    class Opened(Message):
        """A session is to be shown."""

        def __init__(self, session: Path) -> None:
            super().__init__()
            self.session = session

    def __init__(self, defaults: RunOptions) -> None:
        super().__init__()
        self._defaults = defaults
        self._listing = Listing(defaults.output_dir)
        self._found: Sequence[Found] = ()
        self._pane = SessionsPane()
        self._draft: Mapping[str, str] = {}
        """What a form that was left held."""
        self._starting = False
        self._wake = asyncio.Event()

    def compose(self) -> ComposeResult:
        yield SessionsHeader(self._defaults.output_dir)
        yield self._pane
        yield Footer(self.ACTIONS)

    def on_mount(self) -> None:
        self._pane.focus()
        self._look()

    def on_screen_resume(self) -> None:
        """Shown again: look at once."""
        self._wake.set()

    @work(group="look")
    async def _look(self) -> None:
        while True:
            problem = ""
            try:
                self._found = await asyncio.to_thread(self._listing.look)
            except OSError as error:
                self._found, problem = (), f"the folder cannot be read: {error}"
            self._pane.put(self._found, problem)
            pause = _SOON if any(each.n is None for each in self._found) else LOOK_SECONDS
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause if self.is_current else None):
                    await self._wake.wait()

    def on_list_pane_chosen(self, message: ListPane.Chosen) -> None:
        message.stop()
        if message.opened:
            self.do_open()

    def do_open(self) -> None:
        if (found := self._pane.chosen()) is not None:
            self.post_message(self.Opened(found.path))
        else:
            self.say("there is no session yet: D starts the demo, n a new run", "warning")

    def do_resume(self) -> None:
        found = self._pane.chosen()
        if found is None:
            self.say("there is no session to resume", "warning")
        elif found.state == "running":
            self.say(f"{found.name} runs; Enter watches it", "warning")
        else:
            self.app.push_screen(ResumeScreen(found.path, self._defaults), self._open_started)

    def do_new(self) -> None:
        self.app.push_screen(FormScreen(self._defaults, self._draft), self._form_left)

    def do_demo(self) -> None:
        given = {name: value for name, value in DEMO_DEFAULTS.items() if getattr(self._defaults, name) == getattr(RunOptions, name)}
        own = {name: getattr(RunOptions, name) for name in _DEMO_BRINGS}
        options = replace(self._defaults, demo=True, **own, **given)
        if not self._starting:
            self._starting = True
            self.say("starting the demo")
            self._start(options)

    def do_quit(self) -> None:
        """Nothing is lost by that."""
        if self._starting:
            self.say("the engine is being started; a moment", "warning")
        else:
            self.app.exit()

    @work(group="start")
    async def _start(self, options: RunOptions) -> None:
        try:
            session = await asyncio.to_thread(start_engine, options, options.to_argv())
        except StartError as error:
            self.say(str(error), "error")
        else:
            self._open_started(session)
        finally:
            self._starting = False

    def _form_left(self, result: Path | Mapping[str, str] | None) -> None:
        if isinstance(result, Mapping):
            self._draft = result
        else:
            self._open_started(result)

    def _open_started(self, session: Path | None) -> None:
        if session is not None:
            self.post_message(self.Opened(session))
