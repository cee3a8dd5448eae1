"""A scenario from plain data that another program wrote, an installed package or a saved session: checked, then built.

May import its own folder and pydantic. Rule: scenarios page (the attributes of a scenario).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from voiceeval_engine.scenarios.model import JsonDict, NoiseConfig, Scenario, ScenarioError, Signal


class _Described(BaseModel):
    model_config = ConfigDict(frozen=True)

    domain: str
    description: str = ""
    max_duration: float = Field(gt=0, allow_inf_nan=False)
    user_prompt: str
    agent_prompt: str
    user_tools: dict[str, Any]
    agent_tools: dict[str, Any]
    user_state: JsonDict = Field(default_factory=dict)
    agent_state: JsonDict = Field(default_factory=dict)
    success_signals: tuple[Signal, ...] = Field(min_length=1)
    noise_config: NoiseConfig | None = None
    ignore_capitalization: bool = False
    ignore_punctuation: bool = False
    clean_text: bool = False
    disallow_extra_items: bool = False
    reference_answer: Any = None
    nl_assertions: tuple[str, ...] = ()
    db_state_assertions: tuple[JsonDict, ...] = ()
    initialization_actions: tuple[JsonDict, ...] = ()
    expected_db_hash: str | None = None
    expected_user_db_hash: str | None = None
    sync: bool = False


def described(name: str, data: Mapping[str, Any]) -> Scenario:
    """The scenario that `data` describes, keys as in `metadata.json` beside prompts, tools and states; other keys are passed over.

    Raises ScenarioError, which says which value is wrong, without the scenario's name.
    """
    try:
        found = _Described.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ScenarioError(f"{place}: {first['msg']}; it is {str(first['input'])[:100]!r}") from error
    values = {key: getattr(found, key) for key in _Described.model_fields if key != "noise_config"}
    return Scenario(name=name, noise=found.noise_config, **values)
