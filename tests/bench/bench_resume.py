"""A session of many scenarios: how long `check-resume` takes to tell of it and `--resume` to take it up, start of the program included."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

from tests.bench import scripts
from tests.bench.processes import PRODUCT, BenchError, measure
from tests.bench.table import Figure, print_figures
from voiceeval_engine.session import layout

BOUND_SECONDS = 0.6
"""For 10,000 scenarios."""
BOUND_FOR = 10_000
TURNS = 20
TIMESTAMP = "20260618_072325"


def run(folder: Path, scenarios: list[int], times: int) -> list[Figure]:
    """Wall time in s, the median of `times` runs after one that warms the disk's cache, for sessions of so many complete scenarios."""
    figures: list[Figure] = []
    for count in scenarios:
        root = folder / f"resume_{count}"
        session = root / f"{layout.SESSION_PREFIX}{TIMESTAMP}"
        size = make_session(session, count)
        pack = scripts.write_pack(root / "pack", [scripts.endless_scenario(name) for name in _names(count)])
        command = f"python -m tests.bench resume --scenarios {count}"
        preview = [str(PRODUCT), "check-resume", str(session)]
        arguments = ("--scenario-dir", str(pack), "--domain", "dom", "--output-dir", str(root), "--judge-url", "", "--no-ui")
        resume = [str(PRODUCT), "--resume", TIMESTAMP, *arguments]
        bound = BOUND_SECONDS if count == BOUND_FOR else None
        figures += [
            *_figures(
                command, f"check-resume of {count:,}", preview, times, f"({count} completed, 0 would re-run, 0 fresh)", bound
            ),
            *_figures(
                command, f"--resume of {count:,}, nothing left to do", resume, times, f"{count} of {count} scenarios have a result"
            ),
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
    for name in _names(scenarios):
        folder = session / name
        folder.mkdir(parents=True)
        (folder / "metrics.json").write_text(text)
    return len(text)


def _names(count: int) -> list[str]:
    return [f"dom__{number:05d}" for number in range(count)]


def _figures(command: str, what: str, run: list[str], times: int, says: str, bound: float | None = None) -> list[Figure]:
    """The median of `times` runs; raises BenchError for one that does not say what it should."""
    runs = [measure(run) for _ in range(times + 1)][1:]
    if not all(says in each.output for each in runs):
        raise BenchError(f"{' '.join(run[:3])} printed {runs[0].output[-400:]}")
    return [
        Figure(command, f"{what}, median of {times}", statistics.median(each.seconds for each in runs), "s", bound, 3),
        Figure(command, f"{what}: CPU", statistics.median(each.cpu for each in runs), "s", digits=3),
        Figure(command, f"{what}: resident, highest", max(each.peak_mb for each in runs), "MB", digits=0),
    ]
