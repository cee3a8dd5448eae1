"""The queue of a run: which scenario a pair may take next, what holds all of them back, and when nothing is left to do.

Everything that changes the queue passes through here: the workers, the fuse, the operator, a full disk. Used in one event loop. May
import the standard library only. Rules: running page, "The fuse, per pair" and "The operator's hand".
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

STOPPED = "stopped by the operator"
SKIPPED = "skipped by the operator"


@dataclass(eq=False)
class Job:
    """One scenario on its way. `number` is its place in the queue, from 1; `attempts` are those of this invocation."""

    number: int
    name: str
    attempts: int = 0
    reasons: list[str] = field(default_factory=list)
    """Why the attempts that do not count were discarded."""
    retries: int = 0
    """Of these, how many count against `--max-auto-retries`."""
    not_before: float = 0.0
    """The end of its back-off, on the loop's clock."""
    refused_by: set[int] = field(default_factory=set)
    """Pairs on which it could not start."""
    returned: bool = False
    """Whether a fuse has given it back once: the next end on a bad pair stands."""
    probed: bool = False
    """Whether it was of use once to see that a pair is still bad, which cost it nothing."""
    by_hand: bool = False
    """Whether the operator wants it, in place of the result that there may be."""
    halt: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to end the attempt that runs."""


class Backlog:
    """Jobs wait, are in hand, or are finished. The run is `over` when none waits and none is in hand, or when it was closed."""

    def __init__(self, jobs: Iterable[Job], pairs: Iterable[int], on_held: Callable[[str], None] = lambda _: None) -> None:
        """`on_held` is told why the backlog is held whenever that changes, an empty text when it is no longer."""
        self._on_held = on_held
        self.closed_because = ""
        self._waiting = deque(jobs)
        self._in_hand: dict[str, Job] = {}
        self._latest = {job.name: job for job in self._waiting}
        self._usable = set(pairs)
        self._none_since: float | None = None
        self._holds: dict[str, str] = {}
        self._changed = asyncio.Event()

    @property
    def over(self) -> bool:
        """Whether no further attempt will begin."""
        return self.closed or not (self._waiting or self._in_hand)

    @property
    def closed(self) -> bool:
        """Whether no further attempt begins though scenarios may be left."""
        return bool(self.closed_because)

    @property
    def held(self) -> str:
        """Why no attempt may begin, empty where one may."""
        return "; ".join(self._holds.values())

    @property
    def open(self) -> bool:
        """Whether an attempt may begin now."""
        return not (self._holds or self.closed)

    def held_by(self, who: str) -> bool:
        """Whether `who` holds it."""
        return who in self._holds

    def waiting(self, name: str) -> Job | None:
        """The job of that name if it waits."""
        return next((job for job in self._waiting if job.name == name), None)

    def unfinished(self) -> tuple[Job, ...]:
        """The jobs that have not come to their end: those in hand, then those that wait."""
        return (*self._in_hand.values(), *self._waiting)

    def in_hand(self, name: str) -> Job | None:
        """The job of that name if a pair has it."""
        return self._in_hand.get(name)

    async def take(self, pair: int) -> Job | None:
        """The next job for a pair, waiting for one if need be; None when the run is over, or when the pair is out."""
        while not self.over and pair in self._usable:
            job, delay = self._next(pair)
            if job is not None:
                return self._hand_out(job)
            await self.wait(delay)
        return None

    def take_probe(self) -> tuple[Job | None, float]:
        """The next job that may run now, for a pair that is out; else None and the seconds until one may, infinite where nobody knows."""
        job, delay = (None, math.inf) if self.over else self._next(None)
        return None if job is None else self._hand_out(job), delay

    def reclaim(self, job: Job) -> bool:
        """Take a job that has come to its end in hand again. False where its scenario has been queued anew since: then that one counts."""
        if self._latest.get(job.name) is not job or self.waiting(job.name) or self.in_hand(job.name) not in (None, job):
            return False
        self._in_hand[job.name] = job
        return True

    async def until_over(self) -> None:
        """Until the run is over."""
        while not self.over:
            await self.wait(math.inf)

    def finish(self, job: Job) -> None:
        """The job has come to its end."""
        self._in_hand.pop(job.name, None)
        self._tell()

    def put_back(self, job: Job, *, front: bool = True) -> None:
        """The job waits again, or for the first time."""
        self._in_hand.pop(job.name, None)
        self._latest[job.name] = job
        if front:
            self._waiting.appendleft(job)
        else:
            self._waiting.append(job)
        self._tell()

    def remove(self, job: Job) -> None:
        """A job that waits, or that nobody serves any more, is not to run."""
        if self._in_hand.get(job.name) is job:
            del self._in_hand[job.name]
        else:
            self._waiting.remove(job)
        self._tell()

    def elsewhere(self, job: Job) -> bool:
        """Whether a pair is left on which the job has not failed to start."""
        return bool(self._usable - job.refused_by)

    async def may_begin(self, job: Job) -> bool:
        """Wait for the end of the job's back-off and of every hold; false where its next attempt is not to begin."""
        while not (self.closed or job.halt.is_set()):
            delay = job.not_before - _now()
            if delay <= 0 and not self._holds:
                return True
            await self.wait(delay if delay > 0 else math.inf)
        return False

    def hold(self, who: str, reason: str) -> None:
        """No new attempt until `who` releases it."""
        self._holds[who] = reason
        self._on_held(self.held)
        self._tell()

    def release(self, who: str) -> None:
        """`who` holds it no more."""
        if self._holds.pop(who, None) is not None:
            if self._none_since is not None and not self._holds:
                self._none_since = _now()
            self._on_held(self.held)
            self._tell()

    def close(self, reason: str) -> None:
        """No further attempt begins; the first reason stands."""
        self.closed_because = self.closed_because or reason
        self._tell()

    def close_without_pairs(self, seconds: float) -> None:
        """No pair has been usable for that long."""
        self.close(f"no pair of bots has answered for {seconds:g} s")

    def pair_out(self, pair: int) -> None:
        """The pair takes nothing until `pair_back`."""
        self._usable.discard(pair)
        if not self._usable and self._none_since is None:
            self._none_since = _now()
        self._tell()

    def pair_back(self, pair: int) -> None:
        """The pair may take jobs again."""
        self._usable.add(pair)
        for job in self._waiting:
            job.refused_by.discard(pair)
        self._none_since = None
        self._tell()

    def pair_gone(self, pair: int) -> None:
        """The pair is no more, until `pair_back`; how long there has been none counts anew."""
        self.pair_out(pair)
        self._none_since = None if self._usable else _now()

    def without_pairs(self) -> float | None:
        """For how many seconds no pair has been usable, a hold aside; None while one is, while a probe runs and while all is held."""
        if self._usable or self._in_hand or self._holds:
            return None
        if self._none_since is None:  # there was none from the start
            self._none_since = _now()
        return _now() - self._none_since

    async def wait(self, seconds: float) -> None:
        """Until something here changes, or for that long, which may be for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == math.inf else seconds):
                await self._changed.wait()

    def halt(self, job: Job) -> None:
        """The operator ends the attempt that runs, or the back-off before the next."""
        job.halt.set()
        self._tell()

    def _next(self, pair: int | None) -> tuple[Job | None, float]:
        """The first job that may run on the pair now; else None and the seconds until one may, infinite where nobody knows."""
        delays: list[float] = []
        for job in () if self._holds else self._waiting:
            if pair in job.refused_by and self.elsewhere(job):
                continue
            delay = job.not_before - _now()
            if delay <= 0:
                return job, 0.0
            delays.append(delay)
        return None, min(delays, default=math.inf)

    def _hand_out(self, job: Job) -> Job:
        self._waiting.remove(job)
        self._in_hand[job.name] = job
        return job

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _now() -> float:
    return asyncio.get_running_loop().time()
