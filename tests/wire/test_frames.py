from __future__ import annotations

import contextlib

import pytest
from google.protobuf import descriptor_pool
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.wire.frames import (
    AudioEncoder,
    AudioFrame,
    BadFrame,
    InterruptionFrame,
    MessageFrame,
    OtherFrame,
    decode,
    encode_audio,
    encode_interruption,
    encode_message,
)


def field(number: int, value: int | bytes) -> bytes:
    """One protobuf field, written by hand: a varint or length-delimited bytes."""
    if isinstance(value, int):
        return bytes([number << 3]) + varint(value)
    return bytes([number << 3 | 2]) + varint(len(value)) + value


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def test_frames_are_the_bytes_that_the_schema_says() -> None:
    assert encode_audio(b"\x01\x02", 16000, 2) == field(2, field(3, b"\x01\x02") + field(4, 16000) + field(5, 2))
    assert encode_message("{}") == field(4, field(1, b"{}"))
    assert encode_interruption() == field(5, b"")


def test_every_kind_of_frame_is_read() -> None:
    audio = field(1, 77) + field(2, b"name") + field(3, b"\x01\x02") + field(4, 48000) + field(5, 1) + field(6, 2**40)
    assert decode(field(2, audio)) == AudioFrame(b"\x01\x02", 48000, 1)
    assert decode(field(4, field(1, b"{}"))) == MessageFrame("{}")
    assert decode(field(5, field(1, 9) + field(2, b"stop"))) == InterruptionFrame()
    assert decode(field(1, field(3, b"hi"))) == OtherFrame("text")
    assert decode(field(3, field(3, b"hi") + field(4, b"u"))) == OtherFrame("transcription")


def test_fields_of_a_later_schema_are_passed_over() -> None:
    assert decode(field(2, field(3, b"\x01\x02") + field(4, 8000) + field(5, 1) + field(15, b"new"))) == AudioFrame(
        b"\x01\x02", 8000, 1
    )


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"\xff\xff\xff\xff", b"hello", field(4, field(1, b"\xff\xfe")), field(9, b"x"), b"\x12\x05"]
)
def test_what_is_no_frame_is_refused_with_its_size(data: bytes) -> None:
    with pytest.raises(BadFrame, match=f"{len(data)} bytes"):
        decode(data)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(BadFrame):
        decode(data)


@given(st.binary(), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_audio_comes_back_as_it_went(pcm: bytes, rate: int, channels: int) -> None:
    assert decode(encode_audio(pcm, rate, channels)) == AudioFrame(pcm, rate, channels)


@given(st.binary(min_size=1, max_size=70_000), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_an_encoder_for_one_size_makes_the_same_frames(pcm: bytes, rate: int, channels: int) -> None:
    assert AudioEncoder(len(pcm), rate, channels).encode(pcm) == encode_audio(pcm, rate, channels)


@given(st.text())
def test_messages_come_back_as_they_went(text: str) -> None:
    assert decode(encode_message(text)) == MessageFrame(text)


def test_a_lone_surrogate_does_not_stop_a_message() -> None:
    assert decode(encode_message("a\ud800b")) == MessageFrame("a?b")


def test_the_schema_leaves_the_default_pool_to_an_installed_pipecat() -> None:
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("pipecat.Frame")
