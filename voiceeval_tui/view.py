"""What the panes draw: the run's state and all that a watcher needs besides it, kept within bounds however long the run is.

`View.apply` folds one event and says which areas changed. The texts of the scenarios that run and of the last few others are held; any
other scenario's is read from its files when it is wanted (`session_files.read_transcript`) and handed to `put_saved`. Knows no clock, file
or screen: time comes in with `tick`. May import the standard library, the engine's `live/`, `transcript`, `details` and `measurements`.
Rule: console page, "Panes".
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from voiceeval_engine.live import events
from voiceeval_engine.live.state import ENDED, RunState, ScenarioState, Status
from voiceeval_tui.details import Details
from voiceeval_tui.measurements import Measurements
from voiceeval_tui.transcript import Transcript

Area = Literal["run", "queue", "transcript", "latency", "trouble", "log", "selection", "clock", "link", "details"]
"""Those of the fold, and: another scenario is shown, a second has passed, something about the connection to the engine, what files tell."""

ALL_AREAS: frozenset[Area] = frozenset(get_args(Area))
RUNNING: frozenset[Status] = frozenset({"setting up", "talking", "scoring", "retrying"})
PROBLEMS: frozenset[Status] = frozenset({"failed", "stalled", "not run"})
KEPT_TRANSCRIPTS = 12
"""Transcripts of scenarios that do not run which are held."""
KEPT_LOG_LINES = 2000

_RESULTS = (events.ScenarioScored, events.ScenarioNotRun, events.Requeued)
_TRANSCRIPT: frozenset[Area] = frozenset({"transcript"})

LinkState = Literal["opening", "alive", "gone", "finished", "files"]
Level = Literal["INFO", "WARNING", "ERROR"]


@dataclass(frozen=True)
class Link:
    """How the console stands to the engine.

    `opening`: the journal is still being read; `alive`: an engine holds the session; `gone`: none does, though the run has not ended;
    `finished`: the run has ended; `files`: a session without a journal, watched from its files. `bad_lines` of the journal were skipped.
    """

    state: LinkState = "opening"
    bad_lines: int = 0


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the engine's log, or of the console's own troubles. `message` is untrusted."""

    time: float
    level: Level
    message: str
    by_console: bool = False


class View:
    """All that is drawn. Panes read it; the screen alone calls what changes it."""

    def __init__(self) -> None:
        self.run = RunState()
        self.measured = Measurements()
        self.link = Link()
        self.now = 0.0
        """Wall clock, s, whole seconds: what a pane that shows a clock draws with."""
        self.log: deque[LogLine] = deque(maxlen=KEPT_LOG_LINES)
        self.log_count = 0
        """How many lines the log has had in all; the last of them is `log[-1]`."""
        self.selected: str | None = None
        """The scenario that the operator chose, None while the console follows whoever talks."""
        self.shown: str | None = None
        """The scenario that is shown: the chosen one, else one that runs."""
        self._details: Details | None = None
        self._results = 0
        self._transcripts: OrderedDict[str, Transcript] = OrderedDict()
        self._running: dict[str, ScenarioState] = {}

    def apply(self, event: events.Event) -> frozenset[Area]:
        """Fold one event in; returns the areas that changed. What scenarios say counts only where it is the one shown."""
        areas: frozenset[Area] = self.run.apply(event)
        if not isinstance(event, events.AttemptEvent):
            return self._apply_to_run(event, areas)
        if not areas:
            return areas
        self._fold_text(event)
        name = event.scenario
        scenario = self.run.scenarios[name]
        shown = name == self.shown
        if shown and "queue" in areas and not isinstance(event, events.TurnEnded):
            self._results += 1
        if "latency" in areas:
            self.measured.put(name, scenario.latencies)
        if (scenario.status in RUNNING) != (name in self._running):
            areas |= {"queue"}  # where the line of an attempt's beginning was lost, words alone tell of it
            if scenario.status in RUNNING:
                self._running[name] = scenario
            else:
                del self._running[name]
            before = self.shown
            self._follow()
            if self.shown != before:
                return areas | {"selection", "transcript"}
        return areas | _TRANSCRIPT if shown else areas - _TRANSCRIPT

    def _apply_to_run(self, event: events.Event, areas: frozenset[Area]) -> frozenset[Area]:
        if isinstance(event, events.Logged):
            self._log(LogLine(event.time, event.level, event.message))
        elif isinstance(event, events.RunStarted):
            self._results += 1
            self._forget()
            if self.selected not in self.run.scenarios:
                self.selected = None
            self._follow()
            return ALL_AREAS
        return areas

    def apply_all(self, batch: Iterable[events.Event]) -> frozenset[Area]:
        """Fold several events in; returns all areas that changed."""
        changed: set[Area] = set()
        for event in batch:
            changed |= self.apply(event)
        return frozenset(changed)

    def tick(self, now: float) -> frozenset[Area]:
        """The wall clock, s; an area changes when a second has passed."""
        second = float(int(now))
        if second == self.now:
            return frozenset()
        self.now = second
        return frozenset({"clock"})

    def set_link(self, link: Link) -> frozenset[Area]:
        if link == self.link:
            return frozenset()
        self.link = link
        return frozenset({"link", "run"})

    def select(self, scenario: str | None) -> frozenset[Area]:
        """Show this scenario; None follows whoever talks."""
        before = self.shown
        self.selected = scenario if scenario in self.run.scenarios else None
        self._follow()
        return frozenset({"selection", "transcript", "latency"}) if self.shown != before else frozenset({"selection"})

    def note(self, level: Level, message: str) -> frozenset[Area]:
        """A line of the console's own into the log."""
        self._log(LogLine(self.now, level, message, by_console=True))
        return frozenset({"log"})

    def restart(self) -> frozenset[Area]:
        """The journal is another one: forget what was folded, keep the log and what was chosen."""
        self.run = RunState()
        self._details = None
        self._results += 1
        self._forget()
        self.shown = None
        return ALL_AREAS

    def scenario(self) -> ScenarioState | None:
        """The scenario that is shown."""
        return self.run.scenarios.get(self.shown) if self.shown is not None else None

    def running(self) -> list[ScenarioState]:
        """Scenarios that an attempt is made at, in the queue's order."""
        return sorted(self._running.values(), key=lambda each: each.number)

    def transcript(self, scenario: str | None) -> Transcript | None:
        """What is held of a scenario; None where it has to be read from its files, or nothing was said."""
        return self._transcripts.get(scenario) if scenario is not None else None

    def wants_saved(self) -> str | None:
        """The shown scenario where its text is to be read from its files."""
        shown = self.scenario()
        if shown is None or shown.status not in ENDED | {"judging", "scoring"} or shown.name in self._transcripts:
            return None
        return shown.name

    def put_saved(self, scenario: str, transcript: Transcript) -> frozenset[Area]:
        """A text that was read from a scenario's files; what is held of it already is newer and stays."""
        if scenario in self._transcripts or scenario not in self.run.scenarios:
            return frozenset()
        self._hold(scenario, transcript)
        return frozenset({"transcript"}) if scenario == self.shown else frozenset()

    def details(self) -> Details | None:
        """What the files of the shown scenario tell, as they were when they were last read."""
        return self._details if self._details is not None and self._details.scenario == self.shown else None

    def wants_details(self) -> tuple[str, int] | None:
        """The shown scenario and a number; its files are to be read whenever this has become another answer."""
        return (self.shown, self._results) if self.shown is not None else None

    def put_details(self, details: Details) -> frozenset[Area]:
        self._details = details
        return frozenset({"details"}) if details.scenario == self.shown else frozenset()

    def _forget(self) -> None:
        self._transcripts.clear()
        self._running.clear()
        self.measured.clear()

    def _fold_text(self, event: events.AttemptEvent) -> None:
        held = self._transcripts.get(event.scenario)
        if isinstance(event, _RESULTS):
            if held is not None and held.attempt != event.attempt and isinstance(event, events.ScenarioScored):
                del self._transcripts[event.scenario]  # an earlier result counts again: its text is in its files
            return
        if held is None or held.attempt < event.attempt:
            held = Transcript(event.attempt)
            self._hold(event.scenario, held)
        held.apply(event)

    def _hold(self, scenario: str, transcript: Transcript) -> None:
        self._transcripts[scenario] = transcript
        self._transcripts.move_to_end(scenario)
        idle = [
            name for name in self._transcripts
            if name not in (self.shown, scenario) and self.run.scenarios[name].status not in RUNNING
        ]  # fmt: skip
        for name in idle[: max(0, len(idle) - KEPT_TRANSCRIPTS)]:
            del self._transcripts[name]

    def _follow(self) -> None:
        """What is followed stays while it runs; then comes whichever has run longest; nothing to follow leaves the last one."""
        if self.selected is not None:
            self.shown = self.selected
            return
        current = self.scenario()
        if current is not None and current.status in RUNNING:
            return
        if self._running:
            self.shown = min(self._running.values(), key=lambda each: each.since).name
        elif current is None:
            self.shown = next(iter(self.run.scenarios), None)

    def _log(self, line: LogLine) -> None:
        self.log.append(line)
        self.log_count += 1
