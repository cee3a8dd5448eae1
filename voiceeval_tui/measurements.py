"""The run's latencies as a watcher wants them: the last ones in the order of their happening, and all of them sorted, at little cost.

A fold beside `RunState`: `put` is told a scenario's latencies whenever they may have changed and finds out what came and what went, so that
those of a discarded attempt vanish here too. Values are ms. May import the standard library and the engine's `live/`. Rule: console page,
"Panes" (latency) and "Budgets".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

from voiceeval_engine.live.state import at_share

_NONE: tuple[list[float], int] = ([], 0)
MAX_RECENT = 500
"""Measurements whose order is held; wider than any sparkline."""


class Measurements:
    """All that was measured in accepted and running attempts."""

    def __init__(self) -> None:
        self.version = 0
        """Another number whenever the measurements are others."""
        self._recent: deque[tuple[str, float]] = deque(maxlen=MAX_RECENT)
        self._held: dict[str, tuple[list[float], int]] = {}
        """Of each scenario the list that `RunState` has, and how much of it is counted in."""
        self._sorted: list[float] = []
        self._new: list[float] = []
        self._whole = True
        """Whether `_sorted` and `_new` together are everything; not after something went."""

    def put(self, scenario: str, latencies: list[float]) -> None:
        """These are now the scenario's; a list that was given before may only have grown."""
        held, count = self._held.get(scenario, _NONE)
        if held is latencies and count == len(latencies):
            return
        self._held[scenario] = (latencies, len(latencies))
        if held is latencies or held[:count] == latencies[:count]:
            self._add(scenario, latencies[count:])
        else:
            self._replace(scenario, held[:count], latencies)

    def clear(self) -> None:
        """Another run."""
        self._recent.clear()
        self._held.clear()
        self._sorted, self._new, self._whole = [], [], True
        self.version += 1

    def last(self, most: int) -> list[float]:
        """At most that many of the latest, oldest first."""
        return [value for _, value in islice(self._recent, max(0, len(self._recent) - most), None)]

    @property
    def ordered(self) -> Sequence[float]:
        """All of them, the shortest first; to be read only."""
        if not self._whole:
            self._sorted = [value for values, count in self._held.values() for value in values[:count]]
            self._whole = True
        elif not self._new:
            return self._sorted
        else:
            self._sorted += self._new
        self._new = []
        self._sorted.sort()  # a sorted list with a few values after it: one pass
        return self._sorted

    def percentile(self, share: float) -> float | None:
        """As the engine's `percentile`, without sorting them again."""
        return at_share(self.ordered, share)

    def _add(self, scenario: str, values: Sequence[float]) -> None:
        if values:
            self._recent.extend([(scenario, value) for value in values])
            self._new += values
            self.version += 1

    def _replace(self, scenario: str, before: Sequence[float], values: Sequence[float]) -> None:
        """Where as many came as went, a result stands for what was measured live, and the places in the order stay."""
        self._whole = False
        self.version += 1
        if len(before) == len(values):
            places = [place for place, (name, _) in enumerate(self._recent) if name == scenario]
            for place, value in zip(reversed(places), reversed(values), strict=False):
                self._recent[place] = (scenario, value)
            return
        self._recent = deque((each for each in self._recent if each[0] != scenario), MAX_RECENT)
        self._recent.extend((scenario, value) for value in values)
