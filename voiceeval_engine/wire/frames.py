"""The binary frames of the wire: protobuf package `pipecat`, one `Frame` per WebSocket message.

The schema is built at run time in a descriptor pool of its own, because an installed pipecat registers the same package in the
default pool and a second one there raises. May import the standard library and protobuf only. Rule: wire page, "Frames".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

_STRING, _BYTES = 9, 12
_UINT64, _UINT32, _MESSAGE = 4, 13, 11
_BODIES = {
    "TextFrame": [("id", 1, _UINT64), ("name", 2, _STRING), ("text", 3, _STRING)],
    "AudioRawFrame": [
        ("id", 1, _UINT64),
        ("name", 2, _STRING),
        ("audio", 3, _BYTES),
        ("sample_rate", 4, _UINT32),
        ("num_channels", 5, _UINT32),
        ("pts", 6, _UINT64),
    ],
    "TranscriptionFrame": [
        ("id", 1, _UINT64),
        ("name", 2, _STRING),
        ("text", 3, _STRING),
        ("user_id", 4, _STRING),
        ("timestamp", 5, _STRING),
    ],
    "MessageFrame": [("data", 1, _STRING)],
    "InterruptionFrame": [("id", 1, _UINT64), ("name", 2, _STRING)],
}
_FRAME_FIELDS = [
    ("text", 1, "TextFrame"),
    ("audio", 2, "AudioRawFrame"),
    ("transcription", 3, "TranscriptionFrame"),
    ("message", 4, "MessageFrame"),
    ("interruption", 5, "InterruptionFrame"),
]


def _build_frame_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="voiceeval/frames.proto", package="pipecat", syntax="proto3")
    for name, fields in _BODIES.items():
        body = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            field = body.field.add(name=field_name, number=number, label=1)
            field.type = kind  # type: ignore[assignment]
            if field_name == "pts":
                field.proto3_optional = True
                field.oneof_index = 0
                body.oneof_decl.add(name="_pts")
    frame = file.message_type.add(name="Frame")
    frame.oneof_decl.add(name="frame")
    for field_name, number, type_name in _FRAME_FIELDS:
        field = frame.field.add(name=field_name, number=number, label=1, type_name=f".pipecat.{type_name}", oneof_index=0)
        field.type = _MESSAGE  # type: ignore[assignment]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("pipecat.Frame"))


_Frame = _build_frame_class()


class BadFrame(Exception):
    """Bytes that are no `pipecat.Frame`, or an empty one; the message says which."""


class AudioFrame(NamedTuple):
    """16-bit signed little-endian PCM, interleaved; `rate` in Hz. Values are as received: callers check them."""

    pcm: bytes
    rate: int
    channels: int


@dataclass(frozen=True, slots=True)
class MessageFrame:
    """`text` is the JSON text of one RTVI message."""

    text: str


@dataclass(frozen=True, slots=True)
class InterruptionFrame:
    """The sender drops what it was saying; what has not been played out yet is void."""


@dataclass(frozen=True, slots=True)
class OtherFrame:
    """A frame that is valid and of no use to us (`text`, `transcription`); `kind` names it."""

    kind: str


AnyFrame = AudioFrame | MessageFrame | InterruptionFrame | OtherFrame


def encode_audio(pcm: bytes, rate: int, channels: int = 1) -> bytes:
    """One audio frame, ready to be sent."""
    frame = _Frame()
    audio = frame.audio
    audio.audio = pcm
    audio.sample_rate = rate
    audio.num_channels = channels
    return bytes(frame.SerializeToString())


class AudioEncoder:
    """Makes frames like those of `encode_audio`, for `size` bytes of PCM each: all but the PCM is made once, in advance."""

    def __init__(self, size: int, rate: int, channels: int = 1) -> None:
        self._tail = encode_audio(b"", rate, channels)[2:]
        self._head = encode_audio(bytes(size), rate, channels)[: -size - len(self._tail)]

    def encode(self, pcm: bytes) -> bytes:
        """One frame; `pcm` must have the size that was told."""
        return self._head + pcm + self._tail


def encode_message(text: str) -> bytes:
    """One RTVI message (JSON text) as a frame; lone surrogates are replaced, they cannot be encoded."""
    frame = _Frame()
    frame.message.data = text.encode("utf-8", "replace").decode("utf-8")
    return bytes(frame.SerializeToString())


def encode_interruption() -> bytes:
    """An interruption frame."""
    frame = _Frame()
    frame.interruption.SetInParent()
    return bytes(frame.SerializeToString())


def decode(data: bytes) -> AnyFrame:
    """Read one frame; raises BadFrame for anything that is none."""
    frame = _Frame()
    try:
        frame.ParseFromString(data)
    except DecodeError as error:
        raise BadFrame(f"not a pipecat frame ({len(data)} bytes): {error}") from error
    kind = frame.WhichOneof("frame")
    if kind == "audio":
        audio = frame.audio
        return AudioFrame(audio.audio, audio.sample_rate, audio.num_channels)
    if kind == "message":
        return MessageFrame(frame.message.data)
    if kind == "interruption":
        return InterruptionFrame()
    if kind is None:
        raise BadFrame(f"an empty frame ({len(data)} bytes)")
    return OtherFrame(str(kind))
