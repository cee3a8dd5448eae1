"""What may be removed from a session: attempts that were moved aside, and temporary files that a kill -9 left.

Results that the operator had replaced stay: the summary's warning rests on them. The one place where anything of a session is ever
deleted, and only when a person asked for it. May import the standard library and this folder only. Rules: running page, "Commands"
(`clean DIR`), and artifacts page, "Session directory".
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from voiceeval_engine.session import layout

_MARKS = (layout.RUN_ARGS, layout.EVALUATION_LOG, layout.JOURNAL)
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp", re.DOTALL)
"""As `files.write_atomic` names them."""


@dataclass(frozen=True)
class Leftover:
    """One thing that may go: a folder with all that is in it, or one file or symbolic link. `size` in bytes, of files as they read."""

    path: Path
    size: int
    is_attempt: bool
    """Whether it is an attempt that was moved aside; otherwise a temporary file."""


def is_session(folder: Path) -> bool:
    """Whether a folder is a session, ours or the reference's, rather than one of many sessions or anything else."""
    return any((folder / name).is_file() for name in _MARKS)


def find_leftovers(session: Path) -> list[Leftover]:
    """What may go, attempts first, each by name. Symbolic links are not followed. Raises OSError where the session cannot be read."""
    with os.scandir(session) as entries:
        moved = [entry for entry in entries if _may_go(entry.name) and (entry.is_symlink() or entry.is_dir())]
    attempts = [Leftover(session / entry.name, _size(session / entry.name), is_attempt=True) for entry in moved]
    temporary = [Leftover(path, path.lstat().st_size, is_attempt=False) for path in _temporary_files(session)]
    return sorted(attempts, key=lambda each: each.path) + sorted(temporary, key=lambda each: each.path)


def remove(leftovers: Iterable[Leftover], on_failure: Callable[[OSError], None]) -> list[Leftover]:
    """Remove them and return those that are gone; of each other one `on_failure` is told why. Only the holder of the session's lock may."""
    gone = []
    for each in leftovers:
        try:
            if each.is_attempt and not each.path.is_symlink():
                shutil.rmtree(each.path)
            else:
                each.path.unlink()
        except OSError as error:
            on_failure(error)
        else:
            gone.append(each)
    return gone


def _may_go(name: str) -> bool:
    return layout.is_killed(name) and not layout.is_replaced_result(name)


def _temporary_files(session: Path) -> Iterator[Path]:
    for folder, below, files in os.walk(session):
        if Path(folder) == session:
            below[:] = [name for name in below if not layout.is_killed(name)]
        for name in files:
            path = Path(folder, name)
            if _TEMPORARY.fullmatch(name) and not path.is_symlink() and path.is_file():
                yield path


def _size(path: Path) -> int:
    """Of all regular files below a folder, 0 for a symbolic link."""
    if path.is_symlink():
        return 0
    paths = (Path(folder, name) for folder, _, files in os.walk(path) for name in files)
    return sum(each.lstat().st_size for each in paths if each.is_file() and not each.is_symlink())
