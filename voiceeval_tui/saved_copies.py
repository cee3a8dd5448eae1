"""Texts that the operator wants as a file: in the user's state directory, for the user's eyes only, never in a session.

May import the standard library, platformdirs and the engine's `session/layout`. Rule: console page, "Manners" (write to file).
"""

from __future__ import annotations

import os
import re
from datetime import datetime
from pathlib import Path

from platformdirs import user_state_path

from voiceeval_engine.session import layout

_MAX_NAME = 80


class NotSaved(Exception):
    """The file could not be written; the message is a sentence."""


def folder() -> Path:
    return user_state_path("voiceeval-tui") / "copies"


def save_copy(text: str, name: str, session: Path, now: datetime) -> Path:
    """Write a text to a file of its own, named by `name` and the moment; returns its path. Raises NotSaved."""
    target = folder()
    if target.resolve().is_relative_to(session.resolve()):
        raise NotSaved(f"{target} lies in the session, where only the engine writes")
    stem = f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)[:_MAX_NAME].lstrip('.')}_{now.strftime(layout.TIMESTAMP_FORMAT)}"
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            path = layout.unused(target / f"{stem}.txt")
            try:
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                continue  # somebody else took the name meanwhile
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            return path
    except OSError as error:
        raise NotSaved(f"{target}: {error.strerror or error}") from error
