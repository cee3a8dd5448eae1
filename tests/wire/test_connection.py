"""Frames made in one step are those that a WebSocket server reads, whatever their size."""

from __future__ import annotations

import pytest
from voiceeval_engine.wire.connection import binary_frame
from websockets.frames import Opcode
from websockets.protocol import SERVER, Protocol


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
