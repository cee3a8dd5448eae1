"""The new-run form without its screen: which fields there are, what they hold at first, and the options that they make.

Values are checked by RunOptions alone, so that the form and the command line refuse the same with the same words. May import the standard
library, `sessions` and the engine's `run/options`. Rule: console page ("a form for a new run").
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from voiceeval_engine.run.options import DEFAULT_AGENT_URL, DEFAULT_USER_URL, DEMO_DEFAULTS, OptionError, RunOptions
from voiceeval_tui.sessions import NoSession, find_session

SOURCES = ("both", "packs", "nemo")
"""Both: packs, and the package where it is installed."""
POLICIES: tuple[str, ...] = get_args(get_type_hints(RunOptions)["conversation_end_policy"])
YES, NO = "yes", "no"


@dataclass(frozen=True)
class Field:
    """One line of the form. `name` is the option's; `choices` where it is chosen and not typed; `bots`: without effect in a demo."""

    name: str
    label: str
    hint: str = ""
    choices: tuple[str, ...] = ()
    masked: bool = False
    bots: bool = False


GROUPS: tuple[tuple[str, tuple[Field, ...]], ...] = (
    (
        "bots",
        (
            Field("demo", "demo", choices=(NO, YES)),
            Field("agent_url", "agent", DEFAULT_AGENT_URL, bots=True),
            Field("user_url", "simulated user", DEFAULT_USER_URL, bots=True),
            Field("pair", "or pairs", "AGENT_URL,USER_URL and more of these, with spaces between", bots=True),
            Field("pairs_from", "or a file of pairs", "AGENT_URL USER_URL a line; pairs come and go with it", bots=True),
        ),
    ),
    (
        "what to run",
        (
            Field("scenarios", "scenarios", "names with spaces between; F2 picks from the list"),
            Field("domain", "or a domain", "all whose name begins with it; neither: all scenarios"),
            Field("source", "source", choices=SOURCES),
            Field("scenario_dir", "scenario folders", "of packs, with spaces between"),
            Field("scenarios_from", "or a session", "its folder or timestamp: runs again what it holds"),
            Field("output_dir", "output folder"),
        ),
    ),
    (
        "how",
        (
            Field("conversation_end_policy", "ends well by", choices=POLICIES),
            Field("inactivity_timeout", "silence ends, s"),
            Field("min_agent_turns", "agent turns, min", "fewer are a stall; 0 is off"),
            Field("max_auto_retries", "retries if stuck"),
        ),
    ),
    (
        "judge",
        (
            Field("judge_url", "URL", "empty: no judge"),
            Field("judge_model", "model"),
            Field("judge_threshold", "threshold", "0 to 1"),
            Field("judge_api_key", "key", "from the environment or .env where left empty; not saved", masked=True),
        ),
    ),
)
FIELDS: tuple[Field, ...] = tuple(each for _, group in GROUPS for each in group)


class FieldError(Exception):
    """A value that cannot be used; `name` is the field's, empty where it is none of the form's."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def first_texts(defaults: RunOptions) -> dict[str, str]:
    """What the fields hold before anything is typed: the options that were given, else their defaults."""
    return {each.name: _text(getattr(defaults, each.name)) for each in FIELDS if not each.masked}


def to_options(texts: Mapping[str, str], defaults: RunOptions) -> RunOptions:
    """The options of a filled form; what the form does not ask for is taken from `defaults`. Raises FieldError."""
    demo = texts.get("demo") == YES
    record: dict[str, Any] = dict(defaults.parsed_args()) | {"resume": None}
    for each in FIELDS:
        text = texts.get(each.name, "").strip()
        record[each.name] = _value(each.name, text)
        if demo and each.bots:
            record[each.name] = RunOptions.__dataclass_fields__[each.name].default
    if demo:
        usual = RunOptions().parsed_args()
        record |= {name: value for name, value in DEMO_DEFAULTS.items() if record[name] in (usual[name], _text(usual[name]))}
    if record["scenarios_from"] is not None:
        record["scenarios_from"] = _session(record["scenarios_from"], Path(record["output_dir"]))
    try:
        return RunOptions.from_record(record)
    except OptionError as error:
        raise FieldError(_field_of(str(error)), str(error)) from error


def _value(name: str, text: str) -> Any:
    match name:
        case "demo":
            return text == YES
        case "scenarios":
            return _words(name, text)
        case "scenario_dir":
            return [str(Path(word).expanduser()) for word in _words(name, text)]
        case "output_dir":
            return str(Path(text or "eval_results").expanduser())
        case "pair":
            pairs = [word.split(",") for word in text.split()]
            if any(len(pair) != 2 for pair in pairs):
                raise FieldError(name, f"--pair {text!r}: not AGENT_URL,USER_URL")
            return pairs
        case "pairs_from":
            return str(Path(text).expanduser()) if text else None
        case "domain" | "judge_api_key" | "scenarios_from":
            return text or None
        case "source":
            return text if text in SOURCES[1:] else None
        case "judge_url" | "judge_model":
            return text
    return text or _text(RunOptions.__dataclass_fields__[name].default)


def _session(text: str, output_dir: Path) -> Path:
    try:
        return find_session(str(Path(text).expanduser()), output_dir)
    except NoSession as error:
        raise FieldError("scenarios_from", str(error)) from error


def _words(name: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise FieldError(name, f"{text!r}: {error}") from error


def _text(value: object) -> str:
    if isinstance(value, bool):
        return YES if value else NO
    if isinstance(value, tuple):
        return " ".join(",".join(each) if isinstance(each, tuple) else shlex.quote(str(each)) for each in value)
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)


def _field_of(message: str) -> str:
    """The field that a sentence about `--option` is about."""
    option = message.partition(" ")[0].rstrip(":").removeprefix("--").replace("-", "_")
    return option if any(each.name == option for each in FIELDS) else ""
