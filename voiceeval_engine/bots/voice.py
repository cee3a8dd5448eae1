"""A synthetic voice: speech-like, the same bytes for the same text, timbre and rate, and cheap.

Every letter is a vowel-like piece of a wave table that holds the timbre's pitch shaped by that letter's formants; words are runs of
letters, spaces and punctuation are short pauses. About 14.5 letters a second. First and last sample of a text are loud, so its
length can be measured by energy to the frame. May import numpy and the standard library only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

CHARACTERS_PER_SECOND = 14.5
PEAK = 0.25
"""-12 dBFS."""
MAX_PAUSE = 0.18
"""The longest pause (s) inside a text, whatever its punctuation."""

_TABLE = 1024
_EDGE = 0.0015
_FORMANTS = ((730.0, 1090.0), (530.0, 1840.0), (390.0, 1990.0), (570.0, 840.0), (440.0, 1020.0), (300.0, 870.0), (640.0, 1190.0))
_PART = re.compile(r"\w+(?:['’]\w+)*|[^\w]+", re.UNICODE)
_SENTENCE = re.compile(r"[^.!?]+[.!?]*\s*|[.!?]+\s*")
_MAX_SENTENCE = 240

Samples = NDArray[np.float32]


@dataclass(frozen=True)
class Timbre:
    """A side's voice: pitch in Hz and how much its pitch moves along a text (0 to 1)."""

    pitch: float
    melody: float


TIMBRES = {"agent": Timbre(118.0, 0.10), "user": Timbre(204.0, 0.16)}


def sentences(text: str) -> list[str]:
    """The sentences of `text`, none longer than 240 characters, none empty, white space at the edges removed."""
    found: list[str] = []
    for match in _SENTENCE.finditer(text):
        rest = match.group().strip()
        while len(rest) > _MAX_SENTENCE:
            cut = rest.rfind(" ", 1, _MAX_SENTENCE)
            cut = _MAX_SENTENCE if cut < 0 else cut
            found.append(rest[:cut].strip())
            rest = rest[cut:].strip()
        if rest:
            found.append(rest)
    return found


@lru_cache(maxsize=24)
def speak(text: str, timbre: Timbre, rate: int) -> bytes:
    """One sentence as 16-bit mono PCM at `rate` Hz, loud from its first to its last sample; empty for text without letters."""
    parts = _PART.findall(text)
    while parts and not parts[0][0].isalnum():
        parts.pop(0)
    while parts and not parts[-1][0].isalnum():
        parts.pop()
    if not parts:
        return b""
    position = 0
    pieces: list[Samples] = []
    for part in parts:
        if part[0].isalnum():
            pieces.append(_word(part, timbre, rate, position))
        else:
            pieces.append(np.zeros(round(min(len(part) / CHARACTERS_PER_SECOND, MAX_PAUSE) * rate), dtype=np.float32))
        position += len(part)
    return (np.concatenate(pieces) * 32767.0).astype("<i2").tobytes()


def _word(word: str, timbre: Timbre, rate: int, position: int) -> Samples:
    samples = round(rate / CHARACTERS_PER_SECOND)
    count = samples * len(word)
    rise = 1.0 + timbre.melody * float(np.sin(position * 0.37))
    phase = np.arange(count, dtype=np.float64) * (timbre.pitch * rise * _TABLE / rate)
    indexes = phase.astype(np.int64) % _TABLE
    tables = np.stack([_table(timbre, ord(letter) % len(_FORMANTS)) for letter in word])
    raw = tables[np.repeat(np.arange(len(word)), samples), indexes]
    swell = 0.75 + 0.25 * np.cos(np.arange(count, dtype=np.float32) * np.float32(2 * np.pi / (2.5 * samples)))
    sound: Samples = (raw * swell).astype(np.float32)
    edge = max(2, round(_EDGE * rate))
    ramp = np.linspace(0.1, 1.0, edge, dtype=np.float32)
    sound[:edge] *= ramp
    sound[-edge:] *= ramp[::-1]
    return sound


@lru_cache(maxsize=64)
def _table(timbre: Timbre, vowel: int) -> Samples:
    """One period of the voice on `_TABLE` points, its peak at PEAK; harmonics end at 3.4 kHz, below half of any rate in use."""
    angle = np.arange(_TABLE) * (2 * np.pi / _TABLE)
    wave = np.zeros(_TABLE)
    for harmonic in range(1, int(3400 / (timbre.pitch * (1 + timbre.melody))) + 1):
        frequency = harmonic * timbre.pitch
        gain = sum(1.0 / (1.0 + ((frequency - formant) / 120.0) ** 2) for formant in _FORMANTS[vowel]) + 0.02
        wave += gain / harmonic**0.5 * np.sin(harmonic * angle + harmonic * harmonic * 0.7)
    table: Samples = (wave * (PEAK / np.max(np.abs(wave)))).astype(np.float32)
    return table
