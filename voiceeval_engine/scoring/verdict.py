"""Reading a judge's reply, whatever a model wrapped around it, and what `judge_result.json` holds.

Plain values in, plain values out; hostile text is a parse error, never a crash. May import the standard library and session's models.
Rules: scoring page, "Judge"; the metrics dictionary, "judge_result.json".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from voiceeval_engine.session.files import json_safe
from voiceeval_engine.session.metrics import whole

ERROR = "Error: "
MAX_REPLY_CHARS = 1_000_000
_FENCE = re.compile(r"```[A-Za-z0-9_-]*[ \t]*\r?\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class AssertionVerdict:
    """One natural-language assertion's verdict; `index` counts from 1."""

    index: int
    assertion: str
    passed: bool
    reason: str


@dataclass(frozen=True)
class Verdict:
    """What the judge said, or why it said nothing (`failed`, score 0.0, a reason that begins with "Error: ").

    `assertions` has exactly one entry per assertion of the scenario. `raw_response` is the text that could not be read.
    """

    score: float
    reason: str
    assertions: tuple[AssertionVerdict, ...] = ()
    raw_response: str | None = None
    failed: bool = field(default=False)

    @property
    def assertion_pass_rate(self) -> float | None:
        """Passed over all, None without assertions."""
        return sum(each.passed for each in self.assertions) / len(self.assertions) if self.assertions else None


def failed_verdict(why: str, assertions: Sequence[str], raw_response: str | None = None) -> Verdict:
    """The verdict of a call that failed; every assertion is failed too."""
    verdicts = tuple(
        AssertionVerdict(index, text, False, "the judge gave no verdict") for index, text in enumerate(assertions, start=1)
    )
    return Verdict(0.0, ERROR + why, verdicts, raw_response, failed=True)


def read_reply(text: Any, assertions: Sequence[str]) -> Verdict:
    """The verdict in a reply's text. Null, cut-off JSON, or a score that is no finite number from 0 to 1 make a failed verdict."""
    if not isinstance(text, str):
        return failed_verdict("the judge's reply has no text", assertions, None if text is None else str(text)[:MAX_REPLY_CHARS])
    raw = text[:MAX_REPLY_CHARS]
    found = _find_object(_after_thinking(raw))
    if found is None:
        return failed_verdict("the judge's reply holds no JSON object with a score", assertions, raw)
    score = found["score"]
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score) or not 0 <= score <= 1:
        return failed_verdict(f"the judge's score is no number from 0 to 1: {str(score)[:80]}", assertions, raw)
    reason = found.get("reason")
    return Verdict(
        score=float(score),
        reason=reason if isinstance(reason, str) else "" if reason is None else json.dumps(reason),
        assertions=_assertion_verdicts(found.get("nl_assertion_verdicts"), assertions),
    )


def judge_result(verdict: Verdict, system_prompt: str, user_content: str | None) -> dict[str, Any]:
    """The value of `judge_result.json`."""
    result: dict[str, Any] = {
        "score": verdict.score,
        "reason": verdict.reason,
        "judge_input": {"system_prompt": system_prompt, "user_content": user_content or ""},
    }
    if verdict.assertions:
        result["nl_assertion_verdicts"] = [
            {"index": each.index, "assertion": each.assertion, "passed": each.passed, "reason": each.reason}
            for each in verdict.assertions
        ]
        result["nl_assertion_pass_count"] = sum(each.passed for each in verdict.assertions)
        result["nl_assertion_total"] = len(verdict.assertions)
        result["nl_assertion_pass_rate"] = verdict.assertion_pass_rate
    if verdict.raw_response is not None:
        result["raw_response"] = verdict.raw_response
    safe: dict[str, Any] = json_safe(result)
    return safe


def _after_thinking(text: str) -> str:
    """What stands after the model's thinking; a tag that was never closed hides everything behind it."""
    if "</think>" in text:
        return text.rsplit("</think>", 1)[1]
    return text.split("<think>", 1)[0]


def _find_object(text: str) -> dict[str, Any] | None:
    """The object with a `score`: the whole text, else in a fenced block, else the last top-level one in the prose."""
    for candidate in (text, *reversed(_FENCE.findall(text))):
        value = _parse(candidate.strip())
        if isinstance(value, dict) and "score" in value:
            return value
    decoder = json.JSONDecoder()
    found = None
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if isinstance(value, dict) and "score" in value:
                found = value
        at = text.find("{", end)
    return found


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _assertion_verdicts(entries: Any, assertions: Sequence[str]) -> tuple[AssertionVerdict, ...]:
    given: dict[int, list[Mapping[str, Any]]] = {}
    for entry in entries if isinstance(entries, list) else []:
        index = whole(entry.get("index")) if isinstance(entry, Mapping) else None
        if index is not None:
            given.setdefault(index, []).append(entry)
    zero_based = set(given) == set(range(len(assertions)))
    verdicts = []
    for number, assertion in enumerate(assertions, start=1):
        passed, reason = _one_verdict(given.get(number - 1 if zero_based else number, []))
        note = f" (the judge counted from 0: its index {number - 1} was taken as {number})" if zero_based else ""
        verdicts.append(AssertionVerdict(number, assertion, passed, reason + note))
    return tuple(verdicts)


def _one_verdict(entries: Sequence[Mapping[str, Any]]) -> tuple[bool, str]:
    if not entries:
        return False, "the judge gave no verdict on this assertion"
    outcomes = [entry.get("passed") for entry in entries]
    if not all(isinstance(outcome, bool) for outcome in outcomes):
        return False, f"the judge's verdict is neither true nor false: {str(outcomes[0])[:80]}"
    if len(set(outcomes)) > 1:
        return False, "the judge gave contradicting verdicts on this assertion"
    reason = entries[0].get("reason")
    return bool(outcomes[0]), reason if isinstance(reason, str) else ""
