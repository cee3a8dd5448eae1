"""A full disk holds the run until there is room again, so that nothing is lost to it and nobody has to start anew.

May import the standard library, `backlog`, `logs` and offload. Rule: running page, "Stopping" (a full disk).
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from voiceeval_engine.offload import Offload
from voiceeval_engine.run.backlog import Backlog
from voiceeval_engine.run.logs import TOLD, Log

LOOK_SECONDS = 5.0
_ROOM = bytes(2**20)
_PROBE = ".room.00000000.tmp"
"""Named as other temporary files are, so that `clean` finds one that a kill left."""
_HOLD = "disk"


class DiskWatch:
    """`report` a full disk: the backlog is held until 1 MB can be written into the session."""

    def __init__(self, session: Path, backlog: Backlog, offload: Offload, log: Log) -> None:
        self._probe = session / _PROBE
        self._backlog = backlog
        self._offload = offload
        self._log = log
        self._watching: asyncio.Task[None] | None = None

    def report(self, error: OSError) -> None:
        """Something could not be written for want of room."""
        if self._watching is None or self._watching.done():
            reason = f"the disk is full ({error.strerror}): {self._probe.parent}"
            self._log.error("PAUSED: %s. It goes on when 1 MB can be written there.", reason, extra=TOLD)
            self._backlog.hold(_HOLD, reason)
            self._watching = asyncio.get_running_loop().create_task(self._watch(), name="room on the disk")

    async def room(self) -> None:
        """Until there is room again, at once where nothing was reported."""
        if self._watching is not None:
            await asyncio.wait({self._watching})

    async def close(self) -> None:
        """Look no more."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def _watch(self) -> None:
        await asyncio.sleep(LOOK_SECONDS)  # what finds no room where a MB is left would come back at once, again and again
        while not await self._offload.run(0, self._has_room):  # noqa: ASYNC110 - a disk sets no event
            await asyncio.sleep(LOOK_SECONDS)
        self._log.info("there is room on the disk again")
        self._backlog.release(_HOLD)

    def _has_room(self) -> bool:
        try:
            with self._probe.open("wb") as file:
                file.write(_ROOM)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            return False
        finally:
            with suppress(OSError):  # some file systems find no room even to remove a file
                self._probe.unlink(missing_ok=True)
        return True
