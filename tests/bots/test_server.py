from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from voiceeval_engine.bots.script import Manners
from voiceeval_engine.bots.server import BotError, BotPair, BotServer
from voiceeval_engine.scenarios.script import Step, ToolCall
from voiceeval_engine.wire import rtvi

Dial = Callable[[BotServer], Awaitable[Any]]
LONG = "This is a long sentence that goes on and on and on, with many words and no end in sight for quite a while"


async def test_bot_ready_comes_twice_with_the_id_echoed(agent: BotServer, dial: Dial) -> None:
    client = await dial(agent)
    await client.send(rtvi.client_ready("r-1", "0"))
    await client.sees("bot-ready", 2)
    assert [message["id"] for message in client.messages] == ["r-1", "r-1"]


async def test_requests_are_answered_by_id_and_unknown_ones_with_an_error(agent: BotServer, dial: Dial) -> None:
    client = await dial(agent)
    assert await client.ask("reset", {}) == {"t": "reset", "d": True}
    assert await client.ask("get_context_history", {}) == {"t": "get_context_history", "d": {"context": "[]"}}
    assert (await client.ask("update_system_prompt", {"prompt": 1}))["d"] is False
    assert await client.ask("dance", {}) == {"error": "unknown message type: dance"}


async def test_a_second_client_is_turned_away_and_the_first_goes_on(agent: BotServer, dial: Dial) -> None:
    first, second = await dial(agent), await dial(agent)
    await second.sees("closed")
    assert (second.socket.close_code, second.socket.close_reason) == (1013, "Server already has a connected client")
    assert (await first.ask("reset", {}))["d"] is True


async def test_state_survives_a_reconnect_and_reset_clears_it(agent: BotServer, dial: Dial) -> None:
    client = await dial(agent)
    await client.ask("apply_initialization", {"domain": "cafe", "shared_state_init": '{"db": {"a": 1}}', "actions": []})
    await client.play(Step(say="Hi."))
    await client.socket.close()
    again = await dial(agent)
    assert (await again.ask("get_scenario_summary", {"include_db": True}))["d"]["db"] == {"a": 1}
    await again.kick_off()
    await again.sees("bot-stopped-speaking")
    assert "'content': 'Hi.'" in (await again.ask("get_context_history", {}))["d"]["context"]
    await again.ask("reset", {})
    assert (await again.ask("get_scenario_summary", {"include_db": True}))["d"]["db"] is None


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"", "text"])
async def test_what_is_no_frame_closes_the_connection_and_the_next_one_is_served(agent: BotServer, dial: Dial, data: Any) -> None:
    client = await dial(agent)
    await client.socket.send(data)
    await client.sees("closed")
    assert client.socket.close_code == 1000
    assert (await (await dial(agent)).ask("reset", {}))["d"] is True


async def test_a_message_over_1_mib_closes_with_1009(agent: BotServer, dial: Dial) -> None:
    client = await dial(agent)
    await client.socket.send(bytes((1 << 20) + 1))
    await client.sees("closed")
    assert client.socket.close_code == 1009


async def test_a_message_that_cannot_be_read_hurts_only_itself(agent: BotServer, dial: Dial) -> None:
    client = await dial(agent)
    await client.send("no JSON at all")
    await client.send(rtvi.build("jump", {}, "j"))
    await client.send(rtvi.build("send-text", {"content": 5}, "s"))
    await client.sees("error-response", 2)
    assert client.seen == ["error", "error-response", "error-response"]
    assert (await client.ask("reset", {}))["d"] is True


async def test_an_opening_comes_as_a_real_server_sends_it(agent: BotServer, dial: Dial) -> None:
    client = await dial(agent)
    await client.play(Step(say="Hello. How are you?"))
    client.seen.clear()
    await client.kick_off()
    await client.sees("bot-stopped-speaking", 2)
    await client.sees("bot-output", 2)
    sound = [kind for kind in client.seen if kind != "silence"]
    events = [kind for index, kind in enumerate(sound) if kind != "audio" or sound[index - 1] != "audio"]
    assert events == [
        "interruption",
        "bot-interrupted",
        "bot-llm-started",
        "bot-llm-text",
        "bot-llm-text",
        "bot-llm-stopped",
        "metrics",
        "bot-tts-started",
        "audio",
        "bot-started-speaking",
        "audio",
        "bot-stopped-speaking",
        "bot-tts-text",
        "bot-output",
        "bot-started-speaking",
        "audio",
        "bot-tts-stopped",
        "bot-tts-text",
        "bot-stopped-speaking",
        "bot-output",
    ]
    assert client.seen.index("bot-started-speaking") - client.seen.index("audio") == 2
    assert client.of("bot-tts-text") == [{"text": "Hello."}, {"text": "How are you?"}]
    assert {(len(frame.pcm), frame.rate, frame.channels) for frame in client.frames[:3]} == {(1920, 24000, 1)}
    assert client.of("metrics")[0]["tokens"][0]["prompt_tokens"] > 0


async def test_a_bot_answers_when_it_has_heard_the_end_of_speech_and_not_before(agent: BotServer, dial: Dial) -> None:
    client = await dial(agent)
    await client.play(Step(say="Hi."), Step(say="Yes."))
    await client.kick_off()
    await client.sees("bot-stopped-speaking")
    await client.speak(30, trailing_silence=20)
    await client.sees("bot-stopped-speaking", 2)
    events = [kind for kind in client.seen if kind.startswith("user-") or kind == "bot-started-speaking"]
    assert events == [
        "bot-started-speaking",
        "user-started-speaking",
        "user-stopped-speaking",
        "user-transcription",
        "bot-started-speaking",
    ]
    assert len(agent.handoffs) == 1
    handoff = agent.handoffs[0]
    assert handoff.first_audio - handoff.heard_end >= 0.599
    assert handoff.first_audio == handoff.first_speech == handoff.speech_due


async def test_a_bot_that_is_spoken_over_stops_and_says_so(agent: BotServer, dial: Dial) -> None:
    client = await dial(agent)
    await client.play(Step(say=LONG), Step(say="Sorry."))
    await client.kick_off()
    await client.sees("bot-started-speaking")
    client.seen.clear()
    speaking = asyncio.create_task(client.speak(400))
    await client.sees("bot-stopped-speaking")
    speaking.cancel()
    events = [kind for kind in client.seen if kind not in ("audio", "silence", "metrics")]
    assert events == ["user-started-speaking", "interruption", "bot-interrupted", "bot-stopped-speaking"]
    await client.sees("bot-tts-text")
    assert client.of("bot-tts-text") == [{"text": "Sorry."}]
    said = [message["content"] for message in agent.memory.context if message["role"] == "assistant"]
    assert said[0].endswith("...")
    assert LONG.startswith(said[0].removesuffix("..."))


async def test_a_bot_that_keeps_talking_does_not_yield(agent: BotServer, dial: Dial) -> None:
    client = await dial(agent)
    await client.play(Step(say="I will say all of it, whatever you do.", keeps_talking=True))
    await client.kick_off()
    await client.sees("bot-started-speaking")
    await client.speak(40)
    await client.sees("bot-tts-text")
    assert client.seen.count("interruption") == 1


async def test_tools_change_the_database_and_are_reported_before_the_words(agent: BotServer, dial: Dial) -> None:
    client = await dial(agent)
    db = '{"db": {"menu": {}, "orders": {}, "cards": {}}}'
    await client.ask("apply_initialization", {"domain": "cafe", "shared_state_init": db, "actions": []})
    call = ToolCall(name="create_order", arguments={"customer": "Ana"})
    await client.play(Step(say="Hi.", tools=(call,), final_response={"n": 1}, exit="done"), tools='{"create_order": {}}')
    await client.kick_off()
    await client.sees("server-message", 3)
    action = {"name": "create_order", "arguments": {"customer": "Ana"}, "id": "call_agent_1"}
    assert client.of("server-message") == [
        {"type": "action-applied", "action": action, "tool_domain": "cafe"},
        {"text": '<final_response>{"n": 1}</final_response>'},
        {"text": "<exit>done</exit>"},
    ]
    assert client.seen.index("llm-function-call-started") < client.seen.index("server-message") < client.seen.index("audio")
    assert client.seen.count("metrics") == 2
    summary = (await client.ask("get_scenario_summary", {"include_db": True}))["d"]
    assert summary["actions"] == [action]
    assert summary["db"]["orders"]["1"]["customer"] == "Ana"


async def test_a_stall_on_the_first_attempt_is_over_on_the_second_even_on_another_bot(dial: Dial) -> None:
    steps = (Step(stall=1), Step(say="Awake."))
    async with BotPair() as first, BotPair(attempts=first.attempts) as second:
        client = await dial(first.agent)
        await client.play(*steps)
        await client.kick_off()
        await client.ask("get_context_history", {})
        other = await dial(second.agent)
        await other.play(*steps)
        await other.kick_off()
        await other.sees("bot-tts-text")
        assert "audio" not in client.seen


async def test_a_bot_that_dies_drops_the_connection_mid_word_and_accepts_again(agent: BotServer, dial: Dial) -> None:
    client = await dial(agent)
    await client.play(Step(say=LONG, die_after=0.2))
    await client.kick_off()
    await client.sees("closed")
    assert client.socket.close_code == 1006
    assert "audio" in client.seen
    assert "bot-stopped-speaking" not in client.seen
    assert (await (await dial(agent)).ask("reset", {}))["d"] is True


async def test_a_user_barges_in_while_it_hears_the_other_speak(dial: Dial) -> None:
    async with BotServer("user") as user:
        client = await dial(user)
        await client.play(Step(say="Stop there.", barge_in=0.2))
        speaking = asyncio.create_task(client.speak(2000))
        await client.sees("bot-tts-text")
        assert "user-stopped-speaking" not in client.seen
        speaking.cancel()
        assert user.handoffs == []


async def test_what_the_other_bot_said_is_transcribed_when_it_was_heard(dial: Dial) -> None:
    async with BotPair() as pair:
        agent, user = await dial(pair.agent), await dial(pair.user)
        await agent.play(Step(say="Good day."))
        await agent.kick_off()
        await agent.sees("bot-output")
        await user.speak(20)
        await user.sees("user-transcription")
        assert user.of("user-transcription")[0]["text"] == "Good day."


@pytest.mark.parametrize(("rate", "chunk_ms", "channels"), [(8000, 16, 1), (16000, 20, 2), (48000, 40, 1)])
async def test_audio_comes_in_the_form_that_the_manners_say(dial: Dial, rate: int, chunk_ms: int, channels: int) -> None:
    async with BotServer("agent", manners=Manners(rate=rate, chunk_ms=chunk_ms, channels=channels, speed=3.0)) as bot:
        client = await dial(bot)
        await client.play(Step(say="Good day."))
        await client.kick_off()
        await client.sees("bot-stopped-speaking")
        assert {(frame.rate, frame.channels) for frame in client.frames} == {(rate, channels)}
        assert {len(frame.pcm) for frame in client.frames[:-1]} == {rate * chunk_ms // 1000 * 2 * channels}


async def test_streamed_and_leading_silence_surround_the_speech(dial: Dial) -> None:
    async with BotServer("agent", manners=Manners(streams_silence=True, leading_silence=0.1, stopped_after=None)) as bot:
        client = await dial(bot)
        await client.play(Step(say="Hello. It is me."))
        await client.sees("silence", 3)
        await client.kick_off()
        await client.sees("bot-tts-text", 2)
        before = client.seen.count("silence")
        await client.sees("silence", before + 3)
        assert client.seen.index("bot-started-speaking") < client.seen.index("audio")
        assert "bot-stopped-speaking" not in client.seen


async def test_stopped_comes_late_where_the_manners_say_so(dial: Dial) -> None:
    async with BotServer("agent", manners=Manners(stopped_after=0.35)) as bot:
        client = await dial(bot)
        await client.play(Step(say="Hello. It is me."))
        await client.kick_off()
        await client.sees("bot-stopped-speaking")
        assert client.seen.count("bot-started-speaking") == 1
        assert client.seen.index("bot-stopped-speaking") > client.seen.index("bot-output")


async def test_a_port_that_is_taken_is_a_sentence(agent: BotServer) -> None:
    port = int(agent.url.rsplit(":", 1)[1])
    with pytest.raises(BotError, match=f"the user bot cannot listen on ws://127.0.0.1:{port}"):
        await BotServer("user", port=port).start()
