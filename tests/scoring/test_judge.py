"""The judge's HTTP side: what it sends, what it tries again, what it gives up on, and that the key goes into one header only."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from voiceeval_engine.offload import Offload
from voiceeval_engine.scoring import judge as judge_module
from voiceeval_engine.scoring.judge import MAX_RESPONSE_BYTES, OPTIONAL_FIELDS, Judge, JudgeSettings
from voiceeval_engine.scoring.verdict import Verdict, judge_result

URL = "http://judge.test/v1/chat/completions"
KEY = "sk-very-secret-0123"
OFFLOAD = Offload()
LOG = logging.LoggerAdapter(logging.getLogger("tests.judge"), {})
CONTEXT_TOO_LONG = (
    "This model's maximum context length is 8192 tokens. However, max_tokens is 100000 and the prompt has 9000 tokens."
)

Handler = Callable[[httpx.Request], httpx.Response]


def answer(content: Any = '{"score": 0.75, "reason": "fine"}') -> httpx.Response:
    return httpx.Response(200, json={"choices": [{"message": {"role": "assistant", "content": content}}]})


def refusal(name: str) -> httpx.Response:
    return httpx.Response(400, json={"error": {"message": f"Unsupported parameter: '{name}' is not supported with this model."}})


class Endpoint:
    """Answers with what it was given, in turn, the last for ever; an exception is raised, a callable called."""

    def __init__(self, *script: httpx.Response | Exception | Handler) -> None:
        self.script = list(script)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, Exception):
            raise step
        if isinstance(step, httpx.Response):
            return httpx.Response(step.status_code, headers=step.headers, content=step.content)
        return step(request)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.requests]


def judge(endpoint: Handler | None, *, backoff: Sequence[float] = (0, 0, 0), **changes: Any) -> Judge:
    settings = JudgeSettings(**{"url": URL, "model": "m", "timeout": 30.0} | changes)
    transport = None if endpoint is None else httpx.MockTransport(endpoint)
    return Judge(settings, "the system prompt", OFFLOAD, LOG, backoff=backoff, transport=transport)


async def ask(endpoint: Handler | None, assertions: Sequence[str] = (), **changes: Any) -> Verdict:
    async with judge(endpoint, **changes) as asked:
        return await asked.ask("the sections", assertions)


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between tries, in s; none of them is waited."""
    found: list[float] = []
    real = asyncio.sleep

    async def nap(seconds: float, *_: Any) -> None:
        found.append(seconds)
        await real(0)

    monkeypatch.setattr(judge_module.asyncio, "sleep", nap)
    return found


def everything(verdict: Verdict, caplog: pytest.LogCaptureFixture) -> str:
    """All that a verdict and its making leave behind."""
    return (
        repr(verdict) + json.dumps(judge_result(verdict, "s", "u")) + caplog.text + repr([record.args for record in caplog.records])
    )


# -- the request


async def test_the_request_is_as_specified() -> None:
    endpoint = Endpoint(answer())
    verdict = await ask(endpoint, key=KEY, max_tokens=5, temperature=0.5, top_p=0.25, seed=7)
    assert verdict == Verdict(0.75, "fine")
    request = endpoint.requests[0]
    assert (request.method, str(request.url), request.headers["authorization"]) == ("POST", URL, f"Bearer {KEY}")
    assert request.headers["content-type"] == "application/json"
    assert list(endpoint.bodies[0].items()) == [
        ("model", "m"),
        ("messages", [{"role": "system", "content": "the system prompt"}, {"role": "user", "content": "the sections"}]),
        ("max_tokens", 5),
        ("temperature", 0.5),
        ("top_p", 0.25),
        ("seed", 7),
        ("chat_template_kwargs", {"enable_thinking": True}),
    ]


async def test_the_thinking_budget_is_sent_where_it_is_set() -> None:
    endpoint = Endpoint(answer())
    await ask(endpoint, thinking_token_budget=0)
    assert list(endpoint.bodies[0].items())[-1] == ("thinking_token_budget", 0)


@pytest.mark.parametrize("key", [None, "", "  ", "\r\n"])
async def test_without_a_key_there_is_no_header(key: str | None) -> None:
    endpoint = Endpoint(answer())
    await ask(endpoint, key=key)
    assert "authorization" not in endpoint.requests[0].headers


async def test_white_space_around_a_key_is_not_part_of_it() -> None:
    endpoint = Endpoint(answer())
    await ask(endpoint, key=f" {KEY}\r\n")
    assert endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_nothing_to_judge_sends_no_request() -> None:
    endpoint = Endpoint(answer())
    async with judge(endpoint) as asked:
        verdict = await asked.ask(None, ("x",))
    assert endpoint.requests == []
    assert (verdict.score, verdict.failed, len(verdict.assertions)) == (0.0, False, 1)
    assert not verdict.assertions[0].passed
    assert "nothing to judge" in verdict.reason


async def test_the_verdicts_on_assertions_come_through() -> None:
    content = '{"score": 1, "nl_assertion_verdicts": [{"index": 1, "passed": true, "reason": "r"}]}'
    verdict = await ask(Endpoint(answer(content)), ("a", "b"))
    assert [each.passed for each in verdict.assertions] == [True, False]


# -- what is tried again

PASSING = [
    *(httpx.Response(status) for status in (408, 429, 500, 502, 503, 504, 529)),
    httpx.ReadTimeout("slow"), httpx.ConnectTimeout("slow"), httpx.PoolTimeout("slow"), httpx.ConnectError("refused"),
    httpx.ReadError("reset"), httpx.WriteError("reset"), httpx.RemoteProtocolError("Server disconnected without sending a response."),
]  # fmt: skip


@pytest.mark.parametrize("trouble", PASSING, ids=lambda trouble: repr(trouble)[:40])
async def test_a_trouble_that_may_pass_is_tried_four_times(trouble: Any) -> None:
    endpoint = Endpoint(trouble)
    verdict = await ask(endpoint, ("x",))
    assert len(endpoint.requests) == 4
    assert (verdict.score, verdict.failed) == (0.0, True)
    assert verdict.reason.startswith("Error: ")
    assert verdict.reason.endswith("(4 tries)")
    assert [each.passed for each in verdict.assertions] == [False]


@pytest.mark.parametrize("trouble", PASSING, ids=lambda trouble: repr(trouble)[:40])
async def test_the_last_of_four_tries_can_succeed(trouble: Any) -> None:
    endpoint = Endpoint(trouble, trouble, trouble, answer())
    assert (await ask(endpoint)).score == 0.75
    assert len(endpoint.requests) == 4


@pytest.mark.parametrize("status", [301, 307, 400, 401, 403, 404, 405, 413, 422])
async def test_other_answers_are_final(status: int) -> None:
    endpoint = Endpoint(httpx.Response(status, text="no such\nmodel", headers={"Retry-After": "1"}))
    verdict = await ask(endpoint)
    assert len(endpoint.requests) == 1
    assert verdict.reason == f"Error: the judge answered HTTP {status}: no such model"


@pytest.mark.parametrize("status", [400, 413, 500])
@pytest.mark.parametrize(
    "text",
    [CONTEXT_TOO_LONG, '{"code": "context_length_exceeded", "param": "max_tokens"}', "the prompt is too long; lower max_tokens",
     "the request exceeds the available context size"],
)  # fmt: skip
async def test_a_context_that_is_too_long_is_final_and_costs_no_field(status: int, text: str) -> None:
    endpoint = Endpoint(httpx.Response(status, text=text), answer())
    async with judge(endpoint) as asked:
        assert (await asked.ask("u", ())).failed
        assert len(endpoint.requests) == 1
        await asked.ask("u", ())
    assert "max_tokens" in endpoint.bodies[1]


async def test_the_waits_grow_where_the_endpoint_names_none(naps: list[float]) -> None:
    await ask(Endpoint(httpx.Response(503)), backoff=judge_module.BACKOFF)
    assert naps == [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("header", "wait"),
    [("0", 0.0), ("7", 7.0), (" 60 ", 60.0), ("61", 60.0), ("9" * 400, 60.0), ("1.5", 3.0), ("-5", 3.0), ("", 3.0), ("soon", 3.0),
     ("Mon, 01 Jan 2001 00:00:00 GMT", 0.0), ("Fri, 01 Jan 2100 00:00:00 GMT", 60.0), ("Mon, 99 Foo 2001", 3.0),
     ("Mon, 01 Jan 2024 00:00:00 +99999999999999999", 3.0)],
)  # fmt: skip
@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_honoured_up_to_a_minute(naps: list[float], header: str, wait: float, status: int) -> None:
    endpoint = Endpoint(httpx.Response(status, headers={"Retry-After": header}), answer())
    assert not (await ask(endpoint, backoff=(3,))).failed
    assert naps == [wait]


def test_a_date_in_retry_after_is_seconds_from_now() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    header = format_datetime(now + timedelta(seconds=25), usegmt=True)
    assert judge_module._retry_after(header, now.timestamp) == 25


async def test_a_gateway_that_took_too_long_is_asked_again() -> None:
    endpoint = Endpoint(httpx.Response(504, text="the upstream took too long"), answer())
    async with judge(endpoint) as asked:
        assert not (await asked.ask("u", ())).failed
    assert len(endpoint.requests) == 2


# -- fields that an endpoint does not take


@pytest.mark.parametrize("name", OPTIONAL_FIELDS)
async def test_a_field_that_a_400_names_is_left_out_at_once_and_for_the_rest_of_the_run(name: str) -> None:
    endpoint = Endpoint(refusal(name), answer())
    async with judge(endpoint, thinking_token_budget=9) as asked:
        assert not (await asked.ask("u", ())).failed
        assert not (await asked.ask("u", ())).failed
    first, second, third = endpoint.bodies
    assert second == third == {key: value for key, value in first.items() if key != name}


async def test_several_fields_are_left_out_one_after_the_other() -> None:
    fields = ("seed", "chat_template_kwargs", "temperature", "max_tokens")
    endpoint = Endpoint(*(refusal(name) for name in fields), answer())
    assert not (await ask(endpoint)).failed
    assert set(endpoint.bodies[0]) - set(endpoint.bodies[-1]) == set(fields)


async def test_a_field_is_left_out_once_and_then_the_400_is_final() -> None:
    endpoint = Endpoint(refusal("seed"))
    verdict = await ask(endpoint)
    assert len(endpoint.requests) == 2
    assert "HTTP 400" in verdict.reason


async def test_a_field_refused_after_a_retry_costs_no_try() -> None:
    endpoint = Endpoint(httpx.Response(503), httpx.Response(503), refusal("seed"), httpx.Response(503), answer())
    assert not (await ask(endpoint)).failed


@pytest.mark.parametrize("text", ["the seeds are missing", "max_tokens_limit", "unknown field 'model'", "messages", ""])
async def test_a_400_that_names_no_such_field_is_final(text: str) -> None:
    endpoint = Endpoint(httpx.Response(400, text=text))
    await ask(endpoint)
    assert len(endpoint.requests) == 1


async def test_calls_under_way_together_learn_of_a_field_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    endpoint = Endpoint(lambda request: refusal("seed") if b'"seed"' in request.content else answer())
    async with judge(endpoint) as asked:
        verdicts = await asyncio.gather(*(asked.ask("u", ()) for _ in range(4)))
    assert not any(verdict.failed for verdict in verdicts)
    assert sum("'seed'" in record.getMessage() for record in caplog.records) == 1


# -- a judge that is down


async def test_after_five_failed_calls_each_gets_one_try_until_one_succeeds() -> None:
    down = httpx.Response(503)
    endpoint = Endpoint(down)
    async with judge(endpoint) as asked:

        async def tries() -> int:
            before = len(endpoint.requests)
            await asked.ask("u", ())
            return len(endpoint.requests) - before

        assert [await tries() for _ in range(7)] == [4, 4, 4, 4, 4, 1, 1]
        endpoint.script = [answer(), down]
        assert [await tries() for _ in range(7)] == [1, 4, 4, 4, 4, 4, 1]


async def test_calls_without_anything_to_judge_are_no_failures_of_the_judge() -> None:
    endpoint = Endpoint(httpx.Response(503))
    async with judge(endpoint) as asked:
        for _ in range(6):
            await asked.ask(None, ())
        await asked.ask("u", ())
    assert len(endpoint.requests) == 4


@pytest.mark.parametrize("concurrency", [1, 2, 4])
async def test_no_more_calls_than_allowed_are_under_way(concurrency: int) -> None:
    release, under_way, most = asyncio.Event(), 0, 0

    async def slow(request: httpx.Request) -> httpx.Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == concurrency:
            release.set()
        await release.wait()
        await asyncio.sleep(0)
        under_way -= 1
        return answer()

    async with judge(slow, concurrency=concurrency) as asked:  # type: ignore[arg-type]
        verdicts = await asyncio.gather(*(asked.ask("u", ()) for _ in range(3 * concurrency)))
    assert most == concurrency
    assert not any(verdict.failed for verdict in verdicts)


# -- answers that are none


@pytest.mark.parametrize(
    "text",
    ["", "<html>", "[]", "{}", "null", "7", '"text"', '{"choices": []}', '{"choices": {}}', '{"choices": [null]}', '{"choices": "abc"}',
     '{"choices": [{"message": null}]}', '{"choices": [{"text": "x"}]}', '{"error": "x"}', "[" * 100_000, "\x00\ufffd"],
)  # fmt: skip
async def test_an_answer_that_is_no_chat_completion_is_a_failure_not_tried_again(text: str) -> None:
    endpoint = Endpoint(httpx.Response(200, text=text))
    verdict = await ask(endpoint)
    assert verdict.reason.startswith("Error: the judge's answer is no chat completion")
    assert len(verdict.reason) < 400
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("content", [None, 5, [], {"score": 1}, "no verdict", '{"score": 7}', '{"score": 0.5'])
async def test_content_without_a_verdict_is_a_failure_not_tried_again(content: Any) -> None:
    endpoint = Endpoint(answer(content))
    verdict = await ask(endpoint)
    assert verdict.failed
    assert (verdict.raw_response is None) == (content is None)
    assert len(endpoint.requests) == 1


async def test_an_oversized_answer_is_not_read_to_its_end() -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield b"x" * 2**20

    verdict = await ask(Endpoint(lambda _: httpx.Response(200, content=endless())))
    assert "larger than" in verdict.reason
    assert sent == MAX_RESPONSE_BYTES // 2**20 + 1


@pytest.mark.parametrize(
    "url", ["", "judge", "//x", "ftp://x/", "http://", "http://[::1", "http://localhost:99999/", "http://a\nb/", "http://\ud800/"]
)
async def test_a_bad_url_is_a_failure_and_a_probe_says_so(url: str) -> None:
    async with judge(None, url=url) as asked:
        verdict = await asked.ask("u", ("x",))
        assert verdict.failed
        assert "URL" in verdict.reason or "protocol" in verdict.reason
        assert await asked.probe()


async def test_a_lone_surrogate_in_the_input_does_not_keep_the_judge_from_being_asked() -> None:
    async with judge(Endpoint(answer())) as asked:
        assert not (await asked.ask("cut \ud800 off", ())).failed


# -- the probe


@pytest.mark.parametrize("status", [200, 301, 401, 404, 405, 500, 503])
async def test_a_probe_is_content_with_any_answer(status: int) -> None:
    async with judge(Endpoint(httpx.Response(status))) as asked:
        assert await asked.probe() is None


@pytest.mark.parametrize("error", [httpx.ConnectError("refused"), httpx.ConnectTimeout(""), httpx.ReadError("reset")])
async def test_a_probe_says_why_nothing_answers(error: Exception) -> None:
    async with judge(Endpoint(error)) as asked:
        assert await asked.probe() in ("refused", "reset", "ConnectTimeout")


async def test_a_probe_waits_for_no_answer_that_comes_in_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of a single read would be none; and a run that is told to stop ends in time, though it has not begun."""
    monkeypatch.setattr(judge_module, "PROBE_TIMEOUT", 0.05)

    async def drips(_: httpx.Request) -> httpx.Response:
        await asyncio.sleep(60)
        return httpx.Response(200)

    async with asyncio.timeout(5), judge(drips) as asked:
        assert await asked.probe() == "no answer within 0.05 s"


# -- the key


def test_the_key_is_in_no_repr() -> None:
    settings = JudgeSettings(URL, "m", key=KEY)
    assert KEY not in repr(settings)
    assert KEY not in repr(judge(Endpoint(answer()), key=KEY))


@pytest.mark.parametrize("at", [0, 150, 190, 285, 295])
@pytest.mark.parametrize("status", [200, 400, 404, 500])
async def test_an_endpoint_that_repeats_the_key_does_not_spread_it(status: int, at: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    verdict = await ask(Endpoint(httpx.Response(status, text=f"{'x' * at} Bearer {KEY} is wrong")), key=KEY)
    assert verdict.failed
    assert KEY[:6] not in everything(verdict, caplog)


@pytest.mark.parametrize("error", [httpx.ConnectError, httpx.ReadTimeout, httpx.UnsupportedProtocol, httpx.LocalProtocolError])
async def test_an_error_that_names_the_key_does_not_spread_it(error: type[Exception], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    endpoint = Endpoint(error(f"Illegal header value b'Bearer {KEY}'"))
    async with judge(endpoint, key=KEY) as asked:
        assert KEY not in everything(await asked.ask("u", ()), caplog)
        assert KEY not in str(await asked.probe())


@pytest.mark.parametrize(
    "content",
    [f"my headers: {KEY}", f'{{"score": 7, "reason": "{KEY}"}}',
     f'{{"score": 1, "reason": "{KEY}", "nl_assertion_verdicts": [{{"index": 1, "passed": true, "reason": "{KEY}"}}]}}'],
)  # fmt: skip
async def test_a_model_that_repeats_the_key_does_not_spread_it(content: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    verdict = await ask(Endpoint(answer(content)), ("x",), key=KEY)
    assert KEY not in everything(verdict, caplog)
    assert "<redacted>" in everything(verdict, caplog)


async def test_a_stand_in_for_a_key_does_not_garble_the_judges_words() -> None:
    assert await ask(Endpoint(answer('{"score": 1, "reason": "1 of 1"}')), key="1") == Verdict(1.0, "1 of 1")


@pytest.mark.parametrize("key", [f"{KEY}\r\nX: y", "schlüssel-geheim", "sk\x00secret-secret"])
async def test_a_key_that_no_header_can_carry_is_a_failure_that_does_not_show_it(
    key: str, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = Endpoint(answer())
    async with judge(endpoint, key=key) as asked:
        verdict = await asked.ask("u", ())
        probe = await asked.probe()
    assert "API key" in verdict.reason
    assert "API key" in str(probe)
    assert "secret" not in everything(verdict, caplog)
    assert endpoint.requests == []


# -- over a real connection

Connection = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]


@asynccontextmanager
async def served(connection: Connection) -> AsyncIterator[str]:
    """A real server on loopback; what a connection does is the test's."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
        await reader.readexactly(length)
        try:
            await connection(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/chat/completions"
    finally:
        server.close()
        await server.wait_closed()


def raw(response: httpx.Response) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(response.content), response.content)


async def test_a_dropped_connection_is_tried_again() -> None:
    calls = 0

    async def connection(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{")
        if calls == 3:
            writer.write(raw(answer()))
        await writer.drain()

    async with served(connection) as url:
        assert (await ask(None, url=url)).score == 0.75
    assert calls == 3


async def test_an_answer_that_drips_for_ever_ends_with_the_time_out() -> None:
    async def connection(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with served(connection) as url:
        verdict = await ask(None, url=url, timeout=0.25)
    assert verdict.reason == "Error: the judge did not answer within 0.25 s (4 tries)"


async def test_nobody_listening_is_told_by_the_probe_and_by_the_verdict() -> None:
    async with served(lambda *_: asyncio.sleep(0)) as url:
        pass
    async with judge(None, url=url) as asked:
        assert await asked.probe()
        assert (await asked.ask("u", ())).reason.startswith("Error: the judge cannot be reached")


async def test_a_judge_on_this_machine_is_not_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)

    async def connection(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(raw(answer()))
        await writer.drain()

    async with served(connection) as url:
        assert (await ask(None, url=url)).score == 0.75


async def test_a_call_that_is_given_up_frees_its_place() -> None:
    asked_for, hold = asyncio.Event(), asyncio.Event()

    async def slow(request: httpx.Request) -> httpx.Response:
        asked_for.set()
        await hold.wait()
        return answer()

    async with judge(slow, concurrency=1) as asked:  # type: ignore[arg-type]
        first = asyncio.create_task(asked.ask("u", ()))
        await asked_for.wait()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        hold.set()
        assert not (await asked.ask("u", ())).failed
