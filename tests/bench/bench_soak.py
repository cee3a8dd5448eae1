"""Soak: eight pairs for as long as is asked, faults thrown in at random, and what the engine holds is counted whenever it is at rest.

At rest: all bots live again, the queue is paused, no conversation runs, no judge is asked. What an engine holds then is the same after
an hour as after a minute, but for what it must know of each scenario that ended. At the end every scenario must have its result.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression
from typing import Any

from tests.bench import scripts
from tests.bench.processes import REPOSITORY, BenchError, end, pair_arguments, resident_mb
from tests.bench.soak_faults import Faults, WatchedJudge, living_pairs, wait_for
from tests.bench.table import Figure, print_figures, print_table
from voiceeval_engine.live.commands import Command, Status
from voiceeval_engine.live.journal import JournalReading, read_events
from voiceeval_engine.live.state import SCORED, RunState
from voiceeval_engine.scenarios.script import ScriptManners
from voiceeval_engine.session import layout

PAIRS = 8
SCENARIO_SECONDS = 28.0
"""What a scenario takes a pair, faults and rests included: how many are queued for so many minutes follows from it."""
FAULT_EVERY = 1.5
RESTS = 15
REST_EVERY = 60.0
"""s at least between two rests, of which there are no more than RESTS."""
RESTED = 7.0
"""s without anything to do after which what is held is looked at."""
BOUNDS = {"threads": 0, "tasks": 0, "sockets": 4, "files": 0}
"""How many more there may be at the end: the judge's idle connections, one for each call at once, are closed at the next call."""
WARM = 100
"""Scenarios after which the engine has everything it ever starts: the worker process comes with 256 KB of results, the last thread of a
pool when all others are busy at once.
"""
BOUND_KB_PER_SCENARIO = 20.0
"""What the engine may keep of a scenario that ended: its results, its part of the fold, its backlog entry, and the allocator's noise."""


@dataclass(frozen=True)
class Rest:
    """What the engine holds at rest, after so many s and ended scenarios. `rss_mb` in MB of 10^6, `files` are open ones but sockets."""

    at: float
    done: int
    rss_mb: float
    threads: int
    tasks: int
    sockets: int
    files: int
    names: Counter[str]
    """What the files are."""

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        counts = (self.done, f"{self.rss_mb:.1f}", self.threads, self.tasks, self.sockets, self.files)
        return f"{self.at / 60:.1f} min", *map(str, counts)


def run(folder: Path, minutes: float, seed: int) -> list[Figure]:
    """About `minutes` of it; `seed` is that of the faults."""
    names = [f"soak__{number:05d}" for number in range(math.ceil(minutes * 60 * PAIRS / SCENARIO_SECONDS))]
    said = {"success_signals": ["clean_exit", "judge_passed", "nl_assertion"], "nl_assertions": ['The agent says "On 0".']}
    manners = ScriptManners()
    pack = scripts.write_pack(
        folder / "pack",
        [{**scripts.counted_scenario(name, 1 + number % 4, manners, manners), **said} for number, name in enumerate(names)],
    )
    with WatchedJudge() as judge, living_pairs(PAIRS) as pairs:
        arguments = ["--scenario-dir", str(pack), "--scenarios", *names, "--judge-url", judge.url, "--judge-threshold", "0.5"]
        arguments += ["--max-auto-retries", "20", "--auto-retry-backoff-secs", "0.5", "--inactivity-timeout", "10"]
        arguments += [*pair_arguments([pair.urls for pair in pairs]), "--output-dir", str(folder / "sessions")]
        command = [sys.executable, "-m", "tests.bench.soak_child", str(folder / "tasks"), "--no-ui", *arguments]
        with (folder / "printed").open("wb") as out:
            engine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=REPOSITORY)
        try:
            session = _session(folder / "sessions", engine)
            faults = Faults(session, pairs, judge, seed)
            rests = _soak(engine, faults, folder / "tasks", max(REST_EVERY, minutes * 60 / RESTS))
            code = engine.wait(60)
        finally:
            end(engine)
    print_table("Faults", ("what", "times"), [(what, str(times)) for what, times in sorted(faults.counts.items())])
    print_table("At rest", ("after", "done", "MB", "threads", "tasks", "sockets", "files"), [rest.cells() for rest in rests])
    if (warm := _warm(rests)) and (opened := warm[-1].names - warm[0].names):
        print(f"open at the last rest but not before: {dict(opened)}")
    wrong = [*faults.failures, *_lost(session, names)] + ([f"exit code {code}, see {folder / 'printed'}"] if code else [])
    for sentence in wrong:
        print(f"  WRONG: {sentence}", flush=True)
    figures = _figures(f"python -m tests.bench soak --minutes {minutes:g} --seed {seed}", rests, len(wrong))
    print_figures("Soak", figures)
    return figures


def _soak(engine: subprocess.Popen[bytes], faults: Faults, tasks: Path, every: float) -> list[Rest]:
    rests: list[Rest] = []
    began, next_rest = time.monotonic(), time.monotonic() + every / 2
    while engine.poll() is None:
        if time.monotonic() >= next_rest:
            faults.make_well()
            if (rest := _rest(engine, faults, tasks, time.monotonic() - began)) is not None:
                rests.append(rest)
            next_rest = time.monotonic() + every
        faults.throw()
        with suppress(subprocess.TimeoutExpired):
            engine.wait(FAULT_EVERY)
    faults.make_well()
    return rests


def _rest(engine: subprocess.Popen[bytes], faults: Faults, tasks: Path, at: float) -> Rest | None:
    """Let the engine come to rest and look; None when the run is at its end."""
    latest: list[Status] = []
    quiet_since = time.monotonic()

    def rested() -> bool:
        nonlocal quiet_since
        reply = faults.ask(Command(command="status"))
        if reply is None or reply.status is None:
            return engine.poll() is not None
        latest[:] = [reply.status]
        if reply.status.running or reply.status.pairs_out:
            quiet_since = time.monotonic()
        return time.monotonic() - quiet_since > RESTED

    faults.ask(Command(command="pause"))
    wait_for(rested, 180.0, "the paused engine did not come to rest")
    found = None
    if engine.poll() is None and latest:
        found = Rest(at, latest[0].done, *_held(engine.pid), int(tasks.read_text().split()[-1]), *_open(engine.pid))
    faults.ask(Command(command="resume-queue"))
    return found


def _held(pid: int) -> tuple[float, int]:
    """Resident memory (MB) and threads."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return resident_mb(pid), int(status.split("Threads:")[1].split()[0])


def _open(pid: int) -> tuple[int, int, Counter[str]]:
    """Sockets, other open files, and what those are."""
    names: Counter[str] = Counter()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            names[str(entry.readlink()).split(":[")[0]] += 1
    sockets = names.pop("socket", 0)
    return sockets, names.total(), names


def _lost(session: Path, names: list[str]) -> list[str]:
    """What is missing, or not as it should be, in the session of a run that ended."""
    reading, state = JournalReading(), RunState()
    numbers = []
    for event in read_events(session / layout.JOURNAL, reading):
        numbers.append(event.seq)
        state.apply(event)
    wrong = [f"{reading.bad_lines} lines of the journal are no events"] if reading.bad_lines else []
    if numbers != list(range(1, len(numbers) + 1)):
        wrong.append("the journal's numbers have gaps")
    if state.ended is None or not state.ended.complete:
        wrong.append(f"the run's end is {state.ended}")
    for name in names:
        scenario = state.scenarios.get(name)
        if scenario is None or scenario.status not in SCORED:
            wrong.append(f"{name} is {scenario and scenario.status}: {scenario and scenario.reason}")
        if not (session / name / layout.METRICS).is_file():
            wrong.append(f"{name} has no result")
    wrong += [f"{path.relative_to(session)} was left" for path in session.rglob("*.tmp")]
    return wrong


def _warm(rests: list[Rest]) -> list[Rest]:
    """Those that are held against one another."""
    return [rest for rest in rests if rest.done >= WARM]


def _figures(command: str, rests: list[Rest], wrong: int) -> list[Figure]:
    warm = _warm(rests)
    if len(warm) < 3:
        raise BenchError(f"too short: less than three rests after {WARM} scenarios")
    early, late = warm[0], warm[-1]
    slope, _ = linear_regression([rest.done for rest in warm], [rest.rss_mb * 1000 for rest in warm])

    def more(what: str) -> Any:
        return getattr(late, what) - getattr(early, what)

    since = f"since the first of {len(warm)} rests"
    return [
        Figure(command, f"memory at rest, {since}", more("rss_mb"), "MB", digits=1),
        Figure(command, "the same for each scenario that ended", slope, "kB", BOUND_KB_PER_SCENARIO, 1),
        *(Figure(command, f"{what} at rest, {since}", more(what), "", bound, 0) for what, bound in BOUNDS.items()),
        Figure(command, f"of {late.done} scenarios and more lost, or wrong otherwise", wrong, "", 0, 0),
    ]


def _session(output: Path, engine: subprocess.Popen[bytes]) -> Path:
    """The session that the engine made, once it talks."""
    wait_for(
        lambda: any(output.glob(f"{layout.SESSION_PREFIX}*/{layout.JOURNAL}")) or engine.poll() is not None, 30.0, "no session"
    )
    session = next(output.glob(f"{layout.SESSION_PREFIX}*"), None)
    if session is None:
        raise BenchError("the engine ended without a session")
    return session
