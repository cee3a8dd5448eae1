"""What is worth a bell: the run ends or its engine is gone, a scenario stalls, a fuse blows, a full disk pauses the run.

Only what is new, and seldom. Plain values in, plain values out; time comes in. May import the engine's `live/` and `view`, `figures`. Rule:
console page, "Manners".
"""

from __future__ import annotations

from collections.abc import Iterable

from voiceeval_engine.live import events
from voiceeval_tui.figures import counted
from voiceeval_tui.view import Link, LinkState

EVERY_SECONDS = 5.0
_TOLD_AT_ONCE = 3
_URGENCY = ("end", "fuse", "pause", "stall")
_UNKNOWN: tuple[LinkState, LinkState] = ("opening", "opening")


class Notices:
    """Feed it every batch of events with `note`; `due` says what to tell now."""

    def __init__(self) -> None:
        self._caught_up = False
        self._before = _UNKNOWN
        self._waiting: list[tuple[str, str]] = []
        self._stalled: set[tuple[str, int]] = set()
        self._next = 0.0

    def note(self, batch: Iterable[events.Event], link: Link, *, behind: bool, restarted: bool = False) -> None:
        """A look at the source. Nothing counts as new before it was read to its end once; `restarted` begins that anew."""
        if restarted:
            self._caught_up, self._before = False, _UNKNOWN
            self._waiting.clear()
            self._stalled.clear()
        for event in batch:
            told = self._told(event)
            if told is not None and self._caught_up:
                self._waiting.append(told)
        if link.state == "gone" and self._before == ("alive", "gone"):  # at the first look its last words may not be read yet
            self._waiting.append(("end", "the engine is gone and the run has not ended"))
        self._before = (self._before[1], link.state)
        self._caught_up = self._caught_up or not behind

    def due(self, now: float) -> str | None:
        """One sentence for all that has waited, the most urgent first; None while there is nothing or it is too soon. `now` in s."""
        if not self._waiting or now < self._next:
            return None
        self._next = now + EVERY_SECONDS
        texts = [text for _, text in sorted(self._waiting, key=lambda each: _URGENCY.index(each[0]))]
        self._waiting.clear()
        more = len(texts) - _TOLD_AT_ONCE
        return "; ".join(texts[:_TOLD_AT_ONCE]) + (f"; and {counted(more, 'other event')}" if more > 0 else "")

    def _told(self, event: events.Event) -> tuple[str, str] | None:
        match event:
            case events.RunStarted():
                self._stalled.clear()
            case events.RunEnded():
                return ("end", "the run is complete" if event.complete else f"the run has ended: {event.reason}")
            case events.PairOut():
                return ("fuse", f"pair {event.pair + 1} is out: {event.reason}")
            case events.Paused() if event.reason != events.BY_OPERATOR:
                return ("pause", f"the run pauses: {event.reason}")
            case events.ScenarioScored() if (
                event.stalled and event.attempt and (event.scenario, event.attempt) not in self._stalled
            ):
                self._stalled.add((event.scenario, event.attempt))
                return ("stall", f"{event.scenario} stalled")
            case _:
                pass
        return None
