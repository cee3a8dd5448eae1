"""Reading a judge's reply, whatever a model wrapped around it, and what `judge_result.json` holds.

Plain values in, plain values out; hostile text is a parse error, never a crash. May import the standard library and session's models.
Rules: scoring page, "Judge"; the metrics dictionary, "judge_result.json".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from voiceeval_engine.session.files import json_safe
from voiceeval_engine.session.metrics import whole

ERROR = "Error: "
MAX_REPLY_CHARS = 1_000_000
_SHOWN_CHARS = 80
_OPEN, _CLOSE = "<think>", "</think>"
_MARK = re.compile(r'<think>|</think>|\{(?=\s*(?:"|\Z))')
"""Where thinking begins or ends, or an object begins; a brace that no quote follows is prose."""
_STRING_OR_BRACE = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[{}]', re.DOTALL)


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
    failed: bool = False

    @property
    def assertion_pass_rate(self) -> float | None:
        """Passed over all, None without assertions."""
        return sum(each.passed for each in self.assertions) / len(self.assertions) if self.assertions else None


def no_verdict(why: str, assertions: Sequence[str]) -> Verdict:
    """The verdict where there was nothing to ask about: a score of 0.0, every assertion failed, yet no call that failed."""
    return replace(failed_verdict(why, assertions), reason=why, failed=False)


def failed_verdict(why: str, assertions: Sequence[str], raw_response: str | None = None) -> Verdict:
    """The verdict of a call that failed; every assertion is failed too."""
    verdicts = tuple(
        AssertionVerdict(index, text, False, "the judge gave no verdict") for index, text in enumerate(assertions, start=1)
    )
    return Verdict(0.0, ERROR + why, verdicts, raw_response, failed=True)


def read_reply(text: Any, assertions: Sequence[str]) -> Verdict:
    """The verdict in a reply's text. Null, cut-off JSON, or a score that is no finite number from 0 to 1 make a failed verdict."""
    if not isinstance(text, str):
        return failed_verdict("the judge's reply has no text", assertions, None if text is None else _json(text)[:MAX_REPLY_CHARS])
    if len(text) > MAX_REPLY_CHARS:
        return failed_verdict(f"the judge's reply is longer than {MAX_REPLY_CHARS} characters", assertions, text[:MAX_REPLY_CHARS])
    found = _find_object(text)
    if found is None:
        return failed_verdict("the judge's reply holds no JSON object with a score", assertions, text)
    score = found["score"]
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        return failed_verdict(f"the judge's score is no number from 0 to 1: {_json(score)[:_SHOWN_CHARS]}", assertions, text)
    reason = found.get("reason")
    return Verdict(
        score=float(score),
        reason=reason if isinstance(reason, str) else "" if reason is None else _json(reason),
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
        result["nl_assertion_verdicts"] = [asdict(each) for each in verdict.assertions]
        result["nl_assertion_pass_count"] = sum(each.passed for each in verdict.assertions)
        result["nl_assertion_total"] = len(verdict.assertions)
        result["nl_assertion_pass_rate"] = verdict.assertion_pass_rate
    if verdict.raw_response is not None:
        result["raw_response"] = verdict.raw_response
    safe: dict[str, Any] = json_safe(result)
    return safe


def _find_object(text: str) -> dict[str, Any] | None:
    """The object with a `score`: the whole text, else the last top-level one after the model's thinking.

    A `</think>` ends the thinking, or stands in one of the verdict's strings. Both are tried; two different verdicts are none.
    """
    everything = _parse(text)
    if _has_score(everything):
        return cast("dict[str, Any]", everything)
    answers = dict.fromkeys((text, text.partition(_CLOSE)[2], text.rpartition(_CLOSE)[2]))
    found = [value for value in map(_last_object, answers) if value is not None]
    return found[0] if found and all(value == found[0] for value in found) else None


def _last_object(text: str) -> dict[str, Any] | None:
    """The last top-level object with a `score` outside of thinking; None where the last one is cut off.

    Each stretch of the text is read once: a reply may be a million braces.
    """
    found = None
    at = 0
    while mark := _MARK.search(text, at):
        at = mark.end()
        if mark[0] == _CLOSE:
            found = None
        elif mark[0] == _OPEN:
            at = text.find(_CLOSE, at)
            if at < 0:
                return found
        else:
            end = _object_end(text, mark.start())
            if end is None:
                return None
            value = _parse(text[mark.start() : end])
            found = value if _has_score(value) else found
            at = end
    return found


def _object_end(text: str, start: int) -> int | None:
    """Behind the brace that closes the one at `start`, None where none does; braces in strings do not count."""
    depth = 0
    for token in _STRING_OR_BRACE.finditer(text, start):
        if token[0] == "{":
            depth += 1
        elif token[0] == "}":
            depth -= 1
            if depth == 0:
                return token.end()
    return None


def _has_score(value: Any) -> bool:
    return isinstance(value, dict) and "score" in value


def _parse(text: str) -> Any:
    """The value of a JSON text, None where it is none; models put bare line breaks into strings."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _json(value: Any) -> str:
    return json.dumps(json_safe(value))


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
    strange = [outcome for outcome in outcomes if not isinstance(outcome, bool)]
    if strange:
        return False, f"the judge's verdict is neither true nor false: {_json(strange[0])[:_SHOWN_CHARS]}"
    if len(set(outcomes)) > 1:
        return False, "the judge gave contradicting verdicts on this assertion"
    reason = entries[0].get("reason")
    return bool(outcomes[0]), reason if isinstance(reason, str) else ""
