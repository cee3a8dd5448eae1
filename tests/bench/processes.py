"""The processes of a bench: bots, and the product's own command, each started here, watched from outside and ended by its id.

The engine runs as users run it, `voiceeval-tui --no-ui ...`; what it costs is read from the system, so watching costs it nothing.
Linux only (/proc, another process's CPU clock). May import the standard library and the product's names of files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench import scripts
from tests.bench.line import Line
from voiceeval_engine.live.events import Event
from voiceeval_engine.live.journal import JournalReading, read_events
from voiceeval_engine.session import layout

REPOSITORY = Path(__file__).parents[2]
PRODUCT = Path(sys.executable).with_name("voiceeval-tui")
_SAMPLE_SECONDS = 0.25
_END_SECONDS = 5.0


class BenchError(Exception):
    """A bench cannot be carried out; the message says why."""


@dataclass(frozen=True)
class Answer:
    """One answer of an agent as that bot measured it: `latency_ms` from the user's last loud frame to its own first speech, both at the
    engine's end of the agent's line.
    """

    latency_ms: float


class Bots:
    """Running pairs. `urls` are (agent, user) of each; `finish` ends them and gives each agent's answers, oldest first."""

    def __init__(self, process: subprocess.Popen[str], count: int) -> None:
        self._process = process
        if process.stdout is None:
            raise BenchError("the bots have no output")
        lines = [process.stdout.readline().split() for _ in range(count)]
        if not all(len(line) == 2 for line in lines):
            raise BenchError("the bots did not start")
        self.urls = [(line[0], line[1]) for line in lines]

    def finish(self) -> list[list[Answer]]:
        """End the bots; what each pair's agent measured."""
        output, _ = self._process.communicate(timeout=_END_SECONDS)
        return [[Answer(seconds * 1000.0) for seconds in pair] for pair in json.loads(output)]


@contextmanager
def bots(
    count: int,
    lines: Sequence[tuple[Line | None, Line | None]] = (),
    clock: float = 1.0,
    *,
    module: str = "tests.bench.bots_child",
    cores: Sequence[int] = (),
) -> Iterator[Bots]:
    """`count` embedded pairs in one other process, on `cores` where given, gone when the block is left.

    With `lines`, what stands before each pair's agent and user, `clock` is how fast that process's clock runs.
    """
    command = [sys.executable, "-m", module, str(count)]
    if lines:
        command.append(json.dumps({"clock": clock, "lines": [[line and asdict(line) for line in pair] for pair in lines]}))
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    _pin(process.pid, cores)
    try:
        yield Bots(process, count)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        end(process)


@dataclass(frozen=True)
class Sample:
    """The engine process at a moment: wall clock (s since the epoch), CPU so far (s, all threads), resident memory (MB of 10^6)."""

    at: float
    cpu: float
    rss_mb: float


@dataclass(frozen=True)
class EngineRun:
    """A finished run of the product: its session, samples four times a second, and all CPU (s) that it and its children used."""

    session: Path
    samples: tuple[Sample, ...]
    cpu: float
    ended_at: float

    def events(self) -> list[Event]:
        """The journal."""
        return list(read_events(self.session / layout.JOURNAL, JournalReading()))

    def json(self, scenario: str, name: str) -> Any:
        """A JSON file of a scenario's evidence; raises BenchError where there is none."""
        try:
            return json.loads((layout.scenario_dir(self.session, scenario) / name).read_text(encoding="utf-8"))
        except OSError as error:
            raise BenchError(f"{scenario} left no {name}; see {self.session}") from error

    def cpu_at(self, moment: float) -> float:
        """CPU (s) used up to a moment of the wall clock, by interpolation."""
        before, after = self._around(moment)
        if after.at <= before.at:
            return before.cpu
        return before.cpu + (after.cpu - before.cpu) * min(1.0, (moment - before.at) / (after.at - before.at))

    def rss_between(self, first: float, last: float) -> list[Sample]:
        """The samples between two moments of the wall clock."""
        return [sample for sample in self.samples if first <= sample.at <= last]

    def _around(self, moment: float) -> tuple[Sample, Sample]:
        later = next((index for index, sample in enumerate(self.samples) if sample.at >= moment), len(self.samples) - 1)
        return self.samples[max(0, later - 1)], self.samples[later]


def run_product(
    arguments: Sequence[str], folder: Path, *, pacing_report: Path | None = None, cores: Sequence[int] = ()
) -> EngineRun:
    """Run `voiceeval-tui ARGUMENTS` with its sessions in `folder`; raises BenchError when it fails.

    With `pacing_report` the command runs under `engine_child`, which writes that file; it has only `cores` where these are given.
    """
    prefix = [str(PRODUCT)] if pacing_report is None else [sys.executable, "-m", "tests.bench.engine_child", str(pacing_report)]
    command = [*prefix, "--no-ui", "--judge-url", "", *arguments, "--output-dir", str(folder)]
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / "output.txt"
    with output.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=REPOSITORY)
        _pin(process.pid, cores)
        try:
            samples, status, usage = _watch(process)
        finally:
            end(process)
    if status != 0:
        tail = output.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise BenchError(f"{' '.join(command[:2])} ended with {os.waitstatus_to_exitcode(status)}:\n{tail}")
    session = max(folder.glob(f"{layout.SESSION_PREFIX}*"), default=None)
    if session is None:
        raise BenchError(f"no session in {folder}")
    return EngineRun(session, tuple(samples), usage.ru_utime + usage.ru_stime, time.time())


def run_endless(
    names: Sequence[str],
    seconds: float,
    urls: Sequence[tuple[str, str]],
    folder: Path,
    *,
    pacing_report: Path | None = None,
    cores: Sequence[int] = (),
) -> EngineRun:
    """Run a conversation of `seconds` s under each of `names` on the pairs at `urls`, as `run_product` does; all of it is in `folder`."""
    pack = scripts.write_pack(folder / "pack", [scripts.endless_scenario(name) for name in names])
    arguments = ["--scenario-dir", str(pack), "--scenarios", *names, "--duration", f"{seconds:g}", *pair_arguments(urls)]
    return run_product(arguments, folder / "session", pacing_report=pacing_report, cores=cores)


@dataclass(frozen=True)
class Measured:
    """What a command took: wall time and CPU (s), resident memory at its highest (MB of 10^6), and what it printed."""

    seconds: float
    cpu: float
    peak_mb: float
    output: str


def measure(command: Sequence[str]) -> Measured:
    """Run a command that ends by itself; raises BenchError when it fails. What it starts and waits for counts where that is larger."""
    with tempfile.NamedTemporaryFile("r", encoding="ascii") as report:
        starter = [sys.executable, "-I", "-S", str(Path(__file__).with_name("measured_child.py")), report.name]
        ran = subprocess.run([*starter, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
        seconds, cpu, peak_kb, code = report.read().split() or ("0", "0", "0", "127")
    if code != "0":
        raise BenchError(f"{' '.join(command[:4])} ended with {code}: {ran.stdout[-1000:]}")
    return Measured(float(seconds), float(cpu), int(peak_kb) * 1024 / 1e6, ran.stdout)


def pair_arguments(urls: Sequence[tuple[str, str]]) -> list[str]:
    """`--pair` for each of `urls`."""
    return [argument for agent, user in urls for argument in ("--pair", f"{agent},{user}")]


def _pin(pid: int, cores: Sequence[int]) -> None:
    """Before the process has other threads: they inherit it."""
    if cores:
        os.sched_setaffinity(pid, cores)


def _watch(process: subprocess.Popen[bytes]) -> tuple[list[Sample], int, Any]:
    samples: list[Sample] = []
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return samples, status, usage
        with suppress(OSError, IndexError, ValueError):  # it may end between the two looks
            samples.append(Sample(time.time(), time.clock_gettime((~process.pid << 3) | 2), resident_mb(process.pid)))
        time.sleep(_SAMPLE_SECONDS)


def resident_mb(pid: int) -> float:
    """Resident memory of a process, MB of 10^6 bytes."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0]) * 1024 / 1e6


def end(process: subprocess.Popen[Any]) -> None:
    """Wait for an end of its own, then ask for it, then force it; always by the process's own id."""
    for ask in (lambda: None, process.terminate, process.kill):
        if process.returncode is not None:
            return
        ask()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
