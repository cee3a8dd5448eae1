"""Scores one attempt: everything that goes into its `metrics.json`, in the order in which it stands there.

Plain values in, a value out. The judge's verdict comes in with the record, a second call with it replaces the first result. May import
the standard library and lower floors only. Rules: artifacts page ("metrics.json, keys in order"), scoring page of the specification.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from voiceeval_engine.domains.registry import Db, Domain
from voiceeval_engine.scenarios.model import Scenario
from voiceeval_engine.scoring.action_match import MatchRules, match_actions
from voiceeval_engine.scoring.db_state import PredicateVerdict, evaluate_predicates, pass_rate
from voiceeval_engine.scoring.rescore import JudgeScore, rescore
from voiceeval_engine.scoring.signals import EXIT, EndPolicy, conversation_end
from voiceeval_engine.session.evidence import reference_document
from voiceeval_engine.session.files import json_safe
from voiceeval_engine.session.metrics import LatencyRecord, TokenCount, TurnRecord, latency_stats, no_context


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
    predicates = record.predicates
    if predicates is None:
        predicates = evaluate_predicates(domain, scenario.db_state_assertions, record.agent_db, record.user_db)
    metrics: dict[str, Any] = {
        "total_turns": len(record.turns),
        "duration_seconds": record.duration_seconds,
        "turns": [asdict(turn) for turn in record.turns],
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
        "is_action_match": actions.verdict,
        "token_usage": {"agent": asdict(record.agent_tokens), "user": asdict(record.user_tokens)},
        "auto_retry_count": len(record.retry_reasons),
    }
    if expected_hash is not None:
        metrics["db_state_expected_hash"] = expected_hash
        metrics["db_state_match"] = expected_hash == record.db_hash
        metrics["db_state_actual_hash"] = record.db_hash
    if predicates:
        metrics["db_state_assertion_verdicts"] = [asdict(verdict) for verdict in predicates]
        metrics["db_state_assertion_pass_rate"] = pass_rate(predicates)
    if record.retry_reasons:
        metrics["auto_retry_reasons"] = list(record.retry_reasons)
    if record.trace_metrics is not None:
        metrics["trace_metrics"] = json_safe(record.trace_metrics)
    scored = rescore(metrics, scenario.success_signals, record.judge, min_agent_turns=min_agent_turns, context_loader=no_context)
    return ScoredAttempt(scored, actions.reason)


def _rules(scenario: Scenario, strict_match: bool) -> MatchRules:
    return MatchRules(
        ignore_capitalization=scenario.ignore_capitalization,
        ignore_punctuation=scenario.ignore_punctuation,
        clean_text=scenario.clean_text,
        strict=scenario.disallow_extra_items or strict_match,
    )
