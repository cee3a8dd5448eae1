"""Turns: a bot's events say whose words they are and where a turn ends, the energy of its audio says when.

Everything comes in the order in which the listener gets it: the play-out keeps events in their place between the audio, so a bot
that sends faster than real time is read like one that does not. Times are s on the conversation's clock (0 = first tick); `tick`
counts the recording's frames. Plain values in, plain values out. May import session's models and `words`. Rule: wire page, "Turns".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from voiceeval_engine.bridge.words import Owed, join_words, untold
from voiceeval_engine.session.metrics import INTERRUPTED

Side = Literal["agent", "user"]
TextKind = Literal["spoken", "output", "transcription", "announced"]

SETTLE = 0.300
ENERGY_HANGOVER = 0.600
ABANDONED = 2.0
MIXER = 5.0
_STILL_SPEAKING = 0.1


class Speech(NamedTuple):
    """One piece of speech that was sent on at `sent` in frame `tick`; it had `arrived`, and was to be `heard`, before."""

    sent: float
    tick: int
    arrived: float
    heard: float


@dataclass(frozen=True, slots=True)
class Turn:
    """One side's finished turn. `start`/`end` are the first and last speech frame sent on; `speech` is false where only events
    date it. `heard` is when its first speech would have been heard without any buffer, `arrived` and `last_arrived` are when its
    first and last speech came in. `started`/`stopped` are the bot's own events as they arrived, None where there was none.
    """

    side: Side
    text: str
    start: float
    end: float
    start_tick: int
    end_tick: int
    speech: bool
    arrived: float
    heard: float
    last_arrived: float
    started: float | None
    stopped: float | None
    measured: bool = True
    """Whether there is a moment to measure from: a turn of text alone, that nobody heard, has none."""


@dataclass(slots=True)
class _Span:
    """Speech without a long pause, or all speech of one segment."""

    first: Speech
    last: Speech

    def add(self, speech: Speech) -> None:
        self.last = speech


@dataclass(slots=True)
class _Dispute:
    """A "stopped" that speech followed: stale, unless a "started" shows that the speech begins another turn."""

    since: float
    stopped: float | None
    last: Speech
    after: _Span
    parted: bool
    """The other side spoke between the "stopped" and that speech."""


@dataclass(slots=True)
class _Segment:
    opened: float
    tick: int
    started: float | None
    span: _Span | None = None
    stopped: float | None = None
    closing_since: float | None = None
    closing_tick: int = 0
    disputed: _Dispute | None = None
    spoken: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    transcriptions: list[str] = field(default_factory=list)
    announced: list[str] = field(default_factory=list)
    interrupted: bool = False

    def add(self, span: _Span) -> None:
        if self.span is None:
            self.span = span
        else:
            self.span.add(span.last)


@dataclass(slots=True)
class _SideState:
    says_started: bool = False
    by_events: bool = False
    segment: _Segment | None = None
    loose: _Span | None = None
    last_speech: float = float("-inf")
    owed_stops: int = 0
    """Turns that were closed without their "stopped": a bot that sends it late still will."""
    passed_over: float = float("-inf")
    early: _Segment | None = None
    """Text that came with no turn open; the side's next turn takes it."""
    owed_words: dict[TextKind, Owed] = field(default_factory=dict)
    """What of the last turn's text is still to come, by the kind it comes as."""


class TurnTracker:
    """Feed it one conversation in listening order; `turns` holds what is settled, `finish` settles the rest."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self._sides: dict[Side, _SideState] = {"agent": _SideState(), "user": _SideState()}
        self._now = 0.0
        self._tick = 0
        self._told = 0

    def measured_by_events(self, side: Side) -> bool:
        """Whether the side's audio never rests (a background mixer), so that only its events can date its turns."""
        return self._sides[side].by_events

    def speaking(self, side: Side) -> bool:
        """Whether speech of this side was sent on within the last tenth of a second."""
        return self._now - self._last_speech(side) < _STILL_SPEAKING

    def on_speech(self, side: Side, speech: Speech) -> None:
        """A piece of the side's speech was sent on."""
        state = self._sides[side]
        segment = state.segment
        pause = speech.sent - state.last_speech
        state.last_speech = speech.sent
        if state.by_events:
            return
        if segment is None:
            self._add_loose(state, speech)
        elif segment.span is None:
            segment.span = _Span(speech, speech)
        elif pause < SETTLE and state.loose is None:
            since, stopped = segment.closing_since, segment.stopped
            if segment.disputed is not None:
                segment.disputed.after.add(speech)
            elif since is not None:
                parted = self._last_speech(_other(side)) > since
                segment.disputed = _Dispute(since, stopped, segment.span.last, _Span(speech, speech), parted)
            segment.closing_since = segment.stopped = None
            segment.span.add(speech)
        else:
            self._add_loose(state, speech)

    def on_started(self, side: Side, at: float) -> None:
        """`bot-started-speaking`, which arrived at `at`."""
        state = self._sides[side]
        state.says_started = True
        if state.loose is not None and state.loose.last.sent - state.loose.first.sent > MIXER:
            state.by_events, state.loose = True, None
        segment = state.segment
        if segment is not None and segment.disputed is not None and self._now - segment.disputed.since < 2 * SETTLE:
            if segment.disputed.parted:
                state.loose = self._cut_back(segment)
            segment.disputed = None
        if segment is not None and not self._continues(side, segment):
            if segment.closing_since is None:
                state.owed_stops += 1
            self._settle(side, segment)
            segment = None
        if segment is None:
            state.segment = segment = _Segment(self._now, self._tick, at)
            if state.early is not None:
                segment.spoken, segment.outputs = state.early.spoken, state.early.outputs
                segment.transcriptions, segment.announced = state.early.transcriptions, state.early.announced
                state.early = None
        segment.started = at if segment.started is None else segment.started
        segment.closing_since = segment.stopped = None
        self._adopt_loose(state, segment)

    def on_stopped(self, side: Side, at: float) -> None:
        """`bot-stopped-speaking`, which arrived at `at`. One that belongs to a turn that was closed without it is passed over."""
        state = self._sides[side]
        if state.owed_stops:
            state.owed_stops -= 1
            state.passed_over = self._now
            return
        if state.segment is not None and state.segment.closing_since is None:
            self._adopt_loose(state, state.segment)
            state.segment.stopped = at
            state.segment.closing_since, state.segment.closing_tick = self._now, self._tick

    def on_interrupted(self, side: Side) -> None:
        """The side drops what it is saying, if anything: what it announced is not spoken to its end."""
        segment = self._sides[side].segment
        if segment is not None and segment.closing_since is None:
            segment.interrupted = segment.span is None or self._now - segment.span.last.sent < SETTLE

    def on_text(self, side: Side, text: str, kind: TextKind) -> None:
        """Words of the side: spoken (`bot-tts-text`), what stands in for them where there are none, or announced to be spoken."""
        state = self._sides[side]
        if kind == "announced":
            state.owed_words.clear()  # a server tells what it kept back before it announces anything new
        elif kind in state.owed_words and state.owed_words[kind].takes(text):
            return
        target = state.segment
        if target is None:
            target = state.early = state.early or _Segment(self._now, self._tick, None)
        lists = {"spoken": target.spoken, "output": target.outputs, "transcription": target.transcriptions}
        lists.get(kind, target.announced).append(text)

    def clock(self, now: float, tick: int) -> None:
        """Time passes: what is told from here on happens `now`."""
        self._now, self._tick = now, tick

    def advance(self, now: float, tick: int) -> list[Turn]:
        """Time passes; returns the turns that have settled since the last call, in order of settling."""
        self.clock(now, tick)
        for side, state in self._sides.items():
            segment = state.segment
            if segment is not None:
                self._advance_segment(side, state, segment)
            loose = state.loose
            if loose is not None and now - loose.last.sent >= ENERGY_HANGOVER and state.segment is None:
                self._end_loose(side, state)
            elif loose is not None and loose.last.sent - loose.first.sent > MIXER and state.says_started:
                state.by_events, state.loose = True, None
        return self._untold()

    def finish(self, now: float) -> list[Turn]:
        """The conversation is over: what is open becomes a turn too. Returns the turns not returned so far."""
        self._now = now
        for side, state in self._sides.items():
            if state.segment is not None:
                self._adopt_loose(state, state.segment)
                self._settle(side, state.segment)
            if state.loose is not None:
                self._end_loose(side, state)
            if state.early is not None:
                self._settle(side, state.early)
                state.early = None
        return self._untold()

    def _untold(self) -> list[Turn]:
        """The turns that have settled since this was last asked, by an event or by time."""
        told, self._told = self._told, len(self.turns)
        return self.turns[told:]

    def _continues(self, side: Side, segment: _Segment) -> bool:
        """Whether a "started" goes on with the open segment: a flap between sentences, or a repeated event."""
        state = self._sides[side]
        others_last = self._last_speech(_other(side))
        if segment.closing_since is not None:
            return self._now - segment.closing_since < SETTLE and others_last <= segment.closing_since
        if state.by_events or segment.span is None:
            return True
        if self._now - state.passed_over < SETTLE and others_last <= segment.span.last.sent:
            return True
        return state.loose is None and self._now - segment.span.last.sent < SETTLE

    def _last_speech(self, side: Side) -> float:
        """When this side was last heard; a side whose audio never rests is heard while its events say so."""
        state = self._sides[side]
        if state.by_events:
            return self._now if state.segment is not None else float("-inf")
        return state.last_speech

    def _advance_segment(self, side: Side, state: _SideState, segment: _Segment) -> None:
        if segment.closing_since is not None:
            if self._now - segment.closing_since >= SETTLE:
                self._settle(side, segment)
            return
        if segment.disputed is not None and self._now - segment.disputed.since > MIXER:
            state.by_events, state.loose = True, None
            self._cut_back(segment)
            self._settle(side, segment)
            return
        other = _other(side)
        loose = state.loose
        if loose is not None and self._now - loose.first.sent >= SETTLE:
            self._adopt_loose(state, segment)
        elif (
            segment.span is not None and loose is None and self._now - segment.span.last.sent >= ABANDONED and self.speaking(other)
        ):
            state.owed_stops += 1
            self._settle(side, segment)
        if segment.disputed is not None and self._now - state.last_speech >= SETTLE:
            segment.disputed = None

    @staticmethod
    def _add_loose(state: _SideState, speech: Speech) -> None:
        if state.loose is None or speech.sent - state.loose.last.sent >= ENERGY_HANGOVER:
            state.loose = _Span(speech, speech)
        else:
            state.loose.add(speech)

    def _adopt_loose(self, state: _SideState, segment: _Segment) -> None:
        """The speech that came shortly before the event belongs to the segment; older speech outside turns to none."""
        if state.loose is not None and self._now - state.loose.last.sent < ENERGY_HANGOVER:
            segment.add(state.loose)
        state.loose = None

    @staticmethod
    def _cut_back(segment: _Segment) -> _Span | None:
        """Believe the disputed "stopped" after all; returns the speech that came after it."""
        disputed, segment.disputed = segment.disputed, None
        if disputed is None or segment.span is None:
            return None
        segment.stopped, segment.closing_since = disputed.stopped, disputed.since
        segment.span.last = disputed.last
        return disputed.after

    def _end_loose(self, side: Side, state: _SideState) -> None:
        """Speech outside any segment has ended: a turn by energy where the side never says "started", else no turn."""
        loose, state.loose = state.loose, None
        if loose is None or state.says_started:
            return
        segment = state.early or _Segment(loose.first.sent, loose.first.tick, None)
        state.early = None
        segment.span = loose
        self._settle(side, segment)

    def _settle(self, side: Side, segment: _Segment) -> None:
        state = self._sides[side]
        if state.segment is segment:
            state.segment = None
        span = segment.span
        voiced = span is not None or state.by_events
        text = self._text(state, segment, whole=voiced and segment.stopped is not None and not segment.interrupted)
        if not text and span is None:
            return
        if span is not None:
            first, last = span.first, span.last
        else:
            end = segment.closing_since if segment.closing_since is not None else self._now
            tick = segment.closing_tick if segment.closing_since is not None else self._tick
            first = Speech(segment.opened, segment.tick, segment.started or segment.opened, segment.started or segment.opened)
            last = Speech(max(end, segment.opened), tick, end, end)
        self.turns.append(
            Turn(
                side=side,
                text=text or INTERRUPTED,
                start=first.sent,
                end=last.sent,
                start_tick=first.tick,
                end_tick=last.tick,
                speech=span is not None,
                arrived=first.arrived,
                heard=first.heard,
                last_arrived=last.arrived,
                started=segment.started,
                stopped=segment.stopped,
                measured=voiced,
            )
        )

    @staticmethod
    def _text(state: _SideState, segment: _Segment, *, whole: bool) -> str:
        """The segment's text; where it was spoken to its end, with the words that are still to come. They are owed from here on."""
        told = join_words(segment.spoken) or join_words(segment.outputs)
        if whole:
            state.owed_words = {
                "spoken": Owed(untold(segment.announced, segment.spoken)),
                "output": Owed(untold(segment.announced, segment.outputs)),
            }
            if untold(segment.announced, [told]):
                return join_words(segment.announced)
        return told or join_words(segment.transcriptions)


def _other(side: Side) -> Side:
    return "user" if side == "agent" else "agent"
