"""What came of a scenario, read back from its `metrics.json` and `judge_result.json`: by the run, the report and whoever watches.

Trusts nothing in them. May import the standard library and this folder only. Rules: artifacts page, "Scenario directory" and "While a
verdict is out"; scoring page (the six signals).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voiceeval_engine.session import layout
from voiceeval_engine.session.files import read_json, read_json_if_any
from voiceeval_engine.session.metrics import PENDING_REASON, ScenarioMetrics, finite, passes, whole


@dataclass(frozen=True)
class Judgement:
    """What a `judge_result.json` came to: still `pending`, a call that `failed`, and each assertion's outcome."""

    pending: bool = False
    failed: bool = False
    assertions: tuple[bool, ...] = ()


def judgement_of(judged: Any) -> Judgement:
    """The judgement in the value of a `judge_result.json`; whatever that is."""
    if not isinstance(judged, Mapping):
        return Judgement()
    reason = judged.get("reason")
    pending = reason == PENDING_REASON
    failed = not pending and str(reason).startswith("Error:")
    return Judgement(pending, failed, passes(judged.get("nl_assertion_verdicts")))


def read_result(folder: Path) -> tuple[Any, Mapping[str, Any]]:
    """The values of a scenario's `metrics.json` and `judge_result.json`, the latter empty where there is none.

    Raises UnreadableFile for the metrics.
    """
    metrics = read_json(f"{folder}/{layout.METRICS}")
    judged = read_json_if_any(f"{folder}/{layout.JUDGE_RESULT}")
    return metrics, judged if isinstance(judged, Mapping) else {}


def saved_verdicts(metrics: Mapping[str, Any]) -> dict[str, bool | None]:
    """Every signal's verdict in a `metrics.json`, None where it has none."""
    computed: dict[str, Any] = {
        "is_action_match": metrics.get("is_action_match"),
        "db_state_match": metrics.get("db_state_match"),
        "db_state_assertion": rate_verdict(finite(metrics.get("db_state_assertion_pass_rate"))),
        "nl_assertion": rate_verdict(finite(metrics.get("nl_assertion_pass_rate"))),
        "judge_passed": metrics.get("judge_passed"),
        "clean_exit": metrics.get("clean_exit"),
    }
    return {name: value if isinstance(value, bool) else None for name, value in computed.items()}


def rate_verdict(rate: float | None) -> bool | None:
    """A pass rate as a signal: true only at exactly 1.0, None where there is none."""
    return None if rate is None else rate == 1.0


def composite(passed: Sequence[Any], failed: Sequence[Any], *, stalled: bool) -> dict[str, Any]:
    """The composite verdicts as `metrics.json` holds them: conjunctions over the signals that count and have a verdict.

    Without any there is no task verdict; a stalled scenario has failed whatever they say.
    """
    if not stalled and not passed and not failed:
        return {"is_successful": "N/A"}
    task = all(signal == "clean_exit" for signal in failed)
    return {"is_successful": not stalled and not failed, "is_task_successful": not stalled and task}


def event_fields(parsed: ScenarioMetrics, judgement: Judgement) -> dict[str, Any]:
    """What the event that a scenario was scored tells of it, besides its name and attempt."""
    pending = judgement.pending
    return {
        "verdict": None if pending else parsed.is_successful,
        "task_verdict": None if pending else parsed.is_task_successful,
        "failed_signals": list(parsed.failed_signals),
        "signals": {name: value for name, value in saved_verdicts(parsed.raw).items() if value is not None},
        "stalled": parsed.stalled,
        "stop_reason": parsed.stop_reason or "",
        "turns": parsed.total_turns,
        "latencies": [record.latency_ms for record in parsed.latencies],
        "tokens": parsed.agent_tokens.total + parsed.user_tokens.total,
        "retries": whole(parsed.raw.get("auto_retry_count")) or 0,
        "duration": parsed.scenario_duration,
        "pending": pending,
        "judge_score": None if pending else parsed.judge_score,
        "judge_failed": judgement.failed,
        "predicates": (sum(parsed.assertions), len(parsed.assertions)),
        "assertions": (sum(judgement.assertions), len(judgement.assertions)),
    }
