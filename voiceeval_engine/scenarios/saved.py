"""The scenarios that an earlier session holds, from the `scenario_config/` that every attempt leaves, ours or the reference's.

A session does not hold what its bots' databases were at the start, so a scenario that needs one is refused, with the sign of it. Nothing in
a session is trusted: a file must be a plain one inside it, and of a size that a scenario can have. A folder of an attempt that was moved
aside counts where no other is there: so a session can be resumed from itself.

May import session and its own folder. Rule: scenarios page, "A saved `scenario_config/`".
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from voiceeval_engine.scenarios.described import described
from voiceeval_engine.scenarios.model import Scenario, ScenarioError, usable_names
from voiceeval_engine.session import layout
from voiceeval_engine.session.files import parse_json

MAX_FILE_BYTES = 16 * 2**20
"""A prompt or a tool list of the reference has up to 100 KB."""

_FROM_METADATA = (
    "domain", "description", "max_duration", "noise_config", "ignore_capitalization", "ignore_punctuation", "clean_text",
    "disallow_extra_items", "success_signals", "nl_assertions",
)  # fmt: skip
_SIGNS_OF_STATE = {
    "expected_db_hash": "its metadata shows an expected database",
    "expected_user_db_hash": "its metadata shows an expected database",
    "db_state_assertions": "its metadata shows assertions on a database",
    "initialization_actions": "its metadata shows a database to initialize",
}


class SavedSource:
    """A source of the catalogue: one session's scenarios, as they are when it is made. Raises ScenarioError for what is no folder."""

    embedded = False

    def __init__(self, session: Path) -> None:
        self._session = session
        self.errors: list[Exception] = []
        try:
            held = {folder.name.partition(layout.KILLED_INFIX) for folder in _held(session)}
        except OSError as error:
            raise ScenarioError(f"{session}: {error.strerror}") from error
        whole = {name for name, killed, _ in held if not (killed and "~" in name)}  # a name that was shortened is none
        self.names = usable_names(whole, session, self.errors)
        """Those with a `scenario_config/`; whether it can be used is seen when one is loaded."""

    def load(self, name: str) -> Scenario:
        """Build one scenario; raises ScenarioError where it needs a database or a file cannot be used."""
        try:
            return self._load(name)
        except (ScenarioError, OSError) as error:
            raise ScenarioError(f"{name} of {self._session.name}: {error}") from error

    def close(self) -> None:
        """There is nothing to let go."""

    def _load(self, name: str) -> Scenario:
        folder = self._folder(name)
        metadata = self._json(folder, "metadata.json", dict)
        sign = next((what for key, what in _SIGNS_OF_STATE.items() if metadata.get(key)), None)
        if sign is None and os.path.lexists(folder / layout.DB_HASH):
            sign = "its bots had a database"
        if sign is not None:
            raise ScenarioError(f"{sign}, and no session holds the one that it begins with: run it from its own source")
        found = {key: metadata[key] for key in _FROM_METADATA if key in metadata}
        for side in ("user", "agent"):
            found[f"{side}_prompt"] = self._text(folder, f"{side}_prompt.txt")
            found[f"{side}_tools"] = _parsed(f"{side}_tools.json", self._json(folder, f"{side}_tools.json", str))
        if os.path.lexists(folder / layout.SCENARIO_CONFIG / "reference_answer.json"):
            found["reference_answer"] = self._json(folder, "reference_answer.json")
        scenario = described(name, found)
        for file in scenario.noise.noise_files if scenario.noise is not None else ():
            if not Path(file).is_file():
                raise ScenarioError(f"noise file {file} is not there")
        return scenario

    def _folder(self, name: str) -> Path:
        """Where its configuration is: in its own folder, else in that of the last attempt that was moved aside."""
        folder = layout.scenario_dir(self._session, name)
        if _holds(folder):
            return folder
        aside = [each for each in _held(self._session) if _is_attempt_at(name, each)]
        if not aside:
            raise ScenarioError(f"there is no {layout.SCENARIO_CONFIG}")
        return max(aside, key=lambda each: each.stat().st_mtime)

    def _json(self, folder: Path, file: str, kind: type | None = None) -> Any:
        value = _parsed(file, self._text(folder, file))
        if kind is not None and not isinstance(value, kind):
            raise ScenarioError(f"{file}: it is {type(value).__name__} where {kind.__name__} is expected")
        return value

    def _text(self, folder: Path, file: str) -> str:
        path = folder / layout.SCENARIO_CONFIG / file
        try:
            real = path.resolve(strict=True)
            if not real.is_relative_to(self._session.resolve()):
                raise ScenarioError(f"{file} leads out of the session")
            if not real.is_file():
                raise ScenarioError(f"{file} is no plain file")
            with real.open("rb") as opened:
                raw = opened.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            raise ScenarioError(f"there is no {file}") from None
        except (OSError, RuntimeError) as error:  # RuntimeError: what older Pythons raise for a loop of links
            raise ScenarioError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error
        if len(raw) > MAX_FILE_BYTES:
            raise ScenarioError(f"{file} is longer than {MAX_FILE_BYTES // 2**20} MB")
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise ScenarioError(f"{file} is not UTF-8 at byte {error.start}") from error


def _held(session: Path) -> Iterator[Path]:
    """Every folder of a session with a configuration in it, attempts that were moved aside too. Raises OSError."""
    return (folder for folder in session.iterdir() if _holds(folder))


def _holds(folder: Path) -> bool:
    return os.path.isdir(folder / layout.SCENARIO_CONFIG)  # noqa: PTH112 - unlike Path's it never raises


def _is_attempt_at(name: str, folder: Path) -> bool:
    tag = folder.name.partition(layout.KILLED_INFIX)[2]
    return bool(tag) and folder.name == layout.killed_name(name, tag)


def _parsed(file: str, text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        raise ScenarioError(f"{file}: {error}") from error
