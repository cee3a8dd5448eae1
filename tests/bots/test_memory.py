from __future__ import annotations

import ast
import json
from typing import Any

import pytest

from voiceeval_engine.bots.memory import Memory, UnknownRequest
from voiceeval_engine.domains.state import db_hash
from voiceeval_engine.scenarios.script import Script, Step, ToolCall, render_prompt

DB = {"menu": {"tea": {"price": 3.0, "stock": 2}}, "orders": {}, "cards": {}}
BOOK = ToolCall(name="create_order", arguments={"customer": "Ana"})
PROMPT = render_prompt("Take orders.", Script(name="x", steps=(Step(say="Hi.", tools=(BOOK,)),)))
TOOLS = json.dumps({"create_order": {}, "add_item": {}, "check_item": {}})


def update(memory: Memory, **changes: Any) -> Any:
    request = {"prompt": PROMPT, "tools": TOOLS, "add_suffix": False, "tool_domain": "cafe"}
    return memory.answer("update_system_prompt", request | changes)


def initialize(memory: Memory, **changes: Any) -> Any:
    return memory.answer(
        "apply_initialization", {"domain": "cafe", "shared_state_init": json.dumps({"db": DB}), "actions": []} | changes
    )


@pytest.fixture
def memory() -> Memory:
    ready = Memory("agent")
    assert update(ready) is True
    assert initialize(ready) == {"success": True, "errors": []}
    return ready


def test_the_script_comes_from_the_prompt(memory: Memory) -> None:
    assert memory.script.name == "x"
    assert update(memory, prompt="No script here.") is True
    assert memory.script.name == "small-talk"


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt": ""},
        {"prompt": 3},
        {"tools": {}},
        {"tools": "{"},
        {"tools": "[]"},
        {"add_suffix": "no"},
        {"tool_domain": None},
        {"tool_domain": "no_such_domain"},
        {"prompt": "```script\nname: x\nsteps: []\n```"},
        {"prompt": "```script\n{{{\n```"},
    ],
)
def test_a_prompt_that_cannot_be_used_is_refused_and_the_old_one_stays(memory: Memory, changes: dict[str, Any]) -> None:
    assert update(memory, **changes) is False
    assert memory.script.name == "x"


def test_a_foreign_prompt_with_a_foreign_domain_is_accepted() -> None:
    assert update(Memory("user"), prompt="You call a shop.", tool_domain="somebody_elses") is True


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"domain": 1}, "domain is no string"),
        ({"shared_state_init": {}}, "shared_state_init is no JSON object"),
        ({"shared_state_init": "nope"}, "shared_state_init is no JSON object"),
        ({"shared_state_init": '{"db": []}'}, "shared_state_init: db is no object"),
        ({"actions": {}}, "actions is no list of objects"),
        ({"actions": [1]}, "actions is no list of objects"),
        ({"actions": [{"side": "agent", "func_name": "set_stock"}], "domain": "gone"}, "unknown domain: gone"),
        ({"actions": [{"func_name": "nope"}]}, "unknown initialization function: nope"),
        ({"actions": [{"func_name": "set_stock"}], "shared_state_init": "{}"}, "initialization actions, but no db"),
    ],
)
def test_initialization_that_cannot_be_done_says_why(memory: Memory, changes: dict[str, Any], error: str) -> None:
    result = initialize(memory, **changes)
    assert result["success"] is False
    assert result["errors"][0].startswith(error)


def test_initialization_actions_of_the_other_side_are_left_alone(memory: Memory) -> None:
    act = {"func_name": "set_stock", "arguments": {"item": "tea", "count": 9}}
    assert initialize(memory, actions=[act | {"side": "user"}])["success"]
    assert memory.db == DB
    assert initialize(memory, actions=[act | {"side": "agent"}])["success"]
    assert memory.db is not None
    assert memory.db["menu"]["tea"]["stock"] == 9


def test_a_write_tool_is_an_action_and_a_read_tool_is_none(memory: Memory) -> None:
    booked = memory.run_tool(BOOK)
    looked = memory.run_tool(ToolCall(name="check_item", arguments={"item": "tea"}))
    assert booked.result == {"order_id": "1"}
    assert booked.action == {"name": "create_order", "arguments": {"customer": "Ana"}, "id": booked.call_id}
    assert looked.result == {"price": 3.0, "stock": 2}
    assert looked.action is None
    summary = memory.answer("get_scenario_summary", {"include_db": True})
    assert summary == {"actions": [booked.action], "db_hash": db_hash(memory.db or {}), "db": memory.db}


@pytest.mark.parametrize(
    "call",
    [
        ToolCall(name="place_order", arguments={"order_id": "1"}),
        ToolCall(name="add_item", arguments={"order_id": "7", "item": "tea"}),
        ToolCall(name="add_item", arguments={"wrong": 1}),
        ToolCall(name="no_such_tool"),
    ],
)
def test_a_tool_that_fails_reports_an_error_and_changes_nothing(memory: Memory, call: ToolCall) -> None:
    outcome = memory.run_tool(call)
    assert outcome.result["error"]
    assert outcome.action is None
    assert memory.db == DB
    assert memory.actions == []


def test_the_context_is_a_python_literal_with_calls_and_results(memory: Memory) -> None:
    memory.heard("It's me")
    memory.run_tool(BOOK)
    memory.spoke("Hi.")
    context = ast.literal_eval(memory.answer("get_context_history", {})["context"])
    assert [message["role"] for message in context] == ["system", "user", "assistant", "tool", "assistant"]
    assert context[1]["content"] == "It's me"
    assert context[2]["tool_calls"][0]["id"] == context[3]["tool_call_id"]


def test_an_empty_context_is_an_empty_list() -> None:
    assert Memory("user").answer("get_context_history", {}) == {"context": "[]"}


def test_sync_changes_the_database_and_reports_what_it_cannot(memory: Memory) -> None:
    change = {"domain": "cafe", "delta": {"menu.tea.stock": 1}}
    assert memory.answer("apply_sync_delta", change) == {"success": True, "errors": []}
    assert memory.db is not None
    assert memory.db["menu"]["tea"]["stock"] == 1
    for bad in ({"domain": "cafe", "delta": []}, {"delta": {}}, {"domain": "cafe", "delta": {"menu.tea.price.x": 1}}):
        result = memory.answer("apply_sync_delta", bad)
        assert result["success"] is False
        assert result["errors"]
    assert Memory("user").answer("apply_sync_delta", change)["errors"] == ["there is no database to change"]


def test_reset_clears_context_actions_and_database_but_keeps_the_prompt(memory: Memory) -> None:
    memory.heard("Hello")
    memory.run_tool(BOOK)
    epoch = memory.epoch
    assert memory.answer("reset", {}) is True
    assert memory.answer("get_scenario_summary", {"include_db": False}) == {"actions": [], "db_hash": None}
    assert [message["role"] for message in memory.context] == ["system"]
    assert memory.epoch > epoch


@pytest.mark.parametrize("t", ["reset", "update_system_prompt", "get_context_history", "get_scenario_summary"])
def test_arguments_that_are_no_object_are_refused(memory: Memory, t: str) -> None:
    assert memory.answer(t, [1]) is False
    assert memory.answer("apply_initialization", None) == {"success": False, "errors": ["d is no object"]}
    assert memory.answer("get_scenario_summary", {"include_db": "yes"}) is False


def test_an_unknown_request_is_named(memory: Memory) -> None:
    with pytest.raises(UnknownRequest, match="dance"):
        memory.answer("dance", {})


def test_what_was_said_can_be_taken_once(memory: Memory) -> None:
    memory.spoke("One.")
    memory.spoke("Two.")
    assert memory.take_said() == "One. Two."
    assert memory.take_said() == ""
