"""Work that would make audio ticks late: it goes to a worker process when its input is large, and runs in place when small.

Parsing, hashing or dumping more than 256 KB holds the interpreter lock for tens of ms even in a thread, so a thread is no help. The
worker starts on first use and is shared by the whole engine. May import the standard library only; every floor may import this.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import ParamSpec, TypeVar

INLINE_BYTES = 256 * 1024

P = ParamSpec("P")
T = TypeVar("T")


class Offload:
    """One worker process, started when first needed; `close` ends it."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    async def run(self, size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`function(*args)`, in the worker when `size` (bytes of its input) is above 256 KB, else right here.

        For the worker, function and arguments must be picklable. Raises what the function raises; a worker that died is started
        again once.
        """
        if size <= INLINE_BYTES:
            return function(*args, **kwargs)
        for last in (False, True):
            if self._pool is None:
                self._pool = ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn"))
            call = self._pool.submit(function, *args, **kwargs)
            try:
                return await asyncio.wrap_future(call)
            except BrokenProcessPool:
                self.close()
                if last:
                    raise
        raise AssertionError("unreachable")

    def close(self) -> None:
        """End the worker; work that has not begun is dropped."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
