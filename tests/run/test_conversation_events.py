"""What watchers are told of interruptions and tools: each thing once, however often a bot tells it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from bot_farm import serving
from engine_run import Ran, run_engine, scenario
from hostile_bots import LOUD, HostileBot, Stage

from voiceeval_engine.bots.server import BotPair
from voiceeval_engine.live import events
from voiceeval_engine.scenarios.script import Step
from voiceeval_engine.wire.frames import encode_interruption

BRIEF: dict[str, Any] = {"max_auto_retries": 0, "min_agent_turns": 0}
FRAME, MESSAGE = "frame", "message"
FAR_APART = 1.0
"""Seconds; ten times what makes two tellings one."""


async def _begin_to_speak(stage: Stage) -> None:
    await stage.event("bot-started-speaking")
    for _ in range(10):
        await stage.audio(LOUD)


async def _interrupt(stage: Stage, told: Sequence[str]) -> None:
    for each in told:
        if each == FRAME:
            await stage.send(encode_interruption())
        else:
            await stage.event("bot-interrupted")


async def _says_goodbye(stage: Stage) -> None:
    await stage.speak("Goodbye.")
    await stage.exit()


@pytest.mark.parametrize("told", [(FRAME, MESSAGE), (MESSAGE, FRAME), (FRAME,), (MESSAGE,), (FRAME, FRAME, MESSAGE)], ids="+".join)
@pytest.mark.parametrize(("side", "speaking"), [("agent", True), ("agent", False), ("user", True)])
def test_an_interruption_is_one_event_however_it_is_told_and_none_where_nothing_was_said(
    tmp_path: Path, told: tuple[str, ...], side: str, speaking: bool
) -> None:
    async def interrupts(stage: Stage) -> None:
        if speaking:
            await _begin_to_speak(stage)
        await _interrupt(stage, told)
        await _says_goodbye(stage)

    agent, user = HostileBot(interrupts if side == "agent" else None), HostileBot(interrupts if side == "user" else None)
    with serving(agent, user):
        ran = run_engine(tmp_path, [(agent, user)], {"s__1": scenario("s__1")}, **BRIEF)
    assert [event.side for event in ran.of("s__1", events.Interrupted)] == [side] * speaking


def test_two_interruptions_are_two_events(tmp_path: Path) -> None:
    async def interrupts(stage: Stage) -> None:
        for _ in range(2):
            await _begin_to_speak(stage)
            await _interrupt(stage, (FRAME, MESSAGE))
            await asyncio.sleep(FAR_APART)
        await _says_goodbye(stage)

    agent, user = HostileBot(interrupts), HostileBot()
    with serving(agent, user):
        ran = run_engine(tmp_path, [(agent, user)], {"s__1": scenario("s__1")}, **BRIEF)
    assert [event.side for event in ran.of("s__1", events.Interrupted)] == ["agent", "agent"]


def test_both_bots_may_be_interrupted_at_once(tmp_path: Path) -> None:
    async def interrupts(stage: Stage) -> None:
        await _begin_to_speak(stage)
        await _interrupt(stage, (FRAME, MESSAGE))

    async def interrupts_and_goes(stage: Stage) -> None:
        await interrupts(stage)
        await asyncio.sleep(FAR_APART)
        await _says_goodbye(stage)

    agent, user = HostileBot(interrupts_and_goes), HostileBot(interrupts)
    with serving(agent, user):
        ran = run_engine(tmp_path, [(agent, user)], {"s__1": scenario("s__1")}, **BRIEF)
    assert sorted(event.side for event in ran.of("s__1", events.Interrupted)) == ["agent", "user"]


def _called(ran: Ran) -> list[tuple[str, str, bool]]:
    return [(event.side, event.name, event.applied) for event in ran.of("s__1", events.ToolCalled)]


@pytest.mark.parametrize("reported", ["llm-function-call-started", "llm-function-call"])
@pytest.mark.parametrize("calls", [["order"], ["order", "order"], ["order", "pay"]], ids="+".join)
def test_a_tool_call_of_any_server_is_one_event_and_one_more_where_it_was_applied(
    tmp_path: Path, reported: str, calls: list[str]
) -> None:
    async def acts(stage: Stage) -> None:
        for number, name in enumerate(calls):
            about = {"function_name": name, "tool_call_id": str(number)}
            await stage.event(reported, about)
            await stage.event("llm-function-call-in-progress", {**about, "arguments": {}})
            await stage.event("llm-function-call-stopped", {**about, "result": {}, "cancelled": False})
            action = {"id": str(number), "name": name, "arguments": {}}
            await stage.event("server-message", {"type": "action-applied", "action": action})
        await _says_goodbye(stage)

    agent, user = HostileBot(acts), HostileBot()
    with serving(agent, user):
        ran = run_engine(tmp_path, [(agent, user)], {"s__1": scenario("s__1")}, **BRIEF)
    assert _called(ran) == [("agent", name, applied) for name in calls for applied in (False, True)]


@pytest.fixture
def embedded() -> Iterator[BotPair]:
    pair = BotPair()
    with serving(pair):
        yield pair


@pytest.mark.parametrize(
    ("tool", "applied"),
    [
        ({"name": "create_order", "arguments": {"customer": "Ana"}}, [False, True]),
        ({"name": "get_menu"}, [False]),
        ({"name": "add_item", "arguments": {"order_id": "9", "item": "tea"}}, [False]),
    ],
    ids=["writes", "reads", "is_refused"],
)
def test_an_embedded_bots_tool_call_is_told_once_and_once_more_where_it_was_applied(
    tmp_path: Path, embedded: BotPair, tool: dict[str, Any], applied: list[bool]
) -> None:
    step = Step.model_validate({"say": "Goodbye.", "tools": [tool], "exit": "done"})
    made = scenario(
        "s__1", [step], [Step(say="Hello.")], agent_tools={tool["name"]: {}},
        agent_state={"db": {"menu": {"tea": {"price": 3, "stock": 1}}, "orders": {}, "cards": {}}},
    )  # fmt: skip
    ran = run_engine(tmp_path, [(embedded.agent, embedded.user)], {"s__1": made}, **BRIEF)
    ends = [("agent", "EndConversation", False)]
    assert _called(ran) == [("agent", tool["name"], each) for each in applied] + ends
