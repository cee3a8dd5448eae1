"""What a scenario's numbers are on disk: the records inside `metrics.json`, how it is read back, and the count of agent
responses.

Writers build the records, the aggregate and the resume read them. Reading trusts nothing: sessions come from other
programs too. Rules: artifacts page ("metrics.json, keys in order") and scoring page ("Stalls", "Aggregation") of the
specification. May import the standard library and this folder only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from voiceeval_engine.session import layout
from voiceeval_engine.session.files import read_json_if_any

INTERRUPTED = "[INTERRUPTED]"
"""The text of a turn that was cut off before it had any."""
UNPARSED_ROLE = "unparsed"
"""The role of the one message that stands for a context which could not be parsed."""
PENDING_REASON = "Error: verdict pending"
PENDING: dict[str, Any] = {"score": 0.0, "reason": PENDING_REASON}
"""What `judge_result.json` holds while the judge has not answered."""

_MAX_WHOLE = 2**63

ContextLoader = Callable[[], Any]
"""Gives the agent's message list, or None where there is none; called only when a count needs it."""


class BadMetrics(Exception):
    """A metrics value that parses as JSON but cannot be counted; the text is a short reason."""


@dataclass(frozen=True)
class TurnRecord:
    """One turn: the moment of its last speech (local ISO 8601), `user` or `agent`, what was said."""

    timestamp: str
    role: str
    text: str


@dataclass(frozen=True)
class LatencyRecord:
    """One user-to-agent handoff, in ms."""

    user_transcript: str
    agent_transcript: str
    latency_ms: float


@dataclass(frozen=True)
class TokenCount:
    """What one side's language model used: calls, prompt tokens, completion tokens."""

    n_calls: int = 0
    prompt: int = 0
    completion: int = 0

    def __add__(self, other: TokenCount) -> TokenCount:
        return TokenCount(self.n_calls + other.n_calls, self.prompt + other.prompt, self.completion + other.completion)

    @property
    def total(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt + self.completion


@dataclass(frozen=True)
class ScenarioMetrics:
    """What the aggregate needs of one `metrics.json`. A verdict or rate that is absent or of another type is None.

    `scenario_duration` is in s. `assertions` holds each predicate's outcome. `raw` is the file's whole value.
    """

    total_turns: int
    scenario_duration: float
    latencies: tuple[LatencyRecord, ...]
    agent_tokens: TokenCount
    user_tokens: TokenCount
    stalled: bool
    stop_reason: str | None
    is_successful: bool | None
    is_task_successful: bool | None
    is_action_match: bool | None
    db_state_match: bool | None
    db_state_assertion_pass_rate: float | None
    nl_assertion_pass_rate: float | None
    judge_score: float | None
    judge_passed: bool | None
    clean_exit: bool | None
    assertions: tuple[bool, ...]
    failed_signals: tuple[str, ...]
    raw: Mapping[str, Any]


def latency_stats(values: Sequence[float]) -> dict[str, float]:
    """`latency_stats` of latencies in ms: p50 = sorted[n//2], p95 = sorted[int(n*0.95)]; all six are 0 without a value."""
    keys = ("count", "mean_ms", "p50_ms", "p95_ms", "min_ms", "max_ms")
    if not values:
        return dict.fromkeys(keys, 0)
    ordered = sorted(float(value) for value in values)
    n = len(ordered)
    return dict(zip(keys, (n, sum(ordered) / n, ordered[n // 2], ordered[int(n * 0.95)], ordered[0], ordered[-1]), strict=True))


def count_agent_responses(metrics: Mapping[str, Any], context_loader: ContextLoader) -> int | None:
    """How often the agent answered; None when nothing tells. The one count for floor, soft trigger, resume and check-resume.

    It is `token_usage.agent.n_calls`; 0 there while `turns` holds agent turns means "not reported", then those are counted. Without
    that key it is the assistant messages of the context that `context_loader` gives.
    """
    calls = whole(at(at(metrics.get("token_usage"), "agent"), "n_calls"))
    if calls is not None and calls >= 0:
        return calls or _agent_turns(metrics.get("turns"))
    context = context_loader()
    if not isinstance(context, list) or not context:
        return None
    roles = [at(message, "role") for message in context]
    return None if UNPARSED_ROLE in roles else roles.count("assistant")


def saved_context(scenario_dir: Path | str) -> ContextLoader:
    """A loader of the agent's context that an attempt saved; it gives None where the file is not there or bad."""
    return partial(read_json_if_any, f"{scenario_dir}/{layout.AGENT_LOGS}/{layout.LLM_CONTEXT}")


def no_context() -> None:
    """The loader for an attempt whose context is not to be asked."""


def parse_metrics(value: Any) -> ScenarioMetrics:
    """Read a `metrics.json` value. Absent keys are fine, numbers that are none are not: raises BadMetrics, nothing else.

    Resume and aggregate both call this, so that a scenario which the aggregate cannot count is never taken for completed.
    """
    if not isinstance(value, Mapping):
        raise BadMetrics("the root is no object")
    turns = value.get("total_turns")
    if isinstance(turns, str) or (total_turns := whole(turns)) is None or total_turns < 0:
        raise BadMetrics(f"total_turns is {_short(turns)}, not a number of turns")
    usage = value.get("token_usage")
    verdicts = value.get("db_state_assertion_verdicts")
    failed = at(value.get("success_breakdown"), "failed")
    stop_reason = value.get("stop_reason")
    return ScenarioMetrics(
        total_turns=total_turns,
        scenario_duration=_number(value, "scenario_duration") or 0.0,
        latencies=_latencies(value.get("latencies", [])),
        agent_tokens=token_count(at(usage, "agent")),
        user_tokens=token_count(at(usage, "user")),
        stalled=value.get("insufficient_agent_turns") is True,
        stop_reason=stop_reason if isinstance(stop_reason, str) else None,
        is_successful=_bool(value, "is_successful"),
        is_task_successful=_bool(value, "is_task_successful"),
        is_action_match=_bool(value, "is_action_match"),
        db_state_match=_bool(value, "db_state_match"),
        db_state_assertion_pass_rate=_number(value, "db_state_assertion_pass_rate"),
        nl_assertion_pass_rate=_number(value, "nl_assertion_pass_rate"),
        judge_score=_number(value, "judge_score"),
        judge_passed=_bool(value, "judge_passed"),
        clean_exit=_bool(value, "clean_exit"),
        assertions=passes(verdicts),
        failed_signals=tuple(str(name) for name in failed) if isinstance(failed, list) else (),
        raw=value,
    )


def passes(verdicts: Any) -> tuple[bool, ...]:
    """The outcome of each record in a list of verdicts (predicates or assertions); only a literal true has passed."""
    if not isinstance(verdicts, list):
        return ()
    return tuple(at(verdict, "passed") is True for verdict in verdicts)


def whole(value: Any) -> int | None:
    """`value` as an integer if it is a whole number, quoted or not; None for everything else."""
    if type(value) is int and abs(value) < _MAX_WHOLE:
        return value
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if abs(value) >= _MAX_WHOLE or (isinstance(value, float) and not value.is_integer()):
        return None
    return int(value)


def finite(value: Any) -> float | None:
    """`value` as a float if it is a finite number; None for everything else."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    try:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else None
    except OverflowError:
        return None


def at(value: Any, key: str) -> Any:
    """What a mapping holds under `key`; None where it holds nothing, or the value is no mapping."""
    return value.get(key) if type(value) is dict or isinstance(value, Mapping) else None


def _bool(value: Mapping[str, Any], key: str) -> bool | None:
    found = value.get(key)
    return found if isinstance(found, bool) else None


def _number(value: Mapping[str, Any], key: str) -> float | None:
    if key not in value:
        return None
    found = finite(value[key])
    if found is None:
        raise BadMetrics(f"{key} is {_short(value[key])}, not a finite number")
    return found


def _latencies(value: Any) -> tuple[LatencyRecord, ...]:
    if not isinstance(value, list):
        raise BadMetrics("latencies is no list")
    records = []
    for item in value:
        if not isinstance(item, Mapping) or (latency := _number(item, "latency_ms")) is None:
            raise BadMetrics("latencies holds a record without latency_ms")
        records.append(LatencyRecord(_text(item, "user_transcript"), _text(item, "agent_transcript"), latency))
    return tuple(records)


def _text(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""


def token_count(value: Any) -> TokenCount:
    """One side of `token_usage`; what is no count is 0."""
    counts = [whole(at(value, key)) or 0 for key in ("n_calls", "prompt", "completion")]
    return TokenCount(*[count if count > 0 else 0 for count in counts])


def _agent_turns(turns: Any) -> int:
    if not isinstance(turns, list):
        return 0
    return sum(1 for turn in turns if at(turn, "role") == "agent" and at(turn, "text") != INTERRUPTED)


def _short(value: Any) -> str:
    if isinstance(value, str):
        return repr(value[:40])
    if value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) < _MAX_WHOLE):
        return str(value)
    return f"of type {type(value).__name__}"
