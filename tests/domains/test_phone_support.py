from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.domains.phone_support import DOMAIN, sync_state
from voiceeval_engine.domains.registry import Db, ToolRefused
from voiceeval_engine.domains.state import apply_delta

NUMBER = "555-0101"


def account(status: str = "active", roaming: bool = False) -> Db:
    return {"lines": {NUMBER: {"status": status, "roaming": roaming, "data_gb": 5}}, "tickets": []}


def phone(airplane_mode: bool = False, roaming: bool = False, sim: str = "ready", abroad: bool = False) -> Db:
    return {
        "phone": {"number": NUMBER, "airplane_mode": airplane_mode, "roaming": roaming, "sim": sim},
        "network": {"abroad": abroad, "roaming_allowed": False, "service": "connected"},
    }


def test_the_operators_tools_change_the_account() -> None:
    db = account(status="suspended")
    for name, arguments in (
        ("enable_roaming", {}),
        ("resume_line", {}),
        ("add_data", {"gigabytes": 2}),
        ("open_ticket", {"subject": "no service"}),
    ):
        DOMAIN.agent_tools[name].call(db, number=NUMBER, **arguments)
    seen = {
        name: DOMAIN.predicates[name](db, number=NUMBER) for name in ("line_status", "line_roaming", "line_data", "ticket_count")
    }
    assert seen == {"line_status": "active", "line_roaming": True, "line_data": 7, "ticket_count": 1}
    DOMAIN.agent_tools["disable_roaming"].call(db, number=NUMBER)
    assert DOMAIN.agent_tools["get_line"].call(db, number=NUMBER)["roaming"] is False


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("get_line", {"number": "1"}), ("resume_line", {"number": NUMBER}), ("add_data", {"number": NUMBER, "gigabytes": 0})],
)
def test_what_cannot_be_done_is_refused(name: str, arguments: dict[str, object]) -> None:
    with pytest.raises(ToolRefused):
        DOMAIN.agent_tools[name].call(account(), **arguments)


def test_the_callers_tools_change_the_phone() -> None:
    db = phone(airplane_mode=True, sim="missing")
    DOMAIN.user_tools["set_airplane_mode"].call(db, on=False)
    DOMAIN.user_tools["set_roaming"].call(db, on=True)
    DOMAIN.user_tools["reseat_sim"].call(db)
    assert db["phone"] == {"number": NUMBER, "airplane_mode": False, "roaming": True, "sim": "ready"}
    assert DOMAIN.user_tools["check_phone"].call(db)["service"] == "connected"
    assert DOMAIN.predicates["airplane_mode"](db) is False


def test_what_happens_on_the_phone_is_seen_on_the_account() -> None:
    assert sync_state(account(), phone(airplane_mode=True)) == {
        "agent": {f"lines.{NUMBER}.status": "offline"},
        "user": {"network.service": "none"},
    }
    assert sync_state(account(status="offline"), phone())["agent"] == {f"lines.{NUMBER}.status": "active"}


def test_what_the_operator_allows_is_seen_on_the_phone() -> None:
    assert sync_state(account(roaming=True), phone(abroad=True, roaming=True))["user"] == {"network.roaming_allowed": True}
    assert sync_state(account(), phone(abroad=True, roaming=True))["user"] == {"network.service": "none"}


def test_a_suspension_is_not_lifted_by_the_phone() -> None:
    assert sync_state(account(status="suspended"), phone()) == {"agent": {}, "user": {"network.service": "none"}}


def test_an_unknown_number_is_left_alone() -> None:
    stranger = phone()
    stranger["phone"]["number"] = "1"
    assert sync_state(account(), stranger) == {"agent": {}, "user": {}}


@given(
    st.sampled_from(["active", "offline", "suspended"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["ready", "missing"]),
    st.booleans(),
)
def test_one_sync_is_enough_and_changes_neither_side_itself(
    status: str, allowed: bool, airplane: bool, roaming: bool, sim: str, abroad: bool
) -> None:
    agent, user = account(status, allowed), phone(airplane, roaming, sim, abroad)
    before = copy.deepcopy((agent, user))
    delta = sync_state(agent, user)
    assert (agent, user) == before
    assert apply_delta(agent, delta["agent"]) == apply_delta(user, delta["user"]) == []
    assert sync_state(agent, user) == {"agent": {}, "user": {}}


def test_initialization_sets_each_trouble() -> None:
    agent, user = account(), phone()
    DOMAIN.initialization["suspend_line"](agent, number=NUMBER)
    for name in ("turn_on_airplane_mode", "loosen_sim", "go_abroad"):
        DOMAIN.initialization[name](user)
    assert agent["lines"][NUMBER]["status"] == "suspended"
    assert (user["phone"]["airplane_mode"], user["phone"]["sim"], user["network"]["abroad"]) == (True, "missing", True)
