"""Cost: CPU and memory of the engine's process per minute of conversation, recording, journal, evidence and scoring included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import linear_regression, median

from tests.bench.processes import BenchError, EngineRun, bots, run_endless
from tests.bench.table import Figure, print_figures
from voiceeval_engine.live import events
from voiceeval_engine.session import layout

BOUND_CPU = {1: 1.7, 8: 0.5}
"""CPU s per minute of conversation, by pairs."""
BOUND_RSS_MB = 90.0
BOUND_PAIR_MB = 4.0
BOUND_GROWTH = 0.5
"""MB a minute of the whole process; "no growth", with room for the allocator's noise."""
REFERENCE_CPU, REFERENCE_RSS_MB, REFERENCE_GROWTH = 2.2, 227.0, 15.6
"""Of the reference harness, which drives one pair."""
SETTLED_AFTER = 20.0
"""s of conversation after which memory is looked at, or half of a conversation shorter than twice that."""
SHORT = 110.0
"""s of conversation under which a run takes less than two minutes: the median of several counts."""


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
    around: float
    """s of wall time that a scenario takes besides its conversation: set-up, pause, settling, evidence, score."""


def run(folder: Path, pairs: list[int], seconds: float, lengths: list[float], times: int) -> list[Figure]:
    """Medians of `times` runs of `seconds` s for each number in `pairs`, with the bounds of issue 2; one pair for each of `lengths` (s)."""
    costs = {count: measure(folder / f"cost_{count}", count, seconds, times) for count in pairs}
    figures: list[Figure] = []
    for count, cost in costs.items():
        command = f"python -m tests.bench cost --pairs {count} --seconds {seconds:g}"
        who, alone = f"{count} pair{'s' if count > 1 else ''}", count == 1
        figures += [
            Figure(
                command,
                f"{who}: CPU per conversation minute, set-up to summary",
                cost.cpu_run / cost.minutes,
                "s",
                BOUND_CPU.get(count),
                3,
                REFERENCE_CPU if alone else None,
            ),
            Figure(command, f"{who}: of it while they talk", cost.cpu_talking / cost.minutes, "s", digits=3),
            Figure(command, f"{who}: CPU of the start, once", cost.cpu_start, "s", digits=3),
            Figure(command, f"{who}: resident at {SETTLED_AFTER:g} s", cost.rss_settled, "MB", digits=1),
            Figure(command, f"{who}: resident at the conversation's end", cost.rss_end, "MB", digits=1),
            Figure(
                command,
                f"{who}: resident, highest",
                cost.rss_peak,
                "MB",
                BOUND_RSS_MB if alone else None,
                1,
                REFERENCE_RSS_MB if alone else None,
            ),
            Figure(
                command,
                f"{who}: growth a minute since {SETTLED_AFTER:g} s",
                cost.growth,
                "MB",
                BOUND_GROWTH,
                2,
                REFERENCE_GROWTH if alone else None,
            ),
        ]
    if len(costs) > 1:
        fewest, most = min(costs), max(costs)
        per_pair = (costs[most].rss_end - costs[fewest].rss_end) / (most - fewest)
        command = f"python -m tests.bench cost --pairs {fewest} {most} --seconds {seconds:g}"
        figures.append(Figure(command, "resident for each further pair", per_pair, "MB", BOUND_PAIR_MB))
    figures += _by_length(folder, lengths, times)
    print_figures("Cost of the engine's process (bots in another)", figures)
    return figures


def _by_length(folder: Path, lengths: list[float], times: int) -> list[Figure]:
    """What a conversation costs by its length, and from the shortest and the longest what a scenario costs whatever its length."""
    figures: list[Figure] = []
    cpu: dict[float, float] = {}
    for seconds in sorted(lengths):
        command = f"python -m tests.bench cost --pairs --lengths {seconds:g}"
        cost = measure(folder / f"length_{seconds:g}", 1, seconds, times if seconds < SHORT else 1)
        cpu[cost.minutes] = cost.cpu_run
        what = f"{seconds:g} s of conversation"
        figures += [
            Figure(command, f"{what}: CPU per conversation minute", cost.cpu_run / cost.minutes, "s", digits=3),
            Figure(command, f"{what}: resident, highest", cost.rss_peak, "MB", digits=1),
            Figure(command, f"{what}: wall time besides it", cost.around, "s"),
        ]
    if len(cpu) > 1:
        shortest, longest = min(cpu), max(cpu)
        a_minute = (cpu[longest] - cpu[shortest]) / (longest - shortest)
        command = f"python -m tests.bench cost --pairs --lengths {' '.join(f'{each:g}' for each in sorted(lengths))}"
        figures += [
            Figure(command, "law: CPU of each further conversation minute", a_minute, "s", digits=3),
            Figure(command, "law: CPU of a run of one scenario besides that", cpu[shortest] - a_minute * shortest, "s", digits=3),
        ]
    return figures


def measure(folder: Path, pairs: int, seconds: float, times: int) -> Cost:
    """Run `pairs` conversations of `seconds` s at once, `times` over, and read the engine's process."""
    names = [f"cost__{number}" for number in range(1, pairs + 1)]
    costs = []
    for number in range(times):
        with bots(pairs) as running:
            costs.append(read_cost(run_endless(names, seconds, running.urls, folder / str(number)), names))
    return median_cost(costs)


def median_cost(costs: Sequence[Cost]) -> Cost:
    """The median of each figure."""
    return Cost(*(median(getattr(cost, field.name) for cost in costs) for field in fields(Cost)))


def read_cost(engine: EngineRun, names: list[str]) -> Cost:
    """What a run of one conversation for each of `names` cost."""
    journal = engine.events()
    begun = next(event.time for event in journal if isinstance(event, events.RunStarted))
    talking = max(event.time for event in journal if isinstance(event, events.ConversationStarted))
    quiet = min(event.time for event in journal if isinstance(event, events.ConversationEnded))
    settled = engine.rss_between(talking + min(SETTLED_AFTER, (quiet - talking) / 2), quiet)
    if len(settled) < 2:
        raise BenchError(f"no samples while they talked: did the conversations end early? See {engine.session}")
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
        around=_around(journal) - 60 * minutes / len(names),
    )


def _around(journal: list[events.Event]) -> float:
    """s from the first attempt's beginning to its score."""
    begun = next(event for event in journal if isinstance(event, events.AttemptStarted))
    scored = next(event for event in journal if isinstance(event, events.ScenarioScored) and event.scenario == begun.scenario)
    return scored.time - begun.time
