"""The stereo recording, written as it happens: left is what the agent was sent, right what the user was sent.

Ticks hand over bytes; every four seconds a thread appends them to the file and then brings the header up to date, so the file is a
valid WAV at any moment and memory does not grow. Conversations that begin together write at different moments. May import the standard
library and numpy. Rule: wire page, "Audio path".
"""

from __future__ import annotations

import asyncio
import os
import random
import struct
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

_FLUSH_SECONDS = 4.0
_HEADER_BYTES = 44
_MAX_DATA_BYTES = (2**32 - 1 - _HEADER_BYTES) // 4 * 4


def _header(rate: int, data_bytes: int) -> bytes:
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + data_bytes, b"WAVE", b"fmt ", 16, 1, 2, rate, rate * 4, 4, 16, b"data", data_bytes
    )


class Recorder:
    """Writes one recording. `add` never blocks; an error of the disk is kept and raised by `close`."""

    def __init__(self, path: Path, rate: int, chunk_seconds: float, executor: Executor) -> None:
        self._rate = rate
        self._executor = executor
        self._left: list[bytes] = []
        self._right: list[bytes] = []
        self._flush_every = max(1, round(_FLUSH_SECONDS / chunk_seconds))
        self._flush_at = random.randint(1, self._flush_every)
        self._data_bytes = 0
        self._error: OSError | None = None
        self._writing: asyncio.Future[None] | None = None
        self._file: BinaryIO = path.open("wb")
        try:
            self._file.write(_header(rate, 0))
            self._file.flush()
        except OSError:
            with suppress(OSError):
                self._file.close()
            raise

    def add(self, to_agent: bytes, to_user: bytes) -> None:
        """One tick's audio, both of the same length. Call it in the event loop."""
        self._left.append(to_agent)
        self._right.append(to_user)
        if len(self._left) >= self._flush_at and (self._writing is None or self._writing.done()):
            self._flush_at = self._flush_every
            self._start_writing()

    async def close(self) -> None:
        """Write what is left and close the file; raises the first OSError that writing met."""
        if self._writing is not None:
            await self._writing
        if self._left:
            await self._start_writing()
        await asyncio.get_running_loop().run_in_executor(self._executor, self._file.close)
        if self._error is not None:
            raise self._error

    def _start_writing(self) -> asyncio.Future[None]:
        left, right = self._left, self._right
        self._left, self._right = [], []
        self._writing = asyncio.get_running_loop().run_in_executor(self._executor, self._write, left, right)
        return self._writing

    def _write(self, left: list[bytes], right: list[bytes]) -> None:
        if self._error is not None:
            return
        channels = [np.frombuffer(b"".join(parts), dtype="<i2") for parts in (left, right)]
        data = np.stack(channels, axis=1).tobytes()[: _MAX_DATA_BYTES - self._data_bytes]
        try:
            self._file.write(data)
            self._file.flush()
            self._data_bytes += len(data)
            os.pwrite(self._file.fileno(), _header(self._rate, self._data_bytes), 0)
        except OSError as error:
            self._error = error
