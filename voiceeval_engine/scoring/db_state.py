"""Two signals about databases: is the agent's final database the expected one, and do the predicates over it hold?

Predicates are foreign functions: whatever they raise is a failed verdict that says so, never more. May import the standard library
and lower floors only. Rules: scoring page of the specification ("Database hash", "Predicates").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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


def evaluate_elsewhere(
    ask: Callable[[Mapping[str, Any], str | None, str | None], Mapping[str, Any]],
    assertions: Iterable[Mapping[str, Any]],
    agent_db: str | None,
    user_db: str | None,
) -> tuple[PredicateVerdict, ...]:
    """As `evaluate_predicates`, of functions in another process: `ask` is `Elsewhere.verdict`, the databases are JSON texts. Never raises.

    It waits for that process, so call it in a thread.
    """
    databases = {"agent": agent_db, "user": user_db}
    verdicts = []
    for assertion in assertions:
        found: Mapping[str, Any] = {}
        error = _trouble(assertion, databases)
        if error is None:
            try:
                found = ask(assertion, agent_db, user_db)
                error = None if found.get("error") is None else str(found["error"])
            except Exception as raised:  # noqa: BLE001 - foreign code, and its process may end
                error = f"it could not be evaluated: {raised}"
        message = found.get("message", assertion.get("message"))
        verdicts.append(
            PredicateVerdict(
                func_name=str(assertion.get("func_name")),
                side=str(assertion.get("side")),
                passed=error is None and found.get("passed") is True,
                expected=json_safe(assertion.get("assert_value")),
                actual=json_safe(found.get("actual")),
                message=message and str(message),
                error=error,
            )
        )
    return tuple(verdicts)


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
    error = _trouble(assertion, databases)
    if error is not None or database is None:
        passed = False
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


def _trouble(assertion: Mapping[str, Any], databases: Mapping[str, object]) -> str | None:
    """Why there is nothing to be evaluated, None where there is."""
    side = str(assertion.get("side"))
    if side not in databases:
        return f"unknown side {side!r}: a predicate is about 'agent' or 'user'"
    if databases[side] is None:
        return f"the {side} bot returned no database, so nothing could be checked"
    return None
