"""Truth: reported latencies against what the answering bots measured themselves, over real sockets in real time.

The conversations of `truth_cases` are run a few at a time by the product's own command. The truth of one handoff is the agent bot's
record: from the arrival of the user's last loud frame to the moment its answer can first be heard, both at the engine's end of the
agent's line, so that what a late line adds is in it, as it is in what a user would wait. Where a bot has no record, its delay.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median

from tests.bench import scripts
from tests.bench.processes import Answer, EngineRun, bots, pair_arguments, run_product
from tests.bench.table import Figure, print_figures, print_markdown
from tests.bench.truth_cases import CASES, DELAY, LABELS, Case
from voiceeval_engine.session import layout

BOUND_MEDIAN_MS = 20.0
BOUND_WORST_MS = 40.0
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Result:
    """What one conversation gave. Errors in ms, reported minus true; handoffs and turns got and expected."""

    case: Case
    errors: tuple[float, ...]
    handoffs: tuple[int, int]
    turns: tuple[int, int]
    late: float
    """How late (ms) the engine sent a frame at worst: above some ms the machine was too busy to find the truth."""


def run(folder: Path, pairs: int, handoffs: int, only: list[str]) -> list[Figure]:
    """Run the cases with one of `only` in a label, `pairs` at a time, `handoffs` answers each."""
    labels = [label for label in LABELS if any(part in label for part in only)]
    cases = [case for case in CASES if not set(labels).isdisjoint(case.labels)]
    cases.sort(key=lambda case: case.clock)  # one process of bots has one clock
    results: list[Result] = []
    for clock, group in groupby(cases, key=lambda case: case.clock):
        same = list(group)
        for first in range(0, len(same), pairs):
            results += _batch(folder / f"truth_{clock}_{first}", same[first : first + pairs], handoffs)
    command = f"python -m tests.bench truth --pairs {pairs} --handoffs {handoffs}"
    print_markdown(
        f"Truth: {command} (error of latency_ms: reported minus true)",
        ("manner of the bots", "handoffs", "median ms", "worst ms"),
        [_cells(label, [result for result in results if label in result.case.labels]) for label in labels],
    )
    figures = _figures(command, results)
    print_figures("Truth, all of them", figures)
    return figures


def _batch(folder: Path, cases: Sequence[Case], handoffs: int) -> list[Result]:
    names = [f"truth__{number}" for number in range(1, len(cases) + 1)]
    scenarios = [
        scripts.counted_scenario(name, handoffs, case.agent, case.user, case.length)
        for name, case in zip(names, cases, strict=True)
    ]
    pack = scripts.write_pack(folder / "pack", scenarios)
    with bots(len(cases), [(case.agent_line, case.user_line) for case in cases], cases[0].clock) as running:
        # The queue's n-th scenario goes to the n-th pair: there are as many of one as of the other.
        arguments = ["--scenario-dir", str(pack), "--scenarios", *names, "--max-auto-retries", "0", "--inactivity-timeout", "15"]
        engine = run_product([*arguments, *pair_arguments(running.urls)], folder / "session")
        answers = running.finish()
    return [_result(case, engine, name, own, handoffs) for case, name, own in zip(cases, names, answers, strict=True)]


def _result(case: Case, engine: EngineRun, name: str, answers: Sequence[Answer], handoffs: int) -> Result:
    metrics = engine.json(name, layout.METRICS)
    late = engine.json(name, layout.TIMING)["pacing"]["late_max_ms"]
    errors: list[float] = []
    for record in metrics["latencies"]:
        number = _NUMBER.search(record["agent_transcript"])
        answer = int(number.group()) - 1 if number else -1
        told = case.manners.get("delay", DELAY) * 1000
        errors.append(record["latency_ms"] - (answers[answer].latency_ms if 0 <= answer < len(answers) else told))
    return Result(case, tuple(errors), (len(errors), handoffs), (metrics["total_turns"], 2 * handoffs + 1), late)


def _figures(command: str, results: Sequence[Result]) -> list[Figure]:
    errors = [abs(error) for result in results for error in result.errors] or [float("nan")]
    medians = [abs(median(result.errors)) for result in results if result.errors] or [float("nan")]
    miscounted = [
        (what, sum(abs(got - due) for got, due in counts))
        for what, counts in (("handoffs", [each.handoffs for each in results]), ("turns", [each.turns for each in results]))
    ]
    return [
        Figure(command, f"error of latency_ms, median of {len(errors)}", median(errors), "ms", BOUND_MEDIAN_MS, 1),
        Figure(command, f"the same, the worst conversation's median of {len(medians)}", max(medians), "ms", BOUND_MEDIAN_MS, 1),
        Figure(command, "the same, worst", max(errors), "ms", BOUND_WORST_MS, 1),
        Figure(command, "the engine's latest frame: how quiet the machine was", max(each.late for each in results), "ms", digits=1),
        *(Figure(command, f"{what} too few or too many", wrong, "", 0, 0) for what, wrong in miscounted),
    ]


def _cells(label: str, results: Sequence[Result]) -> tuple[str, ...]:
    errors = [error for result in results for error in result.errors]
    got, due = (sum(result.handoffs[which] for result in results) for which in (0, 1))
    counted = str(got) if got == due else f"{got} of {due}"
    return label, counted, *((f"{median(errors):+.1f}", f"{max(errors, key=abs):+.1f}") if errors else ("none", "none"))
