"""An event loop whose clock jumps: nothing waits, and a program in which everybody waits for nobody is an error at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

_TICK = 1e-7
"""A clock that stands still would never get past a wait that is too short to be added to it."""


class Deadlock(Exception):
    """Every task waits, and no timer will wake one."""


class _Jumping(selectors.DefaultSelector):
    now = 1000.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        self.now += _TICK
        if not ready and timeout is None:
            raise Deadlock
        if not ready and timeout:
            self.now += timeout
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run_in_fake_time(work: Coroutine[Any, Any, Any]) -> Any:
    """Run `work` without threads and sockets; raises Deadlock."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)
