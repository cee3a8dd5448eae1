"""One clock tick for all conversations of a run: one wake-up serves every pair, which is what makes many pairs cheap.

Ticks lie on absolute targets of the loop's monotonic clock, so they never drift; a late tick is not made up here but by each
conversation. May import the standard library only. Rule: wire page, "Audio path" (pacing).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

Member = Callable[[float], None]
"""Takes the tick's target, on the loop's monotonic clock; an event loop that counts in ms may call a little early."""


class Pacer:
    """Calls each member every `period` s while there are members. A member must not raise."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._members: list[Member] = []
        self._base = 0.0
        self._steps = 0
        self._timer: asyncio.TimerHandle | None = None

    def join(self, member: Member) -> None:
        """Call `member` from the next tick on."""
        self._members.append(member)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._base = loop.time()
            self._schedule(loop, 1)

    def leave(self, member: Member) -> None:
        """Call `member` no more; one that is not there is no error."""
        if member in self._members:
            self._members = [other for other in self._members if other != member]

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        target = self._base + self._steps * self._period
        for member in self._members:
            member(target)
        if self._members:
            self._schedule(loop, int((loop.time() - self._base) / self._period) + 1)
        else:
            self._timer = None

    def _schedule(self, loop: asyncio.AbstractEventLoop, steps: int) -> None:
        self._steps = max(steps, self._steps + 1) if self._timer is not None else steps
        self._timer = loop.call_at(self._base + self._steps * self._period, self._tick)
