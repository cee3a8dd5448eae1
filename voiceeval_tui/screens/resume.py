"""The resume preview: what a resume would do now with each scenario and whether it could; Enter starts it.

Reads the session and asks the bots in threads; nothing of the session is written here. The judge's key is taken from the environment, else
asked for and kept nowhere. Rule: console page ("Resume preview").
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType

from voiceeval_engine.run.options import RunOptions
from voiceeval_tui.actions import Action
from voiceeval_tui.preflight import first_wrong, preflight
from voiceeval_tui.resuming import ResumePlan, plan_resume
from voiceeval_tui.screens.dialog import AskText
from voiceeval_tui.screens.keyed import KeyedScreen, bindings
from voiceeval_tui.starting import Checked, StartError, start_engine, wants_key
from voiceeval_tui.widgets.footer import Footer
from voiceeval_tui.widgets.list_pane import ListPane
from voiceeval_tui.widgets.plan import FactsPane, PlanHeader, PlanPane


class ResumeScreen(KeyedScreen[Path]):
    """Dismissed with the session when an engine goes on with it, with None when it was left. `defaults` serve sessions without a record."""

    ACTIONS = (
        Action("start", "enter", "start", "go on with the session"),
        Action("floor", "f", "change floor", "how few agent responses are a stall, to be run again"),
        Action("check", "c", "check again", "whether the bots and the judge answer now"),
        Action("key", "a", "API key", "type the judge's key; it is not saved"),
        Action("theme", "t", "", "the next theme"),
        Action("help", "question_mark", "help", "all keys"),
        Action("leave", "escape,q", "leave", "leave all as it is"),
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)

    def __init__(self, session: Path, defaults: RunOptions | None = None) -> None:
        super().__init__()
        self._session = session
        self._defaults = defaults
        self._plan: ResumePlan | None = None
        self._checked: Checked | str = ""
        self._key: str | None = None
        self._starting = False
        self._header, self._list, self._facts = PlanHeader(session.name), PlanPane(), FactsPane()

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._list
        yield self._facts
        yield Footer(self.ACTIONS)

    def on_mount(self) -> None:
        self._list.focus()
        self._read(None)

    def on_list_pane_chosen(self, message: ListPane.Chosen) -> None:
        """Enter is the list's key too; a double click asks for the same."""
        message.stop()
        if message.opened:
            self.do_start()

    def do_start(self) -> None:
        """After a question where something speaks against it."""
        plan = self._plan
        if self._starting or plan is None:
            return
        if plan.options is None:
            self.say(f"it cannot be resumed: {plan.obstacle}", "error")
            return
        if plan.dangers:
            self._ask("made elsewhere", f"Nothing tells that this session was made on this machine, and {', '.join(plan.dangers)}.")
        elif not plan.again:
            self._ask("nothing to run", "All scenarios are complete: a resume would only fetch verdicts that are still out.")
        elif isinstance(self._checked, Checked) and not self._checked.good:
            self._ask("not everything is well", "\n".join(first_wrong(self._checked)))
        else:
            self._begin()

    def do_floor(self) -> None:
        """Ask for another one; the preview follows."""
        if self._plan is not None and self._plan.options is not None:
            self.app.push_screen(
                AskText("fewer agent responses than this are a stall (0 is off)", str(self._plan.floor)), self._set_floor
            )

    def do_check(self) -> None:
        if (options := self._options) is not None:
            self._check(options)

    def do_key(self) -> None:
        self.app.push_screen(AskText("the judge's key, for this run only", masked=True), self._set_key)

    def do_leave(self) -> None:
        if self._starting:
            self.say("the engine is being started; a moment", "warning")
        else:
            self.dismiss(None)

    def _ask(self, title: str, words: str) -> None:
        self.ask_first(title, words, "start all the same", "not now", self._begin)

    @property
    def _options(self) -> RunOptions | None:
        """Those of the resume; None where there can be none."""
        return self._plan.options if self._plan is not None else None

    def _begin(self) -> None:
        if (options := self._options) is None:
            return
        if self._key is None and self._lacks_key(options):
            title = f"the judge's key (${options.judge_api_key_name} is not set); Enter alone: none"
            self.app.push_screen(AskText(title, masked=True), self._start_with_key)
        else:
            self._start(options)

    def _lacks_key(self, options: RunOptions) -> bool:
        """Whether the judge wants a key, by what the record and its place tell, that is not at hand."""
        if not options.judged or options.demo or options.judge_api_key or os.environ.get(options.judge_api_key_name):
            return False
        if isinstance(self._checked, Checked) and self._checked.has_key:
            return False
        return (self._plan is not None and self._plan.had_key) or wants_key(options.judge_url)

    def _start_with_key(self, key: str | None) -> None:
        if key is not None and (options := self._options) is not None:
            self._key = key
            self._start(options)

    def _set_key(self, key: str | None) -> None:
        if key is not None:
            self._key = key or None
            self.do_check()

    def _set_floor(self, text: str | None) -> None:
        if text is None:
            return
        if text.strip().isascii() and text.strip().isdigit():
            self._read(int(text))
        else:
            self.say(f"{text!r} is no number of responses", "error")

    def _show(self) -> None:
        if self._plan is not None:
            self._header.put(self._plan)
            self._list.put(self._plan)
        self._facts.put(self._plan, self._checked)

    @work(group="read", exclusive=True)
    async def _read(self, floor: int | None) -> None:
        try:
            plan = await asyncio.to_thread(plan_resume, self._session, floor, self._defaults)
        except OSError as error:
            plan = ResumePlan(self._session, floor or 0, obstacle=f"the session cannot be read: {error}")
        first, self._plan = self._plan is None, plan
        self._show()
        if first and plan.dangers:
            self._checked = f"not asked yet: {', '.join(plan.dangers)}; c asks"
            self._show()
        elif first:
            self.do_check()

    @work(group="check", exclusive=True)
    async def _check(self, options: RunOptions) -> None:
        self._checked = "a demo brings its own bots and judge" if options.demo else "asking the bots and the judge"
        self._show()
        if options.demo:
            return
        try:
            self._checked = await asyncio.to_thread(preflight, options, self._key)
        except StartError as error:
            self._checked = f"not asked: {error}"
        self._show()

    @work(group="start")
    async def _start(self, options: RunOptions) -> None:
        self._starting = True
        self.say("starting the engine")
        try:
            session = await asyncio.to_thread(start_engine, options, options.to_argv(), self._key or None)
        except StartError as error:
            self.say(str(error), "error")
        else:
            self.dismiss(session)
        finally:
            self._starting = False
