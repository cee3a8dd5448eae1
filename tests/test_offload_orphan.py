"""The worker process and the death of its engine: no kill leaves an orphan."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PATIENCE = 60.0
SCRIPT = """\
import asyncio, os, time
from voiceeval_engine.offload import INLINE_BYTES, Offload

async def main():
    offload = Offload()
    pid = await offload.run(INLINE_BYTES + 1, os.getpid)
    assert pid != os.getpid()
    work = [asyncio.create_task(offload.run(INLINE_BYTES + 1, *call)) for call in CALLS]
    print(pid, flush=True)
    await asyncio.sleep(600)

CALLS = {calls}
if __name__ == "__main__":
    asyncio.run(main())
"""


def _is_running(pid: int) -> bool:
    """An orphan that nobody reaps is a zombie for ever, yet gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    "calls",
    ["[]", "[(time.sleep, 600)]", "[(exec, 'while True: pass')]", "[(time.sleep, 600)] * 5"],
    ids=["idle", "waiting", "computing", "with_more_to_do"],
)
def test_the_worker_process_ends_when_its_engine_is_killed(tmp_path: Path, calls: str) -> None:
    script = tmp_path / "engine.py"
    script.write_text(SCRIPT.format(calls=calls))
    worker = 0
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE) as engine:
        try:
            assert engine.stdout is not None
            worker = int(engine.stdout.readline())
            assert _is_running(worker)
            engine.kill()
            assert engine.wait(PATIENCE) == -signal.SIGKILL
            deadline = time.monotonic() + PATIENCE
            while _is_running(worker) and time.monotonic() < deadline:
                time.sleep(0.02)
            assert not _is_running(worker)
        finally:
            engine.kill()
            if worker and _is_running(worker):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
