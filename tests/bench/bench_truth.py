"""Truth: reported latencies against what the answering bots measured themselves, over real sockets in real time.

Sixteen rows of manners, in which every value of every manner meets every value of every other at least once, run a few at a time by the
product's own command. The truth of one handoff is the agent bot's record: from the arrival of the user's last loud frame to the moment
its answer can first be heard; where a bot has no record it is the delay that it was told to keep.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from statistics import median

from tests.bench import scripts
from tests.bench.processes import Answer, EngineRun, bots, pair_arguments, run_product
from tests.bench.table import Figure, print_figures, print_table
from voiceeval_engine.scenarios.script import ScriptManners
from voiceeval_engine.session import layout

BOUND_MEDIAN_MS = 20.0
BOUND_WORST_MS = 40.0
DELAY = 0.6
CHUNKS, RATES, CHANNELS, SPEEDS = (16, 20, 40), (8_000, 16_000, 24_000, 48_000), (1, 2), (1.0, 3.0)
STOPPED: tuple[float | None, ...] = (0.0, 0.35, 8.0, None)
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Row:
    """One conversation's manners, for both bots; `stopped` in s after the audio, None for never."""

    chunk_ms: int
    rate: int
    channels: int
    speed: float
    stopped: float | None
    silence: bool

    def values(self) -> tuple[object, ...]:
        """The manners, in the order of `ALL_VALUES`."""
        return self.chunk_ms, self.rate, self.channels, self.speed, self.stopped, self.silence

    def manners(self) -> ScriptManners:
        """The same as a script says it."""
        return ScriptManners.model_validate(
            {
                "chunk_ms": self.chunk_ms,
                "rate": self.rate,
                "channels": self.channels,
                "speed": self.speed,
                "stopped_after": self.stopped,
                "streams_silence": self.silence,
                "delay": DELAY,
            }
        )


ALL_VALUES: tuple[tuple[object, ...], ...] = (CHUNKS, RATES, CHANNELS, SPEEDS, STOPPED, (False, True))
ROWS = (
    Row(40, 24000, 1, 1.0, 0.0, False),
    Row(16, 24000, 1, 3.0, 0.35, True),
    Row(20, 24000, 2, 3.0, 8.0, True),
    Row(40, 24000, 2, 1.0, None, False),
    Row(16, 8000, 2, 1.0, 0.0, True),
    Row(40, 8000, 2, 3.0, 0.35, False),
    Row(40, 8000, 1, 3.0, 8.0, False),
    Row(20, 8000, 1, 1.0, None, True),
    Row(20, 16000, 1, 3.0, 0.0, False),
    Row(40, 16000, 1, 1.0, 0.35, True),
    Row(40, 16000, 2, 1.0, 8.0, True),
    Row(16, 16000, 2, 3.0, None, False),
    Row(40, 48000, 2, 3.0, 0.0, True),
    Row(20, 48000, 2, 1.0, 0.35, False),
    Row(16, 48000, 1, 1.0, 8.0, False),
    Row(40, 48000, 1, 3.0, None, True),
)


@dataclass(frozen=True)
class Result:
    """What one row gave. Errors in ms, reported minus true; `from_told` against the delay told instead of the one measured."""

    row: Row
    errors: tuple[float, ...]
    from_told: tuple[float, ...]
    handoffs: tuple[int, int]
    turns: tuple[int, int]
    """Expected and got, as `handoffs`."""


def uncovered() -> list[tuple[object, object]]:
    """The pairs of values that no row brings together."""
    missing: list[tuple[object, object]] = []
    for one, two in combinations(range(len(ALL_VALUES)), 2):
        there = {(row.values()[one], row.values()[two]) for row in ROWS}
        missing += [pair for pair in product(ALL_VALUES[one], ALL_VALUES[two]) if pair not in there]
    return missing


def run(folder: Path, pairs: int, handoffs: int, rows: Sequence[Row] = ROWS) -> list[Figure]:
    """Run `rows`, `pairs` at a time, `handoffs` answers each."""
    results: list[Result] = []
    for first in range(0, len(rows), pairs):
        results += _batch(folder / f"truth_{first}", rows[first : first + pairs], handoffs)
    command = f"python -m tests.bench truth --pairs {pairs} --handoffs {handoffs}"
    figures = _figures(command, results)
    head = ("chunk", "rate", "channels", "speed", "stopped", "silence", "n", "median ms", "worst ms", "handoffs", "turns")
    print_table(f"Truth: {command} (errors: reported minus true, got/expected)", head, [_cells(result) for result in results])
    print_figures("Truth, all rows", figures)
    return figures


def _batch(folder: Path, rows: Sequence[Row], handoffs: int) -> list[Result]:
    names = [f"truth__{number}" for number in range(1, len(rows) + 1)]
    scenarios = [scripts.counted_scenario(name, handoffs, row.manners()) for name, row in zip(names, rows, strict=True)]
    pack = scripts.write_pack(folder / "pack", scenarios)
    with bots(len(rows)) as running:
        # The queue's n-th scenario goes to the n-th pair: there are as many of one as of the other.
        arguments = ["--scenario-dir", str(pack), "--scenarios", *names, "--max-auto-retries", "0", "--inactivity-timeout", "15"]
        engine = run_product([*arguments, *pair_arguments(running.urls)], folder / "session")
        answers = running.finish()
    return [_result(row, engine, name, own, handoffs) for row, name, own in zip(rows, names, answers, strict=True)]


def _result(row: Row, engine: EngineRun, name: str, answers: Sequence[Answer], handoffs: int) -> Result:
    metrics = engine.json(name, layout.METRICS)
    errors: list[float] = []
    from_told: list[float] = []
    for record in metrics["latencies"]:
        number = _NUMBER.search(record["agent_transcript"])
        answer = int(number.group()) - 1 if number else -1
        truth = answers[answer].latency_ms if 0 <= answer < len(answers) else DELAY * 1000
        errors.append(record["latency_ms"] - truth)
        from_told.append(record["latency_ms"] - DELAY * 1000)
    expected = 2 * handoffs + 1
    return Result(row, tuple(errors), tuple(from_told), (handoffs, len(errors)), (expected, metrics["total_turns"]))


def _figures(command: str, results: Sequence[Result]) -> list[Figure]:
    errors = [abs(error) for result in results for error in result.errors] or [float("nan")]
    told = [abs(error) for result in results for error in result.from_told] or [float("nan")]
    lost = sum(abs(result.handoffs[0] - result.handoffs[1]) for result in results)
    turns = sum(abs(result.turns[0] - result.turns[1]) for result in results)
    return [
        Figure(
            command,
            f"error of latency_ms against the bot's record, median of {len(errors)}",
            median(errors),
            "ms",
            BOUND_MEDIAN_MS,
            1,
        ),
        Figure(command, "the same, worst", max(errors), "ms", BOUND_WORST_MS, 1),
        Figure(command, "error against the 600 ms that the bot was told, median", median(told), "ms", BOUND_MEDIAN_MS, 1),
        Figure(command, "the same, worst (the bot's own lateness included)", max(told), "ms", None, 1),
        Figure(command, "handoffs too few or too many", lost, "", 0, 0),
        Figure(command, "turns too few or too many", turns, "", 0, 0),
    ]


def _cells(result: Result) -> tuple[str, ...]:
    row, errors = result.row, result.errors
    stopped = "never" if row.stopped is None else "at once" if row.stopped == 0 else f"{row.stopped:g} s"
    return (
        f"{row.chunk_ms} ms",
        f"{row.rate // 1000} kHz",
        "mono" if row.channels == 1 else "stereo",
        f"{row.speed:g}x",
        stopped,
        "streamed" if row.silence else "no",
        str(len(errors)),
        f"{median(errors):+.1f}" if errors else "none",
        f"{max(errors, key=abs):+.1f}" if errors else "none",
        f"{result.handoffs[1]}/{result.handoffs[0]}",
        f"{result.turns[1]}/{result.turns[0]}",
    )
