"""Which session a person means: a path, a timestamp under the output directory, or the newest there.

May import the standard library, `errors` and the engine's `session`. Rule: running page, "Commands" (`watch [SESSION]`).
"""

from __future__ import annotations

import re
from pathlib import Path

from voiceeval_engine.session import layout
from voiceeval_tui.errors import CommandError

_TIMESTAMP = re.compile(rf"(?:{layout.SESSION_PREFIX})?(\d{{8}}_\d{{6}})", re.ASCII)


class NoSession(CommandError):
    """There is no such session; the message is a sentence."""


def find_session(text: str | None, output_dir: Path) -> Path:
    """The session's folder. `text` is a path, or `20260618_072325` or `eval_20260618_072325` in `output_dir`; None is the newest there.

    A path that is there counts before a timestamp; the newest is the newest by name. Raises NoSession.
    """
    if text is None:
        return _newest(output_dir)
    if text and Path(text).is_dir():
        return Path(text)
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise NoSession(f"there is no session {text}: it is neither a folder nor a timestamp like 20260618_072325")
    session = layout.session_dir(output_dir, match[1])
    if not session.is_dir():
        raise NoSession(f"there is no session {text}: no folder {session}")
    return session


def session_timestamp(name: str) -> str | None:
    """The timestamp of a session's folder by its name; None for another folder."""
    match = _TIMESTAMP.fullmatch(name) if name.startswith(layout.SESSION_PREFIX) else None
    return match[1] if match else None


def _newest(output_dir: Path) -> Path:
    try:
        named = [each for each in output_dir.iterdir() if session_timestamp(each.name) and each.is_dir()]
    except OSError as error:
        raise NoSession(f"there is no session in {output_dir}: {error.strerror}") from error
    if not named:
        raise NoSession(f"there is no session in {output_dir}")
    return max(named, key=lambda each: each.name)
