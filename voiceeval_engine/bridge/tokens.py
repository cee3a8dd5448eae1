"""Token counts from `metrics` messages, tolerant of what bots put there.

Plain values in, plain values out. May import the standard library and session's models. Rule: wire page, "Tokens".
"""

from __future__ import annotations

from typing import Any

from voiceeval_engine.session.metrics import TokenCount, whole

_MAX_COUNT = 10**12
"""No call uses more; sums stay far below what a reader of `metrics.json` takes for a count (2**63)."""


def add_tokens(count: TokenCount, entry: Any) -> tuple[TokenCount, str | None]:
    """`count` with one entry of a message's `tokens` added, and a sentence about what in it could not be used.

    Each entry is one call; numbers in quotes count; a field that is no whole number from 0 to 10**12 counts as 0.
    """
    if not isinstance(entry, dict):
        return count, f"a token entry that is no object: {str(entry)[:80]!r}"
    prompt, bad_prompt = _number(entry, "prompt_tokens")
    completion, bad_completion = _number(entry, "completion_tokens")
    added = TokenCount(count.n_calls + 1, count.prompt + prompt, count.completion + completion)
    return added, bad_prompt or bad_completion


def _number(entry: dict[Any, Any], key: str) -> tuple[int, str | None]:
    value = entry.get(key)
    number = whole(value)
    if number is not None and 0 <= number <= _MAX_COUNT:
        return number, None
    return 0, None if value is None else f"a token count that is no number: {key}={str(value)[:80]!r}"
