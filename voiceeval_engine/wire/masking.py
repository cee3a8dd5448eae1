"""A client's binary WebSocket frame in one step. Audio goes out 125 times a second a pair: websockets' own way costs three times as much.

May import the standard library and websockets only. Rules: RFC 6455, sections 5.2 (layout) and 5.3 (a fresh, unpredictable mask a frame).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

try:
    from websockets.speedups import apply_mask
except ImportError:
    from websockets.utils import apply_mask

_POOL_BYTES = 4096
_FIN_BINARY, _MASKED = 0x82, 0x80
_TWO_BYTES, _EIGHT_BYTES = 126, 127


def _fresh_keys() -> Iterator[bytes]:
    """Four random bytes each; the system is asked for many at a time."""
    while True:
        pool = os.urandom(_POOL_BYTES)
        for start in range(0, _POOL_BYTES, 4):
            yield pool[start : start + 4]


_keys = _fresh_keys()


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
