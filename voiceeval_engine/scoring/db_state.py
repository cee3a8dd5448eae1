"""Two signals about databases: is the agent's final database the expected one, and do the predicates over it hold?

Predicates are foreign functions: whatever they raise is a failed verdict that says so, never more. May import the standard library
and lower floors only. Rules: scoring page of the specification ("Database hash", "Predicates").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from voiceeval_engine.domains.registry import Db, Domain
from voiceeval_engine.session.files import json_safe


@dataclass(frozen=True)
class DbState:
    """SHA-256 hashes (hex) of the agent's expected and final database; `actual_hash` is None when the bot returned none."""

    expected_hash: str
    actual_hash: str | None

    @property
    def match(self) -> bool:
        """Whether the agent left the database that the gold replay leaves."""
        return self.expected_hash == self.actual_hash


@dataclass(frozen=True)
class PredicateVerdict:
    """One record of `db_state_assertion_verdicts`, fields in its key order."""

    func_name: str
    side: str
    passed: bool
    expected: Any
    actual: Any
    message: str | None
    error: str | None


def evaluate_predicates(
    domain: Domain | None, assertions: Iterable[Mapping[str, Any]], agent_db: Db | None, user_db: Db | None
) -> list[PredicateVerdict]:
    """Evaluate `db_state_assertions` in order. None for a database means that its bot did not return it. Never raises."""
    databases = {"agent": agent_db, "user": user_db}
    return [_evaluate(domain, assertion, databases) for assertion in assertions]


def pass_rate(verdicts: Iterable[PredicateVerdict]) -> float | None:
    """Passed / total, None without a verdict."""
    outcomes = [verdict.passed for verdict in verdicts]
    return sum(outcomes) / len(outcomes) if outcomes else None


def _evaluate(domain: Domain | None, assertion: Mapping[str, Any], databases: Mapping[str, Db | None]) -> PredicateVerdict:
    side, name = str(assertion.get("side")), str(assertion.get("func_name"))
    expected = assertion.get("assert_value")
    actual, error, passed = None, None, False
    predicates = domain.predicates if domain is not None else {}
    database = databases.get(side)
    if side not in databases:
        error = f"unknown side {side!r}: a predicate is about 'agent' or 'user'"
    elif database is None:
        error = f"the {side} bot returned no database, so nothing could be checked"
    elif name not in predicates:
        known = ", ".join(sorted(predicates)) or "none"
        error = f"there is no predicate {name!r}; the domain has: {known}"
    else:
        try:
            found = predicates[name](database, **(assertion.get("arguments") or {}))
            passed = bool(found == expected)
            actual = json_safe(found)
        except Exception as raised:  # noqa: BLE001 - a domain's predicate is foreign code
            passed, error = False, f"predicate {name!r} raised {type(raised).__name__}: {raised}"
    message = assertion.get("message")
    return PredicateVerdict(name, side, passed, json_safe(expected), actual, message and str(message), error)
