"""Pacing: how late frames go out against their targets while several pairs talk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tests.bench.processes import bots, run_endless
from tests.bench.table import Figure, print_figures
from voiceeval_engine.session import layout

BOUND_P99_MS = 5.0


def run(folder: Path, pairs: list[int], seconds: float, times: int) -> list[Figure]:
    """For each of `pairs` so many conversations of `seconds` s at once in one engine process, `times` over; lateness in ms over all
    their frames.
    """
    figures = [figure for count in pairs for figure in _measure(folder / f"pacing_{count}", count, seconds, times)]
    print_figures("Pacing", figures)
    return figures


def median_lateness(reports: Sequence[dict[str, float]]) -> dict[str, float]:
    """The median of each percentile, the worst of all."""
    return {key: (max if key == "max" else median)(report[key] for report in reports) for key in reports[0]}


def _measure(folder: Path, pairs: int, seconds: float, times: int) -> list[Figure]:
    names = [f"pacing__{number}" for number in range(1, pairs + 1)]
    reports, told = [], []
    for number in range(times):
        report = folder / f"pacing_{number}.json"
        with bots(pairs) as running:
            engine = run_endless(names, seconds, running.urls, folder / str(number), pacing_report=report)
        reports.append(json.loads(report.read_text(encoding="utf-8")))
        told += [engine.json(name, layout.TIMING)["pacing"] for name in names]
    measured = median_lateness(reports)
    command = f"python -m tests.bench pacing --pairs {pairs} --seconds {seconds:g}"
    what = f"{pairs} pairs: frames handed to the socket after their target"
    return [
        Figure(command, f"{what}, p50", measured["p50"], "ms"),
        Figure(command, f"{what}, p90", measured["p90"], "ms"),
        Figure(command, f"{what}, p99", measured["p99"], "ms", BOUND_P99_MS),
        Figure(command, f"{what}, p99.9", measured["p99.9"], "ms"),
        Figure(command, f"{what}, worst of {times} times {measured['ticks']:.0f} ticks", measured["max"], "ms"),
        Figure(command, "timing.json, largest late_p99_ms of a conversation", max(each["late_p99_ms"] for each in told), "ms"),
        Figure(command, "timing.json, largest late_max_ms of a conversation", max(each["late_max_ms"] for each in told), "ms"),
    ]
