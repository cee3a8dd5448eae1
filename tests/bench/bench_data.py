"""Saved data: making the `all_*` files of many scenarios, and folding a long journal, as time and as memory of a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from tests.bench.bench_resume import make_session
from tests.bench.processes import Measured, measure
from tests.bench.table import Figure, print_figures
from voiceeval_engine.live import events

SCENARIOS = (477, 5_000)
"""The reference's own number of scenarios, and ten times that."""
EVENTS = 1_000_000
PER_SCENARIO = 1_000
_NAME = "retail__0000"


def run(folder: Path, times: int, scenarios: list[int], count: int) -> list[Figure]:
    """The median of `times` runs of each; `count` events, whole thousands of them."""
    figures: list[Figure] = []
    for number in scenarios:
        session = folder / f"aggregate_{number}" / "eval_20260618_072325"
        make_session(session, number)
        figures += _figures(f"aggregating {number:,} scenarios", "aggregate", session, number, times)
    journal = folder / "events.jsonl"
    with journal.open("w", encoding="utf-8") as file:
        file.writelines(_journal(count // PER_SCENARIO))
    figures += _figures(f"folding {count:,} events ({journal.stat().st_size / 1e6:.0f} MB)", "fold", journal, count, times)
    print_figures("Saved data", figures)
    return figures


def _figures(what: str, work: str, path: Path, count: int, times: int) -> list[Figure]:
    runs: list[Measured] = [
        measure([sys.executable, "-m", "tests.bench.data_child", work, str(path), str(count)]) for _ in range(times)
    ]
    command = f"python -m tests.bench data --times {times}"
    return [
        Figure(command, f"{what}: CPU, median of {times}", median(float(each.output) for each in runs), "s"),
        Figure(command, f"{what}: resident, highest", max(each.peak_mb for each in runs), "MB", digits=0),
    ]


def _journal(scenarios: int) -> Iterator[str]:
    """A run of so many conversations of 1,000 events each, told one after the other: words above all, as in a real journal."""
    names = [f"retail__{number:04d}" for number in range(scenarios)]
    lines = "".join(f"{events.to_line(event)}\n" for event in _conversation())
    first = events.RunStarted(
        session="/results/eval_20260618_072325",
        scenarios=names,
        pairs=[("ws://a", "ws://u")],
        inactivity_timeout=120,
        min_agent_turns=2,
    )
    for number, name in enumerate(names):
        text = lines.replace(_NAME, name)
        yield events.to_line(first) + "\n" + text[text.index("\n") + 1 :] if number == 0 else text


def _conversation() -> Iterator[events.Event]:
    """PER_SCENARIO events of one scenario; the first may give way to the run's."""
    yield events.Logged(level="INFO", message=f"Starting {_NAME}")
    names = {"scenario": _NAME, "attempt": 1}
    yield events.AttemptStarted(pair=0, number=1, max_duration=900, **names)
    yield events.ConversationStarted(**names)
    for number in range(PER_SCENARIO - 5):
        side, at = ("agent", "user")[number // 12 % 2], number * 0.3
        if number % 12 in (0, 10):
            yield events.Speaking(side=side, on=number % 12 == 0, at=at, **names)
        elif number % 12 == 11:
            latency = 712.5 if side == "agent" else None
            yield events.TurnEnded(side=side, text="Yes, please.", start=at - 3, end=at, latency_ms=latency, **names)
        else:
            yield events.Words(side=side, text="of a sentence", at=at, **names)
    yield events.ConversationEnded(stop_reason="[EXIT]", duration=300.0, turns=82, **names)
    yield events.ScenarioScored(
        verdict=True, task_verdict=True, failed_signals=[], signals={"clean_exit": True}, stalled=False, stop_reason="[EXIT]", turns=82,
        latencies=[712.5] * 41, tokens=1234, retries=0, duration=300.0, **names,
    )  # fmt: skip
