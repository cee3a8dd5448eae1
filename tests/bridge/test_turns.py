from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceeval_engine.bridge.turns import Side, Speech, Turn, TurnTracker
from voiceeval_engine.bridge.words import join_words

TICK = 0.016


class Story:
    """What both sides do, told to a tracker tick by tick. `speech` and events may be planned in any order; `run` tells them."""

    def __init__(self) -> None:
        self.tracker = TurnTracker()
        self.settled: list[tuple[float, Turn]] = []
        self._speech: list[tuple[Side, float, float]] = []
        self._events: list[tuple[float, int, Side, str, str]] = []
        self._order = count()
        self._tick = 0

    def speech(self, side: Side, start: float, end: float) -> Story:
        self._speech.append((side, start, end))
        return self

    def event(self, side: Side, kind: str, at: float, text: str = "") -> Story:
        self._events.append((at, next(self._order), side, kind, text))
        return self

    def says(self, side: Side, start: float, end: float, text: str = "", *, stopped: float | None = 0.0) -> Story:
        """A whole utterance as a real server brings it: two 40 ms frames before "started", words after the audio."""
        self.speech(side, start, end).event(side, "started", start + 0.08)
        if text:
            self.event(side, "spoken", end, text)
        return self if stopped is None else self.event(side, "stopped", end + stopped)

    def run(self, until: float) -> Story:
        self._events.sort()
        while self._tick * TICK < until:
            now = self._tick * TICK
            while self._events and self._events[0][0] <= now:
                at, _, side, kind, text = self._events.pop(0)
                tell(self.tracker, side, kind, at, text)
            for side, start, end in self._speech:
                if start <= now < end:
                    self.tracker.on_speech(side, Speech(now, self._tick, now - 0.1, now - 0.1))
            self.settled += [(now, turn) for turn in self.tracker.advance(now, self._tick)]
            self._tick += 1
        return self

    def turns(self, until: float = 30.0) -> list[tuple[str, str]]:
        self.run(until)
        self.tracker.finish(until)
        return [(turn.side, turn.text) for turn in self.tracker.turns]

    def spans(self, until: float = 30.0) -> list[tuple[float, float]]:
        self.turns(until)
        return [(round(turn.start, 1), round(turn.end, 1)) for turn in self.tracker.turns]


def tell(tracker: TurnTracker, side: Side, kind: Any, at: float, text: str) -> None:
    if kind == "started":
        tracker.on_started(side, at)
    elif kind == "stopped":
        tracker.on_stopped(side, at)
    elif kind == "interrupted":
        tracker.on_interrupted(side)
    else:
        tracker.on_text(side, text, kind)


def test_events_assign_and_energy_dates_a_turn() -> None:
    story = Story().speech("agent", 1.0, 2.0).event("agent", "started", 0.7).event("agent", "stopped", 2.9)
    story.event("agent", "spoken", 2.5, "Hello.")
    assert story.turns() == [("agent", "Hello.")]
    turn = story.tracker.turns[0]
    assert (turn.start, turn.end) == (pytest.approx(1.0, abs=TICK), pytest.approx(2.0, abs=2 * TICK))
    assert (turn.start_tick, turn.end_tick) == (round(turn.start / TICK), round(turn.end / TICK))
    assert (turn.started, turn.stopped, turn.speech) == (0.7, 2.9, True)
    assert turn.arrived == turn.heard == pytest.approx(turn.start - 0.1)
    assert turn.last_arrived == pytest.approx(turn.end - 0.1)


def test_a_turn_settles_300_ms_after_it_stopped() -> None:
    story = Story().says("user", 1.0, 2.0, "Yes.").run(5.0)
    [(at, turn)] = story.settled
    assert at == pytest.approx(2.3, abs=3 * TICK)
    assert turn.text == "Yes."


@pytest.mark.parametrize("pause", [0.001, 0.1, 0.28])
def test_a_started_within_300_ms_of_the_stopped_continues_the_turn_and_takes_the_text_in_between(pause: float) -> None:
    story = Story().speech("agent", 1.0, 2.0).event("agent", "started", 1.08).event("agent", "stopped", 2.0)
    story.event("agent", "spoken", 2.0, "One.").event("agent", "started", 2.0 + pause).speech("agent", 2.0 + pause, 3.0)
    story.event("agent", "stopped", 3.0).event("agent", "spoken", 3.05, "Two.")
    assert story.turns() == [("agent", "One. Two.")]
    assert story.spans() == [(1.0, 3.0)]


def test_a_started_after_300_ms_begins_a_new_turn() -> None:
    story = Story().says("agent", 1.0, 2.0, "One.").says("agent", 2.4, 3.0, "Two.")
    assert story.turns() == [("agent", "One."), ("agent", "Two.")]


def test_speech_of_the_other_side_in_between_makes_two_turns_of_a_flap() -> None:
    story = Story().says("agent", 1.0, 2.0, "One.").speech("user", 2.05, 2.15).event("agent", "started", 2.25)
    story.speech("agent", 2.26, 3.0).event("agent", "stopped", 3.0).event("agent", "spoken", 3.0, "Two.")
    assert [each for each in story.turns() if each[0] == "agent"] == [("agent", "One."), ("agent", "Two.")]


def test_speech_of_the_other_side_in_between_makes_two_turns_even_where_audio_precedes_the_started() -> None:
    story = Story().says("agent", 1.0, 2.0, "One.").speech("user", 2.05, 2.15).says("agent", 2.18, 3.0, "Two.")
    assert [each for each in story.turns() if each[0] == "agent"] == [("agent", "One."), ("agent", "Two.")]
    assert [span for span, turn in zip(story.spans(), story.tracker.turns, strict=True) if turn.side == "agent"] == [
        (1.0, 2.0),
        (2.2, 3.0),
    ]


@pytest.mark.parametrize("pause", [0.1, 0.2, 0.25])
def test_a_long_sentence_behind_a_flap_with_early_audio_is_no_background_mixer(pause: float) -> None:
    story = Story().says("agent", 1.0, 2.0, "One.").says("agent", 2.0 + pause, 9.5, "Two.").says("user", 10.0, 11.0, "Fine.")
    story.says("agent", 11.6, 12.5, "Bye.")
    assert story.turns() == [("agent", "One. Two."), ("user", "Fine."), ("agent", "Bye.")]
    assert not story.tracker.measured_by_events("agent")
    assert story.spans() == [(1.0, 9.5), (10.0, 11.0), (11.6, 12.5)]


@pytest.mark.parametrize("silent", [0.0, 0.2])
def test_a_repeated_started_is_ignored_while_the_audio_was_silent_for_less_than_300_ms(silent: float) -> None:
    story = Story().speech("user", 1.0, 2.0).event("user", "started", 1.08).event("user", "started", 2.0 + silent)
    story.speech("user", 2.0 + silent, 3.0).event("user", "spoken", 3.0, "All of it.").event("user", "stopped", 3.0)
    assert story.turns() == [("user", "All of it.")]


def test_a_started_after_a_pause_closes_the_open_turn_and_the_audio_before_it_belongs_to_the_new_one() -> None:
    story = Story().speech("user", 1.0, 2.0).event("user", "started", 1.08).event("user", "spoken", 1.9, "One.")
    story.says("user", 2.6, 3.4, "Two.")
    assert story.turns() == [("user", "One."), ("user", "Two.")]
    assert story.spans() == [(1.0, 2.0), (2.6, 3.4)]


def test_a_turn_that_a_started_closes_is_told_like_one_that_time_closes() -> None:
    story = Story().speech("user", 1.0, 2.0).event("user", "started", 1.08).says("user", 2.6, 3.4).run(3.0)
    assert [(turn.side, turn.end) for _, turn in story.settled] == [("user", pytest.approx(2.0, abs=2 * TICK))]


def test_a_pause_inside_a_turn_does_not_end_it() -> None:
    story = Story().speech("user", 1.0, 1.5).speech("user", 2.4, 3.0).speech("user", 3.8, 4.0).event("user", "started", 1.08)
    story.event("user", "spoken", 4.0, "Well, I do not know.").event("user", "stopped", 4.0)
    assert story.turns() == [("user", "Well, I do not know.")]
    assert story.spans() == [(1.0, 4.0)]


def test_a_stopped_while_the_speech_goes_on_is_stale() -> None:
    story = Story().speech("agent", 1.0, 4.0).event("agent", "started", 1.08).event("agent", "stopped", 2.0)
    story.event("agent", "spoken", 3.9, "Long.").event("agent", "stopped", 4.0)
    assert story.turns() == [("agent", "Long.")]
    assert story.spans() == [(1.0, 4.0)]
    assert story.tracker.turns[0].stopped == 4.0


@pytest.mark.parametrize("late", [0.35, 1.0, 8.0])
def test_a_late_stopped_changes_neither_the_dates_nor_the_turn_it_falls_into(late: float) -> None:
    story = Story()
    for index in range(3):
        story.says("agent", 1.0 + 6 * index, 3.0 + 6 * index, f"Agent {index}.", stopped=late)
        story.says("user", 3.6 + 6 * index, 6.4 + 6 * index, f"User {index}.", stopped=late)
    assert sorted(story.turns()) == sorted((side, f"{side.title()} {i}.") for side in ("agent", "user") for i in range(3))
    assert sorted(story.spans()) == [(1.0, 3.0), (3.6, 6.4), (7.0, 9.0), (9.6, 12.4), (13.0, 15.0), (15.6, 18.4)]


@pytest.mark.parametrize("offset", [-0.3, 0.0, 0.05, 0.2, 0.4, 0.6])
def test_a_stopped_that_comes_in_a_pause_of_the_next_turn_does_not_end_that(offset: float) -> None:
    story = Story().says("agent", 1.0, 2.0, "One.", stopped=8.0 + offset).says("user", 2.6, 8.0, "Hm.")
    story.speech("agent", 9.0, 10.0).event("agent", "started", 9.08).speech("agent", 10.5, 11.5)
    story.event("agent", "spoken", 11.5, "Two, with a pause.").event("agent", "stopped", 11.5 + 8.0)
    assert story.turns() == [("agent", "One."), ("user", "Hm."), ("agent", "Two, with a pause.")]
    assert story.spans() == [(1.0, 2.0), (2.6, 8.0), (9.0, 11.5)]


def test_a_turn_that_never_stops_is_closed_after_2_s_of_silence_when_the_other_side_speaks() -> None:
    story = Story().says("agent", 1.0, 2.0, "Anyone?", stopped=None).says("user", 3.0, 3.5).says("user", 6.0, 7.0, "Yes.")
    story.run(5.9)
    assert [turn.side for _, turn in story.settled] == ["user"]
    story.run(10.0)
    assert [(round(at, 1), turn.side) for at, turn in story.settled] == [(3.8, "user"), (6.0, "agent"), (7.3, "user")]


def test_bots_that_never_stop_take_turns_all_the_same() -> None:
    story = Story()
    for index in range(4):
        story.says("agent", 1.0 + 5 * index, 2.0 + 5 * index, f"A{index}", stopped=None)
        story.says("user", 3.0 + 5 * index, 5.0 + 5 * index, f"U{index}", stopped=None)
    assert sorted(story.turns()) == [(side, f"{side[0].upper()}{index}") for side in ("agent", "user") for index in range(4)]


def test_one_lost_stopped_costs_no_later_turn_its_text_or_dates() -> None:
    story = Story().says("agent", 1.0, 2.0, "One.", stopped=None)
    for index in range(1, 4):
        story.says("user", 4 * index - 1.0, 4 * index + 0.2, f"U{index}.").says(
            "agent", 4 * index + 1.0, 4 * index + 2.0, f"A{index}."
        )
    assert sorted(story.turns()) == sorted(
        [("agent", "One."), *[("user", f"U{i}.") for i in (1, 2, 3)], *[("agent", f"A{i}.") for i in (1, 2, 3)]]
    )
    assert sorted(story.spans())[0] == (1.0, 2.0)


def test_a_side_that_never_starts_gets_turns_by_energy_with_600_ms_of_hang_over() -> None:
    story = Story().speech("user", 1.0, 1.5).speech("user", 2.0, 2.5).event("user", "spoken", 2.5, "One turn.")
    story.speech("user", 3.2, 4.0).event("user", "spoken", 4.0, "Another.")
    assert story.turns() == [("user", "One turn."), ("user", "Another.")]
    assert story.spans() == [(1.0, 2.5), (3.2, 4.0)]
    assert [round(at, 1) for at, _ in story.settled] == [3.1, 4.6]


def test_a_side_that_never_starts_may_say_stopped_without_effect() -> None:
    story = Story().speech("user", 1.0, 2.0).event("user", "stopped", 2.0).event("user", "spoken", 2.0, "Hi.")
    story.speech("user", 4.0, 5.0).event("user", "stopped", 5.3)
    assert story.turns() == [("user", "Hi."), ("user", "[INTERRUPTED]")]


def test_speech_long_before_a_started_belongs_to_no_turn_of_a_side_that_says_started() -> None:
    story = Story().says("user", 1.0, 2.0, "Hi.").speech("user", 4.0, 4.2).says("user", 6.0, 7.0, "Again.")
    assert story.turns() == [("user", "Hi."), ("user", "Again.")]
    assert story.spans() == [(1.0, 2.0), (6.0, 7.0)]


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (("spoken", "output", "transcription"), "spoken"),
        (("transcription", "output"), "output"),
        (("transcription",), "transcription"),
        ((), "[INTERRUPTED]"),
    ],
)
def test_text_falls_back_from_spoken_words_to_output_to_transcription(kinds: tuple[str, ...], expected: str) -> None:
    story = Story().speech("agent", 1.0, 2.0).event("agent", "started", 1.08).event("agent", "stopped", 2.0)
    for kind in kinds:
        story.event("agent", kind, 1.5, kind)
    assert story.turns() == [("agent", expected)]


def test_spoken_white_space_alone_is_no_text() -> None:
    story = Story().says("agent", 1.0, 2.0, "  ").event("agent", "output", 1.5, "Really said.")
    assert story.turns() == [("agent", "Really said.")]


def announced(*sentences: str, start: float = 1.0, kind: str = "spoken") -> Story:
    """An agent's turn as a Pipecat server brings it whose voice ends each sentence itself: told after "stopped", at the next "started"."""
    story, at = Story(), start
    for index, sentence in enumerate(sentences):
        story.speech("agent", at, at + 1.0).event("agent", "started", at + 0.04)
        if index:
            story.event("agent", kind, at + 0.04, sentences[index - 1])
        story.event("agent", "announced", at + 0.04, sentence).event("agent", "stopped", at + 1.0)
        at += 1.0
    return story


@pytest.mark.parametrize("kind", ["spoken", "output"])
def test_a_sentence_that_a_server_tells_only_when_it_speaks_again_belongs_to_the_turn_in_which_it_was_spoken(kind: str) -> None:
    story = announced("One.", "Two.", kind=kind).says("user", 4.0, 5.0, "Um.")
    story.speech("agent", 6.0, 7.0).event("agent", "started", 6.04).event("agent", kind, 6.04, "Two.")
    story.event("agent", "announced", 6.04, "Three.").event("agent", "stopped", 7.0)
    assert story.turns() == [("agent", "One. Two."), ("user", "Um."), ("agent", "Three.")]
    assert [turn.text for _, turn in story.settled] == ["One. Two.", "Um.", "Three."], "at once, not when the words come"


def test_a_sentence_said_twice_and_told_late_is_two_turns() -> None:
    story = announced("Yes.").says("user", 3.0, 4.0, "Sure?").speech("agent", 5.0, 6.0).event("agent", "started", 5.04)
    story.event("agent", "spoken", 5.04, "Yes.").event("agent", "announced", 5.04, "Yes.").event("agent", "stopped", 6.0)
    assert story.turns() == [("agent", "Yes."), ("user", "Sure?"), ("agent", "Yes.")]


def test_words_that_were_owed_and_never_came_take_none_from_the_next_turn() -> None:
    story = announced("Yes.").says("user", 3.0, 4.0, "Sure?").speech("agent", 5.0, 6.0).event("agent", "started", 5.04)
    story.event("agent", "announced", 5.04, "Yes.").event("agent", "spoken", 5.9, "Yes.").event("agent", "spoken", 5.95, "Bye.")
    assert story.event("agent", "stopped", 6.0).turns() == [("agent", "Yes."), ("user", "Sure?"), ("agent", "Yes. Bye.")]


def test_a_last_word_that_comes_after_its_turn_belongs_to_it() -> None:
    story = announced("Thank you.").event("agent", "spoken", 1.5, "Thank").says("user", 3.0, 4.0, "Um.")
    story.event("agent", "spoken", 5.04, "you.").says("agent", 5.0, 6.0, "Bye.")
    assert story.turns() == [("agent", "Thank you."), ("user", "Um."), ("agent", "Bye.")]


def test_an_interrupted_sentence_was_not_said_and_one_interrupted_after_its_end_was() -> None:
    cut = announced("One.", "Two.").event("agent", "interrupted", 2.5)
    assert cut.turns() == [("agent", "One.")]
    assert announced("One.", "Two.").event("agent", "interrupted", 3.1).turns() == [("agent", "One. Two.")]
    unstopped = Story().speech("agent", 1.0, 2.0).event("agent", "started", 1.04).event("agent", "announced", 1.04, "One.")
    unstopped.event("agent", "interrupted", 2.8).event("agent", "stopped", 2.8)
    assert unstopped.turns() == [("agent", "One.")]


def test_what_was_announced_and_told_otherwise_is_as_it_was_told() -> None:
    story = announced("It is $5.").event("agent", "spoken", 1.9, "It is five dollars.")
    assert story.turns() == [("agent", "It is five dollars.")]


def test_what_was_announced_and_not_heard_is_no_text() -> None:
    story = Story().event("agent", "started", 1.0).event("agent", "announced", 1.0, "One.").event("agent", "stopped", 2.0)
    assert story.turns() == []


@pytest.mark.parametrize("kind", ["spoken", "output", "transcription"])
def test_text_with_no_turn_open_belongs_to_the_next_turn_of_that_side(kind: str) -> None:
    story = Story().says("agent", 1.0, 2.0, "One.").event("agent", kind, 4.0, "Early.").says("user", 4.5, 5.0, "Um.")
    story.speech("agent", 6.0, 7.0).event("agent", "started", 6.08).event("agent", "stopped", 7.0)
    assert story.turns() == [("agent", "One."), ("user", "Um."), ("agent", "Early.")]


def test_text_with_no_turn_after_it_is_a_turn_at_the_end() -> None:
    story = Story().event("user", "spoken", 3.0, "Never voiced.")
    assert story.turns(5.0) == [("user", "Never voiced.")]
    assert not story.tracker.turns[0].speech
    assert story.tracker.turns[0].start == pytest.approx(3.0, abs=2 * TICK)


def test_an_open_turn_with_speech_or_text_is_a_turn_at_the_end() -> None:
    speaking = Story().speech("agent", 1.0, 9.0).event("agent", "started", 1.08).speech("user", 1.5, 3.0)
    assert sorted(speaking.turns(2.0)) == [("agent", "[INTERRUPTED]"), ("user", "[INTERRUPTED]")]
    wordy = Story().event("agent", "started", 1.0).event("agent", "spoken", 1.5, "Words.")
    assert wordy.turns(2.0) == [("agent", "Words.")]


def test_no_text_and_no_speech_is_no_turn() -> None:
    assert Story().event("agent", "started", 1.0).event("agent", "stopped", 2.0).turns() == []
    assert Story().event("agent", "started", 1.0).turns() == []
    assert Story().event("agent", "spoken", 1.0, "").event("agent", "spoken", 1.0, " ").turns() == []


def test_a_turn_with_text_and_no_speech_is_dated_by_its_events() -> None:
    story = Story().event("agent", "started", 1.0).event("agent", "spoken", 1.5, "Mute.").event("agent", "stopped", 2.0)
    assert story.turns() == [("agent", "Mute.")]
    turn = story.tracker.turns[0]
    assert not turn.speech
    assert (turn.start, turn.end) == (pytest.approx(1.0, abs=2 * TICK), pytest.approx(2.0, abs=2 * TICK))
    assert turn.end_tick == pytest.approx(2.0 / TICK, abs=2)


def test_both_sides_may_speak_at_once() -> None:
    story = Story().says("agent", 1.0, 5.0, "A long story.").says("user", 2.0, 3.0, "Wait!")
    assert sorted(story.turns()) == [("agent", "A long story."), ("user", "Wait!")]
    assert sorted(story.spans()) == [(1.0, 5.0), (2.0, 3.0)]


def test_a_background_mixer_is_measured_by_its_events() -> None:
    story = Story().speech("agent", 0.0, 40.0)
    for start in (6.0, 12.0, 18.0):
        story.event("agent", "started", start).event("agent", "spoken", start + 2, f"At {start:g}.")
        story.event("agent", "stopped", start + 2).says("user", start + 3, start + 4, f"After {start:g}.")
    assert sorted(story.turns()) == sorted(
        [(side, f"{word} {at}.") for side, word in (("agent", "At"), ("user", "After")) for at in (6, 12, 18)]
    )
    assert story.tracker.measured_by_events("agent")
    assert not story.tracker.measured_by_events("user")
    agent = [turn for turn in story.tracker.turns if turn.side == "agent"]
    assert [(round(turn.start), round(turn.end)) for turn in agent] == [(6, 8), (12, 14), (18, 20)]
    assert not any(turn.speech for turn in agent)


def test_a_mixer_that_begins_with_the_first_turn_is_found_out_by_the_stopped_that_it_ignores() -> None:
    story = Story().speech("agent", 1.0, 40.0)
    for start in (1.0, 11.0, 18.0):
        story.event("agent", "started", start + 0.08).event("agent", "spoken", start + 2, f"At {start:g}.")
        story.event("agent", "stopped", start + 2)
    assert story.turns() == [("agent", "At 1."), ("agent", "At 11."), ("agent", "At 18.")]
    assert story.tracker.measured_by_events("agent")
    assert [(round(turn.start), round(turn.end)) for turn in story.tracker.turns] == [(1, 3), (11, 13), (18, 20)]


def test_long_speech_inside_a_turn_is_no_background_mixer() -> None:
    story = Story().says("agent", 1.0, 21.0, "A sermon.")
    assert story.turns() == [("agent", "A sermon.")]
    assert not story.tracker.measured_by_events("agent")
    assert story.spans() == [(1.0, 21.0)]


def test_a_side_is_speaking_for_a_tenth_of_a_second_after_its_speech() -> None:
    story = Story().speech("user", 1.0, 2.0).run(2.05)
    assert story.tracker.speaking("user")
    assert not story.tracker.speaking("agent")
    story.run(2.2)
    assert not story.tracker.speaking("user")


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["Hello", "there", "."], "Hello there."),
        (["Hello ", "there", "."], "Hello there."),
        (["Hel", "lo ", "there"], "Hello there"),
        ([" Hello", " there"], "Hello there"),
        (["Hello.", "How are you", "?", "Fine", ",", "thanks", "!"], "Hello. How are you? Fine, thanks!"),
        (["你", "好", "。", "再见"], "你好。再见"),
        (["买", "coffee", "吧"], "买 coffee 吧"),
        (["It", "’s", "50", "%", "(", "or", "so", ")"], "It’s 50% ( or so)"),
        (["\n"], ""),
        (["", "", "a"], "a"),
        ([], ""),
    ],
)
def test_words_are_joined_as_they_were_meant(pieces: list[str], text: str) -> None:
    assert join_words(pieces) == text


@given(st.lists(st.text(max_size=8), max_size=8))
def test_joining_loses_no_character_but_outer_white_space(pieces: list[str]) -> None:
    def bare(text: str) -> str:
        return "".join(text.split())

    joined = join_words(pieces)
    assert bare(joined) == bare("".join(pieces))
    assert joined == joined.strip()


SIDES = st.sampled_from(["agent", "user"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("speech"), SIDES, st.floats(0.016, 7.0)),
        st.tuples(st.just("speech"), SIDES, st.floats(0.016, 0.5)),
        st.tuples(st.sampled_from(["started", "stopped", "spoken", "output", "transcription"]), SIDES, st.just(0.0)),
        st.tuples(st.just("wait"), SIDES, st.floats(0.001, 3.0)),
        st.tuples(st.just("wait"), SIDES, st.floats(0.001, 0.4)),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_whatever_comes_no_turn_ends_before_it_starts_and_every_word_is_in_exactly_one(
    steps: list[tuple[str, Side, float]],
) -> None:
    story, now, words = Story(), 0.1, []
    for index, (what, side, seconds) in enumerate(steps):
        if what == "speech":
            story.speech(side, now, now + seconds)
        elif what == "wait":
            now += seconds
        else:
            text = f"w{index}" if what in ("spoken", "output", "transcription") else ""
            words += [(side, text)] if what == "spoken" else []
            story.event(side, what, now, text)
    end = now + 1.0
    story.run(end)
    added = story.tracker.finish(end)
    assert [turn for _, turn in story.settled] + added == story.tracker.turns
    assert story.tracker.finish(end + 1.0) == []
    for turn in story.tracker.turns:
        assert 0 <= turn.start <= turn.end <= end
        assert 0 <= turn.start_tick <= turn.end_tick
        assert turn.text
    told = Counter((turn.side, word) for turn in story.tracker.turns for word in turn.text.split())
    assert {key: told[key] for key in words} == dict.fromkeys(words, 1)
