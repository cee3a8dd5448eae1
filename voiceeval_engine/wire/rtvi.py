"""RTVI messages: the JSON that travels inside message frames, as checked models, for both ends of the wire.

`parse` reads what a bot sent; the builders make what the bridge sends and, with `event`, what a bot sends. One bad message
raises BadMessage and hurts nothing but itself. May import the standard library and pydantic only. Rule: wire page, "RTVI envelope".
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

LABEL = "rtvi-ai"
PROTOCOL_VERSION = "1.1.0"


class BadMessage(Exception):
    """A message that cannot be used; the text says what is wrong, shortened."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Envelope(_Model):
    """What every message has. `id` is there on requests and their replies only."""

    type: str
    id: str | None = None
    data: Any = None

    @field_validator("id", mode="before")
    @classmethod
    def _number_ids(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class TextData(_Model):
    """`bot-tts-text`, `bot-transcription`, `bot-llm-text`; `user-transcription`: what that bot heard."""

    text: str


class BotOutputData(_Model):
    """`bot-output`: `completed` tells whether the text was spoken to its end (unknown counts as yes), `announced` that it will be."""

    text: str
    spoken: bool = True
    will_be_spoken: bool | None = None
    spoken_status: str | None = None

    @property
    def completed(self) -> bool:
        return self.spoken and self.spoken_status in (None, "completed", "final", "spoken")

    @property
    def announced(self) -> bool:
        return self.will_be_spoken is True and self.spoken_status == "new"


class MetricsData(_Model):
    """`metrics`: entries are kept as they came, their readers check them one by one."""

    ttfb: list[Any] = Field(default_factory=list)
    tokens: list[Any] = Field(default_factory=list)

    @field_validator("ttfb", "tokens", mode="before")
    @classmethod
    def _null_is_empty(cls, value: Any) -> Any:
        return [] if value is None else value


class ServerMessageData(_Model):
    """`server-message`: either `text` (exit, final response) or `type` (an applied action)."""

    text: str | None = None
    type: str | None = None
    action: dict[str, Any] | None = None


class ServerResponseData(_Model):
    """`server-response`: `t` echoes the request, `d` is its result."""

    t: str | None = None
    d: Any = None


class ErrorData(_Model):
    """`error-response` and `error`."""

    error: str = "no reason given"
    fatal: bool = False


class FunctionCallData(_Model):
    """`llm-function-call*`: only the name is of use, for log and console."""

    function_name: str | None = None


class NoData(_Model):
    """Messages whose data is of no use to us."""


_DATA_MODELS: dict[str, type[_Model]] = {
    "bot-tts-text": TextData,
    "bot-transcription": TextData,
    "bot-llm-text": TextData,
    "bot-output": BotOutputData,
    "user-transcription": TextData,
    "metrics": MetricsData,
    "server-message": ServerMessageData,
    "server-response": ServerResponseData,
    "error-response": ErrorData,
    "error": ErrorData,
    "llm-function-call": FunctionCallData,
    "llm-function-call-started": FunctionCallData,
    "llm-function-call-in-progress": FunctionCallData,
    "llm-function-call-stopped": FunctionCallData,
}


@dataclass(frozen=True, slots=True)
class Message:
    """One message from a bot: `data` is the model of its type, NoData for types that carry nothing we use."""

    type: str
    id: str | None
    data: _Model


def shorten(text: str, limit: int = 200) -> str:
    """At most `limit` characters of `text`, saying how many were left out; control characters are shown as escapes."""
    cut = text[:limit]
    if not cut.isprintable():
        cut = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in cut)
    return cut if len(text) <= limit else f"{cut}... ({len(text) - limit} more characters)"


def parse_envelope(text: str) -> Envelope:
    """Read the envelope of either direction; raises BadMessage for anything that is not RTVI JSON."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadMessage(f"not JSON ({error}): {shorten(text)!r}") from error
    if not isinstance(raw, dict) or raw.get("label") != LABEL:
        raise BadMessage(f"not an RTVI message: {shorten(text)!r}")
    try:
        return Envelope.model_validate(raw)
    except ValidationError as error:
        raise BadMessage(f"{_first_error(error)} in {shorten(text)!r}") from error


def parse(text: str) -> Message:
    """Read a bot's message; raises BadMessage where the envelope or the data of a known type is wrong."""
    envelope = parse_envelope(text)
    model = _DATA_MODELS.get(envelope.type, NoData)
    if model is NoData:
        return Message(envelope.type, envelope.id, NoData())
    try:
        data = model.model_validate({} if envelope.data is None else envelope.data)
    except ValidationError as error:
        raise BadMessage(f"{shorten(envelope.type, 60)}: {_first_error(error)} in {shorten(text)!r}") from error
    return Message(envelope.type, envelope.id, data)


def _first_error(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]


def build(type_: str, data: Any = None, id_: str | None = None) -> str:
    """The JSON text of one message. A bot's events have no id; requests and replies do."""
    message: dict[str, Any] = {"label": LABEL, "type": type_}
    if id_ is not None:
        message["id"] = id_
    if data is not None:
        message["data"] = data
    return json.dumps(message)


def client_ready(id_: str, library_version: str) -> str:
    """The bridge's first message on a connection."""
    about = {"library": "voiceeval-engine", "library_version": library_version}
    return build("client-ready", {"version": PROTOCOL_VERSION, "about": about}, id_)


def client_message(t: str, d: dict[str, Any], id_: str) -> str:
    """A request; `t` names it, `d` holds its arguments."""
    return build("client-message", {"t": t, "d": d}, id_)


def send_text(id_: str, content: str = "Hello") -> str:
    """The kick-off that makes the agent open the conversation."""
    options = {"run_immediately": True, "audio_response": True}
    return build("send-text", {"content": content, "options": options}, id_)


_EXIT = re.compile(r"<exit>(.*?)</exit>", re.DOTALL)
_FINAL = re.compile(r"<final_response>(.*?)</final_response>", re.DOTALL)


def exit_text(text: str) -> str | None:
    """What stands in `<exit>...</exit>`, None where there is none."""
    found = _EXIT.search(text)
    return found.group(1).strip() if found else None


def final_responses(text: str) -> list[str]:
    """The payloads of all `<final_response>...</final_response>` in `text`."""
    return [payload.strip() for payload in _FINAL.findall(text)]


def describe(message: Message) -> str:
    """One line for a log: the type and its data, shortened to 64 KB."""
    if isinstance(message.data, NoData):
        return shorten(message.type)
    try:
        data = message.data.model_dump_json(exclude_defaults=True)
    except ValueError:  # lone surrogates, or nested deeper than pydantic writes
        data = "(data that cannot be shown)"
    return shorten(f"{message.type} {data}", 65_536)
