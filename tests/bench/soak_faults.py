"""What goes wrong around a soaked engine: bots that are killed and come back, a judge that answers 503, consoles that come and go.

`Faults` throws one at a time at random and can make all well again. May import the tests' terminal and judge, and the product's commands.
"""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.bench.processes import REPOSITORY, BenchError, end

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from judges import WatchedJudge
from terminal import Terminal

from voiceeval_engine.live.commands import Command, ControlError, Reply, send_now

PORTS = range(20_000, 32_000)
"""Below those that the system gives to clients: a client must not take a dead bot's."""
SIZES = ((80, 24), (120, 40), (200, 50))
LEAVING = ("killed", "hung up", "left with d")


class Pair:
    """An embedded pair as a process of its own, always on the same ports."""

    def __init__(self, port: int) -> None:
        self.urls = (f"ws://127.0.0.1:{port}", f"ws://127.0.0.1:{port + 1}")
        ports = ("--agent-port", str(port), "--user-port", str(port + 1))
        self._command = [sys.executable, "-m", "voiceeval_engine.bots", *ports, "--end-with-stdin"]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it unless it runs."""
        if self._process is None:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=REPOSITORY)

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self.end()

    def end(self) -> None:
        """End it and wait for that."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            end(self._process)
        self._process = None


class Faults:
    """Throws them at the engine of `session`; `counts` says what was thrown."""

    def __init__(self, session: Path, pairs: list[Pair], judge: WatchedJudge, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._session, self._pairs, self._judge = session, pairs, judge
        self._random = random.Random(seed)
        self._dead: dict[int, float] = {}
        self._well_at = 0.0
        self._watching: threading.Thread | None = None
        self._failed: list[str] = []

    @property
    def failures(self) -> list[str]:
        """What a console did that it should not."""
        return self._failed

    def throw(self) -> None:
        """One fault at random; what was to come back by now does."""
        for number in [number for number, back in self._dead.items() if back <= time.monotonic()]:
            self._pairs[number].start()
            del self._dead[number]
        if self._judge.overloaded.is_set() and time.monotonic() >= self._well_at:
            self._judge.overloaded.clear()
        self._random.choice((self._kill_bots, self._overload_judge, self._watch, self._ask))()

    def make_well(self) -> None:
        """All bots live, the judge answers, no console watches."""
        for pair in self._pairs:
            pair.start()
        self._dead.clear()
        self._judge.overloaded.clear()
        if self._watching is not None:
            self._watching.join()
            self._watching = None

    def ask(self, command: Command) -> Reply | None:
        """The engine's answer, None where it is gone."""
        with suppress(ControlError):
            return send_now(self._session, command)
        return None

    def _kill_bots(self) -> None:
        number = self._random.randrange(len(self._pairs))
        if number not in self._dead:
            self._pairs[number].kill()
            self._dead[number] = time.monotonic() + self._random.uniform(0.2, 10.0)
            self.counts["bots killed"] += 1

    def _overload_judge(self) -> None:
        self._judge.overloaded.set()
        self._well_at = time.monotonic() + self._random.uniform(1.0, 15.0)
        self.counts["judge 503"] += 1

    def _ask(self) -> None:
        self.ask(Command(command="status"))
        self.counts["status asked"] += 1

    def _watch(self) -> None:
        if self._watching is not None and self._watching.is_alive():
            return
        how, size = self._random.choice(LEAVING), self._random.choice(SIZES)
        self._watching = threading.Thread(target=self._console, args=(how, size, self._random.uniform(1.0, 6.0)))
        self._watching.start()
        self.counts[f"console {how}"] += 1

    def _console(self, how: str, size: tuple[int, int], seconds: float) -> None:
        with Terminal("watch", str(self._session), size=size, home=self._session.parent) as terminal:
            try:
                terminal.read(b"RUNNING", 20.0)
                terminal.take(seconds)
                if how == "hung up":
                    terminal.hang_up()
                    terminal.code(reading=False)
                elif how == "left with d":
                    terminal.type("d")
                    terminal.code()
            except AssertionError as error:
                self._failed.append(f"console {how}: {str(error)[:300]}")


@contextmanager
def living_pairs(count: int) -> Iterator[list[Pair]]:
    """`count` pairs, gone when the block is left."""
    pairs: list[Pair] = []
    try:
        pairs += [Pair(port) for port in _free_ports(count)]
        yield pairs
    finally:
        for pair in pairs:
            pair.end()


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Look again and again; raises BenchError when it does not come about."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise BenchError(f"{what} within {seconds:g} s")
        time.sleep(0.2)


def _free_ports(count: int) -> list[int]:
    found: list[int] = []
    for port in range(PORTS.start, PORTS.stop, 2):
        if len(found) < count and all(_is_free(each) for each in (port, port + 1)):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
