"""What the operator does to a run: actions become commands to the engine, after a question where work would be lost.

Rules: console page, "Keys"; running page, "The operator's hand".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual import work

from voiceeval_engine.live.commands import Command, ControlError
from voiceeval_tui.actions import ACTIONS, Action
from voiceeval_tui.engine import Engine
from voiceeval_tui.screens.dialog import Ask, Choice
from voiceeval_tui.screens.keyed import KeyedScreen
from voiceeval_tui.view import Area, View

_QUIT = (
    Choice("d", "detach: leave, the run goes on", "detach"),
    Choice("a", "stop after the current attempts", "stop"),
    Choice("n", "stop now: running attempts are cut and run again by a resume", "stop-now"),
    Choice("s", "stay", "stay"),
)
_FAILED_AGAIN = (
    "A fresh draw for a scenario that failed makes the success rate look better than the agent is. "
    "The summary will name it as re-run by hand."
)


class OperatorScreen(KeyedScreen[None]):
    """A screen with a `view` and an engine to command. What came of a command goes into the log and a toast."""

    ACTIONS = ACTIONS

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.view = View()
        self._engine = engine

    def offered(self) -> Sequence[Action]:
        """Those that apply to the view as it is."""
        return [action for action in self.ACTIONS if action.when(self.view)]

    def draw(self, areas: Iterable[Area]) -> None:
        """Subclasses let their panes draw what changed."""

    def do_quit(self) -> None:
        """Ask, where a run could be meant."""
        if self.view.link.state != "alive" or self.view.run.ended is not None:
            self.app.exit()
        else:
            self.app.push_screen(Ask("quit", "The run goes on unless you stop it.", _QUIT), self._quit)

    def _quit(self, answer: str | None) -> None:
        match answer:
            case "detach":
                self.app.exit()
            case "stop":
                self._send(Command(command="stop"))
            case "stop-now":
                self._send(Command(command="stop-now"))
            case _:
                pass

    def do_detach(self) -> None:
        """Leave; nothing is asked of the engine."""
        self.app.exit()

    def do_pause(self) -> None:
        self._send(Command(command="pause"))

    def do_go_on(self) -> None:
        self._send(Command(command="resume-queue"))

    def do_skip(self) -> None:
        """The chosen scenario, which waits."""
        self._send(Command(command="skip", scenario=self.view.shown))

    def do_stop_attempt(self) -> None:
        """The chosen scenario, which runs; its conversation would be lost, so it asks."""
        words = f"{self.view.shown}: the conversation is cut, its evidence saved, and the scenario listed as not run."
        command = Command(command="stop-attempt", scenario=self.view.shown)
        self.ask_first("stop attempt", words, "stop this attempt", "let it go on", lambda: self._send(command))

    def do_again(self) -> None:
        """The chosen scenario, which has ended; a failed one after a warning."""
        scenario = self.view.scenario()
        if scenario is None:
            return
        command = Command(command="run-again", scenario=scenario.name, confirmed=scenario.status == "failed")
        if not command.confirmed:
            self._send(command)
            return
        title = f"run {scenario.name} again"
        self.ask_first(title, _FAILED_AGAIN, "run it again all the same", "leave it", lambda: self._send(command))

    @work(group="commands")
    async def _send(self, command: Command) -> None:
        """Give the engine a command and tell what came of it."""
        try:
            reply = await self._engine.send(command)
        except ControlError as error:
            self.draw(self.view.note("ERROR", f"{command.command}: {error}"))
            self.say(str(error), "error")
            return
        self.draw(self.view.note("INFO" if reply.ok else "WARNING", f"{command.command}: {reply.message}"))
        self.say(reply.message, "information" if reply.ok else "warning")
