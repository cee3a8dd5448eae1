"""kill -9 of the engine at any moment, resume, kill again, until the run ends: nothing may be lost, run twice or half written.

Two ways to die, in turn: at a moment of the wall clock, killed from here, and at a step of the file system (before or after the n-th
call in a phase that makes, syncs or renames something), killed by itself: `python -m tests.bench.bench_crash PHASE N NOTE ARGUMENT...`
runs the product so. The suite runs a short form of this (`tests/run/test_crash.py`). May import the benches' own files and the product's
names of files.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.bench.processes import PRODUCT, REPOSITORY, BenchError, bots, pair_arguments
from tests.bench.scripts import write_pack
from tests.bench.table import Figure, print_figures, print_table
from voiceeval_engine.bots.judge import judge_server
from voiceeval_engine.session import layout

PAIRS = 4
FLOOR = 1
JUDGE_SECONDS = 0.4
"""How long the judge takes, so that a verdict can be cut off."""
PATIENCE = 90.0
CLOCK, STEP = "by the clock", "at a file step"
PHASES = ("starting", "resuming", "set-up", "conversation", "evidence", "retry", "judging", "aggregating")
_BY_FUNCTION = {
    "rewrite_aggregates": "aggregating",
    "apply_verdict": "judging",
    "write_evidence": "evidence",
    "finish": "evidence",
    "write_config": "set-up",
    "prepare": "resuming",
    "_retry": "retry",
    "move_aside": "retry",
    "_run_scenario": "set-up",
}
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
_JUDGES_KEYS = ("judge_score", "judge_passed", "nl_assertion_pass_rate", "success_breakdown", "is_successful", "is_task_successful")
_PACK = REPOSITORY / "tests" / "data" / "short_pack"
_SAYS = 'The agent says "goodbye".'
_BYE = {"say": "Goodbye.", "exit": "all was said"}
SCENARIOS: list[dict[str, Any]] = [
    {"name": "crash__bye", "agent": {"steps": [_BYE]}},
    {"name": "crash__talk", "agent": {"steps": [{"say": "Hello."}, _BYE]}, "user": {"steps": [{"say": "A tea."}]}},
    {"name": "crash__stalls_once", "agent": {"steps": [{"stall": 1}, _BYE]}},
]
NAMES = ("short__order", "crash__bye", "crash__talk", "crash__stalls_once", "short__forgotten")

Violations = list[str]
T = TypeVar("T")


@dataclass(frozen=True)
class Ground:
    """What all runs of a bench share: bots, judge, packs."""

    arguments: tuple[str, ...]
    folder: Path


@dataclass(frozen=True)
class Folder:
    """One attempt's folder: its name now and the files in it."""

    name: str
    files: frozenset[str]


@dataclass(frozen=True)
class Result:
    """A scenario that counts as completed, by the bench's own reading."""

    inode: int
    metrics: dict[str, Any]
    verdict: dict[str, Any] | None
    started: int

    @property
    def pending(self) -> bool:
        return self.verdict is None or str(self.verdict.get("reason")) == "Error: verdict pending"


@dataclass(frozen=True)
class Seen:
    """A session while no engine runs."""

    folders: dict[int, Folder]
    top: dict[str, int]
    results: dict[str, Result]
    invocations: list[Any]


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
    code = _Engine(ground, output, None, note=note).wait()
    session = _session(output)
    if code != 0 or session is None:
        raise BenchError(f"the run that nothing killed ended with {code}; see {output}")
    return Whole(session, json.loads(note.read_text()))


def crashed(ground: Ground, seed: int, whole: Whole, max_kills: int) -> Outcome:
    """A run that is killed up to `max_kills` times and resumed until it ends, checked after each kill and against `whole`."""
    rng = random.Random(seed)
    marks, phases = _for_ever(rng, _MARKS), _for_ever(rng, sorted(whole.steps | {"resuming": _RESUMING_STEPS}))
    output, note = ground.folder / f"crash_{seed}", ground.folder / f"crash_{seed}_note"
    outcome = Outcome(seed)
    before: Seen | None = None
    with _watching_json(output, outcome.violations):
        while True:
            session = _session(output)
            way = "" if outcome.killed >= max_kills else (CLOCK, STEP)[outcome.starts % 2]
            point = ("", 0)
            if way == STEP:
                phase = next(phases)
                point = (phase, 1 + int(rng.random() ** 3 * whole.steps.get(phase, _RESUMING_STEPS)))  # late ones may not come
            engine = _Engine(ground, output, session, point=point, note=note)
            outcome.starts += 1
            if way == CLOCK:
                engine.kill_somewhere(rng, *next(marks))
            code = engine.wait()
            session = _session(output)
            if session is not None:
                after = look(session)
                outcome.violations += [f"start {outcome.starts} ({way} {point}): {each}" for each in compare(before, after)]
                before = after
            if code != -signal.SIGKILL:
                break
            outcome.killed += 1
            outcome.kills.update((way, phase) for phase in ([point[0]] if way == STEP else _phases(engine.journal())))
    if code != 0 or session is None:
        outcome.violations.append(f"the last invocation ended with {code}:\n{engine.output()[-2000:]}")
        return outcome
    outcome.violations += [*final(session, whole.session), *_resume_again(ground, output, session)]
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


# -- invariants


def look(session: Path) -> Seen:
    """What a session holds; temporary files of writes that were cut off do not count."""
    folders, results, top = {}, {}, {}
    started = Counter(event["scenario"] for event in _events(session) if event.get("type") == "attempt_started")
    for entry in session.iterdir():
        if not entry.is_dir():
            if not entry.name.endswith(".tmp"):
                top[entry.name] = entry.stat().st_size
            continue
        files = (str(file.relative_to(entry)) for file in entry.rglob("*") if not file.name.endswith(".tmp"))
        folders[entry.stat().st_ino] = Folder(entry.name, frozenset(files))
        if layout.is_killed(entry.name):
            continue
        metrics = _json(entry / layout.METRICS)
        if metrics and metrics["total_turns"] > 0 and metrics["token_usage"]["agent"]["n_calls"] >= FLOOR:
            verdict = _json(entry / layout.JUDGE_RESULT)
            results[entry.name] = Result(entry.stat().st_ino, metrics, verdict, started[entry.name])
    record = _json(session / layout.RUN_ARGS) or {"invocations": []}
    return Seen(folders, top, results, record["invocations"])


def compare(before: Seen | None, after: Seen) -> Violations:
    """What went wrong between two looks at one session."""
    if before is None:
        return []
    wrong = []
    for inode, folder in before.folders.items():
        now = after.folders.get(inode)
        if now is None:
            wrong.append(f"{folder.name} was deleted")
        elif now.name != folder.name and not now.name.startswith(f"{folder.name}{layout.KILLED_INFIX}"):
            wrong.append(f"{folder.name} became {now.name}")
        elif lost := folder.files - now.files:
            wrong.append(f"{folder.name} lost {sorted(lost)}")
    wrong += [f"{name} was deleted" for name in before.top.keys() - after.top.keys() - {layout.ALL_SUMMARY}]
    if layout.ALL_SUMMARY in before.top and len(_summaries(after)) < len(_summaries(before)):
        wrong.append("a summary was deleted")
    logs = (layout.JOURNAL, layout.EVALUATION_LOG)
    wrong += [f"{name} became shorter" for name in logs if after.top.get(name, 0) < before.top.get(name, 0)]
    if after.invocations[: len(before.invocations)] != before.invocations:
        wrong.append("run_args.json lost a record")
    for name, result in before.results.items():
        wrong += [f"{name} {how}" for how in _changed(result, after.results.get(name))]
    return wrong


def final(session: Path, whole: Path) -> Violations:
    """What is wrong with the end of a crashed run, seen against one that nothing interrupted."""
    wrong = []
    results, wanted = _json(session / layout.ALL_METRICS) or [], _json(whole / layout.ALL_METRICS)
    if [each["scenario_name"] for each in results] != list(NAMES):
        wrong.append(f"all_metrics.json covers {[each['scenario_name'] for each in results]}")
    for one, other in zip(results, wanted, strict=False):
        wrong += [
            f"{one['scenario_name']}: {key} is {one.get(key)}, without interruption {other.get(key)}"
            for key in ("stop_reason", "is_action_match", "db_state_match", *_JUDGES_KEYS)
            if one.get(key) != other.get(key)
        ]
        if one != _json(session / one["scenario_name"] / layout.METRICS):
            wrong.append(f"{one['scenario_name']}: all_metrics.json is not what stands in its folder")
    if _rates(session) != _rates(whole):
        wrong.append(f"the summary's rates are {_rates(session)}, without interruption {_rates(whole)}")
    bad, torn = _bad_lines(session), len((_json(session / layout.RUN_ARGS) or {})["invocations"])
    if bad > torn:
        wrong.append(f"events.jsonl has {bad} bad lines after {torn} invocations")
    return wrong


def _changed(old: Result, new: Result | None) -> Iterator[str]:
    if new is None:
        yield "was completed and is not any more"
        return
    if new.inode != old.inode or new.started != old.started:
        yield "was completed and ran again"
    if not old.pending and (new.metrics, new.verdict) != (old.metrics, old.verdict):
        yield "had its verdict and changed"
    if _conversed(new.metrics) != _conversed(old.metrics):
        yield "changed by more than its verdict"


def _conversed(metrics: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metrics.items() if key not in _JUDGES_KEYS}


def _summaries(seen: Seen) -> list[str]:
    return [name for name in seen.top if name.startswith("all_summary.")]


def _rates(session: Path) -> list[str]:
    with suppress(OSError):
        return [line for line in (session / layout.ALL_SUMMARY).read_text().splitlines() if "%" in line or "WARNING" in line]
    return []


def _resume_again(ground: Ground, output: Path, session: Path) -> Violations:
    """A resume of the complete run runs nothing and leaves the same bytes."""
    files = (layout.ALL_METRICS, layout.ALL_LATENCIES, layout.ALL_SUMMARY)
    before, bytes_before = look(session), [(session / file).read_bytes() for file in files]
    engine = _Engine(ground, output, session)
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


# -- reading


def _json(path: Path) -> Any:
    with suppress(OSError):
        return json.loads(path.read_bytes())
    return None


def _lines(journal: bytes) -> Iterator[dict[str, Any] | None]:
    for line in journal.splitlines():
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError:
                yield None


def _events(session: Path) -> list[dict[str, Any]]:
    journal = session / layout.JOURNAL
    return [event for event in _lines(journal.read_bytes() if journal.exists() else b"") if event is not None]


def _bad_lines(session: Path) -> int:
    return sum(event is None for event in _lines((session / layout.JOURNAL).read_bytes()))


def _session(output: Path) -> Path | None:
    """The one session in `output`, None where there is none yet."""
    found = sorted(output.glob(f"{layout.SESSION_PREFIX}*"))
    if len(found) > 1:
        raise BenchError(f"{len(found)} sessions in {output}")
    return found[0] if found else None


def _phases(journal: bytes) -> list[str]:
    """What each scenario was in when an invocation with that journal was killed."""
    states: dict[str, str] = {}
    begun = False
    for event in filter(None, _lines(journal)):
        kind, name = event["type"], event.get("scenario", "")
        begun = begun or kind == "run_started"
        if kind == "attempt_started":
            states[name] = "set-up"
        elif kind == "conversation_started":
            states[name] = "conversation"
        elif kind == "conversation_ended":
            states[name] = "evidence"
        elif kind == "attempt_discarded":
            states[name] = "retry"
        elif kind == "scenario_scored":
            states.pop(name, None)
            if event["pending"]:
                states[name] = "judging"
    return sorted(set(states.values())) or (["aggregating"] if begun else ["starting"])


@contextmanager
def _watching_json(output: Path, violations: Violations) -> Iterator[None]:
    """Inside the block every JSON file below `output` is read again and again; one that does not parse is a violation."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            for folder, _, files in os.walk(output):
                for path in (Path(folder, file) for file in files if file.endswith(".json")):
                    try:
                        _json(path)
                    except ValueError as error:
                        violations.append(f"{path.relative_to(output)} did not parse: {error}")

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# -- the engine that is killed


class _Engine:
    """The product as a process of its own: a new run in `output`, or the resume of `session`.

    With a `note` it counts its steps of the file system and writes them there when it ends; at `point` (phase, number) it kills itself.
    """

    def __init__(
        self, ground: Ground, output: Path, session: Path | None, *, point: tuple[str, int] = ("", 0), note: Path | None = None
    ) -> None:
        counting = [sys.executable, "-m", "tests.bench.bench_crash", *map(str, point), str(note)]
        prefix = counting if note is not None else [str(PRODUCT)]
        command = [*prefix, "--no-ui", *ground.arguments, "--output-dir", str(output)]
        if session is not None:
            command += ["--resume", session.name.removeprefix(layout.SESSION_PREFIX)]
        self._output = output
        self._offset = (session / layout.JOURNAL).stat().st_size if session and (session / layout.JOURNAL).exists() else 0
        self._printed = ground.folder / f"{output.name}.printed"
        with self._printed.open("wb") as out:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=REPOSITORY)

    def output(self) -> str:
        """What it printed."""
        return self._printed.read_text(errors="replace")

    def journal(self) -> bytes:
        """What this invocation has written into the journal."""
        session = _session(self._output)
        if session is None or not (session / layout.JOURNAL).exists():
            return b""
        with (session / layout.JOURNAL).open("rb") as file:
            file.seek(self._offset)
            return file.read()

    def kill_somewhere(self, rng: random.Random, mark: bytes, most: int, longest: float) -> None:
        """Kill it a random while after an event, unless it ends before."""
        wanted = rng.randint(min(1, most), most)
        deadline = time.monotonic() + PATIENCE
        while self._process.poll() is None and mark and self.journal().count(mark) < wanted:
            if time.monotonic() > deadline:
                raise BenchError("the engine hangs")
            time.sleep(0.01)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(rng.uniform(0.0, longest))
        self._process.kill()

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        try:
            return self._process.wait(PATIENCE)
        finally:
            self._process.kill()


def _for_ever(rng: random.Random, values: Sequence[T]) -> Iterator[T]:
    """All of `values` in a random order, again and again."""
    while True:
        yield from rng.sample(values, len(values))


def _count_steps(phase: str, number: int) -> Counter[str]:
    """From now on count steps of the file system by phase; at step `number` of `phase` die."""
    lock, steps = threading.Lock(), Counter[str]()

    def tick() -> None:
        here = _phase_here()
        with lock:
            steps[here] += 1
            if here == phase and steps[here] == number:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(function: Callable[..., Any]) -> Callable[..., Any]:
        def stepping(*args: Any, **kwargs: Any) -> Any:
            tick()
            result = function(*args, **kwargs)
            tick()
            return result

        return stepping

    os.fsync = around(os.fsync)
    for name in ("replace", "rename", "mkdir", "touch"):
        setattr(Path, name, around(getattr(Path, name)))
    return steps


def _phase_here() -> str:
    """What the running thread is doing, by the outermost function that tells."""
    frame = sys._getframe()
    found = "starting"
    while frame.f_back is not None:
        frame = frame.f_back
        found = _BY_FUNCTION.get(frame.f_code.co_name, found)
    return found


def _main(phase: str, number: str, note: str, *arguments: str) -> int:
    from voiceeval_tui.cli import main

    steps = _count_steps(phase, int(number))
    code = main(arguments)
    Path(note).write_text(json.dumps(steps))
    return code


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
