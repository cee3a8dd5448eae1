from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.bots import voice

TEXTS = st.lists(st.from_regex(r"[A-Za-z]{1,9}[,.!?]{0,3}", fullmatch=True), min_size=1, max_size=12).map(" ".join)
RATES = st.sampled_from([8000, 16000, 24000, 48000])


def samples(text: str, rate: int = 24000, side: str = "agent") -> np.ndarray:
    return np.frombuffer(voice.speak(text, voice.TIMBRES[side], rate), dtype="<i2") / 32768


def dbfs(part: np.ndarray) -> float:
    return 20 * float(np.log10(np.abs(part).max() + 1e-9))


def test_the_same_text_sounds_the_same_and_the_two_sides_differ() -> None:
    first = voice.speak("Good morning to you.", voice.TIMBRES["agent"], 24000)
    voice.speak.cache_clear()
    assert voice.speak("Good morning to you.", voice.TIMBRES["agent"], 24000) == first
    assert voice.speak("Good morning to you.", voice.TIMBRES["user"], 24000) != first


@given(TEXTS, RATES, st.sampled_from(["agent", "user"]))
def test_speech_begins_and_ends_loud_and_peaks_near_minus_12_dbfs(text: str, rate: int, side: str) -> None:
    sound = samples(text, rate, side)
    edge = rate * 16 // 1000
    assert dbfs(sound[:edge]) > -40
    assert dbfs(sound[-edge:]) > -40
    assert -18 < dbfs(sound) < -11.5


@given(TEXTS)
def test_no_pause_inside_a_text_reaches_250_ms(text: str) -> None:
    loud = np.flatnonzero(np.abs(samples(text)) > 32 / 32768)
    assert int(np.diff(loud).max(initial=0)) < 0.2 * 24000


@pytest.mark.parametrize(
    "text", ["One short line.", "A rather longer line, with a comma in it, and quite a few more words than that."]
)
def test_length_follows_the_text_at_14_to_16_characters_a_second(text: str) -> None:
    assert 14 <= len(text) / (samples(text).size / 24000) <= 16


@given(st.text(max_size=800))
def test_sentences_keep_every_word_and_none_is_long(text: str) -> None:
    found = voice.sentences(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(part and part == part.strip() and len(part) <= 240 for part in found)


def test_text_without_letters_is_silent() -> None:
    assert voice.speak("... !?", voice.TIMBRES["user"], 16000) == b""
