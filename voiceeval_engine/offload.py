"""Work that must not hold up audio: small work goes to a thread, large work to a worker process, foreign code to threads apart.

Files are written by threads. Parsing, hashing or dumping more than 256 KB holds the interpreter lock for tens of ms even in a thread,
so that goes to a process, which starts on first use. One Offload serves a whole run. May import the standard library only; every
floor may import this.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import ParamSpec, TypeVar

INLINE_BYTES = 256 * 1024
_THREADS = 4

P = ParamSpec("P")
T = TypeVar("T")


class Offload:
    """`threads` is for whoever writes files; `run` chooses between them and the worker process. `close` ends both."""

    def __init__(self) -> None:
        self.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="voiceeval")
        self._apart = ThreadPoolExecutor(_THREADS, thread_name_prefix="voiceeval-apart")
        self._process: ProcessPoolExecutor | None = None

    async def run(self, size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`function(*args)` in a thread, or in the worker when `size` (bytes of its input) is above 256 KB.

        For the worker, function and arguments must be picklable. Raises what the function raises; a worker that died is started
        again once.
        """
        if size <= INLINE_BYTES:
            return await asyncio.wrap_future(self.threads.submit(function, *args, **kwargs))
        try:
            return await asyncio.wrap_future(self._worker().submit(function, *args, **kwargs))
        except BrokenProcessPool:
            self._process = None
            return await asyncio.wrap_future(self._worker().submit(function, *args, **kwargs))

    async def apart(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`function(*args)` in a thread that writes no files: for what may take seconds or hang, as foreign code may."""
        return await asyncio.wrap_future(self._apart.submit(function, *args, **kwargs))

    def close(self) -> None:
        """End threads and worker; work that has begun is finished, what has not is dropped."""
        self._apart.shutdown(wait=True, cancel_futures=True)
        self.threads.shutdown(wait=True, cancel_futures=True)
        if self._process is not None:
            self._process.shutdown(wait=True, cancel_futures=True)

    def _worker(self) -> ProcessPoolExecutor:
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._process = ProcessPoolExecutor(max_workers=1, mp_context=context, initializer=_begin_worker)
        return self._process


def _begin_worker() -> None:
    """A terminal sends Ctrl-C and its hang-up to the worker too; only the engine decides when that ends, or its death does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
