"""A client's WebSocket connection for audio: whole binary messages go out and come in without the library's parser and queue.

There are some 60 of them a second each way and pair: the library's own way of masking and parsing takes a tenth of the engine's CPU more.
The opening, the closing, control frames, fragments and errors are the library's. May import the standard library and websockets only.
Rules: RFC 6455, sections 5.2 (layout of a frame) and 5.3 (a fresh, unpredictable mask for each that a client sends).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.frames import Frame, Opcode
from websockets.protocol import State

try:
    from websockets.speedups import apply_mask
except ImportError:
    from websockets.utils import apply_mask

_POOL_BYTES = 4096
_FIN, _FIN_BINARY, _MASKED = 0x80, 0x82, 0x80
_FIRST_CONTROL_OPCODE = 8
_TWO_BYTES, _EIGHT_BYTES = 126, 127
_SWITCHING, _HEAD_END = b"HTTP/1.1 101 ", b"\r\n\r\n"
_NEVER = 2**62
_BINARY, _TEXT = Opcode.BINARY, Opcode.TEXT
_OPEN = State.OPEN


class AudioConnection(ClientConnection):
    """Give it to `connect` as `create_connection`, then set `take`: each whole binary message is handed to it as it comes in.

    All else, and what comes while that is unread, is left to `recv`. So would be everything if a later websockets no longer called
    `data_received` and `process_event`. `take` must not raise.
    """

    take: Callable[[bytes], None] | None = None
    unread = 0
    """Messages left to `recv`, which whoever calls it counts down."""
    full = False
    """Whether the socket takes no more: 32 KB wait to be sent, or did and 8 KB still do."""
    _opening: bytes | None = b""
    """The response to the handshake so far; None once it is over."""
    _held = b""
    _due = 0
    """Bytes still to come of a frame that the library reads."""
    _fragmented = False

    def send_whole(self, payload: bytes) -> None:
        """Send `payload` as one binary message, at once; on a connection that is ending, nothing."""
        if self.protocol.state is _OPEN and not self.transport.is_closing():
            self.transport.write(binary_frame(payload))

    def pause_writing(self) -> None:
        self.full = True
        super().pause_writing()

    def resume_writing(self) -> None:
        self.full = False
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._held:
            data, self._held = self._held + data, b""
        size, passed = len(data), 0
        at = self._next_frame(data)
        while at < size:
            place = _payload(data, at)
            if place is None:
                self._held, size = data[at:], at
                break
            begin, end = place
            if data[at] == _FIN_BINARY and data[at + 1] < _MASKED and end <= size and not self._fragmented:
                if passed < at:
                    super().data_received(data[passed:at])
                    passed = at
                if self.take is not None and not self.unread and self.protocol.state is _OPEN:
                    self.take(data[begin:end])
                    passed = at = end
                    continue
            if data[at] & 0x0F < _FIRST_CONTROL_OPCODE:
                self._fragmented = not data[at] & _FIN
            at = end
        self._due = max(0, at - size)
        if passed < size:
            super().data_received(data[passed:size])

    def process_event(self, event: Any) -> None:
        if isinstance(event, Frame):
            opcode = event.opcode
            if opcode is _BINARY and event.fin and not self.unread and self.take is not None:
                self.take(bytes(event.data))
                return
            if opcode is _BINARY or opcode is _TEXT:
                self.unread += 1
        super().process_event(event)

    def _next_frame(self, data: bytes) -> int:
        """Where in `data` the first frame begins that the library has not begun to read; beyond its end if none does."""
        if self._opening is None:
            return self._due
        before = len(self._opening)
        self._opening += data
        end = self._opening.find(_HEAD_END)
        if end < 0:
            return len(data)
        place = end + len(_HEAD_END) - before if self._opening.startswith(_SWITCHING) else _NEVER
        self._opening = None
        return place


def binary_frame(payload: bytes) -> bytes:
    """The whole of `payload` as one masked binary frame. Call it in one thread only."""
    size, key = len(payload), next(_keys)
    if size < _TWO_BYTES:
        head = bytes((_FIN_BINARY, _MASKED | size))
    elif size < 1 << 16:
        head = struct.pack("!BBH", _FIN_BINARY, _MASKED | _TWO_BYTES, size)
    else:
        head = struct.pack("!BBQ", _FIN_BINARY, _MASKED | _EIGHT_BYTES, size)
    return head + key + apply_mask(payload, key)


def _payload(data: bytes, at: int) -> tuple[int, int] | None:
    """Begin and end of the payload of the unmasked frame that begins at `at`; None where its head is not whole."""
    have = len(data) - at
    length = data[at + 1] & ~_MASKED if have > 1 else 0
    head = 2 if length < _TWO_BYTES else 4 if length == _TWO_BYTES else 10
    if have < head:
        return None
    if head > 2:
        length = int.from_bytes(data[at + 2 : at + head], "big")
    return at + head, at + head + length


def _fresh_keys() -> Iterator[bytes]:
    """Four random bytes each; the system is asked for many at a time."""
    while True:
        pool = os.urandom(_POOL_BYTES)
        for start in range(0, _POOL_BYTES, 4):
            yield pool[start : start + 4]


_keys = _fresh_keys()
