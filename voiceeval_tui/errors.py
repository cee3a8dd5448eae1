"""What a command ends with when it cannot be carried out. May import the standard library. Rule: running page, "Commands" (exit codes)."""

from __future__ import annotations

import os
import sys


class CommandError(Exception):
    """The command cannot be carried out; `code` is the exit code, the message a sentence."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def let_go_of_output() -> None:
    """A reader or a terminal that went away must not make the interpreter complain, nor change the exit code, when it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
