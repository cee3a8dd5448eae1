"""The fuse of one pair: after three attempts in a row that did not start or had no turn, the pair is taken out until it answers.

Plain values in, plain values out; times are s on one monotonic clock. May import the standard library only. Rule: running page, "The
fuse, per pair".
"""

from __future__ import annotations

from typing import Literal

BLOWS_AFTER = 3
PROBE_SECONDS = 10.0
SCENARIO_PROBE_SECONDS = 60.0

Trouble = Literal["unreachable", "of no use"]
"""No connection to a bot; or the bots are there, but refuse the scenario or say nothing."""


class Fuse:
    """Counts one pair's bad attempts in a row. While `blown`, `reason` tells the latest trouble and `since` when the row began."""

    def __init__(self) -> None:
        self.blown = False
        self.reason = ""
        self.since = 0.0
        self._in_a_row = 0
        self._trouble: Trouble = "unreachable"
        self._next_probe = 0.0

    def good(self) -> None:
        """An attempt had turns, or a bad pair answers again."""
        self._in_a_row, self.blown, self.reason = 0, False, ""

    def bad(self, trouble: Trouble, reason: str, now: float) -> bool:
        """An attempt, or a probe, came to nothing; returns whether this blew the fuse."""
        if not self._in_a_row:
            self.since = now
        self._in_a_row += 1
        self._trouble, self.reason = trouble, reason
        self._next_probe = now + (PROBE_SECONDS if trouble == "unreachable" else SCENARIO_PROBE_SECONDS)
        was_blown, self.blown = self.blown, self._in_a_row >= BLOWS_AFTER
        return self.blown and not was_blown

    @property
    def probes_with_scenario(self) -> bool:
        """Whether only a scenario can tell that the pair is of use again; a mere connection cannot."""
        return self._trouble == "of no use"

    def wait(self, now: float) -> float:
        """Seconds until the next probe is due."""
        return max(0.0, self._next_probe - now)
