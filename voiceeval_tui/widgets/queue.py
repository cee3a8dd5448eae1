"""The scenario queue: every scenario with how it stands, sorted, filtered, one of them chosen.

Rule: console page, "Panes" (scenario queue).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from voiceeval_engine.live.state import ENDED, ScenarioState, Status, percentile
from voiceeval_tui.cells import fit, short_name
from voiceeval_tui.figures import duration, milliseconds
from voiceeval_tui.standing import broke_off
from voiceeval_tui.themes import StyleName
from voiceeval_tui.view import PROBLEMS, RUNNING, View
from voiceeval_tui.widgets.list_pane import ListPane
from voiceeval_tui.widgets.pane import Row

Order = Literal["queued", "problems", "name", "latency"]
ORDERS: tuple[Order, ...] = ("queued", "problems", "name", "latency")

MARKS: dict[Status, tuple[str, StyleName]] = {
    "queued": (" ", "dim"),
    "setting up": ("▸", "accent"),
    "talking": ("▶", "accent"),
    "scoring": ("▸", "accent"),
    "judging": ("?", "info"),
    "retrying": ("o", "warn"),
    "passed": ("✓", "ok"),
    "failed": ("✗", "bad"),
    "no verdict": ("-", "info"),
    "stalled": ("!", "warn"),
    "not run": ("!", "bad"),
}
"""Never colour alone: the mark and the words tell too."""
INTERRUPTED: tuple[str, str, StyleName] = ("!", "interrupted", "warn")
JUDGE_OUT: tuple[str, str, StyleName] = ("?", "judge out", "warn")
"""Nothing but the judge's call failed, which says nothing of the agent."""

_SIGNALS = {"is_action_match": "actions", "db_state_match": "db_state", "db_state_assertion": "predicates", "nl_assertion": "assertions",
            "judge_passed": "judge"}  # fmt: skip
"""Signals by the words that stand for them here; any other one has its own name."""

_MARK_CELLS, _ATTEMPT_CELLS, _TURN_CELLS, _LATENCY_CELLS, _TOLD_CELLS = 2, 3, 4, 7, 8
_LEAST_NAME_CELLS = 12


class QueuePane(ListPane):
    """`order` and `words` (the filter) are the operator's; the screen sets them and draws again."""

    NAME = "queue"
    TITLE = "queue"
    AREAS = frozenset({"queue", "run", "clock", "selection", "link"})

    def __init__(self) -> None:
        super().__init__()
        self.order: Order = "queued"
        self.words = ""
        self._name_cells = _LEAST_NAME_CELLS
        self._attempt_cells = 0

    def heading(self, view: View) -> str:
        parts = [self.TITLE, f"{view.run.done}/{len(view.run.scenarios)}"]
        if self.order != "queued":
            parts.append(f"by {self.order}")
        if self.words:
            parts.append(f"filter: {self.words}")
        return "  ".join(parts)

    def collect(self) -> int:
        """As `Pane`; the chosen row is the scenario that is shown."""
        if self.view.shown is not None:
            self.cursor = self.view.shown
        count = super().collect()
        again = any(each.attempt > 1 for each in self.view.run.scenarios.values())
        self._attempt_cells = _ATTEMPT_CELLS if again else 0
        words = {standing(self.view, each)[1] for each in self.view.run.scenarios.values()} & {INTERRUPTED[1], JUDGE_OUT[1]}
        told = max(_TOLD_CELLS, *map(len, words)) if words else _TOLD_CELLS
        others = _MARK_CELLS + self._attempt_cells + _TURN_CELLS + _LATENCY_CELLS + 2 + told
        longest = max((len(name) for name in self.keys), default=0)
        self._name_cells = max(_LEAST_NAME_CELLS, min(longest, self.row_width - others))
        return count

    def items(self, view: View) -> Sequence[str]:
        words = self.words.casefold().split()
        found = [each for each in view.run.scenarios.values() if all(word in _searched(view, each) for word in words)]
        if self.order != "queued":
            found.sort(key=partial(_SORTED[self.order], view))
        return [each.name for each in found]

    def item_row(self, view: View, key: str, width: int) -> Row:
        scenario = view.run.scenarios[key]
        mark, _, style = standing(view, scenario)
        attempt = f"#{scenario.attempt}" if scenario.attempt > 1 else ""
        p50 = percentile(scenario.latencies, 0.5)
        running = scenario.status in RUNNING and not broke_off(view, scenario)
        left = width - _MARK_CELLS - self._name_cells - self._attempt_cells - _TURN_CELLS - _LATENCY_CELLS - 2
        return (
            (f"{mark} ", style),
            (fit(short_name(key, self._name_cells), self._name_cells), "strong" if running else "text"),
            (fit(attempt, self._attempt_cells, "right"), "warn"),
            (fit(f"{scenario.turns}t" if scenario.attempt or scenario.loaded else "", _TURN_CELLS, "right"), "dim"),
            (fit("" if p50 is None else milliseconds(p50), _LATENCY_CELLS, "right"), "text"),
            (f"  {fit(_told(view, scenario, left), max(0, left))}", style if scenario.status != "passed" else "dim"),
        )

    def scenario_of(self, key: str) -> str | None:
        return key

    def problem(self, view: View, step: int) -> str | None:
        """The next (1) or previous (-1) problem from the cursor, round the ends; where there is none, the next that runs."""
        for rank in (_PROBLEM, _RUNS):
            places = [place for place, key in enumerate(self.keys) if _rank(view, view.run.scenarios[key]) == rank]
            here = self._places.get(self.cursor or "", -1)
            ahead = [place for place in places if (place > here if step > 0 else place < here)]
            if places:
                return self.keys[(ahead or places)[0 if step > 0 else -1]]
        return None


def standing(view: View, scenario: ScenarioState) -> tuple[str, str, StyleName]:
    """A scenario's mark, what it is in a word or two, and their style."""
    if broke_off(view, scenario):
        return INTERRUPTED
    if scenario.failed_by_judge_alone:
        return JUDGE_OUT
    mark, style = MARKS[scenario.status]
    return mark, scenario.status, style


def failed_words(scenario: ScenarioState) -> str:
    """The signals that failed, in words."""
    return ", ".join(_SIGNALS.get(name, name) for name in scenario.failed_signals)


def _told(view: View, scenario: ScenarioState, cells: int) -> str:
    """What there is to say of a scenario besides its numbers; the stop reason where it has room."""
    since = duration(max(0.0, view.now - scenario.since))
    _, told, _ = standing(view, scenario)
    if told == INTERRUPTED[1]:
        return told
    match scenario.status:
        case "queued":
            return scenario.reason or ""
        case "talking":
            return since
        case "setting up" | "scoring":
            return f"{scenario.status} {since}"
        case "retrying":
            return f"retry: {scenario.discarded[-1].reason}" if scenario.discarded else "retry"
        case "not run":
            told = f"not run: {scenario.reason or ''}"
            return told if len(told) <= cells else "not run"
        case "failed" if told != JUDGE_OUT[1]:
            told = failed_words(scenario) or "failed"
        case "passed":
            told = "pass"
        case _:
            pass
    both = f"{told} {scenario.stop_reason or ''}"
    return both if len(both) <= cells else told


def _searched(view: View, scenario: ScenarioState) -> str:
    return (
        f"{scenario.name} {standing(view, scenario)[1]} {' '.join(scenario.failed_signals)} {scenario.stop_reason or ''}".casefold()
    )


_PROBLEM, _RUNS, _WAITS, _ENDED = range(4)


def _rank(view: View, scenario: ScenarioState) -> int:
    if scenario.status in PROBLEMS or broke_off(view, scenario):
        return _PROBLEM
    return _RUNS if scenario.status in RUNNING else _ENDED if scenario.status in ENDED else _WAITS


_SORTED: dict[Order, Callable[[View, ScenarioState], tuple[float, int] | str]] = {
    "problems": lambda view, each: (_rank(view, each), each.number),
    "name": lambda _, each: each.name,
    "latency": lambda _, each: (-(percentile(each.latencies, 0.5) or 0.0), each.number),
}
