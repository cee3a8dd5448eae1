"""kill -9 of the engine at any moment, resume, kill again, until the run ends: nothing may be lost, run twice or half written.

Two ways to die, in turn: at a moment of the wall clock, killed from here, and at a step of the file system (before or after the n-th
call in a phase that makes, syncs or renames something), killed by itself. The suite runs a short form of this
(`tests/run/test_crash.py`). May import the benches' own files and the product's names of files.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.bench.crash_engine import Engine
from tests.bench.crash_session import FLOOR, Seen, Violations, compare, final, look, one_session, phases, read_json
from tests.bench.processes import REPOSITORY, BenchError, bots, pair_arguments
from tests.bench.scripts import write_pack
from tests.bench.table import Figure, print_figures, print_table
from voiceeval_engine.bots.judge import judge_server
from voiceeval_engine.session import layout

PAIRS = 4
JUDGE_SECONDS = 0.4
"""How long the judge takes, so that a verdict can be cut off."""
CLOCK, STEP = "by the clock", "at a file step"
PHASES = ("starting", "resuming", "set-up", "conversation", "evidence", "retry", "judging", "aggregating")
_MARKS = (
    (b"", 0, 1.0),
    (b'"run_started"', 1, 0.3),
    (b'"attempt_started"', PAIRS, 0.3),
    (b'"conversation_started"', PAIRS, 2.0),
    (b'"conversation_ended"', 2, 0.2),
    (b'"scenario_scored"', 2, JUDGE_SECONDS),
)
"""Where a kill by the clock starts to count: at which event, at most which of its kind, for at most how long (s)."""
_RESUMING_STEPS = 12
_PACK = REPOSITORY / "tests" / "data" / "short_pack"
_SAYS = 'The agent says "goodbye".'
_BYE = {"say": "Goodbye.", "exit": "all was said"}
SCENARIOS: list[dict[str, Any]] = [
    {"name": "crash__bye", "agent": {"steps": [_BYE]}},
    {"name": "crash__talk", "agent": {"steps": [{"say": "Hello."}, _BYE]}, "user": {"steps": [{"say": "A tea."}]}},
    {"name": "crash__stalls_once", "agent": {"steps": [{"stall": 1}, _BYE]}},
]
NAMES = ("short__order", "crash__bye", "crash__talk", "crash__stalls_once", "short__forgotten")


T = TypeVar("T")


@dataclass(frozen=True)
class Ground:
    """What all runs of a bench share: bots, judge, packs."""

    arguments: tuple[str, ...]
    folder: Path


@dataclass(frozen=True)
class Whole:
    """A run that nothing interrupted, and how many steps of the file system it took in each phase."""

    session: Path
    steps: dict[str, int]


@dataclass
class Outcome:
    """What a crashed run came to. `kills` counts (way, phase); one kill by the clock may cut off scenarios in several."""

    seed: int
    kills: Counter[tuple[str, str]] = field(default_factory=Counter)
    killed: int = 0
    starts: int = 0
    violations: Violations = field(default_factory=list)


@contextmanager
def ground(folder: Path) -> Iterator[Ground]:
    """Bots, a judge and packs for runs in `folder`."""
    defaults = {
        "description": "Runs to be cut off.",
        "success_signals": ["nl_assertion", "judge_passed", "clean_exit"],
        "nl_assertions": [_SAYS],
    }
    pack = write_pack(folder / "pack", [{**defaults, **each} for each in SCENARIOS])
    server = judge_server()
    handler = server.RequestHandlerClass

    class Slow(handler):  # type: ignore[valid-type,misc]
        def do_POST(self) -> None:  # noqa: N802 - the base class's name
            time.sleep(JUDGE_SECONDS)
            super().do_POST()

    server.RequestHandlerClass = Slow
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        with bots(PAIRS) as pairs:
            try:
                yield Ground(
                    (
                        "--scenario-dir", str(_PACK), "--scenario-dir", str(pack), "--scenarios", *NAMES, *pair_arguments(pairs.urls),
                        "--judge-url", f"http://127.0.0.1:{server.server_port}/v1/chat/completions", "--judge-threshold", "0.5",
                        "--pause", "0", "--inactivity-timeout", "2", "--min-agent-turns", str(FLOOR), "--auto-retry-backoff-secs", "0.1",
                    ),
                    folder,
                )  # fmt: skip
            finally:
                pairs.finish()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def uninterrupted(ground: Ground) -> Whole:
    """A run that nothing kills."""
    output, note = ground.folder / "uninterrupted", ground.folder / "uninterrupted_note"
    code = Engine(ground.arguments, output, None, note=note).wait()
    session = one_session(output)
    if code != 0 or session is None:
        raise BenchError(f"the run that nothing killed ended with {code}; see {output}")
    return Whole(session, json.loads(note.read_text()))


def crashed(ground: Ground, seed: int, whole: Whole, max_kills: int) -> Outcome:
    """A run that is killed up to `max_kills` times and resumed until it ends, checked after each kill and against `whole`."""
    rng = random.Random(seed)
    marks, steps = _for_ever(rng, _MARKS), _for_ever(rng, sorted(whole.steps | {"resuming": _RESUMING_STEPS}))
    output, note = ground.folder / f"crash_{seed}", ground.folder / f"crash_{seed}_note"
    outcome = Outcome(seed)
    before: Seen | None = None
    with _watching_json(output, outcome.violations):
        while True:
            session = one_session(output)
            way = "" if outcome.killed >= max_kills else (CLOCK, STEP)[outcome.starts % 2]
            point = ("", 0)
            if way == STEP:
                phase = next(steps)
                point = (phase, 1 + int(rng.random() ** 3 * whole.steps.get(phase, _RESUMING_STEPS)))  # late ones may not come
            engine = Engine(ground.arguments, output, session, point=point, note=note)
            outcome.starts += 1
            if way == CLOCK:
                engine.kill_somewhere(rng, *next(marks))
            code = engine.wait()
            session = one_session(output)
            if session is not None:
                after = look(session)
                outcome.violations += [f"start {outcome.starts} ({way} {point}): {each}" for each in compare(before, after)]
                before = after
            if code != -signal.SIGKILL:
                break
            outcome.killed += 1
            outcome.kills.update((way, phase) for phase in ([point[0]] if way == STEP else phases(engine.journal())))
    if code != 0 or session is None:
        outcome.violations.append(f"the last invocation ended with {code}:\n{engine.output()[-2000:]}")
        return outcome
    outcome.violations += [*final(session, whole.session, NAMES), *_resume_again(ground, output, session)]
    return outcome


def run(folder: Path, rounds: int, seed: int, max_kills: int) -> list[Figure]:
    """`rounds` runs, each killed up to `max_kills` times; their seeds are `seed` and those after it."""
    with ground(folder) as shared:
        whole = uninterrupted(shared)
        outcomes = []
        for number in range(rounds):
            outcome = crashed(shared, seed + number, whole, max_kills)
            outcomes.append(outcome)
            print(
                f"round {number + 1} of {rounds} (seed {outcome.seed}): {outcome.killed} kills, {outcome.starts} starts", flush=True
            )
            for violation in outcome.violations:
                print(f"  VIOLATION: {violation}", flush=True)
    kills = sum((each.kills for each in outcomes), Counter[tuple[str, str]]())
    rows = [(phase, str(kills[CLOCK, phase]), str(kills[STEP, phase])) for phase in PHASES]
    print_table("What kills cut off", ("phase", CLOCK, STEP), rows)
    command = f"python -m tests.bench crash --rounds {rounds} --seed {seed} --kills {max_kills}"
    figures = [
        Figure(command, "kills", sum(each.killed for each in outcomes), "", digits=0),
        Figure(command, "violations", sum(len(each.violations) for each in outcomes), "", 0, digits=0),
    ]
    print_figures("Crash", figures)
    return figures


def _resume_again(ground: Ground, output: Path, session: Path) -> Violations:
    """A resume of the complete run runs nothing and leaves the same bytes."""
    files = (layout.ALL_METRICS, layout.ALL_LATENCIES, layout.ALL_SUMMARY)
    before, bytes_before = look(session), [(session / file).read_bytes() for file in files]
    engine = Engine(ground.arguments, output, session)
    code = engine.wait()
    after = look(session)
    wrong = [f"after the end: {each}" for each in compare(before, after)]
    if code != 0 or before.results.keys() != after.results.keys():
        wrong.append(f"a resume of the complete run ended with {code}")
    if b'"attempt_started"' in engine.journal():
        wrong.append("a resume of the complete run ran something")
    wrong += [f"a resume of the complete run changed {file}" for file, old in zip(files, bytes_before, strict=True)
              if (session / file).read_bytes() != old]  # fmt: skip
    return wrong


@contextmanager
def _watching_json(output: Path, violations: Violations) -> Iterator[None]:
    """Inside the block every JSON file below `output` is read again and again; one that does not parse is a violation."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            for folder, _, files in os.walk(output):
                for path in (Path(folder, file) for file in files if file.endswith(".json")):
                    try:
                        read_json(path)
                    except ValueError as error:
                        violations.append(f"{path.relative_to(output)} did not parse: {error}")

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _for_ever(rng: random.Random, values: Sequence[T]) -> Iterator[T]:
    """All of `values` in a random order, again and again."""
    while True:
        yield from rng.sample(values, len(values))
