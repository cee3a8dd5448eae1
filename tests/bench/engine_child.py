"""The product's command with its pacing tapped: `python -m tests.bench.engine_child REPORT ARGUMENT...`.

Runs `voiceeval-tui ARGUMENT...` in this process and writes to REPORT (JSON) how late frames were: for every tick of every conversation
the time from its target (the recording's clock: first tick + number * chunk) to the moment both frames had been handed to their sockets,
in ms. `timing.json` counts to the beginning of the conversation's tick only, and in whole ms.
"""

from __future__ import annotations

import json
import sys
import time
from array import array
from pathlib import Path

import numpy as np

from voiceeval_engine.bridge.conversation import Conversation
from voiceeval_tui.cli import main


def tap(late: array[float]) -> None:
    """Note the lateness of every tick from now on in `late` (s)."""
    send = Conversation._send_frames

    def noting(self: Conversation, now: float, elapsed: float) -> None:
        target = now - elapsed + self._ticks * self._settings.chunk_seconds
        send(self, now, elapsed)
        late.append(time.monotonic() - target)  # uvloop's own clock counts whole ms

    Conversation._send_frames = noting


def report(late: array[float]) -> dict[str, float]:
    """Ticks and percentiles of lateness in ms; zeros where there was no tick."""
    ms = np.frombuffer(late, dtype=np.float64) * 1000.0 if late else np.zeros(1)
    p50, p90, p99, p999 = np.percentile(ms, (50, 90, 99, 99.9))
    return {"ticks": len(late), "p50": p50, "p90": p90, "p99": p99, "p99.9": p999, "max": float(ms.max())}


if __name__ == "__main__":
    lateness = array("d")
    tap(lateness)
    code = main(sys.argv[2:])
    Path(sys.argv[1]).write_text(json.dumps(report(lateness)), encoding="utf-8")
    sys.exit(code)
