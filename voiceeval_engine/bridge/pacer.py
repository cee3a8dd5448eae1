"""The clock tick of all conversations of a run: a few timers serve every pair, which is what makes many pairs cheap.

Ticks lie on absolute targets of the loop's monotonic clock, so they never drift; a late tick is not made up here but by each
conversation. Conversations beyond a handful tick on several beats spread over the period, else the last of a hundred would always be
served some ms after the first. May import the standard library only. Rule: wire page, "Audio path" (pacing).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

Member = Callable[[float], None]
"""Takes the tick's target, on the loop's monotonic clock; an event loop that counts in ms may call a little early."""

BEAT_MEMBERS = 16
"""Members that share a beat before another one is begun."""
_PLACES = (0.0, 0.5, 0.25, 0.75, 0.125, 0.625, 0.375, 0.875)
"""Where in the period each further beat lies."""


class Pacer:
    """Calls each member every `period` s while there are members. A member must not raise."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._beats: list[_Beat] = []

    def join(self, member: Member) -> None:
        """Call `member` from the next tick on, on the beat with the fewest members."""
        beats = self._beats
        if not any(len(beat.members) < BEAT_MEMBERS for beat in beats) and len(beats) < len(_PLACES):
            zero = beats[0].base if beats else asyncio.get_running_loop().time()
            beats.append(_Beat(self._period, zero + _PLACES[len(beats)] * self._period))
        min(beats, key=lambda beat: len(beat.members)).join(member)

    def leave(self, member: Member) -> None:
        """Call `member` no more; one that is not there is no error."""
        for beat in self._beats:
            beat.leave(member)


class _Beat:
    """Members called one after the other at `base` and every `period` s from there."""

    def __init__(self, period: float, base: float) -> None:
        self.base = base
        self.members: list[Member] = []
        self._period = period
        self._steps = 0
        self._timer: asyncio.TimerHandle | None = None

    def join(self, member: Member) -> None:
        self.members.append(member)
        if self._timer is None:
            self._schedule(asyncio.get_running_loop())

    def leave(self, member: Member) -> None:
        if member in self.members:
            self.members = [other for other in self.members if other != member]

    def _tick(self) -> None:
        target = self.base + self._steps * self._period
        for member in self.members:
            member(target)
        if self.members:
            self._schedule(asyncio.get_running_loop())
        else:
            self._timer = None

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._steps = max(int((loop.time() - self.base) / self._period), self._steps) + 1
        self._timer = loop.call_at(self.base + self._steps * self._period, self._tick)
