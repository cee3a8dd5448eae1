"""The console: how soon it shows, what it writes to the terminal and what it costs, in a pseudo-terminal that counts.

Sessions are journals made here: 1,000 scenarios and 100,000 events, and four conversations to which events are added as they would come;
and a run of the engine's own that a console watches which nobody reads.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.bench.bench_pacing import BOUND_P99_MS
from tests.bench.processes import BenchError, bots, run_endless
from tests.bench.table import Figure, print_figures

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from sessions import attempt, scored, started, turn, write_session
from terminal import Terminal

from voiceeval_engine.live import events
from voiceeval_engine.session import layout
from voiceeval_engine.session.lock import SessionLock
from voiceeval_tui.screens.run import PANES

SMALL, LARGE = (80, 24), (200, 50)
SCENARIOS, EVENTS = 1000, 100_000
BOUND_PAINT, BOUND_OPEN, BOUND_RSS = 0.5, 1.5, 100.0
BOUND_IDLE_CPU, BOUND_LIVE_CPU = 1.0, 5.0
BOUND_LIVE = {SMALL: 10.0, LARGE: 20.0}
"""KB/s."""
COMMAND = "python -m tests.bench console"
PANE_COUNT = len(PANES) + 1
STALL_SECONDS = 30.0
_WARM = 2.0
"""s after which a console is at rest."""


def run(folder: Path, seconds: float, times: int) -> list[Figure]:
    """Every figure of the console page, "Budgets"; `seconds` is how long each console is watched, `times` how often one is opened."""
    figures = [*_opening(folder, seconds, times), *_live(folder, seconds), *_growing_log(folder, seconds), *_stalled(folder)]
    print_figures("Console", figures)
    return figures


def _opening(folder: Path, seconds: float, times: int) -> list[Figure]:
    small = write_session(folder / "eval_20260101_000000", [started(["d__1"]), *attempt("d__1"), scored("d__1"), _ended()])
    paints = [_open(small, SMALL, b"FINISHED") for _ in range(times)]
    with _console(small, SMALL) as terminal:
        terminal.read(b"FINISHED", 60.0)
        terminal.take(_WARM)
        idle_bytes, idle_cpu = _rate(terminal, seconds)
    large = write_session(folder / "eval_20260102_000000", [*_long_run(), _ended()])
    opens = [_open(large, LARGE, b"FINISHED") for _ in range(times)]
    what = f"{SCENARIOS:,} scenarios, {EVENTS:,} events"
    return [
        Figure(COMMAND, "first paint", median(each.seconds for each in paints), "s", BOUND_PAINT),
        Figure(COMMAND, "the same: CPU", median(each.cpu for each in paints), "s"),
        Figure(COMMAND, "nothing changing", idle_bytes, "B/s", 0.0, 0),
        Figure(COMMAND, "nothing changing, CPU", idle_cpu, "%", BOUND_IDLE_CPU, 1),
        Figure(COMMAND, f"{what}: open", median(each.seconds for each in opens), "s", BOUND_OPEN),
        Figure(COMMAND, "the same: CPU", median(each.cpu for each in opens), "s"),
        Figure(COMMAND, "the same: memory, at most", max(each.memory for each in opens), "MB", BOUND_RSS, 0),
    ]


def _live(folder: Path, seconds: float) -> list[Figure]:
    """Four conversations: what stands there at first on both sizes, then each pane in its turn on the small one."""
    figures = []
    for number, size in enumerate((SMALL, LARGE), start=3):
        with _talking(folder / f"eval_2026010{number}_000000") as session, _console(session, size) as terminal:
            terminal.read(b"RUNNING", 60.0)
            terminal.take(_WARM)
            stages = ["", *(f"pane {key}" for key in range(1, PANE_COUNT + 1))] if size == SMALL else [""]
            for stage in stages:
                if stage:
                    terminal.type(stage[-1])
                    terminal.take(1.0)
                written, cpu = _rate(terminal, seconds)
                where = f"four live on {size[0]}x{size[1]}" + (f", {stage}" if stage else "")
                figures += [
                    Figure(COMMAND, where, written / 1000, "KB/s", BOUND_LIVE[size], 1),
                    Figure(COMMAND, f"{where}, CPU", cpu, "%", BOUND_LIVE_CPU, 1),
                ]
    return figures


def _growing_log(folder: Path, seconds: float) -> list[Figure]:
    """A log that had 100,000 lines and gets ten more a second, in sight."""
    session = folder / "eval_20260105_000000"
    write_session(session, [started(["d__1"]), *(_logged(number) for number in range(EVENTS))])
    with _added(session, lambda tick: [_logged(2 * tick), _logged(2 * tick + 1)]), _console(session, SMALL) as terminal:
        terminal.read(b"RUNNING", 60.0)
        terminal.type(str(PANE_COUNT))
        terminal.take(_WARM)
        written, cpu = _rate(terminal, seconds)
        memory = terminal.memory()
    where = f"a log of {EVENTS:,} lines that grows"
    return [
        Figure(COMMAND, where, written / 1000, "KB/s", BOUND_LIVE[SMALL], 1),
        Figure(COMMAND, f"{where}, CPU", cpu, "%", BOUND_LIVE_CPU, 1),
        Figure(COMMAND, f"{where}, memory", memory, "MB", BOUND_RSS, 0),
    ]


def _stalled(folder: Path) -> list[Figure]:
    """A run of the engine's own and a console on it that nobody reads for 30 s: its frames go out as if there were none."""
    names = [f"pacing__{number}" for number in range(1, 5)]
    report, pacing = folder / "pacing.json", folder / "pacing"
    with bots(len(names)) as running, ThreadPoolExecutor(1) as beside:
        run = beside.submit(run_endless, names, STALL_SECONDS + 8, running.urls, pacing, pacing_report=report)
        while not (found := [*pacing.glob(f"session/*/{layout.JOURNAL}")]) and not run.done():
            time.sleep(0.1)
        if not found:
            raise BenchError(f"no session to watch: {run.exception()}")
        with _console(found[0].parent, LARGE) as terminal:
            terminal.read(b"RUNNING", 60.0)
            terminal.take(_WARM)
            time.sleep(STALL_SECONDS)
            terminal.read(b"FINISHED", 60.0)
        run.result()
    measured = json.loads(report.read_text(encoding="utf-8"))
    what = f"a console stalls for {STALL_SECONDS:g} s: frames late, p99"
    return [Figure(COMMAND, what, measured["p99"], "ms", BOUND_P99_MS)]


@dataclass(frozen=True)
class _Opened:
    """Until it stood there: s of wall clock, s of CPU; and the most memory it ever had, MB."""

    seconds: float
    cpu: float
    memory: float


def _open(session: Path, size: tuple[int, int], shown: bytes) -> _Opened:
    began = time.perf_counter()
    with _console(session, size) as terminal:
        terminal.read(shown, 60.0)
        seconds, cpu = time.perf_counter() - began, terminal.cpu()
        terminal.take(1.0)
        return _Opened(seconds, cpu, terminal.memory(most=True))


def _console(session: Path, size: tuple[int, int]) -> Terminal:
    return Terminal("watch", str(session), size=size, home=session.parent, COLORTERM="truecolor")


def _rate(terminal: Terminal, seconds: float) -> tuple[float, float]:
    """Bytes a second and CPU in percent."""
    cpu = terminal.cpu()
    written = len(terminal.take(seconds))
    return written / seconds, 100 * (terminal.cpu() - cpu) / seconds


@contextmanager
def _talking(session: Path) -> Iterator[Path]:
    names = [f"retail__{each}" for each in range(40)]
    write_session(session, [started(names), *(event for name in names[:4] for event in attempt(name))])
    with _added(session, lambda tick: _said(names[:4], tick)):
        yield session


@contextmanager
def _added(session: Path, stream: Callable[[int], list[events.Event]]) -> Iterator[None]:
    """Five times a second what `stream` gives, while an engine seems to hold the session."""
    lock, over = SessionLock(session, "2026-01-01T00:00:00"), threading.Event()

    def add() -> None:
        tick = 0
        while not over.wait(0.2):
            tick += 1
            write_session(session, stream(tick))

    writer = threading.Thread(target=add)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()
        lock.release()


def _said(names: list[str], tick: int) -> list[events.Event]:
    """Conversations: words five times a second while someone speaks, a turn every three seconds, as people talk."""
    at, stream = tick * 0.2, list[events.Event]()
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
    return stream


def _logged(number: int) -> events.Logged:
    message = f"Scenario {number} of the run: a pair took it, and the conversation goes on as it should"
    return events.Logged(level="INFO", message=message, time=1_800_000_000.0 + number)


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
