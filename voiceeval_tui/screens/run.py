"""The screen of one session: its panes where they find room, the source followed, what the operator does sent on.

Everything that changes the view happens here. Rule: console page.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message
from textual.widgets import Input

from voiceeval_tui.actions import ACTIONS
from voiceeval_tui.details import read_details
from voiceeval_tui.engine import Engine
from voiceeval_tui.folding import fold
from voiceeval_tui.notices import Notices
from voiceeval_tui.screens.copying import offer
from voiceeval_tui.screens.dialog import Help
from voiceeval_tui.screens.keyed import bindings
from voiceeval_tui.screens.operator import OperatorScreen
from voiceeval_tui.screens.resume import ResumeScreen
from voiceeval_tui.session_files import read_transcript
from voiceeval_tui.source import Source
from voiceeval_tui.transcript import Transcript
from voiceeval_tui.view import ALL_AREAS, Area
from voiceeval_tui.widgets.details import DetailsPane
from voiceeval_tui.widgets.footer import Footer
from voiceeval_tui.widgets.header import Header
from voiceeval_tui.widgets.lanes import LanesPane
from voiceeval_tui.widgets.latency import LatencyPane
from voiceeval_tui.widgets.list_pane import ListPane
from voiceeval_tui.widgets.log import LogPane
from voiceeval_tui.widgets.pane import Pane
from voiceeval_tui.widgets.queue import ORDERS, QueuePane
from voiceeval_tui.widgets.transcript import TranscriptPane
from voiceeval_tui.widgets.trouble import TroublePane

PANES: tuple[type[Pane], ...] = (TranscriptPane, LatencyPane, TroublePane, LanesPane, DetailsPane, LogPane)
"""Beside the queue, which has the key 1: in the order of their keys, 2 to 9. `folding` knows where each of them goes."""

_BESIDE = (LanesPane.NAME, DetailsPane.NAME)
"""Panes about one scenario that Enter on a row goes to where they were switched to."""
_BREATH = 0.005
"""s between two parts of a long journal, in which keys are answered."""


class RunScreen(OperatorScreen):
    """`interval` is the time between two looks at the source, s."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(ACTIONS),
        *(Binding(str(number), f"pane({number})", show=False) for number in range(1, 10)),
    ]

    class Notable(Message):
        """Something new that is worth a bell; `words` are untrusted."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    class HomeWanted(Message):
        """The operator wants to see the sessions under `output_dir`."""

        def __init__(self, output_dir: Path) -> None:
            super().__init__()
            self.output_dir = output_dir

    def __init__(self, source: Source, engine: Engine, interval: float) -> None:
        super().__init__(engine)
        self._notices = Notices()
        self.stage = "queue"
        self.zoomed = False
        self._left: tuple[str, Pane] | None = None
        """The stage and the list that Enter led away from, and Esc leads back to."""
        self._source = source
        self._interval = interval
        self._queue = QueuePane()
        self._panes: dict[str, Pane] = {"queue": self._queue, **{pane.NAME: pane() for pane in PANES}}
        self._asked: set[tuple[str, str]] = set()
        self._read_last: tuple[str, int] | None = None
        self._trouble = ""
        self._wanted = asyncio.Event()
        """Not set while the home screen is over this one: nobody looks, and its session is followed again once it is opened there."""
        self._wanted.set()

    def compose(self) -> ComposeResult:
        """As Textual asks. Panes live as long as the screen."""
        yield Header()
        with Container(id="board"):
            yield from self._panes.values()
        yield Input(id="filter", placeholder="words that the scenario has; Esc ends", compact=True)
        yield Footer(self.ACTIONS)

    def on_mount(self) -> None:
        self.view.tick(time.time())
        self._queue.focus()
        self._follow()

    def on_screen_resume(self) -> None:
        self._wanted.set()

    def on_resize(self) -> None:
        self.call_after_refresh(self.place_panes)

    def place_panes(self) -> None:
        """Put every pane where the size of the board says."""
        board = self.query_one("#board")
        boxes = fold(board.size.width, board.size.height, list(self._panes), self.stage, zoomed=self.zoomed)
        for name, pane in self._panes.items():
            box = boxes.get(name)
            pane.display = box is not None
            if box is not None:
                pane.styles.offset = (box.x, box.y)
                pane.styles.width, pane.styles.height = box.width, box.height
                pane.set_class(box.x > 0, "-beside")
        if self.focused is None and boxes:
            self._panes[self.stage if self.stage in boxes else next(iter(boxes))].focus()
        self._look_for_details()

    def draw(self, areas: Iterable[Area]) -> None:
        """Let everything that shows draw what changed."""
        areas = frozenset(areas)
        if not areas:
            return
        for pane in self.query(Pane):
            pane.show(self.view, areas)
        name, scenario = self.view.wants_saved(), self.view.scenario()
        if name is not None and scenario is not None and (name, scenario.status) not in self._asked:
            self._asked.add((name, scenario.status))
            self._read_saved(name)
        self._look_for_details()

    def _look_for_details(self) -> None:
        """Read the shown scenario's files where they changed and somebody sees it; one reading at a time, the newest wish next."""
        if not self._panes[DetailsPane.NAME].display or self.view.wants_details() in (None, self._read_last):
            return
        if not any(worker.group == "details" and not worker.is_finished for worker in self.workers):
            self._read_details()

    @work(group="follow")
    async def _follow(self) -> None:
        """Poll, fold, draw; a long journal is drawn as it is read."""
        changed: set[Area] = set(ALL_AREAS)
        drawn = 0.0
        while True:
            behind = self._step(changed)
            if not behind or time.monotonic() - drawn >= self._interval:
                self.draw(changed)
                changed.clear()
                drawn = time.monotonic()
            await asyncio.sleep(_BREATH if behind else self._interval)
            await self._wanted.wait()

    def _step(self, changed: set[Area]) -> bool:
        """One look at the source; returns whether there is more at once."""
        try:
            batch = self._source.poll()
        except OSError as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                changed |= self.view.note("ERROR", f"the session cannot be read: {error}")
            return False
        if batch.restarted:
            self._asked.clear()
            changed |= self.view.restart()
        changed |= self.view.apply_all(batch.events)
        changed |= self.view.tick(time.time())
        changed |= self.view.set_link(self._source.link(ended=self.view.run.ended is not None))
        self._notices.note(batch.events, self.view.link, behind=batch.behind, restarted=batch.restarted)
        if (words := self._notices.due(time.monotonic())) is not None:
            self.post_message(self.Notable(words))
        return batch.behind

    @work(group="saved")
    async def _read_saved(self, name: str) -> None:
        found = await asyncio.to_thread(read_transcript, self._source.session, name)
        self.draw(self.view.put_saved(name, found or Transcript()))

    @work(group="details")
    async def _read_details(self) -> None:
        while (wanted := self.view.wants_details()) is not None and wanted != self._read_last:
            self._read_last = wanted
            found = await asyncio.to_thread(read_details, self._source.session, wanted[0])
            self.draw(self.view.put_details(found))

    def action_act(self, name: str) -> None:
        """Carry out an action of the registry, or the one with the same key that applies."""
        wanted = next(each for each in ACTIONS if each.name == name)
        found = next((each for each in ACTIONS if each.keys == wanted.keys and each.when(self.view)), None)
        if found is not None:
            getattr(self, f"do_{found.name}")()
        else:
            self.say(f"{wanted.key} has no use just now; it would: {wanted.help}", "warning")

    def action_pane(self, number: int) -> None:
        """Go to a pane, switching to it where it does not show."""
        if number > len(self._panes):
            return
        self.zoomed = False
        self._go_to(list(self._panes.values())[number - 1])

    def _go_to(self, pane: Pane, stage: str | None = None) -> None:
        self._left = None
        self.stage = stage or pane.NAME
        self.place_panes()
        pane.focus()

    def on_pane_failed(self, message: Pane.Failed) -> None:
        """A pane's trouble goes into the log; the rest goes on."""
        self.draw(self.view.note("ERROR", message.problem))

    def on_list_pane_chosen(self, message: ListPane.Chosen) -> None:
        """A row about a scenario chooses the one that all panes show; opened, what it said has the focus, or what stands beside."""
        if (name := message.pane.scenario_of(message.key)) is not None:
            self.draw(self.view.select(name))
            self._queue.choose(name, tell=False)
            if message.opened:
                left = (self.stage, message.pane)
                self._go_to(self._panes[self.stage if self.stage in _BESIDE else TranscriptPane.NAME])
                self._left = left

    def on_input_changed(self, message: Input.Changed) -> None:
        self._queue.words = message.value
        self._queue.redraw()

    def on_input_submitted(self) -> None:
        """Keep the filter, go back to the queue."""
        self._queue.focus()

    def do_filter(self) -> None:
        line = self.query_one("#filter", Input)
        line.add_class("-open")
        line.focus()

    def do_follow(self) -> None:
        """Esc first goes back to the list that Enter left, then closes the filter, then gives up the choice."""
        line = self.query_one("#filter", Input)
        if self._left is not None and isinstance(self.focused, Pane) and self.stage == self.focused.NAME:
            self._go_to(self._left[1], self._left[0])
        elif line.has_class("-open"):
            line.remove_class("-open")
            line.value = ""
            self._queue.focus()
        else:
            self.draw(self.view.select(None))

    def do_previous_problem(self) -> None:
        self.do_next_problem(-1)

    def do_next_problem(self, step: int = 1) -> None:
        if (key := self._queue.problem(self.view, step)) is not None:
            self._queue.choose(key)

    def do_order(self) -> None:
        self._queue.order = ORDERS[(ORDERS.index(self._queue.order) + 1) % len(ORDERS)]
        self._queue.redraw()

    def do_zoom(self) -> None:
        """The focused pane alone, and back."""
        self.zoomed = not self.zoomed
        if isinstance(self.focused, Pane):
            self.stage = self.focused.NAME
        self.place_panes()

    def do_copy(self) -> None:
        offer(self, self._source.session, self.focused if isinstance(self.focused, Pane) else self._queue)

    def do_help(self) -> None:
        self.app.push_screen(Help(self.ACTIONS, list(self._panes)))

    def do_resume(self) -> None:
        """The preview; when it started an engine, the journal that is followed goes on."""
        self.app.push_screen(ResumeScreen(self._source.session), self._resumed)

    def _resumed(self, session: Path | None) -> None:
        if session is not None:
            self.say("the run goes on")

    def do_home(self) -> None:
        self._wanted.clear()
        self.post_message(self.HomeWanted(self._source.session.absolute().parent))
