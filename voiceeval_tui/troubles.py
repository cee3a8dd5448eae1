"""What goes wrong in a run, the most pressing first: pairs out, silence that comes near its end, a pause, results that are missing.

Plain values in, plain values out; times are wall clock, s. May import `view` and `figures`. Rule: console page, "Panes" (stalls and
retries).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from voiceeval_engine.live.state import ScenarioState
from voiceeval_tui.figures import counted, duration
from voiceeval_tui.view import View

Kind = Literal["pair out", "silence", "paused", "not run", "stalled", "judge", "discarded"]

_SILENCE_SECONDS, _SILENCE_SHARE = 5.0, 0.1
"""Bots think for some seconds at every turn; silence is worth a row when it is longer than both."""

_LONGEST_SPEECH = 30.0
"""s for which who speaks is believed to speak without another sign of life."""


@dataclass(frozen=True)
class Trouble:
    """One row. `scenario` is None where it is about none; `words` is untrusted; `share` of the inactivity timeout has passed in silence."""

    kind: Kind
    words: str
    scenario: str | None = None
    about: str = ""
    """A pair's number, where it is about one."""
    share: float = 0.0

    @property
    def key(self) -> str:
        """Which one it is, whatever its words become."""
        return f"{self.kind} {self.about}{self.scenario or ''}"


def troubles(view: View) -> list[Trouble]:
    """All there are."""
    found = [*_pairs(view), *sorted(_silences(view), key=lambda each: -each.share), *_pause(view)]
    scenarios = list(view.run.scenarios.values())
    badly = [each for each in scenarios if each.status in ("not run", "stalled") or each.judge_failed]
    newest = sorted(badly, key=lambda each: -each.since)
    found += [
        Trouble("not run", f"not run: {each.reason or 'no reason told'}", each.name) for each in newest if each.status == "not run"
    ]
    found += [Trouble("stalled", _why_stalled(view, each), each.name) for each in newest if each.status == "stalled"]
    found += [Trouble("judge", "the judge's call failed", each.name) for each in newest if each.judge_failed]
    retried = sorted((each for each in scenarios if each.discarded), key=lambda each: -each.discarded[-1].time)
    return found + [_discarded(each) for each in retried]


def idle_seconds(view: View, scenario: ScenarioState) -> float | None:
    """How long neither bot has given a sign of life; None where that cannot be known. Who speaks is not silent."""
    held = view.transcript(scenario.name)
    if (
        view.link.state != "alive"
        or scenario.status != "talking"
        or held is None
        or held.attempt != scenario.attempt
        or not held.last_time
    ):
        return None
    idle = max(0.0, view.now - held.last_time)
    return 0.0 if held.speaking and idle < _LONGEST_SPEECH else idle


def _pairs(view: View) -> Iterator[Trouble]:
    if view.run.ended is not None:
        return
    if view.run.pairs_from and not view.run.pairs_there:
        yield Trouble("pair out", f"no pairs: {view.run.pairs_from} names none, the run waits for one")
    for number, outage in sorted(view.run.outages.items()):
        urls = f" ({', '.join(view.run.pairs[number])})" if number < len(view.run.pairs) else ""
        since = duration(view.now - outage.since)
        yield Trouble("pair out", f"pair {number + 1} out for {since}: {outage.reason}{urls}", about=str(number))


def _silences(view: View) -> Iterator[Trouble]:
    timeout = view.run.inactivity_timeout
    for scenario in view.running():
        idle = idle_seconds(view, scenario)
        if idle is not None and timeout > 0 and idle >= max(min(_SILENCE_SECONDS, timeout / 2), _SILENCE_SHARE * timeout):
            yield Trouble("silence", f"silent {idle:.0f} of {timeout:.0f} s", scenario.name, share=min(1.0, idle / timeout))


def _pause(view: View) -> Iterator[Trouble]:
    if view.run.paused is not None and view.run.ended is None:
        yield Trouble("paused", f"paused: {view.run.paused}" if view.run.paused else "paused")


def _why_stalled(view: View, scenario: ScenarioState) -> str:
    least, why = view.run.min_agent_turns, scenario.stop_reason or "no reason told"
    return f"stalled: < {counted(least, 'agent response')} ({why})"


def _discarded(scenario: ScenarioState) -> Trouble:
    number = len(scenario.discarded)
    times = f"{number} times " if number > 1 else ""
    return Trouble("discarded", f"retried {times}after: {scenario.discarded[-1].reason}", scenario.name)
