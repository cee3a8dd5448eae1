"""What a scripted bot says and does: the model of a script, and how it travels inside a prompt.

A pack renders a side's script into the prompt of that side as a fenced block, so every harness that sends our prompts drives the
embedded bots, and a saved prompt replays. Checked by pydantic because it comes from files and over the wire. May import the
standard library, pydantic and yaml only.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, model_validator

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FENCE = re.compile(r"^```script[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
MAX_SCRIPT_CHARACTERS = 65_536
END_TOOL = "EndConversation"
"""Offered on both sides; it ends the conversation and belongs to no domain."""


class BadScript(Exception):
    """A prompt's script block cannot be used; the message says why."""


class Checked(BaseModel):
    """What people write: a field that is not known is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolCall(Checked):
    """One call of a domain's tool, on the database of the side that calls."""

    name: str = Field(min_length=1)
    arguments: dict[str, Any] = Field(default_factory=dict)


class Step(Checked):
    """One turn of a side: tools first, then the words, then what ends the conversation.

    `stall: always` says nothing from here on; `stall: N` does so on the first N attempts and is passed over later.
    `barge_in` starts that many seconds after the other side began to speak, instead of after its end. `die_after` drops the
    connection that many seconds into the words. `repeat` says the step again at every later turn. A step that `keeps_talking`
    does not yield when spoken over.
    """

    say: str | None = Field(default=None, min_length=1, max_length=2000)
    tools: tuple[ToolCall, ...] = ()
    exit: str | None = None
    final_response: Any = None
    stall: Literal["always"] | PositiveInt | None = None
    barge_in: float | None = Field(default=None, ge=0, le=60)
    die_after: float | None = Field(default=None, ge=0, le=60)
    keeps_talking: bool = False
    repeat: bool = False

    @model_validator(mode="after")
    def _does_something(self) -> Step:
        if self.stall is None and self.say is None and not self.tools and self.exit is None and self.final_response is None:
            raise ValueError("a step needs one of say, tools, exit, final_response or stall")
        if self.say is None and self.die_after is not None:
            raise ValueError("die_after needs words to die in: say is missing")
        return self


class ScriptManners(Checked):
    """How a bot's audio and events come; what is not given stays as the bot was started. Times in s.

    A bot with a `delay` under 0.3 takes any pause for the end: what it hears must be single words.
    """

    chunk_ms: int | None = Field(default=None, ge=5, le=200)
    rate: Literal[8000, 16000, 24000, 48000] | None = None
    channels: Literal[1, 2] | None = None
    speed: float | None = Field(default=None, gt=0, le=20)
    stopped_after: float | None = Field(default=None, ge=0, le=60)
    streams_silence: bool | None = None
    leading_silence: float | None = Field(default=None, ge=0, le=10)
    delay: float | None = Field(default=None, ge=0.1, le=60)


class Script(Checked):
    """One side of one conversation. `name` is the key under which a bot counts attempts."""

    name: str = Field(min_length=1)
    steps: tuple[Step, ...] = Field(min_length=1)
    manners: ScriptManners = ScriptManners()


def render_prompt(instructions: str, script: Script | None) -> str:
    """A prompt: what a person reads, then the script block where there is one."""
    if script is None:
        return instructions.strip() + "\n"
    body = yaml.safe_dump(script.model_dump(mode="json", exclude_unset=True), sort_keys=False, allow_unicode=True, width=120)
    return f"{instructions.strip()}\n\n```script\n{body}```\n"


def find_script(prompt: str) -> Script | None:
    """The script in a prompt, None where there is no block; raises BadScript where the block cannot be used."""
    found = _FENCE.search(prompt)
    if found is None:
        return None
    if len(found.group(1)) > MAX_SCRIPT_CHARACTERS:
        raise BadScript(f"the prompt's script block is longer than {MAX_SCRIPT_CHARACTERS} characters")
    try:
        # Safe: the loader is CSafeLoader or SafeLoader.
        return Script.model_validate(yaml.load(found.group(1), Loader=_Loader))  # noqa: S506
    except (yaml.YAMLError, RecursionError) as error:
        raise BadScript(f"the prompt's script block is not YAML: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadScript(f"the prompt's script block: {place or 'root'}: {first['msg']}") from error
