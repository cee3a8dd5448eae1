"""The embedded judge: its grades follow from the sections it is sent, and it answers whatever it is sent."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceeval_engine.bots.judge import MAX_REQUEST_BYTES, OUT_MARK, grade, judge_server, sections
from voiceeval_engine.scoring.judge_input import InputOptions, Material, user_content
from voiceeval_engine.scoring.verdict import read_reply

TEA = {"side": "agent", "name": "order", "arguments": {"drink": "tea", "size": 2}}
CAKE = {"side": "agent", "name": "order", "arguments": {"food": "cake"}}
PAY = {"side": "agent", "name": "pay", "arguments": {}}
SAYS = 'The agent says "hello there".'


def content(**material: Any) -> str:
    text = user_content(
        Material(**{"agent_context": ({"role": "user", "content": "x"},)} | material), InputOptions(include_conversation=True)
    )
    assert text is not None
    return text


def score(reference: list[Any], prediction: list[Any]) -> float:
    return float(grade(content(reference=[{"actions": reference}], prediction=[{"actions": prediction}]))["score"])


def passes(assertion: str, **material: Any) -> bool:
    (verdict,) = grade(content(assertions=(assertion,), **material))["nl_assertion_verdicts"]
    assert verdict["index"] == 1
    return bool(verdict["passed"])


def said(text: Any, role: str = "assistant") -> tuple[Any, ...]:
    return ({"role": "system", "content": "hello there"}, {"role": role, "content": text})


# -- grading


def test_it_reads_the_sections_that_the_engine_sends() -> None:
    text = content(
        reference=[TEA], prediction=[CAKE], turns=(("user", "hi"),), assertions=("a", "b"), user_context=({"role": "user"},)
    )
    found = sections(text)
    assert list(found) == [
        "reference", "prediction", "conversation", "nl_assertions", "agent_context_history", "user_context_history",
    ]  # fmt: skip
    assert json.loads(found["reference"]) == TEA
    assert found["conversation"] == "[user]: hi"
    assert found["nl_assertions"] == "1. a\n2. b"


@pytest.mark.parametrize(
    ("reference", "prediction", "expected"),
    [([TEA], [TEA], 1.0), ([TEA, CAKE], [TEA], 0.5), ([TEA, CAKE, PAY], [PAY], 0.333), ([TEA], [], 0.0), ([TEA], [CAKE, PAY, TEA], 1.0),
     ([TEA], [{**TEA, "arguments": {"drink": "tea", "size": 3}}], 0.0), ([TEA], [{**TEA, "name": "cancel"}], 0.0),
     ([TEA], [{**TEA, "arguments": {"size": 2, "drink": "tea"}}], 1.0), ([TEA, CAKE], [CAKE, TEA], 1.0)],
)  # fmt: skip
def test_the_score_is_the_share_of_the_references_actions_in_the_prediction(
    reference: list[Any], prediction: list[Any], expected: float
) -> None:
    assert score(reference, prediction) == expected


def test_the_reason_says_that_it_is_a_rule_and_what_it_counted() -> None:
    reason = grade(content(reference=[{"actions": [TEA, CAKE]}], prediction=[{"actions": [TEA]}]))["reason"]
    assert "by rule, no model was asked" in reason
    assert "1 of 2" in reason


def test_without_a_reference_nothing_is_missing() -> None:
    assert grade(content(prediction=[{"actions": [TEA]}]))["score"] == 1.0


def test_without_assertions_there_are_no_verdicts_on_them() -> None:
    assert "nl_assertion_verdicts" not in grade(content())


@pytest.mark.parametrize(
    ("assertion", "context", "expected"),
    [(SAYS, said("Well, HELLO there!"), True), (SAYS, said("hello, there"), False), (SAYS, said("hello there", role="user"), False),
     (SAYS, said("hello there", role="tool"), False), (SAYS, said(None), False), (SAYS, said(["hello there"]), False),
     ('The agent says "hello there"', said("hello there"), True), ("The agent is polite.", said("hello there"), False),
     ('The user says "hello there".', said("hello there"), False), ('The agent says "say "hi""', said('I say "hi"'), True)],
)  # fmt: skip
def test_an_assertion_is_looked_up_in_what_its_side_said(assertion: str, context: tuple[Any, ...], expected: bool) -> None:
    assert passes(assertion, agent_context=context) is expected


def test_an_assertion_on_the_user_is_looked_up_in_the_users_context() -> None:
    assert passes('The user says "hello there".', user_context=said("hello there"))
    assert not passes(SAYS, user_context=said("hello there"))


def test_each_assertion_gets_its_own_verdict_with_a_reason() -> None:
    text = content(assertions=(SAYS, "Be nice.", 'The agent says "bye".'), agent_context=said("hello there"))
    verdicts = grade(text)["nl_assertion_verdicts"]
    assert [(each["index"], each["passed"]) for each in verdicts] == [(1, True), (2, False), (3, False)]
    assert "'hello there'" in verdicts[0]["reason"]
    assert "can be decided" in verdicts[1]["reason"]
    assert "'bye'" in verdicts[2]["reason"]


@settings(deadline=None)
@given(
    st.lists(st.text(max_size=20), max_size=3),
    st.lists(st.dictionaries(st.sampled_from(["role", "content"]), st.text(max_size=10) | st.integers()), max_size=3),
    st.recursive(
        st.none() | st.text(max_size=5),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["actions", "name"]), inner),
    ),
)
def test_its_verdict_on_any_scenario_can_be_read(assertions: list[str], context: list[Any], document: Any) -> None:
    text = user_content(
        Material(reference=document, prediction=[document, 1], agent_context=tuple(context), assertions=tuple(assertions)),
        InputOptions(),
    )
    assert text is not None
    assert not read_reply(json.dumps(grade(text)), assertions).failed


@pytest.mark.parametrize("inner", ["", "{", "5", "null", '"x"', "[" * 100_000, "[1, null]", '{"actions": 5}', '[{"content": 5}]'])
def test_sections_of_any_kind_are_graded(inner: str) -> None:
    tags = ("reference", "prediction", "agent_context_history", "user_context_history")
    text = "\n\n".join(f"<{tag}>\n{inner}\n</{tag}>" for tag in tags) + f"\n\n<nl_assertions>\n1. {SAYS}\n</nl_assertions>"
    assert not read_reply(json.dumps(grade(text)), (SAYS,)).assertions[0].passed


# -- serving


@pytest.fixture
def port() -> Iterator[int]:
    server = judge_server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def post(port: int, **options: Any) -> httpx.Response:
    return httpx.post(f"http://127.0.0.1:{port}/v1/chat/completions", timeout=30, trust_env=False, **options)


def exchange(port: int, request: bytes) -> bytes:
    """What the server answers until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer


def request(text: str) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "system", "content": OUT_MARK}, {"role": "user", "content": text}]}


def test_it_answers_with_a_chat_completion(port: int) -> None:
    text = content(
        reference=[{"actions": [TEA]}], prediction=[{"actions": [TEA]}], assertions=(SAYS,), agent_context=said("hello there")
    )
    response = post(port, json=request(text))
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    verdict = read_reply(response.json()["choices"][0]["message"]["content"], (SAYS,))
    assert (verdict.score, verdict.assertion_pass_rate, verdict.failed) == (1.0, 1.0, False)


def test_it_answers_503_to_whoever_says_that_the_judge_is_out(port: int) -> None:
    assert post(port, json=request(content(agent_context=said(OUT_MARK)))).status_code == 503
    assert post(port, json=request("well")).status_code == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"5", b'"messages"', b"{}", b'{"messages": []}', b'{"messages": {}}', b'{"messages": [5]}',
     b'{"messages": [{}]}', b"\xff", b"[" * 100_000],
)  # fmt: skip
def test_a_bad_request_is_answered_400(port: int, body: bytes) -> None:
    response = post(port, content=body)
    assert response.status_code == 400
    assert "not a chat completion request" in response.json()["error"]["message"]


@pytest.mark.parametrize("length", [str(MAX_REQUEST_BYTES + 1), "9" * 30, "-1", "many", ""])
def test_a_request_that_is_too_large_or_of_unknown_size_is_refused_unread(port: int, length: str) -> None:
    answer = exchange(port, f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert exchange(port, b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_a_probe_is_answered(port: int) -> None:
    assert httpx.get(f"http://127.0.0.1:{port}/v1/chat/completions", trust_env=False).status_code == 200


def test_callers_that_hang_up_are_nobodys_trouble(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    body = json.dumps(request(content(agent_context=said("x" * 200_000), assertions=(SAYS,) * 20_000))).encode()
    for sent in (0, 100, len(body)):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body[:sent]))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing resets the connection
    assert post(port, json=request("well")).status_code == 200
    assert capfd.readouterr().err == ""
