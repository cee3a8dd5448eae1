"""The recording against the log: over a long conversation, what is heard in each channel begins and ends when the log says.

Speech is found in the file by energy, by other code than the engine's. What one bot knows of the other's speech is held against the
recording too: a recording whose clock drifted against the real one would agree with its own log all the same.
"""

from __future__ import annotations

import re
import wave
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from tests.bench.processes import BenchError, bots, run_endless
from tests.bench.table import Figure, print_figures
from voiceeval_engine.session import layout

BOUND_MS = 20.0
THRESHOLD = 32768 * 10 ** (-45 / 20)
PAUSE = 0.3
"""s of silence that part two turns; a bot's longest pause within one is 0.2 s."""
_LOGGED = re.compile(r"^\[ *([\d.]+)s - *([\d.]+)s\] \([\d.]+s\) (\w+):", re.MULTILINE)
_SIDES = {"user": 0, "agent": 1}
"""Which channel holds whose speech: left is what the agent heard."""
Spans = list[tuple[float, float]]


def run(folder: Path, seconds: float) -> list[Figure]:
    """One conversation of `seconds` s; errors in ms."""
    name = "recording__1"
    with bots(1) as running:
        engine = run_endless([name], seconds, running.urls, folder / "recording")
        answers = [answer.latency_ms for answer in running.finish()[0]]
    home = layout.scenario_dir(engine.session, name)
    heard = _heard(home / layout.RECORDING)
    logged = _logged(home / layout.CONVERSATION_LOG)
    off: list[float] = []
    for side, spans in heard.items():
        if len(spans) != len(logged[side]):
            raise BenchError(f"{len(spans)} turns of the {side} in the recording and {len(logged[side])} in the log: {home}")
        off += [
            1000 * abs(one - other)
            for span, told in zip(spans, logged[side], strict=True)
            for one, other in zip(span, told, strict=True)
        ]
    gaps = [1000 * (agent[0] - user[1]) for user, agent in zip(heard["user"], heard["agent"][1:], strict=False)]
    drift = [gap - answer for gap, answer in zip(gaps, answers, strict=False)]
    figures = _figures(f"python -m tests.bench recording --seconds {seconds:g}", off, drift)
    print_figures("Recording", figures)
    return figures


def _figures(command: str, off: list[float], gaps: list[float]) -> list[Figure]:
    usual = median(gaps)
    return [
        Figure(
            command, f"beginnings and ends of {len(off) // 2} turns, recording against log: median", median(off), "ms", BOUND_MS, 1
        ),
        Figure(command, "the same, worst", max(off), "ms", BOUND_MS, 1),
        Figure(
            command,
            f"{len(gaps)} pauses between the channels against the bots' own record: longer by, median",
            usual,
            "ms",
            None,
            1,
        ),
        Figure(command, "the same: furthest from that", max(abs(gap - usual) for gap in gaps), "ms", BOUND_MS, 1),
    ]


def _heard(path: Path) -> dict[str, Spans]:
    """Where each side speaks in the recording (s)."""
    with wave.open(str(path)) as file:
        rate = file.getframerate()
        sound = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2").reshape(-1, 2)
    return {
        side: _spans(np.flatnonzero(np.abs(sound[:, channel].astype(np.int32)) > THRESHOLD) / rate)
        for side, channel in _SIDES.items()
    }


def _spans(loud: NDArray[np.float64]) -> Spans:
    if not loud.size:
        return []
    cuts = np.flatnonzero(np.diff(loud) > PAUSE)
    return list(zip([loud[0], *loud[cuts + 1]], [*loud[cuts], loud[-1]], strict=True))


def _logged(path: Path) -> dict[str, Spans]:
    """When each side speaks according to `conversation_log.txt` (s)."""
    found: dict[str, Spans] = {side: [] for side in _SIDES}
    for begun, ended, side in _LOGGED.findall(path.read_text(encoding="utf-8")):
        found[side.lower()].append((float(begun), float(ended)))
    return found
