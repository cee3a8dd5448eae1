from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

import pytest

from voiceeval_engine.wire import link as link_module
from voiceeval_engine.wire import rtvi
from voiceeval_engine.wire.frames import encode_audio, encode_interruption, encode_message
from voiceeval_engine.wire.link import BotLink, ConnectFailed, HeavyReply, RequestFailed

NO_DELAYS = (0.0, 0.0)


def event(type_: str, data: Any = None) -> bytes:
    return encode_message(rtvi.build(type_, data))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
async def link(kit: Any, bots: Any):
    """An open link to an obliging bot; `link.bot_end` and `link.told` are its other end and its listener."""
    made: list[BotLink] = []

    class Linked(BotLink):
        bot_end: Any
        told: Any

    bot, told = await bots(), kit.Recorder()
    new = Linked("agent", bot.url, kit.log, told)
    new.bot_end, new.told = bot, told
    made.append(new)
    await new.open(NO_DELAYS)
    yield new
    for each in made:
        await each.close()


async def test_a_link_opens_shakes_hands_and_closes_without_a_trace(kit: Any, bots: Any) -> None:
    bot, told = await bots(), kit.Recorder()
    before = asyncio.all_tasks()
    link = BotLink("user", bot.url, kit.log, told)
    await link.open(NO_DELAYS)
    assert bot.heard[0]["type"] == "client-ready"
    assert bot.heard[0]["data"]["version"] == "1.1.0"
    assert not link.is_lost
    await link.close()
    await kit.until(lambda: bot.connections == 0)
    await kit.until(lambda: asyncio.all_tasks() <= before)
    assert told.lost == []
    assert bot.socket.close_code == 1000


async def test_a_second_bot_ready_is_no_event(link: Any) -> None:
    assert await link.request("reset", {}) is True
    assert [message.type for message in link.told.messages] == []


async def test_a_busy_bot_is_tried_again_until_it_is_free(kit: Any, bots: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bot, told = await bots(busy=2), kit.Recorder()
    link = BotLink("agent", bot.url, kit.log, told)
    await link.open((0.01, 0.01, 0.01))
    assert await link.request("reset", {}) is True
    await link.close()
    assert told.lost == []
    assert caplog.text.count("busy with another client (1013 Server already has a connected client); next try in 0.01 s") == 2


async def test_a_bot_that_stays_busy_is_given_up_with_the_reason(kit: Any, bots: Any) -> None:
    bot = await bots(busy=9)
    link = BotLink("agent", bot.url, kit.log)
    with pytest.raises(ConnectFailed, match=rf"agent bot at {bot.url}: the bot is busy with another client \(1013"):
        await link.open(NO_DELAYS)
    assert bot.busy == 6
    await link.close()


async def test_a_port_that_refuses_is_tried_again_and_named(kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    link = BotLink("user", f"ws://127.0.0.1:{free_port()}", kit.log)
    with pytest.raises(ConnectFailed, match=r"user bot at ws://127.0.0.1:\d+: nothing listens there") as caught:
        await link.open((0.0, 0.0, 0.0, 0.0))
    assert caught.value.what == "nothing listens there (connection refused)"
    assert caplog.text.count("next try") == 4
    with pytest.raises(RequestFailed):
        await link.request("reset", {})
    await link.close()


async def test_a_bot_that_comes_up_meanwhile_is_reached(kit: Any, bots: Any) -> None:
    port = free_port()
    link = BotLink("user", f"ws://127.0.0.1:{port}", kit.log)
    opening = asyncio.create_task(link.open((0.02,) * 200))
    await asyncio.sleep(0.05)
    bot = kit.ScriptedBot()
    await bot.start(port)
    await opening
    assert await link.request("reset", {}) is True
    await link.close()
    await bot.close()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "ws://127.0.0.1:99999", "ws://", "nonsense", "ws://127.0.0.1:x", "ws://[::1"]
)
async def test_a_url_that_cannot_be_used_is_not_tried_again(kit: Any, url: str) -> None:
    link = BotLink("agent", url, kit.log)
    with pytest.raises(ConnectFailed, match=r"agent bot at .*: the URL cannot be used"):
        await link.open((60.0,))
    await link.close()


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404"), (b"SSH-2.0-OpenSSH\r\n", "HTTP"), (b"", ".")],
)
async def test_a_server_of_another_kind_is_named_as_what_it_is(kit: Any, answer: bytes, sentence: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    link = BotLink("agent", f"ws://127.0.0.1:{port}", kit.log)
    with pytest.raises(ConnectFailed, match=sentence):
        await link.open((0.0,))
    await link.close()
    server.close()
    await server.wait_closed()


async def test_a_tls_failure_is_final(kit: Any) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    link = BotLink("agent", f"wss://127.0.0.1:{server.sockets[0].getsockname()[1]}", kit.log)
    with pytest.raises(ConnectFailed, match="TLS failed"):
        await link.open((60.0,))
    await link.close()
    server.close()
    await server.wait_closed()


async def test_a_bot_that_never_says_ready_is_a_warning(
    kit: Any, bots: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(link_module, "BOT_READY_TIMEOUT", 0.05)
    bot = await bots(lambda message: [] if message["type"] == "client-ready" else kit.obliging(message))
    link = BotLink("agent", bot.url, kit.log)
    await link.open(NO_DELAYS)
    assert f"agent bot at {bot.url} sent no bot-ready within 0.05 s" in caplog.text
    assert await link.request("reset", {}) is True
    await link.close()


async def test_answers_are_matched_by_id_in_whatever_order_they_come(kit: Any, bots: Any) -> None:
    waiting: list[dict[str, Any]] = []

    def backwards(message: dict[str, Any]) -> Any:
        if message["type"] == "client-ready":
            return kit.obliging(message)
        waiting.append(message)
        return [kit.reply(each, each["data"]["d"]) for each in waiting[::-1]] if len(waiting) == 3 else []

    bot = await bots(backwards)
    link = BotLink("agent", bot.url, kit.log)
    await link.open(NO_DELAYS)
    answers = await asyncio.gather(*(link.request("echo", {"n": n}) for n in range(3)))
    assert answers == [{"n": 0}, {"n": 1}, {"n": 2}]
    await link.close()


async def test_an_answer_to_nobody_is_no_answer(kit: Any, bots: Any) -> None:
    def strangely(message: dict[str, Any]) -> Any:
        if message["type"] == "client-message":
            yield encode_message(rtvi.build("server-response", {"t": "reset", "d": "wrong"}, "agent-999"))
            yield encode_message(rtvi.build("server-response", {"t": "reset", "d": "wrong"}))
            yield kit.reply(message, "right")
            yield kit.reply(message, "twice")
        else:
            yield from kit.obliging(message)

    bot = await bots(strangely)
    link = BotLink("agent", bot.url, kit.log)
    await link.open(NO_DELAYS)
    assert await link.request("reset", {}) == "right"
    await link.close()


@pytest.mark.parametrize("result", [False, None, 0, "", [], {"a": [1]}, True])
async def test_a_result_is_returned_as_it_came(kit: Any, bots: Any, result: Any) -> None:
    bot = await bots(lambda m: [kit.reply(m, result)] if m["type"] == "client-message" else kit.obliging(m))
    link = BotLink("agent", bot.url, kit.log)
    await link.open(NO_DELAYS)
    answer = await link.request("reset", {})
    assert (answer, type(answer)) == (result, type(result))
    await link.close()


@pytest.mark.parametrize(
    ("type_", "data"), [("error-response", {"error": "unknown message type: x"}), ("error", {"error": "boom"})]
)
async def test_an_error_response_ends_the_wait_at_once(kit: Any, bots: Any, type_: str, data: Any) -> None:
    def refuse(message: dict[str, Any]) -> Any:
        if message["type"] == "client-message":
            return [encode_message(rtvi.build(type_, data, message["id"]))]
        return kit.obliging(message)

    bot = await bots(refuse)
    link = BotLink("agent", bot.url, kit.log)
    await link.open(NO_DELAYS)
    with pytest.raises(RequestFailed, match=f"agent bot refused x: {data['error']}"):
        await link.request("x", {}, timeout=60.0)
    await link.close()


async def test_silence_ends_the_wait_after_the_time_out_and_a_late_answer_hurts_nobody(kit: Any, bots: Any) -> None:
    bot = await bots(lambda m: [] if m["type"] == "client-message" else kit.obliging(m))
    link = BotLink("agent", bot.url, kit.log)
    await link.open(NO_DELAYS)
    with pytest.raises(RequestFailed, match=r"agent bot did not answer reset within 0\.05 s"):
        await link.request("reset", {}, timeout=0.05)
    late, bot.answer = bot.heard[-1], kit.obliging
    await bot.send(kit.reply(late, "late"))
    assert await link.request("reset", {}) is True
    await link.close()


async def test_a_connection_lost_while_waiting_fails_the_request_at_once(kit: Any, bots: Any) -> None:
    bot, told = await bots(lambda m: [None] if m["type"] == "client-message" else kit.obliging(m)), kit.Recorder()
    link = BotLink("agent", bot.url, kit.log, told)
    await link.open(NO_DELAYS)
    sentence = r"the bot closed the connection \(1011 out of order\)"
    with pytest.raises(RequestFailed, match=f"agent bot: {sentence} before it answered reset"):
        await link.request("reset", {}, timeout=60.0)
    assert link.is_lost
    assert told.lost == ["the bot closed the connection (1011 out of order)"]
    with pytest.raises(RequestFailed, match=sentence):
        await link.request("reset", {}, timeout=60.0)
    link.send_audio(encode_audio(b"", 16000))
    await link.close()
    assert len(told.lost) == 1


async def test_a_connection_cut_without_a_word_is_a_lost_one(link: Any, kit: Any) -> None:
    link.bot_end.socket.transport.abort()
    await kit.until(lambda: link.told.lost)
    assert link.told.lost == ["the connection was lost without a closing handshake"]


async def test_a_link_without_a_listener_outlives_the_loss(kit: Any, bots: Any) -> None:
    bot = await bots()
    link = BotLink("agent", bot.url, kit.log)
    await link.open(NO_DELAYS)
    await bot.socket.close()
    await kit.until(lambda: link.is_lost)
    await link.close()


BAD = [
    b"",
    b"\xff" * 40,
    bytes(range(256)),
    "a text message",
    "\x1b[2J" * 50,
    encode_message("no json \x1b[31m"),
    encode_message("[]"),
    encode_message("[" * 200_000),
    event("bot-tts-text", {"text": 5}),
    event("metrics", {"tokens": "many"}),
    event("server-message", ["<exit>"]),
    event("bot-output"),
    encode_message('{"label":"rtvi-ai","type":null}'),
]


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
async def test_a_bad_message_hurts_nothing_but_itself(link: Any, bad: Any, caplog: pytest.LogCaptureFixture) -> None:
    await link.bot_end.send(bad)
    assert await link.request("reset", {}) is True
    assert link.told.messages == []
    [record] = [record for record in caplog.records if "unusable" in record.message]
    assert record.message.startswith("agent bot, unusable message 1: ")
    assert len(record.message) < 1000
    assert record.message.isprintable()


async def test_a_flood_of_bad_messages_does_not_flood_the_log(link: Any, kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    await link.bot_end.send(*[b"\xff"] * 450)
    assert await link.request("reset", {}) is True
    numbers = [record.message.split(":")[0].rsplit(" ", 1)[1] for record in caplog.records if "unusable" in record.message]
    assert numbers == [str(number) for number in [*range(1, 21), 100, 200, 300, 400]]


async def test_events_audio_and_interruptions_reach_the_listener_in_order(link: Any, kit: Any) -> None:
    await link.bot_end.send(
        event("bot-started-speaking"), encode_audio(b"\x01\x02", 24000), encode_interruption(), event("something-new", {"a": [1]})
    )
    await link.request("reset", {})
    assert [message.type for message in link.told.messages] == ["bot-started-speaking", "something-new"]
    assert [(frame.pcm, frame.rate, frame.channels) for frame in link.told.audio] == [(b"\x01\x02", 24000, 1)]
    assert link.told.interruptions == 1


async def test_messages_keep_their_order_though_some_come_in_parts(link: Any) -> None:
    """Whole binary messages are read as they come in, others are put together first; nothing overtakes them."""
    first, second, third = (encode_audio(bytes([number]) * 10, 24000) for number in (1, 2, 3))
    for _ in range(3):
        await link.bot_end.send(first)
        await link.bot_end.send([second[:3], second[3:9], second[9:]])
        await link.bot_end.send("a text", third)
    await link.request("reset", {})
    assert [frame.pcm[0] for frame in link.told.audio] == [1, 2, 3] * 3


async def test_what_comes_before_the_link_listens_is_read_first(kit: Any, bots: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = link_module.connect

    async def slowly(*args: Any, **kwargs: Any) -> Any:
        socket = await connect(*args, **kwargs)
        await bot.socket.send(encode_audio(b"\x01\x02", 24000))
        await asyncio.sleep(0.05)
        return socket

    monkeypatch.setattr(link_module, "connect", slowly)
    bot, told = await bots(), kit.Recorder()
    link = BotLink("agent", bot.url, kit.log, told)
    await link.open(NO_DELAYS)
    await bot.send(encode_audio(b"\x03\x04", 24000))
    await link.request("reset", {})
    assert [frame.pcm for frame in told.audio] == [b"\x01\x02", b"\x03\x04"]
    await link.close()


async def test_a_listener_that_fails_ends_the_reading_and_is_told(link: Any, kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("out of luck")

    link.told.on_audio = fail
    await link.bot_end.send(*[encode_audio(b"\x01\x02", 24000)] * 3)
    await kit.until(lambda: link.told.lost)
    assert link.told.lost == ["reading failed: RuntimeError('out of luck')"]
    assert link.is_lost
    assert caplog.text.count("reading failed") == 1
    with pytest.raises(RequestFailed, match="reading failed"):
        await link.request("reset", {})


async def test_frames_of_no_use_are_passed_over_in_silence(link: Any, caplog: pytest.LogCaptureFixture) -> None:
    await link.bot_end.send(b"\x0a\x04\x1a\x02hi", b"\x1a\x04\x1a\x02hi")
    assert await link.request("reset", {}) is True
    assert "unusable" not in caplog.text


async def test_without_a_listener_events_are_skipped_and_errors_logged(
    kit: Any, bots: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bot = await bots()
    link = BotLink("user", bot.url, kit.log)
    await link.open(NO_DELAYS)
    await bot.send(encode_audio(b"\x01\x02", 24000), encode_interruption(), event("bot-output", {"text": "x"}))
    await bot.send(event("error", {"error": "my \x1bmodel is gone"}))
    assert await link.request("reset", {}) is True
    assert "user bot reports: my \\x1bmodel is gone" in caplog.text
    await link.close()


async def test_a_very_large_answer_comes_unread_and_a_very_large_event_is_skipped(
    kit: Any, bots: Any, caplog: pytest.LogCaptureFixture
) -> None:
    big = "x" * 10_000_000

    def answer(message: dict[str, Any]) -> Any:
        if message["type"] == "client-message":
            return [event("bot-tts-text", {"text": big}), kit.reply(message, {"context": big})]
        return kit.obliging(message)

    bot, told = await bots(answer), kit.Recorder()
    link = BotLink("agent", bot.url, kit.log, told)
    await link.open(NO_DELAYS)
    found = await link.request("get_context_history", {})
    assert isinstance(found, HeavyReply)
    assert len(found.text) > 10_000_000
    assert told.messages == []
    assert "an event of 10000" in caplog.text
    assert max(len(record.message) for record in caplog.records) < 1000
    await link.close()


async def test_a_very_large_answer_with_its_id_at_the_end_is_found(kit: Any, bots: Any) -> None:
    def answer(message: dict[str, Any]) -> Any:
        if message["type"] != "client-message":
            return kit.obliging(message)
        data = '{"label":"rtvi-ai","type":"server-response","data":{"t":"x","d":"' + "y" * 400_000 + f'"}},"id":"{message["id"]}"}}'
        return [encode_message(data)]

    bot = await bots(answer)
    link = BotLink("agent", bot.url, kit.log)
    await link.open(NO_DELAYS)
    assert isinstance(await link.request("x", {}), HeavyReply)
    await link.close()


async def test_an_audio_frame_of_10_mb_arrives(link: Any, kit: Any) -> None:
    await link.bot_end.send(encode_audio(bytes(10_000_000), 24000))
    await kit.until(lambda: link.told.audio)
    assert len(link.told.audio[0].pcm) == 10_000_000


async def test_audio_and_the_kick_off_reach_the_bot(link: Any, kit: Any) -> None:
    for index in range(200):
        link.send_audio(encode_audio(bytes([index]) * 512, 16000))
    link.send_text("Hello")
    await kit.until(lambda: link.bot_end.heard[-1]["type"] == "send-text")
    assert link.bot_end.heard[-1]["data"]["options"] == {"run_immediately": True, "audio_response": True}
    await kit.until(lambda: len(link.bot_end.frames) + link.dropped_frames >= 190)


async def test_a_bot_that_does_not_read_loses_the_oldest_audio_and_holds_up_nothing(
    kit: Any, bots: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bot = await bots()
    link = BotLink("agent", bot.url, kit.log)
    await link.open(NO_DELAYS, frame_seconds=0.1)
    bot.reads.clear()
    link.send_audio(encode_audio(bytes(10), 1))
    size, sent, largest = 100_000, 400, 0
    for index in range(1, sent):
        link.send_audio(encode_audio(bytes(size), index + 1))
        assert link._ws is not None
        largest = max(largest, link._ws.transport.get_write_buffer_size() + sum(map(len, link._backlog)))
        if index % 20 == 0:
            await asyncio.sleep(0)
    assert link.dropped_frames > 0
    assert largest < 23 * size, "2 s are 20 frames; one more may be on its way"
    bot.reads.set()
    for index in range(sent, sent + 300):
        if bot.frames and bot.frames[-1].rate >= sent:
            break
        link.send_audio(encode_audio(bytes(size), index + 1))
        await asyncio.sleep(0.01)
    dropped = link.dropped_frames
    await kit.until(lambda: bot.frames[-1].rate >= sent)
    order = [frame.rate for frame in bot.frames]
    assert order == sorted(set(order))
    assert order[:3] == [1, 2, 3]
    assert caplog.text.count("takes no audio") == 1
    await link.close()
    assert f"agent bot: {dropped} audio frames could not be sent in time" in caplog.text


async def test_a_link_to_a_bot_that_does_not_read_still_closes_in_time(
    kit: Any, bots: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "CLOSE_TIMEOUT", 0.1)
    bot = await bots()
    link = BotLink("agent", bot.url, kit.log)
    await link.open(NO_DELAYS)
    bot.reads.clear()
    for _ in range(200):
        link.send_audio(encode_audio(bytes(100_000), 16000))
    async with asyncio.timeout(30.0):
        await link.close()


async def test_close_may_come_at_any_time_and_more_than_once(kit: Any, bots: Any) -> None:
    bot = await bots(lambda m: [] if m["type"] == "client-message" else kit.obliging(m))
    link = BotLink("agent", bot.url, kit.log)
    await link.close()
    await link.open(NO_DELAYS)
    waiting = asyncio.create_task(link.request("reset", {}))
    await kit.until(lambda: bot.heard[-1]["type"] == "client-message")
    await asyncio.gather(link.close(), link.close())
    with pytest.raises(RequestFailed, match="before it answered reset"):
        await waiting
    await link.close()
    with pytest.raises(RequestFailed):
        await link.request("reset", {})
    link.send_audio(encode_audio(b"", 16000))


async def test_an_opening_that_is_cancelled_leaves_nothing_after_close(kit: Any, bots: Any) -> None:
    silent = await bots(lambda message: [])
    before = asyncio.all_tasks()
    for url in (silent.url, f"ws://127.0.0.1:{free_port()}"):
        link = BotLink("agent", url, kit.log)
        opening = asyncio.create_task(link.open((60.0,)))
        await asyncio.sleep(0.1)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await link.close()
    await kit.until(lambda: silent.connections == 0)
    await kit.until(lambda: {task for task in asyncio.all_tasks() if not task.done()} <= before)


async def test_a_close_that_is_cancelled_leaves_neither_reader_nor_socket(kit: Any, bots: Any) -> None:
    bot = await bots()
    before = asyncio.all_tasks()
    link = BotLink("agent", bot.url, kit.log)
    await link.open(NO_DELAYS)
    transport = link._ws.transport if link._ws is not None else None
    bot.socket.transport.pause_reading()
    closing = asyncio.create_task(link.close())
    await asyncio.sleep(0.01)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    assert transport is not None
    assert transport.is_closing()
    await kit.until(lambda: not [task for task in asyncio.all_tasks() - before if task.get_name().startswith("read ")])
    bot.socket.transport.resume_reading()


async def test_a_listener_is_told_of_a_loss_only_after_the_opening(kit: Any, bots: Any) -> None:
    bot, told = await bots(busy=9), kit.Recorder()
    link = BotLink("agent", bot.url, kit.log, told)
    with pytest.raises(ConnectFailed):
        await link.open(NO_DELAYS)
    await link.close()
    assert told.lost == []


async def test_an_unusable_reply_ends_its_request_at_once(kit: Any, bots: Any) -> None:
    def answer(message: dict[str, Any]) -> list[bytes]:
        if message["type"] == "client-message":
            return [encode_message(rtvi.build("server-response", 5, message["id"]))]
        return [encode_message(rtvi.build("bot-ready", {"version": "1"}, message["id"]))]

    link = BotLink("user", (await bots(answer)).url, kit.log)
    await link.open(NO_DELAYS)
    with pytest.raises(RequestFailed, match="user bot answered reset with an unusable reply"):
        await link.request("reset", {}, timeout=60.0)
    await link.close()
