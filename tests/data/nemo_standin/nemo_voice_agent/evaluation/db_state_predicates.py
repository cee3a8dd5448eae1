from dataclasses import dataclass
from typing import Any


@dataclass
class Verdict:
    func_name: str
    side: str
    passed: bool
    expected: Any
    actual: Any
    message: "str | None"
    error: "str | None"


def _lamp(db, user_db):
    return db["lamp"]


def _seen(db, user_db):
    return user_db["seen"]


def _service(db, user_db):
    return user_db["network"]["service"]


def _roaming(db, user_db, number):
    return db["lines"][number]["roaming"]


def _raises(db, user_db):
    raise KeyError("no such row")


_PREDICATES = {
    ("lamps", "lamp"): _lamp,
    ("lamps", "seen"): _seen,
    ("phone_support", "service"): _service,
    ("phone_support", "line_roaming"): _roaming,
}


def evaluate_db_state_assertion(domain, assertion, db, user_db):
    print("evaluating")
    name, side, expected = assertion["func_name"], assertion["side"], assertion["assert_value"]
    if name == "raises":
        _raises(db, user_db)
    function = _PREDICATES.get((domain, name))
    if function is None:
        return Verdict(name, side, False, expected, None, assertion.get("message"), f"unknown predicate {name}")
    actual = function(db, user_db, **assertion.get("arguments", {}))
    return Verdict(name, side, actual == expected, expected, actual, assertion.get("message"), None)
