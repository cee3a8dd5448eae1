from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from attempts import SCENARIO

from voiceeval_engine.bridge.sync import Shadow
from voiceeval_engine.domains.phone_support import DOMAIN
from voiceeval_engine.domains.registry import Domain, Tool
from voiceeval_engine.scenarios.model import Scenario

NUMBER = "555-1"


def scenario(domain: str = "phone_support", **changes: Any) -> Scenario:
    made = replace(
        SCENARIO,
        domain=domain,
        user_state={
            "db": {
                "phone": {"number": NUMBER, "airplane_mode": False, "sim": "ready", "roaming": False},
                "network": {"abroad": False, "roaming_allowed": False, "service": "connected"},
            }
        },
        agent_state={"db": {"lines": {NUMBER: {"status": "active", "roaming": False, "data_gb": 1}}, "tickets": []}},
        sync=True,
    )
    return replace(made, **changes)


def action(name: str, id_: Any = None, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments} | ({} if id_ is None else {"id": id_})


def test_sides_that_agree_need_no_delta() -> None:
    assert Shadow(scenario(), DOMAIN).sync() == {}


def test_initialization_actions_are_replayed_before_the_first_sync() -> None:
    actions = (
        {"side": "agent", "func_name": "suspend_line", "arguments": {"number": NUMBER}},
        {"side": "user", "func_name": "go_abroad", "arguments": {}},
    )
    shadow = Shadow(scenario(initialization_actions=actions), DOMAIN)
    assert shadow.sync() == {"user": {"network.service": "none"}}
    assert shadow.sync() == {}, "the shadows already have it"


def test_what_the_agent_does_is_told_to_the_user_and_the_other_way_round() -> None:
    shadow = Shadow(scenario(), DOMAIN)
    assert shadow.replay("agent", action("enable_roaming", number=NUMBER)) == {"user": {"network.roaming_allowed": True}}
    assert shadow.replay("user", action("set_airplane_mode", on=True)) == {
        "agent": {f"lines.{NUMBER}.status": "offline"},
        "user": {"network.service": "none"},
    }
    assert shadow.troubles == []


def test_the_same_name_and_arguments_twice_are_two_actions() -> None:
    db = {"on": False}
    calls: list[str] = []

    def toggle(db: dict[str, Any]) -> None:
        db["on"] = not db["on"]
        calls.append("toggle")

    domain = Domain("d", {"toggle": Tool("toggle", toggle)}, sync_state=lambda agent, user: {"user": {"seen": agent["on"]}})
    shadow = Shadow(scenario("d", agent_state={"db": db}, user_state={}), domain)
    assert shadow.replay("agent", action("toggle")) == {"user": {"seen": True}}
    assert shadow.replay("agent", action("toggle")) == {"user": {"seen": False}}
    assert shadow.replay("agent", action("toggle", "a")) == {"user": {"seen": True}}
    assert shadow.replay("agent", action("toggle", "b")) == {"user": {"seen": False}}
    assert shadow.replay("agent", action("toggle", "a")) == {}, "an id already seen"
    assert shadow.replay("agent", action("toggle", 7)) == {"user": {"seen": True}}
    assert shadow.replay("agent", action("toggle", "7")) == {}
    assert len(calls) == 5
    assert db == {"on": False}, "the scenario's own database stays as it is"


def test_an_id_counts_for_its_side_only() -> None:
    tools = {"add": Tool("add", lambda db: db.update(n=db.get("n", 0) + 1))}
    domain = Domain(
        "d", tools, tools, sync_state=lambda agent, user: {"agent": {"other": user.get("n")}, "user": {"other": agent.get("n")}}
    )
    shadow = Shadow(scenario("d", agent_state={}, user_state={}), domain)
    assert shadow.replay("agent", action("add", 1))["user"] == {"other": 1}
    assert shadow.replay("user", action("add", 1))["agent"] == {"other": 1}


def fails(*_: Any, **__: Any) -> Any:
    raise RuntimeError("broken")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("nothing", {}),
        ("breaks", {}),
        ("fine", {"surprise": 1}),
        ("fine", {"db": {}}),
        ("fine", [1]),
        ("fine", "x"),
        (None, {}),
        ([], {}),
    ],
)
def test_an_action_that_cannot_be_replayed_is_a_trouble_and_no_more(name: Any, arguments: Any) -> None:
    domain = Domain(
        "d", {"breaks": Tool("breaks", fails), "fine": Tool("fine", lambda db: None)}, sync_state=lambda agent, user: {}
    )
    shadow = Shadow(scenario("d"), domain)
    assert shadow.replay("agent", {"name": name, "arguments": arguments}) == {}
    assert len(shadow.troubles) == 1


def test_a_failing_initialization_is_a_trouble_and_no_more() -> None:
    actions = ({"func_name": "unknown"}, {"side": "user", "func_name": "bad"}, {"func_name": "fine", "arguments": {"x": 1}})
    domain = Domain(
        "d", {}, initialization={"bad": fails, "fine": lambda db, x: db.update(x=x)}, sync_state=lambda a, u: {"user": a}
    )
    shadow = Shadow(scenario("d", agent_state={}, initialization_actions=actions), domain)
    assert shadow.sync() == {"user": {"x": 1}}
    assert len(shadow.troubles) == 2


@pytest.mark.parametrize(
    "sync_state",
    [
        fails,
        lambda agent, user: None,
        lambda agent, user: [],
        lambda agent, user: "both",
        lambda agent, user: {"agent": [1], "user": "x"},
        lambda agent, user: {"agent": {1: 2}},
        lambda agent, user: {"agent": {"a": {1, 2}}},
        lambda agent, user: {"agent": {"a": object()}},
    ],
)
def test_a_sync_state_that_fails_or_returns_something_else_is_a_trouble_and_no_more(sync_state: Callable[..., Any]) -> None:
    domain = Domain("d", {"fine": Tool("fine", lambda db: None)}, sync_state=sync_state)
    shadow = Shadow(scenario("d"), domain)
    assert shadow.sync() == {}
    assert shadow.replay("agent", action("fine")) == {}
    assert len(shadow.troubles) >= 2


def test_a_sync_state_that_changes_what_it_is_given_changes_no_shadow() -> None:
    def meddles(agent: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
        agent["n"] = agent.get("n", 0) + 1
        return {"user": {"n": agent["n"]}}

    shadow = Shadow(scenario("d", agent_state={}), Domain("d", {}, sync_state=meddles))
    assert shadow.sync() == shadow.sync() == {"user": {"n": 1}}


def test_a_delta_that_leads_nowhere_is_a_trouble_but_is_still_told() -> None:
    domain = Domain("d", {}, sync_state=lambda a, u: {"agent": {"a.b.c": 1}})
    shadow = Shadow(scenario("d", agent_state={"db": {"a": 5}}), domain)
    assert shadow.sync() == {"agent": {"a.b.c": 1}}
    assert len(shadow.troubles) == 1


def test_a_domain_without_sync_state_has_no_deltas() -> None:
    assert Shadow(scenario("d"), Domain("d", {})).sync() == {}
