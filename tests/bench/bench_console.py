"""The console: how soon it shows, what it writes to the terminal and what it costs, in a pseudo-terminal that counts.

Sessions are journals made here: 1,000 scenarios and 100,000 events, and four conversations to which events are added as they would come.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.table import Figure, print_figures

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from sessions import attempt, scored, started, turn, write_session
from terminal import Terminal

from voiceeval_engine.live import events
from voiceeval_engine.session.lock import SessionLock

SMALL, LARGE = (80, 24), (200, 50)
SCENARIOS, EVENTS = 1000, 100_000
BOUND_PAINT, BOUND_OPEN, BOUND_RSS = 0.5, 1.5, 100.0
BOUND_IDLE_CPU, BOUND_LIVE_CPU = 1.0, 5.0
BOUND_LIVE = {SMALL: 10.0, LARGE: 20.0}
"""KB/s."""
_WARM = 2.0
"""s after which a console is at rest."""


def run(folder: Path, seconds: float) -> list[Figure]:
    """Every figure of the console page, "Budgets"; `seconds` is how long the idle and the live console are watched."""
    command = "tests.bench console"
    small = write_session(folder / "eval_20260101_000000", [started(["d__1"]), *attempt("d__1"), scored("d__1"), _ended()])
    paint, idle_bytes, idle_cpu, _ = _watch(small, SMALL, b"FINISHED", seconds)
    figures = [
        Figure(command, "first paint", paint, "s", BOUND_PAINT),
        Figure(command, "nothing changing", idle_bytes, "B/s", 0.0, 0),
        Figure(command, "nothing changing, CPU", idle_cpu, "%", BOUND_IDLE_CPU, 1),
    ]
    large = write_session(folder / "eval_20260102_000000", [*_long_run(), _ended()])
    opened, _, _, rss = _watch(large, LARGE, b"FINISHED", 1.0)
    figures += [
        Figure(command, f"{SCENARIOS:,} scenarios, {EVENTS:,} events: open", opened, "s", BOUND_OPEN),
        Figure(command, "the same: memory", rss, "MB", BOUND_RSS, 0),
    ]
    for number, size in enumerate((SMALL, LARGE), start=3):
        session = folder / f"eval_2026010{number}_000000"
        names = [f"retail__{each}" for each in range(40)]
        write_session(session, [started(names), *(event for name in names[:4] for event in attempt(name))])
        lock, over = SessionLock(session, "2026-01-01T00:00:00"), threading.Event()
        writer = threading.Thread(target=_talk, args=(session, names[:4], over))
        writer.start()
        try:
            _, rate, cpu, _ = _watch(session, size, b"RUNNING", seconds)
        finally:
            over.set()
            writer.join()
            lock.release()
        where = f"four live on {size[0]}x{size[1]}"
        figures += [
            Figure(command, where, rate / 1000, "KB/s", BOUND_LIVE[size], 1),
            Figure(command, f"{where}, CPU", cpu, "%", BOUND_LIVE_CPU, 1),
        ]
    print_figures("Console", figures)
    return figures


def _watch(session: Path, size: tuple[int, int], shown: bytes, seconds: float) -> tuple[float, float, float, float]:
    """s until `shown` stands there, then bytes a second, CPU in percent and memory in MB while it is watched."""
    began = time.perf_counter()
    with Terminal("watch", str(session), size=size, home=session.parent, COLORTERM="truecolor") as terminal:
        terminal.read(shown, 60.0)
        took = time.perf_counter() - began
        terminal.take(_WARM)
        cpu = terminal.cpu()
        written = len(terminal.take(seconds))
        cpu = terminal.cpu() - cpu
        return took, written / seconds, 100 * cpu / seconds, terminal.memory()


def _talk(session: Path, names: list[str], over: threading.Event) -> None:
    """Four conversations: words five times a second while someone speaks, a turn every three seconds, as people talk."""
    tick = 0
    while not over.wait(0.2):
        tick += 1
        at = tick * 0.2
        stream: list[events.Event] = []
        for place, name in enumerate(names):
            step, side = (tick + 4 * place) % 15, "agent" if (tick + 4 * place) // 15 % 2 else "user"
            common = {"scenario": name, "attempt": 1, "side": side, "at": at, "time": time.time()}
            if step == 0:
                stream += [turn(name, "Yes, I should like to change the colour of that one to blue, please.", at - 2, side)]
            elif step == 1:
                stream += [events.parse_event(json.dumps({"type": "speaking", "on": True, **common}))]
            elif step == 12:
                stream += [events.parse_event(json.dumps({"type": "speaking", "on": False, **common}))]
            elif step < 12:
                stream += [events.parse_event(json.dumps({"type": "words", "text": "colour of it,", **common}))]
        write_session(session, stream)


def _long_run() -> Iterator[events.Event]:
    names = [f"retail__{number:04}_a_name_of_some_length" for number in range(SCENARIOS)]
    yield started(names)
    for name in names:
        yield from attempt(name)
        for number in range(EVENTS // SCENARIOS - 3):
            yield turn(name, "Some words that were said, and some more of them.", number * 2.0, "agent" if number % 2 else "user")
        yield scored(name)


def _ended() -> events.RunEnded:
    return events.RunEnded(complete=True, reason="finished", files=[], time=1_800_090_000.0)
