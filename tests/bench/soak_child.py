"""The product's command with its tasks counted: `python -m tests.bench.soak_child REPORT ARGUMENT...`.

Runs `voiceeval-tui ARGUMENT...` in this process and appends a line a second to REPORT: the time (s since the epoch) and how many asyncio
tasks there are. A thread counts, so that a loop that hangs is seen too.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path

from voiceeval_engine.run.runner import Runner
from voiceeval_tui.cli import main


def count_tasks(report: Path) -> None:
    """From the start of the run on, count."""
    run = Runner.run

    async def counted(self: Runner) -> bool:
        threading.Thread(target=_count, args=(asyncio.get_running_loop(), report), daemon=True).start()
        return await run(self)

    Runner.run = counted


def _count(loop: asyncio.AbstractEventLoop, report: Path) -> None:
    with report.open("a", encoding="ascii") as file:
        while not loop.is_closed():
            file.write(f"{time.time():.3f} {len(asyncio.all_tasks(loop))}\n")
            file.flush()
            time.sleep(1.0)


if __name__ == "__main__":
    count_tasks(Path(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
