"""The engine that is killed: the product as a process that ends itself at a step of the file system, or is killed from outside.

`python -m tests.bench.crash_engine PHASE N NOTE ARGUMENT...` runs the product and kills it before or after the n-th call in a phase that
makes, syncs or renames something; NOTE gets the counts of such calls by phase. May import the product's names of files.
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
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.bench.crash_session import one_session
from tests.bench.processes import PRODUCT, REPOSITORY, BenchError
from voiceeval_engine.session import layout

PATIENCE = 90.0
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


class Engine:
    """The product as a process of its own, run with `arguments`: a new run in `output`, or the resume of `session`.

    With a `note` it counts its steps of the file system and writes them there when it ends; at `point` (phase, number) it kills itself.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        output: Path,
        session: Path | None,
        *,
        point: tuple[str, int] = ("", 0),
        note: Path | None = None,
    ) -> None:
        counting = [sys.executable, "-m", "tests.bench.crash_engine", *map(str, point), str(note)]
        prefix = counting if note is not None else [str(PRODUCT)]
        command = [*prefix, "--no-ui", *arguments, "--output-dir", str(output)]
        if session is not None:
            command += ["--resume", session.name.removeprefix(layout.SESSION_PREFIX)]
        self._output = output
        self._offset = (session / layout.JOURNAL).stat().st_size if session and (session / layout.JOURNAL).exists() else 0
        self._printed = output.with_name(f"{output.name}.printed")
        with self._printed.open("wb") as out:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=REPOSITORY)

    def output(self) -> str:
        """What it printed."""
        return self._printed.read_text(errors="replace")

    def journal(self) -> bytes:
        """What this invocation has written into the journal."""
        session = one_session(self._output)
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
