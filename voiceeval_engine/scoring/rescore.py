"""The judge's verdict in a `metrics.json`, and the composite verdicts that follow: at first, when it comes later, when it is asked again.

The conversation's numbers stay as they are. Plain values in, plain values out. May import the standard library and lower floors. Rules:
artifacts page, "While a verdict is out" and "metrics.json, keys in order"; running page, `rejudge`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from voiceeval_engine.scoring.signals import breakdown, is_stalled
from voiceeval_engine.scoring.verdict import Verdict
from voiceeval_engine.session.metrics import ContextLoader, count_agent_responses
from voiceeval_engine.session.results import composite, saved_verdicts

METRICS_KEYS = (
    "total_turns", "duration_seconds", "turns", "latency_stats", "latencies", "scenario_name", "scenario_directory",
    "scenario_duration", "stop_reason", "conversation_end_policy", "inactivity_timeout_seconds", "end_conversation_tool_called",
    "simulator_end_reported", "last_speaker", "clean_exit", "conversation_end_reason", "insufficient_agent_turns", "is_action_match",
    "judge_score", "judge_passed", "token_usage", "db_state_expected_hash", "db_state_match", "db_state_actual_hash",
    "nl_assertion_pass_rate", "db_state_assertion_verdicts", "db_state_assertion_pass_rate", "success_breakdown", "auto_retry_count",
    "auto_retry_reasons", "is_successful", "is_task_successful", "trace_metrics",
)  # fmt: skip
"""The keys of `metrics.json`, in the reference's order."""
_DERIVED = frozenset(
    {"judge_score", "judge_passed", "nl_assertion_pass_rate", "insufficient_agent_turns", "is_successful", "is_task_successful"}
)


@dataclass(frozen=True)
class JudgeScore:
    """What the judge said: the score (0 to 1), whether it reached the threshold (None: none is set), the rate over the scenario's
    natural-language assertions (None: it has none).
    """

    score: float
    passed: bool | None
    nl_assertion_pass_rate: float | None


def judge_score(verdict: Verdict, threshold: float | None) -> JudgeScore:
    """What of a verdict goes into `metrics.json`. A call that failed never passes, not even a threshold of 0."""
    passed = None if threshold is None else not verdict.failed and verdict.score >= threshold
    return JudgeScore(verdict.score, passed, verdict.assertion_pass_rate)


def rescore(
    metrics: Mapping[str, Any],
    whitelist: Collection[str],
    judge: JudgeScore | None,
    *,
    min_agent_turns: int,
    context_loader: ContextLoader,
) -> dict[str, Any]:
    """The metrics with this judge's verdict (None: there is no judge) in place of an earlier one, composite verdicts derived again under
    the floor given.
    """
    changed = {key: value for key, value in metrics.items() if key not in _DERIVED}
    if judge is not None:
        changed["judge_score"] = judge.score
        if judge.passed is not None:
            changed["judge_passed"] = judge.passed
        if judge.nl_assertion_pass_rate is not None:
            changed["nl_assertion_pass_rate"] = judge.nl_assertion_pass_rate
    stalled = is_stalled(count_agent_responses(changed, context_loader), min_agent_turns)
    if stalled:
        changed["insufficient_agent_turns"] = True
    signals = breakdown(whitelist, saved_verdicts(changed))
    changed["success_breakdown"] = {bucket: list(names) for bucket, names in asdict(signals).items()}
    return in_key_order(changed | composite(signals.passed, signals.failed, stalled=stalled))


def in_key_order(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics with their keys in order; keys of other programs go last."""
    known = {key: metrics[key] for key in METRICS_KEYS if key in metrics}
    return known | {key: value for key, value in metrics.items() if key not in known}
