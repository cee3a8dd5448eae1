"""What may stand in a pack's YAML files: every field with its default. The README's tables say what each means.

May import its own folder and pydantic. Rule: scenarios page, "YAML packs".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict, Field

from voiceeval_engine.scenarios.model import JsonDict, NoiseConfig, Side, Signal
from voiceeval_engine.scenarios.script import Checked, ScriptManners, Step


class DomainFile(Checked):
    """`domain.yaml`. Databases are paths (YAML or JSON) inside the pack; `module` holds the tools of a domain that is not ours."""

    domain: str = Field(min_length=1)
    module: str | None = None
    agent_prompt: str = Field(min_length=1)
    user_prompt: str = Field(min_length=1)
    agent_tools: dict[str, JsonDict] = Field(default_factory=dict)
    user_tools: dict[str, JsonDict] = Field(default_factory=dict)
    agent_db: str | None = None
    user_db: str | None = None
    success_signals: tuple[Signal, ...] = Field(min_length=1)
    max_duration: float = Field(default=120.0, gt=0, allow_inf_nan=False)


class SideSpec(Checked):
    """One side of a scenario: what its prompt adds to the domain's, and the script for the embedded bots."""

    instructions: str = ""
    steps: tuple[Step, ...] = ()
    manners: ScriptManners = ScriptManners()


class Action(Checked):
    """One reference action."""

    side: Side = "agent"
    name: str = Field(min_length=1)
    arguments: JsonDict = Field(default_factory=dict)


class Initialization(Checked):
    """One initialization action."""

    side: Side = "agent"
    func_name: str = Field(min_length=1)
    arguments: JsonDict = Field(default_factory=dict)


class Assertion(Initialization):
    """One predicate over a side's final database."""

    assert_value: Any
    message: str | None = None


@dataclass(frozen=True)
class Noise(NoiseConfig):
    """`noise`; files are paths inside the pack."""

    __pydantic_config__ = ConfigDict(extra="forbid")


class ScenarioFile(Checked):
    """One scenario. With `reference_actions` (an empty list too) the expected databases come from a replay.

    They are the reference answer as well, unless there are none or `reference_answer` is given.
    """

    name: str
    description: str = Field(min_length=1)
    agent: SideSpec = SideSpec()
    user: SideSpec = SideSpec()
    success_signals: tuple[Signal, ...] | None = Field(default=None, min_length=1)
    max_duration: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    agent_db: str | None = None
    user_db: str | None = None
    initialization_actions: tuple[Initialization, ...] = ()
    reference_actions: tuple[Action, ...] | None = None
    reference_answer: Any = None
    ignore_capitalization: bool = False
    ignore_punctuation: bool = False
    clean_text: bool = False
    disallow_extra_items: bool = False
    nl_assertions: tuple[str, ...] = ()
    db_state_assertions: tuple[Assertion, ...] = ()
    noise: Noise | None = None
