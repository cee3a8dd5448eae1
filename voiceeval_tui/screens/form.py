"""The new-run form: fields checked as they are typed, scenarios from a list, bots and judge checked before anything starts.

Rule: console page ("a form for a new run with a check of both bots and the judge before it starts").
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Input, Static

from voiceeval_engine.run.options import RunOptions
from voiceeval_tui.actions import Action
from voiceeval_tui.cells import drawable
from voiceeval_tui.form import FIELDS, GROUPS, YES, Field, FieldError, first_texts, to_options
from voiceeval_tui.preflight import first_wrong, lines, preflight
from voiceeval_tui.screens.keyed import KeyedScreen, bindings
from voiceeval_tui.screens.pick import PickScreen
from voiceeval_tui.starting import StartError, list_scenarios, start_engine
from voiceeval_tui.widgets.cycle import Cycle
from voiceeval_tui.widgets.footer import Footer


class FormScreen(KeyedScreen[Path | dict[str, str]]):
    """Dismissed with the session of the run that was started, or with what was typed, by field and without a key, where it was left."""

    ACTIONS = (
        Action("start", "ctrl+s", "start", "check all that it needs, then start the run"),
        Action("check", "f5", "check", "whether bots, judge, scenarios and disk are ready"),
        Action("pick", "f2", "pick scenarios", "choose from the list of all there are"),
        Action("more", "pagedown", "more", "the next lines of what the check found"),
        Action("help", "f1", "", "all keys"),
        Action("leave", "escape", "leave", "back; what was typed is kept"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(ACTIONS), ("down", "app.focus_next"), ("up", "app.focus_previous")]

    def __init__(self, defaults: RunOptions, draft: Mapping[str, str]) -> None:
        super().__init__()
        self._defaults = defaults
        self._texts = {**first_texts(defaults), **draft}
        self._busy = False
        self._starting = False

    def compose(self) -> ComposeResult:
        yield Static(Content(" New run"), id="title", markup=False)
        with _Lines(id="form", can_focus=False):
            for group, fields in GROUPS:
                yield Static(Content(group), classes="group", markup=False)
                for each in fields:
                    with Horizontal(classes="field", id=f"field-{each.name}"):
                        yield Static(Content(each.label), classes="label", markup=False)
                        yield self._field(each)
                    yield Static(markup=False, classes="wrong", id=f"wrong-{each.name}")
            with Horizontal(id="buttons"):
                yield Button("Start", id="start", compact=True)
                yield Button("Check", id="check", compact=True)
                yield Button("Pick scenarios", id="pick", compact=True)
        with VerticalScroll(id="findings", can_focus=False):
            yield Static(markup=False, id="told")
        yield Footer(self.ACTIONS)

    def _field(self, each: Field) -> Input | Cycle:
        text = self._texts.get(each.name, "")
        if each.choices:
            return Cycle(each.choices, text, id=each.name)
        line = Input(text, placeholder=each.hint, password=each.masked, compact=True, id=each.name)
        line.cursor_blink = False
        return line

    def on_mount(self) -> None:
        self._fold()
        self.query_one("#agent_url", Input).focus()

    def on_input_changed(self) -> None:
        """Say at once what is wrong with a value."""
        self._options()

    def on_cycle_changed(self, message: Cycle.Changed) -> None:
        """A demo brings its own bots."""
        message.stop()
        self._fold()
        self._options()

    def on_input_submitted(self) -> None:
        """Enter goes on to the next field."""
        self.focus_next()

    def on_button_pressed(self, message: Button.Pressed) -> None:
        """Those under the form do as the keys."""
        message.stop()
        self.action_act(message.button.id or "")

    def do_leave(self) -> None:
        """What was typed is kept, but a key."""
        if self._starting:
            self._tell("the engine is being started; a moment")
            return
        texts = self._typed()
        self.dismiss({each.name: texts[each.name] for each in FIELDS if not each.masked})

    def do_check(self) -> None:
        if (options := self._ready()) is not None:
            self._check(options, start=False)

    def do_more(self) -> None:
        """A page on; after the last one to the first."""
        box = self.query_one("#findings", VerticalScroll)
        box.scroll_to(y=0 if box.is_vertical_scroll_end else box.scroll_y + box.size.height - 1, animate=False)

    def do_start(self) -> None:
        """Ask them, then start."""
        if (options := self._ready()) is not None:
            self._check(options, start=True)

    def do_pick(self) -> None:
        if (options := self._ready()) is not None:
            self._pick(options)

    def _ready(self) -> RunOptions | None:
        """The options, where they can be used and nothing is being asked."""
        options = self._options(go=True)
        return None if self._busy else options

    def _typed(self) -> dict[str, str]:
        typed = {line.id or "": line.value for line in self.query(Input)}
        return typed | {cycle.id or "": cycle.value for cycle in self.query(Cycle)}

    def _options(self, *, go: bool = False) -> RunOptions | None:
        """The options, or None where a value is wrong, which is told beside it; `go` there."""
        wrong, options = FieldError("", ""), None
        try:
            options = to_options(self._typed(), self._defaults)
        except FieldError as error:
            wrong = error
        for each in FIELDS:
            line = self.query_one(f"#wrong-{each.name}", Static)
            told = str(wrong) if wrong.name == each.name else ""
            if line.has_class("-shown") or told:
                line.update(Content(drawable(told)))
                line.set_class(bool(told), "-shown")
        if str(wrong) and not wrong.name:
            self._tell(str(wrong))
        if go and wrong.name:
            self._tell("a value cannot be used; what is wrong stands under it")
            self.query_one(f"#{wrong.name}").focus()
        return options

    def _fold(self) -> None:
        demo = self.query_one("#demo", Cycle).value == YES
        for each in FIELDS:
            if each.bots:
                self.query_one(f"#field-{each.name}").display = not demo

    def _tell(self, *sentences: str) -> None:
        self.query_one("#told", Static).update(Content("\n".join(map(drawable, sentences))))

    @work(group="engine")
    async def _pick(self, options: RunOptions) -> None:
        with self._asking():
            listed = await asyncio.to_thread(list_scenarios, options)
            self.app.push_screen(PickScreen(listed, options.scenarios), self._picked)

    def _picked(self, names: tuple[str, ...] | None) -> None:
        if names is not None:
            self.query_one("#scenarios", Input).value = shlex.join(names)

    @work(group="engine")
    async def _check(self, options: RunOptions, *, start: bool) -> None:
        with self._asking():
            self._tell("asking the bots and the judge, looking at the disk")
            checked = await asyncio.to_thread(preflight, options)
            self._tell(*lines(sorted(checked.findings, key=lambda each: each.good)))  # there may be no room for all
            if start and checked.good:
                await self._start(options)
            elif start:
                anyway = "start all the same: it waits for bots; verdicts can be had later"
                words = "\n".join(first_wrong(checked))
                self.ask_first("not everything is well", words, anyway, "back to the form", self._start_anyway)

    @work(group="engine")
    async def _start_anyway(self) -> None:
        if (options := self._options()) is not None:
            with self._asking():
                await self._start(options)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """One thing at a time is asked of an engine; where it cannot be had, that is told."""
        self._busy = True
        try:
            yield
        except StartError as error:
            self._tell(str(error))
        finally:
            self._busy = False

    async def _start(self, options: RunOptions) -> None:
        self._tell("starting the engine")
        self._starting = True
        try:
            session = await asyncio.to_thread(start_engine, options, options.to_argv())
        finally:
            self._starting = False
        self.dismiss(session)


class _Lines(VerticalScroll, inherit_bindings=False):
    """Scrolls to the field that has the focus; arrows go from field to field."""
