"""`check-resume` on a session of many scenarios: how long a user waits for the preview, start of the program included."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from pathlib import Path

from tests.bench.processes import PRODUCT, BenchError
from tests.bench.table import Figure, print_figures

BOUND_SECONDS = 0.6
"""For 10,000 scenarios."""
BOUND_FOR = 10_000
TURNS = 20


def run(folder: Path, scenarios: int, times: int) -> list[Figure]:
    """Wall time in s, the median of `times` previews after one that warms the disk's cache."""
    session = folder / "eval_20260618_072325"
    size = make_session(session, scenarios)
    seconds = statistics.median([_seconds(session, scenarios) for _ in range(times + 1)][1:])
    command = f"python -m tests.bench resume --scenarios {scenarios}"
    bound = BOUND_SECONDS if scenarios == BOUND_FOR else None
    figures = [
        Figure(command, f"check-resume, median of {times}", seconds, "s", bound, 3),
        Figure(command, "one metrics.json", size / 1000, "kB", digits=1),
    ]
    print_figures("Resume", figures)
    return figures


def make_session(session: Path, scenarios: int) -> int:
    """A session of complete scenarios of 20 turns; returns the size of one `metrics.json` in bytes."""
    turns = [
        {"timestamp": f"2026-06-18T07:23:{number:02d}.123456", "role": ("agent", "user")[number % 2], "text": "Two teas, please."}
        for number in range(TURNS)
    ]
    handoffs = [{"user_transcript": "Two teas, please.", "agent_transcript": "Two teas.", "latency_ms": 812.345}] * 2
    metrics = {
        "total_turns": TURNS,
        "duration_seconds": 61.234567,
        "turns": turns,
        "latency_stats": {
            "count": 2,
            "mean_ms": 812.345,
            "p50_ms": 812.345,
            "p95_ms": 812.345,
            "min_ms": 812.345,
            "max_ms": 812.345,
        },
        "latencies": handoffs,
        "scenario_duration": 63.2,
        "stop_reason": "[EXIT]",
        "clean_exit": True,
        "token_usage": {side: {"n_calls": 10, "prompt": 10_000, "completion": 300} for side in ("agent", "user")},
        "success_breakdown": {"passed": ["clean_exit"], "failed": [], "not_applicable": [], "excluded": []},
        "auto_retry_count": 0,
        "is_successful": True,
        "is_task_successful": True,
    }
    text = json.dumps(metrics, indent=2)
    for number in range(scenarios):
        folder = session / f"dom__{number:05d}"
        folder.mkdir(parents=True)
        (folder / "metrics.json").write_text(text)
    return len(text)


def _seconds(session: Path, scenarios: int) -> float:
    began = time.perf_counter()
    done = subprocess.run([str(PRODUCT), "check-resume", str(session)], capture_output=True, text=True, check=True, timeout=60)
    seconds = time.perf_counter() - began
    if f"({scenarios} completed, 0 would re-run, 0 fresh)" not in done.stdout:
        raise BenchError(f"check-resume printed {done.stdout[:400]}")
    return seconds
