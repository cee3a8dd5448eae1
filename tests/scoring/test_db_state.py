"""Predicates over databases, whatever they raise."""

from __future__ import annotations

from typing import Any

import pytest

from voiceeval_engine.domains.registry import Domain
from voiceeval_engine.scoring.db_state import evaluate_predicates, pass_rate


class Hostile:
    """Cannot be compared or shown."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise RuntimeError("no text")


def broken(_: Any) -> None:
    raise KeyError("plan")


DOMAIN = Domain(
    name="dom",
    agent_tools={},
    predicates={
        "value_of": lambda db, key="a": db[key],
        "broken": broken,
        "hostile": lambda db: Hostile(),
        "nan": lambda db: float("nan"),
    },
)


def verdict(assertion: dict[str, Any], agent: Any = None, user: Any = None, domain: Domain | None = DOMAIN) -> Any:
    [result] = evaluate_predicates(domain, [assertion], agent, user)
    return result


def test_a_predicate_is_compared_with_the_value_asserted() -> None:
    record = {"side": "agent", "func_name": "value_of", "arguments": {"key": "b"}, "assert_value": 2, "message": "why"}
    good, bad = (verdict(record, {"b": value}) for value in (2, 3))
    assert (good.passed, good.expected, good.actual, good.message, good.error) == (True, 2, 2, "why", None)
    assert (bad.passed, bad.actual, bad.error) == (False, 3, None)


def test_the_side_selects_the_database() -> None:
    record = {"side": "user", "func_name": "value_of", "assert_value": 1}
    assert verdict(record, {"a": 0}, {"a": 1}).passed


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"side": "nobody", "func_name": "value_of"}, "unknown side 'nobody'"),
        ({"func_name": "value_of"}, "unknown side"),
        ({"side": "user", "func_name": "value_of"}, "user bot returned no database"),
        ({"side": "agent", "func_name": "nope"}, "there is no predicate 'nope'; the domain has: broken, hostile, nan, value_of"),
        ({"side": "agent", "func_name": "broken"}, "raised KeyError"),
        ({"side": "agent", "func_name": "value_of", "arguments": {"wrong": 1}}, "raised TypeError"),
        ({"side": "agent", "func_name": "value_of", "arguments": [1]}, "raised TypeError"),
        ({"side": "agent", "func_name": "hostile"}, "no comparison"),
    ],
)
def test_what_cannot_be_evaluated_has_failed_and_says_why(record: dict[str, Any], words: str) -> None:
    result = verdict({"assert_value": True, **record}, {"a": 1})
    assert (result.passed, result.actual) == (False, None)
    assert words in result.error


def test_a_domain_without_predicates_says_so() -> None:
    result = verdict({"side": "agent", "func_name": "x"}, {}, domain=None)
    assert "the domain has: none" in result.error


def test_a_result_that_is_no_json_is_kept_as_text() -> None:
    assert verdict({"side": "agent", "func_name": "nan"}, {}).actual == "nan"


def test_the_rate_is_over_predicates() -> None:
    records = [{"side": "agent", "func_name": "value_of", "assert_value": value} for value in (1, 2, 1)]
    assert pass_rate(evaluate_predicates(DOMAIN, records, {"a": 1}, None)) == pytest.approx(2 / 3)
    assert pass_rate([]) is None
