from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import attempts
import pytest

from voiceeval_engine.bridge.setup import Pair, SetupFailed, send_deltas, set_up
from voiceeval_engine.bridge.sync import Shadow
from voiceeval_engine.domains.registry import Domain
from voiceeval_engine.wire import rtvi
from voiceeval_engine.wire.frames import encode_message
from voiceeval_engine.wire.link import BotLink

FINE = {"success": True, "errors": []}
SCENARIO = replace(
    attempts.SCENARIO,
    domain="cafe",
    user_prompt="You want coffee.",
    agent_prompt="You sell coffee.",
    agent_tools={"order": {"x": 1}},
    user_state={"db": {"u": 1}},
    agent_state={"db": {"a": 1}},
    initialization_actions=(
        {"side": "agent", "func_name": "f", "arguments": {}},
        {"side": "user", "func_name": "g", "arguments": {}},
    ),
)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BotLink.request, "__defaults__", (0.1,))
    monkeypatch.setattr(BotLink.open, "__defaults__", ((0.0, 0.0), 0.016))


class Stage:
    """Two bots that answer every step as they should, but for one answer; `order` is what was asked of whom."""

    def __init__(self, kit: Any, bots: Any, odd: tuple[str, str, Any] | None = None) -> None:
        self._kit, self._bots, self._odd = kit, bots, odd
        self.order: list[tuple[str, str]] = []

    async def start(self) -> Pair:
        self.agent, self.user = await self._bots(self._answer("agent")), await self._bots(self._answer("user"))
        return Pair(0, self.agent.url, self.user.url)

    def _answer(self, side: str) -> Any:
        def answer(message: dict[str, Any]) -> Any:
            if message["type"] != "client-message":
                return self._kit.obliging(message)
            t = message["data"]["t"]
            self.order.append((side, t))
            if self._odd is not None and self._odd[:2] == (side, t):
                odd = self._odd[2]
                return odd(message) if callable(odd) else [self._kit.reply(message, odd)]
            return [self._kit.reply(message, FINE if t.startswith("apply") else True)]

        return answer

    def asked(self, side: str, t: str) -> Any:
        bot = self.agent if side == "agent" else self.user
        return next(m["data"]["d"] for m in bot.heard if m["type"] == "client-message" and m["data"]["t"] == t)


async def test_both_bots_are_reset_prompted_and_initialized_in_order(kit: Any, bots: Any) -> None:
    stage = Stage(kit, bots)
    await set_up(SCENARIO, await stage.start(), None, kit.log)
    assert sorted(stage.order[:2]) == [("agent", "reset"), ("user", "reset")]
    assert sorted(stage.order[2:4]) == [("agent", "update_system_prompt"), ("user", "update_system_prompt")]
    assert stage.order[4:] == [("agent", "apply_initialization"), ("user", "apply_initialization")]
    prompt = stage.asked("agent", "update_system_prompt")
    assert prompt == {"prompt": "You sell coffee.", "tools": '{"order": {"x": 1}}', "add_suffix": False, "tool_domain": "cafe"}
    assert stage.asked("user", "update_system_prompt")["tools"] == "{}"
    for side, name in (("agent", "f"), ("user", "g")):
        sent = stage.asked(side, "apply_initialization")
        assert sent["domain"] == "cafe"
        assert json.loads(sent["shared_state_init"]) == {"db": {side[0]: 1}}
        assert [action["func_name"] for action in sent["actions"]] == [name]
    await kit.until(lambda: stage.agent.connections == stage.user.connections == 0)


def refuse(message: dict[str, Any]) -> Any:
    return [encode_message(rtvi.build("error-response", {"error": "unknown message type"}, message["id"]))]


def silent(message: dict[str, Any]) -> Any:
    return []


def hang_up(message: dict[str, Any]) -> Any:
    return [None]


def garbage(message: dict[str, Any]) -> Any:
    return [b"\xff\xff", "text", encode_message("{}")]


@pytest.mark.parametrize("side", ["agent", "user"])
@pytest.mark.parametrize("step", ["reset", "update_system_prompt", "apply_initialization"])
@pytest.mark.parametrize("odd", [False, refuse, silent, hang_up, garbage], ids=["false", "refuse", "silent", "hang_up", "garbage"])
async def test_a_failing_reply_names_the_bot_and_the_step_and_closes_both(
    kit: Any, bots: Any, side: str, step: str, odd: Any
) -> None:
    stage = Stage(kit, bots, (side, step, odd))
    pair = await stage.start()
    with pytest.raises(SetupFailed, match=rf"set-up: {side} bot\b.*\b{step}\b"):
        await set_up(SCENARIO, pair, None, kit.log)
    await kit.until(lambda: stage.agent.connections == stage.user.connections == 0)


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ({"success": False, "errors": ["no function f", "bad \x1bstate"]}, r"no function f; bad \\x1bstate"),
        ({"success": False}, "it answered"),
        ({"success": "yes"}, "it answered"),
        ({"errors": []}, "it answered"),
        (None, "it answered None"),
        (True, "it answered True"),
        ("x" * 10_000, "it answered"),
        ([1], "it answered"),
    ],
    ids=range(8),
)
async def test_an_initialization_counts_only_when_it_says_success(kit: Any, bots: Any, result: Any, why: str) -> None:
    stage = Stage(kit, bots, ("agent", "apply_initialization", result))
    pair = await stage.start()
    with pytest.raises(SetupFailed, match=f"agent bot failed at apply_initialization: .*{why}") as caught:
        await set_up(SCENARIO, pair, None, kit.log)
    assert len(str(caught.value)) < 600
    assert ("user", "apply_initialization") not in stage.order


@pytest.mark.parametrize("result", [None, 0, "", {}, True, "ok"])
async def test_only_a_literal_false_means_that_a_reset_or_prompt_failed(kit: Any, bots: Any, result: Any) -> None:
    for step in ("reset", "update_system_prompt"):
        await set_up(SCENARIO, await Stage(kit, bots, ("user", step, result)).start(), None, kit.log)


@pytest.mark.parametrize("missing", ["agent", "user"])
async def test_a_bot_that_is_not_there_is_named_and_the_other_one_is_let_go(kit: Any, bots: Any, missing: str) -> None:
    stage = Stage(kit, bots)
    pair = await stage.start()
    await (stage.agent if missing == "agent" else stage.user).close()
    with pytest.raises(SetupFailed, match=f"set-up: {missing} bot at ws://.*nothing listens"):
        await set_up(SCENARIO, pair, None, kit.log)
    assert stage.order == []
    await kit.until(lambda: stage.agent.connections == stage.user.connections == 0)


def shadow(**deltas: Any) -> Shadow:
    return Shadow(
        SCENARIO, Domain("cafe", {}, initialization={"f": lambda db: None, "g": lambda db: None}, sync_state=lambda a, u: deltas)
    )


async def test_the_first_sync_tells_each_side_what_it_must_know(kit: Any, bots: Any) -> None:
    stage = Stage(kit, bots)
    await set_up(SCENARIO, await stage.start(), shadow(agent={"a.b": 1}, user={"c": 2}), kit.log)
    assert stage.asked("agent", "apply_sync_delta") == {"domain": "cafe", "delta": {"a.b": 1}}
    assert stage.asked("user", "apply_sync_delta") == {"domain": "cafe", "delta": {"c": 2}}
    assert [t for _, t in stage.order[-2:]] == ["apply_sync_delta"] * 2


@pytest.mark.parametrize("odd", [False, refuse, silent, hang_up, {"success": False, "errors": ["no"]}])
async def test_a_failing_sync_is_a_warning_and_the_other_side_is_told_all_the_same(
    kit: Any, bots: Any, odd: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(kit, bots, ("agent", "apply_sync_delta", odd))
    await set_up(SCENARIO, await stage.start(), shadow(agent={"a": 2}, user={"c": 2}), kit.log)
    assert "cross-side sync: agent bot" in caplog.text
    assert stage.asked("user", "apply_sync_delta")["delta"] == {"c": 2}


async def test_troubles_of_the_shadows_are_warned_of(kit: Any, bots: Any, caplog: pytest.LogCaptureFixture) -> None:
    troubled = shadow()
    troubled.troubles.append("sync_state raised ValueError()")
    await set_up(SCENARIO, await Stage(kit, bots).start(), troubled, kit.log)
    assert "cross-side sync: sync_state raised ValueError()" in caplog.text
    assert troubled.troubles == []


async def test_deltas_to_a_bot_that_is_gone_are_a_warning(kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    links: Any = {side: BotLink(side, "ws://127.0.0.1:1", kit.log) for side in ("agent", "user")}
    await send_deltas(links, "cafe", {"agent": {"a": 1}, "user": {"b": 2}}, kit.log)
    assert caplog.text.count("not connected") == 2
