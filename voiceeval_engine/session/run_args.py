"""`run_args.json`: one record per invocation of a run, without the judge's key.

Rules: artifacts page of the specification ("run_args.json record"), running page (the key is redacted by value). May
import the standard library and this folder only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

from voiceeval_engine.session import layout
from voiceeval_engine.session.files import UnreadableFile, json_safe, read_json, write_json

REDACTED = "<redacted>"
_KEY_OPTION = "--judge-api-key"
_KEY_NAME = "judge_api_key"
_PASSWORD = re.compile(r"(?<=://)[^/@\s]+(?=@)")


@dataclass(frozen=True)
class Invocation:
    """One start of a run. `started_at` is local ISO 8601 to the second; `parsed_args` has every option, with underscores."""

    started_at: str
    argv: tuple[str, ...]
    parsed_args: Mapping[str, Any]
    scenario_names: tuple[str, ...]
    resumed: bool = False


def append_invocation(session: Path, invocation: Invocation, secrets: Sequence[str] = ()) -> str | None:
    """Append a record to the session's `run_args.json`, redacted.

    `secrets` are keys known from elsewhere (the environment); those in `argv` and `parsed_args` are found here. Returns
    a warning for the log when the file was unreadable and a fresh list began, else None. Raises OSError.
    """
    path = session / layout.RUN_ARGS
    warning = None
    try:
        invocations = read_invocations(session)
    except UnreadableFile as error:
        invocations = []
        if not error.missing:
            kept = _keep_aside(path)
            warning = f"{path.name} could not be read ({error.reason}); kept as {kept.name}, a fresh list begins"
    keys = [*secrets, *_keys_in(invocation)]
    parsed = dict(redact(invocation.parsed_args, keys))
    if parsed.get(_KEY_NAME):
        parsed[_KEY_NAME] = REDACTED
    record: dict[str, Any] = {
        "started_at": invocation.started_at,
        "argv": redact(list(invocation.argv), keys),
        "parsed_args": parsed,
        "resolved_scenario_count": len(invocation.scenario_names),
        "resolved_scenario_names": list(invocation.scenario_names),
    }
    if invocation.resumed and invocations:
        record["resumed_from_invocation"] = len(invocations) - 1
    write_json(path, {"invocations": [*invocations, json_safe(record)]})
    return warning


def read_invocations(session: Path) -> list[Any]:
    """The records of a session, oldest first. A file of another shape is one legacy record. Raises UnreadableFile."""
    value = read_json(session / layout.RUN_ARGS)
    if isinstance(value, dict) and isinstance(value.get("invocations"), list):
        return list(value["invocations"])
    return [value]


def shareable(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """A record as it may be shown to others: without the judge's key, which the reference leaves in `argv`, or passwords in URLs."""
    argv, parsed = record.get("argv"), record.get("parsed_args")
    words = tuple(word for word in argv if isinstance(word, str)) if isinstance(argv, list) else ()
    options = parsed if isinstance(parsed, Mapping) else {}
    given = [key for key in _keys_in(Invocation("", words, options, ())) if key != REDACTED]
    safe = {**record, "parsed_args": {**options, _KEY_NAME: REDACTED} if options.get(_KEY_NAME) else options}
    return dict(_redact(redact(safe, given), _PASSWORD))


def redact(value: Any, secrets: Sequence[str]) -> Any:
    """A copy of `value` (strings, lists, mappings) with every secret replaced wherever it occurs, percent-encoded ones too."""
    forms = {form for secret in secrets if secret for form in _forms(secret)}
    if not forms:
        return value
    longest_first = sorted(forms, key=len, reverse=True)
    return _redact(value, re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE))


def _redact(value: Any, pattern: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return pattern.sub(REDACTED, value)
    if isinstance(value, Mapping):
        return {key: _redact(item, pattern) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redact(item, pattern) for item in value]
    return value


def _forms(secret: str) -> tuple[str, ...]:
    # The bare form and the ways in which a URL may spell it; errors="replace" because an argument may hold undecodable bytes.
    return (
        secret,
        quote(secret, errors="replace"),
        quote(secret, safe="", errors="replace"),
        quote_plus(secret, errors="replace"),
    )


def _keys_in(invocation: Invocation) -> list[str]:
    keys = [invocation.parsed_args.get(_KEY_NAME)]
    for argument, following in zip(invocation.argv, (*invocation.argv[1:], ""), strict=False):
        if argument == _KEY_OPTION:
            keys.append(following)
        elif argument.startswith(f"{_KEY_OPTION}="):
            keys.append(argument.partition("=")[2])
    return [key for key in keys if isinstance(key, str)]


def _keep_aside(path: Path) -> Path:
    number = 1
    while os.path.lexists(target := path.with_name(f"{path.name}.unreadable" + (f".{number}" if number > 1 else ""))):
        number += 1
    return path.rename(target)
