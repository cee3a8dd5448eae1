"""Whether a bot could be used: what is asked, what is said of each way in which it could not be, and what mends it."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
from engine_run import scenario
from hostile_bots import SILENT, Drop, HostileBot, Raw, Refusal

from voiceeval_engine.bridge import bot_check
from voiceeval_engine.bridge.bot_check import BotFound, check_bot
from voiceeval_engine.wire import link, rtvi
from voiceeval_engine.wire.frames import encode_message

LOG = logging.LoggerAdapter(logging.getLogger("test"), {})
SCENARIO = scenario("short__one")
SIX = ["reset", "update_system_prompt", "apply_initialization", "apply_sync_delta", "get_context_history", "get_scenario_summary"]
NO_DATABASE = {"success": False, "errors": ["there is no database"]}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link.BotLink.request, "__defaults__", (0.2,))
    monkeypatch.setattr(link, "BOT_READY_TIMEOUT", 0.2)


async def found(replies: dict[str, Any] | None = None, **options: Any) -> tuple[BotFound, HostileBot]:
    scenario = options.pop("scenario", SCENARIO)
    async with HostileBot(replies=replies, **options) as bot:
        return await check_bot("agent", bot.url, scenario, LOG), bot


async def test_a_bot_that_answers_everything_is_asked_all_six_in_the_order_of_a_run() -> None:
    good, bot = await found()
    assert (good, bot.requests) == (BotFound(""), SIX)


async def test_without_a_scenario_only_the_handshake_is_asked() -> None:
    good, bot = await found(scenario=None)
    assert (good, bot.requests) == (BotFound(""), [])


@pytest.mark.parametrize(
    ("replies", "trouble", "mend"),
    [
        ({"reset": False}, "failed at reset: it answered false", "its log says why"),
        ({"update_system_prompt": Refusal("\x1b[2Jno such tool")}, "refused update_system_prompt: \\x1b[2Jno such tool", "domain 'cafe'"),
        ({"apply_initialization": {"success": False, "errors": ["unknown domain"]}}, "apply_initialization: unknown domain", "its log"),
        ({"get_context_history": 7}, "failed at get_context_history: it answered 7", "its log"),
        ({"get_scenario_summary": "none"}, "failed at get_scenario_summary: it answered 'none'", "its log"),
        ({"get_scenario_summary": Refusal("unknown message type: get_scenario_summary")}, "unknown message type", "needs handlers"),
        ({"reset": SILENT}, "did not answer reset within", "needs handlers"),
        ({"apply_sync_delta": Drop(1013, "Server already has a connected client")}, "busy with another client", "other client has left"),
        ({"reset": Drop(None)}, "the connection was lost", "its log"),
    ],
)  # fmt: skip
async def test_what_a_bot_does_not_do_is_told_with_what_mends_it(replies: dict[str, Any], trouble: str, mend: str) -> None:
    bad, _ = await found(replies)
    assert trouble in bad.trouble
    assert mend in bad.mend
    assert (bad.trouble + bad.mend).isprintable()


async def test_refusals_are_all_told_and_silence_ends_the_asking() -> None:
    bad, bot = await found({"reset": False, "apply_initialization": NO_DATABASE, "get_context_history": SILENT})
    assert bad.trouble.count(";") == 2
    assert bot.requests == SIX[:5]


@pytest.mark.parametrize("sync", [True, False])
async def test_a_change_is_refused_in_vain_where_the_run_sends_none(sync: bool) -> None:
    told, _ = await found({"apply_sync_delta": NO_DATABASE}, scenario=replace(SCENARIO, sync=sync))
    assert ("there is no database" in told.trouble) == sync


async def test_a_bot_that_never_greets_is_told() -> None:
    bad, bot = await found(greets=False)
    assert "bot-ready" in bad.trouble
    assert bot.requests == []


async def test_a_bot_that_is_not_there_is_told_with_its_option() -> None:
    bad = await check_bot("user", "ws://127.0.0.1:9", SCENARIO, LOG)
    assert bad.trouble == "nothing listens there (connection refused)"
    assert "--user-url" in bad.mend


async def test_a_bot_that_takes_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bot_check, "BOT_SECONDS", 0.1)
    bad, _ = await found({"reset": SILENT})
    assert "is too slow" in bad.trouble


async def test_a_very_large_context_is_an_answer() -> None:
    def large(id_: str) -> list[str | bytes]:
        return [encode_message(rtvi.build("server-response", {"t": "x", "d": {"context": "x" * 400_000}}, id_))]

    good, _ = await found({"get_context_history": Raw(large)})
    assert good == BotFound("")
