"""Scale: one engine process on one core drives more and more pairs of cheap bots, which have the other cores; and the law of its cost."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.bench.bench_cost import Cost, median_cost, read_cost
from tests.bench.bench_pacing import median_lateness
from tests.bench.processes import BenchError, bots, run_endless
from tests.bench.table import Figure, print_figures

BOUND_CPU = 0.35
"""CPU s per minute of conversation, set-up and scoring included."""
BOUND_P99_MS = 10.0
BOUND_PAIR_MB = 4.0
BOUNDS_FOR = 100
"""Pairs at which the bounds stand."""


def run(folder: Path, pairs: list[int], seconds: float, times: int) -> list[Figure]:
    """Medians of `times` runs of `seconds` s for each number in `pairs`, recording, journal and scoring on, every pair talking at once."""
    costs: dict[int, Cost] = {}
    figures: list[Figure] = []
    for count in pairs:
        command = f"python -m tests.bench scale --pairs {count} --seconds {seconds:g}"
        cost, late = _measure(folder / f"scale_{count}", count, seconds, times)
        costs[count] = cost
        bounded = count >= BOUNDS_FOR
        who = f"{count} pair{'s' if count > 1 else ''}"
        figures += [
            Figure(command, f"{who}: lateness of frames, p50", late["p50"], "ms"),
            Figure(command, f"{who}: p99", late["p99"], "ms", BOUND_P99_MS if bounded else None),
            Figure(command, f"{who}: worst of {times} times {late['ticks']:.0f} ticks", late["max"], "ms"),
            Figure(
                command, f"{who}: CPU per conversation minute", cost.cpu_run / cost.minutes, "s", BOUND_CPU if bounded else None, 3
            ),
            Figure(command, f"{who}: of it while they talk", cost.cpu_talking / cost.minutes, "s", digits=3),
            Figure(command, f"{who}: resident, highest", cost.rss_peak, "MB", digits=1),
        ]
    fewest, most = min(costs), max(costs)
    if most > fewest:
        command = f"python -m tests.bench scale --pairs {fewest} {most} --seconds {seconds:g}"
        figures += _law(command, fewest, costs[fewest], most, costs[most], _written_mb(folder / f"scale_{most}" / "0"))
    print_figures("Scale (one engine process on one core, cheap bots on the others)", figures)
    return figures


def _law(command: str, few: int, less: Cost, many: int, more: Cost, written: float) -> list[Figure]:
    """What one pair more costs: in memory, while it talks an hour, and at the beginning and end of each scenario.

    `written` is what the run with `many` left on the disk, in MB.
    """
    talking = (more.cpu_talking - less.cpu_talking) / (more.minutes - less.minutes)
    fixed = ((more.cpu_run - more.cpu_talking) - (less.cpu_run - less.cpu_talking)) / (many - few)
    bound = BOUND_PAIR_MB if many >= BOUNDS_FOR else None
    return [
        Figure(command, "law: resident for each further pair", (more.rss_peak - less.rss_peak) / (many - few), "MB", bound),
        Figure(command, "law: CPU of each further scenario, set-up to score", fixed, "s", digits=3),
        Figure(command, "law: CPU of each further pair that talks for an hour", talking * 60.0, "s", digits=1),
        Figure(command, "law: disk of each pair that talks for an hour", written / more.minutes * 60.0, "MB", digits=0),
    ]


def _written_mb(folder: Path) -> float:
    return sum(file.stat().st_size for file in (folder / "session").rglob("*") if file.is_file()) / 1e6


def _measure(folder: Path, pairs: int, seconds: float, times: int) -> tuple[Cost, dict[str, float]]:
    """Cost, and lateness of frames in ms."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise BenchError("scale needs two cores: one for the engine, one for the bots")
    names = [f"scale__{number}" for number in range(1, pairs + 1)]
    costs, reports = [], []
    for number in range(times):
        report = folder / f"pacing_{number}.json"
        with bots(pairs, module="tests.bench.cheap_bots", cores=cores[:-1]) as running:
            engine = run_endless(names, seconds, running.urls, folder / str(number), pacing_report=report, cores=cores[-1:])
        costs.append(read_cost(engine, names))
        reports.append(json.loads(report.read_text(encoding="utf-8")))
    return median_cost(costs), median_lateness(reports)
