"""Frames made in one step are those that a WebSocket server reads, and what a server sends comes in as the library would read it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.protocol import SERVER, Protocol, State
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from voiceeval_engine.wire.connection import AudioConnection, binary_frame


@pytest.mark.parametrize("size", [0, 1, 3, 125, 126, 531, 65_535, 65_536, 70_001])
def test_a_server_reads_what_was_sent_in_one_binary_message(size: int) -> None:
    payload = bytes(number % 251 for number in range(size))
    server = Protocol(SERVER, max_size=None)
    server.receive_data(binary_frame(payload) + binary_frame(b"next"))
    first, second = server.events_received()
    assert (first.opcode, first.fin, bytes(first.data)) == (Opcode.BINARY, True, payload)
    assert bytes(second.data) == b"next"


def test_no_mask_is_used_again() -> None:
    masks = {binary_frame(b"")[2:6] for _ in range(5_000)}
    assert len(masks) > 4_990


class _Transport(asyncio.Transport):
    """Takes what is written and does nothing with it."""

    def write(self, data: Any) -> None: ...
    def write_eof(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


def _frame(opcode: Opcode, data: bytes, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=False)


Message = str | bytes
_payloads = st.binary(max_size=20) | st.sampled_from([125, 126, 127, 300, 65_535, 65_536]).map(bytes)


@st.composite
def _sent(draw: st.DrawFn) -> tuple[bytes, Message | None]:
    """The bytes of a message or of a control frame, and the message."""
    kind = draw(st.sampled_from(["whole", "whole", "whole", "text", "ping", "parts"]))
    payload = draw(_payloads)
    if kind == "whole":
        return _frame(Opcode.BINARY, payload), payload
    if kind == "text":
        return _frame(Opcode.TEXT, b"x" * len(payload)), "x" * len(payload)
    if kind == "ping":
        return _frame(Opcode.PING, payload[:125]), None
    middle = _frame(Opcode.PING, b"") if draw(st.booleans()) else b""
    return _frame(Opcode.BINARY, payload[:7], fin=False) + middle + _frame(Opcode.CONT, payload[7:]), payload


async def _read(pieces: Sequence[bytes], opening: bytes, connection: AudioConnection, at_once: bool) -> list[Message]:
    """What comes in, in order; the reader of `recv` runs between pieces, or after all of them."""
    got: list[Message] = []
    connection.connection_made(_Transport())
    connection.response_rcvd.add_done_callback(lambda done: done.cancelled() or done.exception())
    connection.data_received(opening)
    connection.take = got.append

    async def read() -> None:
        with contextlib.suppress(ConnectionClosed):
            async for data in connection:
                connection.unread -= 1
                got.append(data)

    reader = asyncio.get_running_loop().create_task(read())
    for piece in pieces:
        connection.data_received(piece)
        if not at_once:
            for _ in range(5):
                await asyncio.sleep(0)
    connection.connection_lost(None)
    await reader
    return got


def _opened() -> tuple[ClientProtocol, bytes]:
    """A client's protocol that has sent its request, and the response to it."""
    client, server = ClientProtocol(parse_uri("ws://127.0.0.1/"), max_size=2**20), ServerProtocol()
    client.send_request(client.connect())
    server.receive_data(b"".join(client.data_to_send()))
    (request,) = server.events_received()
    server.send_response(server.accept(request))  # type: ignore[arg-type]
    return client, b"".join(server.data_to_send())


def _pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[begin:end] for begin, end in pairwise(places)]


@given(st.lists(_sent(), max_size=12), st.lists(st.integers(0, 200_000), max_size=12), st.booleans())
def test_all_messages_come_in_and_in_their_order_however_the_network_cuts_them(
    sent: list[tuple[bytes, Message | None]], cuts: list[int], at_once: bool
) -> None:
    async def case() -> list[Message]:
        client, opening = _opened()
        pieces = _pieces(b"".join(data for data, _ in sent), cuts)
        return await _read(pieces, opening, AudioConnection(client, ping_interval=None), at_once)

    assert asyncio.run(case()) == [message for _, message in sent if message is not None]


@given(st.lists(st.integers(0, 400), max_size=8))
def test_what_comes_in_one_piece_with_the_opening_is_not_lost(cuts: list[int]) -> None:
    async def case() -> list[Message]:
        client, opening = _opened()
        first, *others = _pieces(opening + _frame(Opcode.BINARY, b"one") + _frame(Opcode.BINARY, b"two"), [len(opening) + 3, *cuts])
        return await _read(others, first, AudioConnection(client, ping_interval=None), at_once=False)

    assert asyncio.run(case()) == [b"one", b"two"]


@pytest.mark.parametrize("body", [b"", b"x", b"abc", b"\x82\x05", b"\x82\x01x\x82", b"\x82\x7f\x00"])
@given(cuts=st.lists(st.integers(0, 400), max_size=4))
def test_a_refusal_is_read_to_its_end_whatever_its_body(body: bytes, cuts: list[int]) -> None:
    response = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    async def case() -> None:
        client, _ = _opened()
        connection = AudioConnection(client, ping_interval=None)
        connection.connection_made(_Transport())
        for piece in _pieces(response, cuts):
            connection.data_received(piece)
        assert connection.response_rcvd.done()
        assert client.handshake_exc is not None
        assert connection.response is not None
        assert connection.response.body == body

    asyncio.run(case())


HOSTILE = {
    "masked": bytes((0x82, 0x81)) + b"keyx",
    "reserved bits": bytes((0xC2, 1)) + b"x",
    "unknown opcode": bytes((0x83, 1)) + b"x",
    "continuation of nothing": _frame(Opcode.CONT, b"x"),
    "message within a message": _frame(Opcode.BINARY, b"x", fin=False) + _frame(Opcode.BINARY, b"y"),
    "too large": bytes((0x82, 127)) + (2**62).to_bytes(8, "big") + b"x",
    "closing": _frame(Opcode.CLOSE, b"\x03\xe8"),
    "bad closing": _frame(Opcode.CLOSE, b"\x00"),
    "long ping": bytes((0x89, 126, 0, 200)) + bytes(200),
}


@pytest.mark.parametrize("name", HOSTILE)
@given(cuts=st.lists(st.integers(0, 400), max_size=6))
def test_a_connection_that_must_not_go_on_ends_as_the_library_ends_it(name: str, cuts: list[int]) -> None:
    data = _frame(Opcode.BINARY, b"before") + HOSTILE[name] + _frame(Opcode.BINARY, b"after") * 3

    async def case() -> tuple[list[Message], State, Any]:
        client, opening = _opened()
        connection = AudioConnection(client, ping_interval=None)
        got = await _read(_pieces(data, cuts), opening, connection, at_once=False)
        return got, client.state, client.close_sent

    alone, opening = _opened()
    alone.receive_data(opening)
    alone.receive_data(data)
    alone.receive_eof()
    messages, state, close = asyncio.run(case())
    assert messages == [b"before"]
    assert (state, close) == (alone.state, alone.close_sent)
