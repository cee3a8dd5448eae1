"""Scores one attempt: everything that goes into its `metrics.json`, in the order in which it stands there.

Plain values in, a value out. The
judge's verdict comes in with the record, a second call with it replaces the first result. May import the standard library and lower
floors only. Rules: artifacts page ("metrics.json, keys in order"), scoring page of the specification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from voiceeval_engine.domains.registry import Db, Domain
from voiceeval_engine.scenarios.model import Scenario, Signal
from voiceeval_engine.scoring.action_match import MatchRules, match_actions
from voiceeval_engine.scoring.db_state import DbState, PredicateVerdict, evaluate_predicates, pass_rate
from voiceeval_engine.scoring.signals import (
    EXIT,
    EndPolicy,
    breakdown,
    conversation_end,
    is_stalled,
    outcome,
    rate_verdict,
)
from voiceeval_engine.session.evidence import reference_document
from voiceeval_engine.session.files import json_safe
from voiceeval_engine.session.metrics import (
    LatencyRecord,
    TokenCount,
    TurnRecord,
    count_agent_responses,
    latency_stats,
    no_context,
)

METRICS_KEYS = (
    "total_turns", "duration_seconds", "turns", "latency_stats", "latencies", "scenario_name", "scenario_directory",
    "scenario_duration", "stop_reason", "conversation_end_policy", "inactivity_timeout_seconds", "end_conversation_tool_called",
    "simulator_end_reported", "last_speaker", "clean_exit", "conversation_end_reason", "insufficient_agent_turns", "is_action_match",
    "judge_score", "judge_passed", "token_usage", "db_state_expected_hash", "db_state_match", "db_state_actual_hash",
    "nl_assertion_pass_rate", "db_state_assertion_verdicts", "db_state_assertion_pass_rate", "success_breakdown", "auto_retry_count",
    "auto_retry_reasons", "is_successful", "is_task_successful", "trace_metrics",
)  # fmt: skip
"""The keys of `metrics.json`, in the reference's order."""


@dataclass(frozen=True)
class JudgeScore:
    """What the judge said: the score (0 to 1), whether it reached the threshold (None: none is set), the rate over the scenario's
    natural-language assertions (None: it has none).
    """

    score: float
    passed: bool | None
    nl_assertion_pass_rate: float | None


@dataclass(frozen=True)
class AttemptRecord:
    """One finished attempt as the bridge saw it. Durations and the inactivity timeout in s.

    `prediction` is the value of `final_agent_response.json`, None where there is no such file. `db_hash` and the databases are what
    the bots returned, None where they returned none. `retry_reasons` names each attempt that was discarded before this one.
    `trace_metrics` is the content of that file, None where there is none. `predicates` are verdicts on the scenario's
    `db_state_assertions`, None where they are to be evaluated here.
    """

    turns: tuple[TurnRecord, ...]
    latencies: tuple[LatencyRecord, ...]
    duration_seconds: float
    scenario_directory: str
    scenario_duration: float
    stop_reason: str
    simulator_end_reported: bool
    conversation_end_policy: EndPolicy
    inactivity_timeout_seconds: float
    agent_tokens: TokenCount
    user_tokens: TokenCount
    prediction: Any = None
    db_hash: str | None = None
    agent_db: Db | None = None
    user_db: Db | None = None
    retry_reasons: tuple[str, ...] = ()
    judge: JudgeScore | None = None
    trace_metrics: Any = None
    predicates: tuple[PredicateVerdict, ...] | None = None


@dataclass(frozen=True)
class ScoredAttempt:
    """The value of `metrics.json`, and the comparator's reason for the attempt's log."""

    metrics: dict[str, Any]
    action_match_reason: str


def score_attempt(
    record: AttemptRecord, scenario: Scenario, domain: Domain | None, *, min_agent_turns: int, strict_match: bool
) -> ScoredAttempt:
    """Score an attempt under the floor `min_agent_turns` (0 = off). `domain` gives the predicates, None where it has no module."""
    last_speaker = next((turn.role for turn in reversed(record.turns) if turn.role), None)
    end = conversation_end(record.stop_reason, record.simulator_end_reported, last_speaker, record.conversation_end_policy)
    actions = match_actions(reference_document(scenario.reference_answer), record.prediction, _rules(scenario, strict_match))
    expected_hash = scenario.expected_db_hash
    db_state = None if expected_hash is None else DbState(expected_hash, record.db_hash)
    predicates: Sequence[PredicateVerdict] = record.predicates or ()
    if record.predicates is None:
        predicates = evaluate_predicates(domain, scenario.db_state_assertions, record.agent_db, record.user_db)
    judge = record.judge
    usage = {"agent": asdict(record.agent_tokens), "user": asdict(record.user_tokens)}
    turns = [asdict(turn) for turn in record.turns]
    stalled = is_stalled(count_agent_responses({"token_usage": usage, "turns": turns}, no_context), min_agent_turns)
    verdicts: dict[Signal, bool | None] = {
        "is_action_match": None if actions.verdict == "N/A" else actions.verdict,
        "db_state_match": None if db_state is None else db_state.match,
        "db_state_assertion": rate_verdict(pass_rate(predicates)),
        "nl_assertion": None if judge is None else rate_verdict(judge.nl_assertion_pass_rate),
        "judge_passed": None if judge is None else judge.passed,
        "clean_exit": end.clean_exit,
    }
    signals = breakdown(scenario.success_signals, verdicts)
    result = outcome(signals, stalled)

    metrics: dict[str, Any] = {
        "total_turns": len(turns),
        "duration_seconds": record.duration_seconds,
        "turns": turns,
        "latency_stats": latency_stats([latency.latency_ms for latency in record.latencies]),
        "latencies": [asdict(latency) for latency in record.latencies],
        "scenario_name": scenario.name,
        "scenario_directory": record.scenario_directory,
        "scenario_duration": record.scenario_duration,
        "stop_reason": record.stop_reason,
        "conversation_end_policy": record.conversation_end_policy,
        "inactivity_timeout_seconds": record.inactivity_timeout_seconds,
        "end_conversation_tool_called": record.stop_reason == EXIT,
        "simulator_end_reported": record.simulator_end_reported,
        "last_speaker": last_speaker,
        "clean_exit": end.clean_exit,
        "conversation_end_reason": end.reason,
    }
    if stalled:
        metrics["insufficient_agent_turns"] = True
    metrics["is_action_match"] = actions.verdict
    if judge is not None:
        metrics["judge_score"] = judge.score
        if judge.passed is not None:
            metrics["judge_passed"] = judge.passed
    metrics["token_usage"] = usage
    metrics |= _database_keys(db_state, judge, predicates)
    metrics["success_breakdown"] = {bucket: list(names) for bucket, names in asdict(signals).items()}
    metrics["auto_retry_count"] = len(record.retry_reasons)
    if record.retry_reasons:
        metrics["auto_retry_reasons"] = list(record.retry_reasons)
    metrics["is_successful"] = "N/A" if result.is_successful is None else result.is_successful
    if result.is_task_successful is not None:
        metrics["is_task_successful"] = result.is_task_successful
    if record.trace_metrics is not None:
        metrics["trace_metrics"] = json_safe(record.trace_metrics)
    return ScoredAttempt(in_key_order(metrics), actions.reason)


def in_key_order(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics with their keys in order; keys of other programs go last."""
    known = {key: metrics[key] for key in METRICS_KEYS if key in metrics}
    return known | {key: value for key, value in metrics.items() if key not in known}


def _rules(scenario: Scenario, strict_match: bool) -> MatchRules:
    return MatchRules(
        ignore_capitalization=scenario.ignore_capitalization,
        ignore_punctuation=scenario.ignore_punctuation,
        clean_text=scenario.clean_text,
        strict=scenario.disallow_extra_items or strict_match,
    )


def _database_keys(db_state: DbState | None, judge: JudgeScore | None, predicates: Sequence[PredicateVerdict]) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    if db_state is not None:
        keys["db_state_expected_hash"] = db_state.expected_hash
        keys["db_state_match"] = db_state.match
        keys["db_state_actual_hash"] = db_state.actual_hash
    if judge is not None and judge.nl_assertion_pass_rate is not None:
        keys["nl_assertion_pass_rate"] = judge.nl_assertion_pass_rate
    if predicates:
        keys["db_state_assertion_verdicts"] = [asdict(verdict) for verdict in predicates]
        keys["db_state_assertion_pass_rate"] = pass_rate(predicates)
    return keys
