"""The signal about a database's content: do the predicates over it hold?

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
) -> tuple[PredicateVerdict, ...]:
    """Evaluate `db_state_assertions` in order. None for a database means that its bot did not return it. Never raises."""
    databases = {"agent": agent_db, "user": user_db}
    predicates = domain.predicates if domain is not None else {}

    def ask(assertion: Mapping[str, Any]) -> Mapping[str, Any]:
        name = str(assertion.get("func_name"))
        if name not in predicates:
            return {"error": f"there is no predicate {name!r}; the domain has: {', '.join(sorted(predicates)) or 'none'}"}
        try:
            found = predicates[name](databases[str(assertion.get("side"))], **(assertion.get("arguments") or {}))
            return {"passed": bool(found == assertion.get("assert_value")), "actual": json_safe(found)}
        except Exception as raised:  # noqa: BLE001 - a domain's predicate is foreign code
            return {"error": f"predicate {name!r} raised {type(raised).__name__}: {raised}"}

    return _verdicts(ask, assertions, databases)


def evaluate_elsewhere(
    ask: Callable[[Mapping[str, Any], str | None, str | None], Mapping[str, Any]],
    assertions: Iterable[Mapping[str, Any]],
    agent_db: str | None,
    user_db: str | None,
) -> tuple[PredicateVerdict, ...]:
    """As `evaluate_predicates`, of functions in another process: `ask` is `Elsewhere.verdict`, the databases are JSON texts. Never raises.

    It waits for that process, so call it in a thread.
    """
    return _verdicts(lambda assertion: ask(assertion, agent_db, user_db), assertions, {"agent": agent_db, "user": user_db})


def pass_rate(verdicts: Iterable[PredicateVerdict]) -> float | None:
    """Passed / total, None without a verdict."""
    outcomes = [verdict.passed for verdict in verdicts]
    return sum(outcomes) / len(outcomes) if outcomes else None


def _verdicts(
    ask: Callable[[Mapping[str, Any]], Mapping[str, Any]], assertions: Iterable[Mapping[str, Any]], databases: Mapping[str, object]
) -> tuple[PredicateVerdict, ...]:
    """`ask` gives `passed`, `actual`, `message` and `error` of an assertion whose database is there; it may raise anything."""
    verdicts = []
    for assertion in assertions:
        found: Mapping[str, Any] = {}
        error = _trouble(assertion, databases)
        if error is None:
            try:
                found = ask(assertion)
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


def _trouble(assertion: Mapping[str, Any], databases: Mapping[str, object]) -> str | None:
    """Why there is nothing to be evaluated, None where there is."""
    side = str(assertion.get("side"))
    if side not in databases:
        return f"unknown side {side!r}: a predicate is about 'agent' or 'user'"
    if databases[side] is None:
        return f"the {side} bot returned no database, so nothing could be checked"
    return None
