"""Writes one attempt's evidence: conversation logs, the agent's answer, database hashes, contexts.

Every function is synchronous and takes plain picklable values, so that the caller may run it in a thread or a worker
process. Texts come from bots and may hold anything; none of it makes a writer fail. Only the disk does (OSError).
Rules: artifacts page of the specification ("Scenario directory"), wire page (the context string). May import the
standard library and this folder only.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from voiceeval_engine.session import layout
from voiceeval_engine.session.files import json_safe, write_atomic, write_json
from voiceeval_engine.session.metrics import UNPARSED_ROLE

MAX_CONTEXT_CHARS = 16 * 1024 * 1024
_RULE = "=" * 80
_LOG_FOLDERS = {"agent": layout.AGENT_LOGS, "user": layout.USER_LOGS}
_PARSE_ERRORS = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)


@dataclass(frozen=True)
class LogSegment:
    """One turn in the conversation logs. Times in s on the conversation's clock; `latency_ms` where it answered a user's turn."""

    start: float
    end: float
    role: str
    text: str
    latency_ms: float | None = None


def write_conversation_log(folder: Path, segments: Sequence[LogSegment], start_time: str, end_time: str, stop_reason: str) -> None:
    """Write `conversation_log.txt`, one line a segment in the order of their starts; both times are local ISO 8601."""
    lines = ["RTVI Evaluation Bridge - Conversation Log", _RULE, f"Start Time: {start_time}", _RULE, ""]
    for segment in _by_start(segments):
        spoken = " ".join(segment.text.splitlines())  # a line break in a bot's text must not forge a segment
        times = f"[{segment.start:7.3f}s - {segment.end:7.3f}s] ({segment.end - segment.start:.3f}s)"
        lines.append(f"{times} {segment.role.upper()}: {spoken}")
        if segment.latency_ms is not None:
            lines.append(f"  → Response latency: {segment.latency_ms:.1f}ms")
    lines += ["", "", _RULE, f"End time: {end_time}", f"Stop reason: {stop_reason}", _RULE, ""]
    write_atomic(folder / layout.CONVERSATION_LOG, "\n".join(lines))


def write_seglst(folder: Path, scenario: str, segments: Sequence[LogSegment]) -> None:
    """Write `conversation_log.seglst.json`, the segments in the order of their starts."""
    records = [
        {
            "session_id": scenario,
            "words": segment.text,
            "speaker": segment.role,
            "start_time": segment.start,
            "end_time": segment.end,
        }
        for segment in _by_start(segments)
    ]
    write_json(folder / layout.CONVERSATION_SEGLST, records)


def final_response(agent_actions: Sequence[Any] | None, user_actions: Sequence[Any] | None, pushed: Sequence[str]) -> list[Any]:
    """The agent's answer as `final_agent_response.json` holds it and the comparator reads it.

    Actions are those that each bot returned (None: it returned no summary), the user's go after the agent's. `pushed`
    are the texts inside `<final_response>`; they count where no action was pulled.
    """
    pulled = agent_actions is not None or user_actions is not None
    actions = [_sided(action, "agent", keep=True) for action in agent_actions or ()]
    actions += [_sided(action, "user", keep=False) for action in user_actions or ()]
    if pushed and not actions:
        return [_payload(text) for text in pushed]
    return [{"actions": actions}] if pulled else []


def write_db_hashes(folder: Path, db_hash: str | None, user_db_hash: str | None) -> None:
    """Write `final_scenario_db_hash.txt`, a line for each hash that a bot returned; no file without any."""
    lines = [f"{key}: {value}\n" for key, value in (("db_hash", db_hash), ("user_db_hash", user_db_hash)) if value]
    if lines:
        write_atomic(folder / layout.DB_HASH, "".join(lines))


def parse_context(context: Any) -> list[Any]:
    """The message list in a bot's context, which reaches us as Python's `str()` of it, as JSON, or as a list.

    None and the empty text give []. What cannot be parsed, or is longer than 16 M characters, becomes one message of
    the role `unparsed`.
    """
    if context is None or context == "":
        return []
    parsed = _parse(context) if isinstance(context, str) else context
    if isinstance(parsed, Mapping):
        parsed = [parsed]
    if not isinstance(parsed, list | tuple):
        parsed = [{"role": UNPARSED_ROLE, "content": context}]
    safe: list[Any] = json_safe(parsed)
    return safe


def write_llm_context(folder: Path, side: Literal["agent", "user"], messages: list[Any]) -> None:
    """Write `bot_logs_<side>/llm_context.json`; `messages` is what `parse_context` returned, [] when it could not be had."""
    target = folder / _LOG_FOLDERS[side]
    target.mkdir(exist_ok=True)
    write_json(target / layout.LLM_CONTEXT, messages)


def reference_document(answer: Any) -> Any:
    """A scenario's reference answer as `reference_answer.json` holds it: a text becomes `{"message": text}`."""
    return {"message": answer} if isinstance(answer, str) else answer


def _by_start(segments: Sequence[LogSegment]) -> list[LogSegment]:
    return sorted(segments, key=lambda segment: segment.start)


def _sided(action: Any, side: str, *, keep: bool) -> Any:
    if not isinstance(action, Mapping):
        return json_safe(action)
    kept = action.get("side", side) if keep else side
    return json_safe({"side": kept, **{key: value for key, value in action.items() if key != "side"}})


def _payload(text: str) -> Any:
    try:
        return json_safe(json.loads(text))
    except (ValueError, RecursionError):
        return {"message": text}


def _parse(text: str) -> Any:
    if len(text) > MAX_CONTEXT_CHARS:
        return None
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except _PARSE_ERRORS:
            continue
    return None
