"""A pseudo-terminal with a program in it, for tests of what a terminal sees and of how a program ends."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

START = "import sys; from voiceeval_tui.cli import main; sys.exit(main(sys.argv[1:]))"
"""What `python -c` runs to be the command."""


class Terminal:
    """Runs `voiceeval-tui` with these arguments, or another program. Use as a context; what is left of it is killed."""

    def __init__(
        self,
        *arguments: str,
        program: Sequence[str] = (),
        size: tuple[int, int] = (80, 24),
        home: Path | None = None,
        **environ: str,
    ) -> None:
        given = {
            "PATH": os.environ["PATH"],
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "HOME": str(home or "/nonexistent"),
            **environ,
        }
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            run = [*program] or [sys.executable, "-c", START, *arguments]
            os.execvpe(run[0], run, given)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.seen = b""
        self._code: int | None = None

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.hang_up()

    def read(self, until: bytes, patience: float = 15.0) -> bytes:
        """What was written until `until` came; fails when it does not."""
        deadline = time.monotonic() + patience
        while until not in self.seen:
            assert time.monotonic() < deadline, f"{until!r} did not come: {self.seen[-2000:]!r}"
            self._take(0.1)
        return self.seen

    def take(self, seconds: float) -> bytes:
        """What is written in this time."""
        before, deadline = len(self.seen), time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._take(0.05)
        return self.seen[before:]

    def type(self, keys: str) -> None:
        """As if typed."""
        os.write(self.master, keys.encode())

    def kill(self, number: int) -> None:
        """A signal to the program."""
        os.kill(self.pid, number)

    def hang_up(self) -> None:
        """The terminal goes away."""
        if self.master >= 0:
            os.close(self.master)
            self.master = -1

    def code(self, patience: float = 10.0, *, reading: bool = True) -> int:
        """The exit code, negative for a signal; fails when the program does not end."""
        deadline = time.monotonic() + patience
        while self._code is None:
            assert time.monotonic() < deadline, "the program does not end"
            if reading and self.master >= 0:
                self._take(0.05)
            else:
                time.sleep(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        if reading and self.master >= 0:
            self.take(0.2)
        return self._code

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, *, most: bool = False) -> float:
        """Resident memory, MB of 10^6 bytes; `most` is what it was at its highest."""
        field = "VmHWM" if most else "VmRSS"
        line = next(line for line in Path(f"/proc/{self.pid}/status").read_text().splitlines() if line.startswith(field))
        return int(line.split()[1]) * 1024 / 1e6

    def _take(self, seconds: float) -> None:
        try:
            if select.select([self.master], [], [], seconds)[0]:
                self.seen += os.read(self.master, 65536)
        except OSError:
            time.sleep(seconds)
