"""What a scenario is, whatever source it came from.

Sources (packs, an installed package, a saved session) build these; bridge, scoring and evidence read them. Holds no file access.
May import the standard library, pydantic and the lowest floor only. Rules: scenarios page of the specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol, get_args

from pydantic import Field

from voiceeval_engine.domains.twins import Twins

Side = Literal["agent", "user"]
Signal = Literal["is_action_match", "db_state_match", "db_state_assertion", "nl_assertion", "judge_passed", "clean_exit"]
SIGNALS: tuple[Signal, ...] = get_args(Signal)
"""All signals in the order in which `success_breakdown` lists them."""

JsonDict = dict[str, Any]

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
MAX_NAME_BYTES = 238
"""The longest scenario name that the reference's registry holds; a moved-aside folder must still fit 255 bytes."""


class ScenarioError(Exception):
    """A scenario cannot be used; the message names it and says why. `printed` is what its source printed meanwhile, for the log."""

    printed = ""


def check_name(name: str) -> str:
    """Return `name` if it can be a folder name in a session; raise ScenarioError with the reason otherwise."""
    if not _NAME.fullmatch(name):
        raise ScenarioError(f"scenario name {name!r} is not usable: only letters, digits, '.', '_' and '-', not starting with '.'")
    if ".killed." in name:
        raise ScenarioError(f"scenario name {name!r} is not usable: '.killed.' marks attempts that were moved aside")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise ScenarioError(f"scenario name {name[:40]!r}... is not usable: longer than {MAX_NAME_BYTES} bytes")
    return name


def usable_names(names: Iterable[str], source: object, errors: list[Exception]) -> tuple[str, ...]:
    """Those of a source's names that are usable, sorted; `errors` gets a sentence for each of the others."""
    usable = set()
    for name in names:
        try:
            usable.add(check_name(name))
        except ScenarioError as error:
            errors.append(ScenarioError(f"{source}: {error}"))
    return tuple(sorted(usable))


def name_prefix(name: str) -> str:
    """The bucket for per-domain rates and `--domain`: what stands before the first `__`, else the whole name."""
    return name.split("__", 1)[0]


@dataclass(frozen=True)
class NoiseConfig:
    """Noise that the agent hears mixed into the user's speech. Gains in dB, durations in s; fields in the order of `metadata.json`.

    The bounds are for what was read: the models of a source's data check them.
    """

    noise_files: tuple[str, ...] = ()
    gain_db: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    max_noise_duration: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 600.0
    random_offset: bool = True
    random_white_noise: bool = False
    white_noise_db: Annotated[float, Field(le=0, allow_inf_nan=False)] = -90.0


class Elsewhere(Protocol):
    """A scenario's functions where they are in another process. Every call waits, so call it in a thread; raises ScenarioError."""

    def open_twins(self) -> Twins:
        """Copies of its databases, and its tools and sync on them."""

    def verdict(self, assertion: Mapping[str, Any], agent_db: str | None, user_db: str | None) -> Mapping[str, Any]:
        """What a db state assertion says of the final databases (JSON texts): `passed`, `actual`, `message`, `error`."""


@dataclass(frozen=True)
class Scenario:
    """One conversation to run and how to score it. Immutable; what must be changed is copied first.

    `agent_tools`/`user_tools` map tool names to constructor arguments. `agent_state`/`user_state` go out as `shared_state_init`.
    `initialization_actions` are `{"side","func_name","arguments"}`. `db_state_assertions` are `{"side","func_name","arguments",
    "assert_value"[,"message"]}`. `expected_db_hash` is that of the agent's database after a gold replay, None where the database is
    not scored; it is computed where the scenario is built, because a database may be large. `sync` is true for dual-side domains
    whose `sync_state` must run during the conversation.
    """

    name: str
    domain: str
    description: str
    max_duration: float
    user_prompt: str
    agent_prompt: str
    success_signals: tuple[Signal, ...]
    user_tools: Mapping[str, JsonDict]
    agent_tools: Mapping[str, JsonDict]
    user_state: JsonDict
    agent_state: JsonDict
    initialization_actions: tuple[JsonDict, ...] = ()
    reference_answer: Any = None
    ignore_capitalization: bool = False
    ignore_punctuation: bool = False
    clean_text: bool = False
    disallow_extra_items: bool = False
    nl_assertions: tuple[str, ...] = ()
    db_state_assertions: tuple[JsonDict, ...] = ()
    expected_db_hash: str | None = None
    expected_user_db_hash: str | None = None
    noise: NoiseConfig | None = None
    sync: bool = False
    embedded: bool = False
    tool_module: str | None = None
    """The Python module of the domain's tools, where its pack names one; other processes load the domain by it."""
    elsewhere: Elsewhere | None = field(default=None, repr=False, compare=False)
    """Where its functions are, if not in a domain of ours. It does not go along into other processes: there it is None."""
    printed: str = ""
    """What its source printed while it was built, for the log."""
