"""Cost: CPU and memory of the engine's process per minute of conversation, recording, journal, evidence and scoring included."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression

from tests.bench import scripts
from tests.bench.processes import BenchError, EngineRun, bots, pair_arguments, run_product
from tests.bench.table import Figure, print_figures
from voiceeval_engine.live import events
from voiceeval_engine.session import layout

BOUND_CPU = {1: 1.7, 8: 0.5}
"""CPU s per minute of conversation, by pairs."""
BOUND_RSS_MB = 90.0
BOUND_PAIR_MB = 4.0
BOUND_GROWTH = 0.5
"""MB a minute of the whole process; "no growth", with room for the allocator's noise. The reference: 15.6."""
SETTLED_AFTER = 20.0
"""s of conversation after which memory is looked at."""


@dataclass(frozen=True)
class Cost:
    """One run. CPU in s, memory in MB of 10^6 bytes, growth in MB a minute over the time since 20 s."""

    minutes: float
    cpu_start: float
    cpu_run: float
    cpu_talking: float
    rss_settled: float
    rss_end: float
    rss_peak: float
    growth: float


def run(folder: Path, pairs: list[int], seconds: float) -> list[Figure]:
    """One run of `seconds` s for each number in `pairs`; bounds stand where issue 2 gives one."""
    costs = {count: measure(folder / f"cost_{count}", count, seconds) for count in pairs}
    figures: list[Figure] = []
    for count, cost in costs.items():
        command = f"python -m tests.bench cost --pairs {count} --seconds {seconds:g}"
        who = f"{count} pair{'s' if count > 1 else ''}"
        figures += [
            Figure(
                command,
                f"{who}: CPU per conversation minute, set-up to summary",
                cost.cpu_run / cost.minutes,
                "s",
                BOUND_CPU.get(count),
                3,
            ),
            Figure(command, f"{who}: of it while they talk", cost.cpu_talking / cost.minutes, "s", digits=3),
            Figure(command, f"{who}: CPU of the start, once", cost.cpu_start, "s", digits=3),
            Figure(command, f"{who}: resident at {SETTLED_AFTER:g} s", cost.rss_settled, "MB", digits=1),
            Figure(command, f"{who}: resident at the conversation's end", cost.rss_end, "MB", digits=1),
            Figure(command, f"{who}: resident, highest", cost.rss_peak, "MB", BOUND_RSS_MB if count == 1 else None, 1),
            Figure(command, f"{who}: growth a minute since {SETTLED_AFTER:g} s", cost.growth, "MB", BOUND_GROWTH),
        ]
    fewest, most = min(costs), max(costs)
    if most > fewest:
        per_pair = (costs[most].rss_end - costs[fewest].rss_end) / (most - fewest)
        command = f"python -m tests.bench cost --pairs {fewest} {most} --seconds {seconds:g}"
        figures.append(Figure(command, "resident for each further pair", per_pair, "MB", BOUND_PAIR_MB))
    print_figures("Cost of the engine's process (bots in another)", figures)
    return figures


def measure(folder: Path, pairs: int, seconds: float) -> Cost:
    """Run `pairs` conversations of `seconds` s at once and read the engine's process; raises BenchError for less than 30 s."""
    if seconds < SETTLED_AFTER + 10:
        raise BenchError(f"cost needs at least {SETTLED_AFTER + 10:g} s, to look at memory after {SETTLED_AFTER:g} s")
    names = [f"cost__{number}" for number in range(1, pairs + 1)]
    pack = scripts.write_pack(folder / "pack", [scripts.endless_scenario(name) for name in names])
    with bots(pairs) as running:
        arguments = [
            "--scenario-dir",
            str(pack),
            "--scenarios",
            *names,
            "--duration",
            f"{seconds:g}",
            *pair_arguments(running.urls),
        ]
        engine = run_product(arguments, folder / "session")
    return read_cost(engine, names)


def read_cost(engine: EngineRun, names: list[str]) -> Cost:
    """What a run of one conversation for each of `names` cost."""
    journal = engine.events()
    begun = next(event.time for event in journal if isinstance(event, events.RunStarted))
    talking = max(event.time for event in journal if isinstance(event, events.ConversationStarted))
    quiet = min(event.time for event in journal if isinstance(event, events.ConversationEnded))
    settled = engine.rss_between(talking + SETTLED_AFTER, quiet)
    if len(settled) < 2:
        raise BenchError(f"no samples after {SETTLED_AFTER:g} s: did the conversations end early? See {engine.session}")
    slope, _ = linear_regression([each.at / 60 for each in settled], [each.rss_mb for each in settled])
    minutes = sum(engine.json(name, layout.METRICS)["duration_seconds"] for name in names) / 60
    spoken = len(names) * (quiet - talking) / 60
    return Cost(
        minutes=minutes,
        cpu_start=engine.cpu_at(begun),
        cpu_run=engine.cpu - engine.cpu_at(begun),
        cpu_talking=(engine.cpu_at(quiet) - engine.cpu_at(talking)) * minutes / spoken,
        rss_settled=settled[0].rss_mb,
        rss_end=settled[-1].rss_mb,
        rss_peak=max(sample.rss_mb for sample in engine.samples),
        growth=slope,
    )
