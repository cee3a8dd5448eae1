"""A verdict put into metrics that are already there: from a judge that answered later, or from a judge asked again.

The conversation's numbers stay as they are; only the judge's keys and what follows from them change. Plain values in, plain values out.
May import the standard library and lower floors. Rules: artifacts page, "While a verdict is out"; running page, `rejudge`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from voiceeval_engine.scoring.score import JudgeScore, in_key_order
from voiceeval_engine.scoring.signals import breakdown, is_stalled, outcome
from voiceeval_engine.scoring.verdict import Verdict
from voiceeval_engine.session.metrics import ContextLoader, count_agent_responses
from voiceeval_engine.session.results import saved_verdicts

_JUDGE_KEYS = frozenset({"judge_score", "judge_passed", "nl_assertion_pass_rate"})


def judge_score(verdict: Verdict, threshold: float | None) -> JudgeScore:
    """What of a verdict goes into `metrics.json`. A call that failed never passes, not even a threshold of 0."""
    passed = None if threshold is None else not verdict.failed and verdict.score >= threshold
    return JudgeScore(verdict.score, passed, verdict.assertion_pass_rate)


def rescore(
    metrics: Mapping[str, Any],
    whitelist: Collection[str],
    judge: JudgeScore,
    *,
    min_agent_turns: int,
    context_loader: ContextLoader,
) -> dict[str, Any]:
    """The metrics with this judge's verdict in place of an earlier one, composite verdicts derived again under the floor given."""
    changed = {key: value for key, value in metrics.items() if key not in _JUDGE_KEYS}
    changed["judge_score"] = judge.score
    if judge.passed is not None:
        changed["judge_passed"] = judge.passed
    if judge.nl_assertion_pass_rate is not None:
        changed["nl_assertion_pass_rate"] = judge.nl_assertion_pass_rate
    stalled = is_stalled(count_agent_responses(changed, context_loader), min_agent_turns)
    changed.pop("insufficient_agent_turns", None)
    if stalled:
        changed["insufficient_agent_turns"] = True
    signals = breakdown(whitelist, saved_verdicts(changed))
    result = outcome(signals, stalled)
    changed["success_breakdown"] = {bucket: list(names) for bucket, names in asdict(signals).items()}
    changed["is_successful"] = "N/A" if result.is_successful is None else result.is_successful
    changed.pop("is_task_successful", None)
    if result.is_task_successful is not None:
        changed["is_task_successful"] = result.is_task_successful
    return in_key_order(changed)
