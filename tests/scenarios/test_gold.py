from __future__ import annotations

import copy
from typing import Any

import pytest

from voiceeval_engine.domains.registry import Db, Domain, Side, Tool
from voiceeval_engine.scenarios.gold import ReplayFailed, replay


def add(db: Db, amount: int) -> None:
    db["n"] += amount


def follow(agent: Db, user: Db) -> dict[str, Db]:
    return {"agent": {}, "user": {} if user.get("seen") == agent["n"] else {"seen": agent["n"]}}


DOMAIN = Domain(
    "sums",
    agent_tools={"add": Tool("add", add)},
    user_tools={"add": Tool("add", add)},
    initialization={"start_at": lambda db, n: db.update(n=n)},
    sync_state=follow,
)
BOTH: dict[Side, Db | None] = {"agent": {"n": 0}, "user": {"n": 0}}


def action(side: str, amount: Any, name: str = "add") -> dict[str, Any]:
    return {"side": side, "name": name, "arguments": {"amount": amount}}


def test_initialization_actions_and_sync_come_in_the_order_of_a_run() -> None:
    before = copy.deepcopy(BOTH)
    start = {"side": "agent", "func_name": "start_at", "arguments": {"n": 10}}
    assert replay(DOMAIN, BOTH, [start], [])["user"] == {"n": 0, "seen": 10}
    assert replay(DOMAIN, BOTH, [start], [action("agent", 5), action("user", 1)]) == {
        "agent": {"n": 15},
        "user": {"n": 1, "seen": 15},
    }
    assert before == BOTH


def test_a_side_without_a_database_stays_without() -> None:
    assert replay(DOMAIN, {"agent": {"n": 1}, "user": None}, [], [action("agent", 1)]) == {"agent": {"n": 2}, "user": None}


@pytest.mark.parametrize(
    ("initialization", "actions", "error"),
    [
        ([], [action("agent", 1, "multiply")], "multiply: the agent has no such tool"),
        ([], [action("agent", "x")], "reference action add raised TypeError: "),
        ([], [action("user", 1)], "no database on the user's side"),
        ([{"side": "user", "func_name": "start_at", "arguments": {"n": 1}}], [], "no database on the user's side to initialize"),
        ([{"side": "agent", "func_name": "end_at"}], [], "unknown initialization function: end_at"),
    ],
)
def test_a_reference_that_cannot_be_carried_out_says_why(initialization: Any, actions: Any, error: str) -> None:
    with pytest.raises(ReplayFailed, match=error):
        replay(DOMAIN, {"agent": {"n": 0}, "user": None}, initialization, actions)
