"""What a command ends with when it cannot be carried out. May import nothing. Rule: running page, "Commands" (exit codes)."""

from __future__ import annotations


class CommandError(Exception):
    """The command cannot be carried out; `code` is the exit code, the message a sentence."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code
