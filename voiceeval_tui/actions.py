"""All that the operator can do, once: keys, footer, help and command palette are made from this list.

An action is carried out by the screen's method `do_<name>`. May import `view`. Rule: console page, "Keys".
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

from voiceeval_engine.live.state import Status
from voiceeval_tui.view import PROBLEMS, RUNNING, View

_WRITTEN = {"question_mark": "?", "slash": "/", "escape": "Esc", "enter": "Enter", "space": "Space", "ctrl+s": "Ctrl+S", "f2": "F2",
            "f5": "F5", "pagedown": "PgDn"}  # fmt: skip
"""How keys are written that have another name with Textual."""

When = Callable[[View], bool]


def _always(_: View) -> bool:
    return True


def _alive(view: View) -> bool:
    return view.link.state == "alive" and view.run.ended is None


def _over(view: View) -> bool:
    return view.link.state in ("gone", "finished", "files")


def _on(view: View, statuses: Set[Status]) -> bool:
    shown = view.scenario()
    return shown is not None and shown.status in statuses and _alive(view)


@dataclass(frozen=True)
class Action:
    """`keys` as Textual names them, the first one is shown. `label` stands in the footer, empty where it has no place there."""

    name: str
    keys: str
    label: str
    help: str
    when: When = _always

    @property
    def key(self) -> str:
        """How the first key is written for a person."""
        first = self.keys.partition(",")[0]
        return _WRITTEN.get(first, first)


ACTIONS: tuple[Action, ...] = (
    Action("again", "r", "re-run", "run the chosen stalled, failed or not-run scenario again", lambda v: _on(v, PROBLEMS)),
    Action("resume", "r", "resume", "what a resume of this session would do; Enter there starts it", _over),
    Action("pause", "p", "pause", "begin no new attempt; what runs goes on", lambda v: _alive(v) and v.run.paused is None),
    Action("go_on", "p", "go on", "begin new attempts again", lambda v: _alive(v) and v.run.paused is not None),
    Action("skip", "s", "skip", "do not run the chosen scenario", lambda v: _on(v, {"queued"})),
    Action("stop_attempt", "x", "stop", "stop the chosen scenario's attempt, which then has no result", lambda v: _on(v, RUNNING)),
    Action("filter", "slash", "filter", "show only scenarios with these words; Esc ends it"),
    Action("next_problem", "n", "next", "next failed, stalled or not-run scenario, else one that runs"),
    Action("previous_problem", "N,upper_n", "", "the one before"),
    Action("order", "o", "", "sort the queue: as queued, problems first, name, latency"),
    Action("follow", "escape", "", "choose no scenario: show whoever talks"),
    Action("zoom", "z", "zoom", "the pane with the focus alone, and back"),
    Action("copy", "y", "copy", "copy what the pane has, or write it to a file; queue: the folder"),
    Action("theme", "t", "", "the next theme"),
    Action("home", "h", "", "the sessions of the output directory, and new runs"),
    Action("help", "question_mark", "help", "all keys"),
    Action("detach", "d", "detach", "leave; the run goes on"),
    Action("quit", "q,ctrl+c", "quit", "leave, or stop the run: asks first; Ctrl+C twice leaves"),
)
