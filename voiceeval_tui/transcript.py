"""What was said and done in one attempt, as its watchers see it: a bounded fold of its events, or read back from its files.

Plain values in, plain values out; times are s on the conversation's clock. May import the standard library and the engine's `live/events`.
Rule: console page, "Panes" (live transcript, talk lanes, stalls) and "Manners" (buffers are bounded).
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from dataclasses import dataclass
from typing import Literal, NamedTuple

from voiceeval_engine.live import events
from voiceeval_engine.live.events import Side

MAX_LINES = 600
MAX_SPANS = 2000
MAX_WORDS = 400
"""Pieces of words that no turn has settled yet, of each side."""
_TOOL_LINES = 20
"""How far back the line of a tool call is looked for."""

Kind = Literal["words", "turn", "tool", "interruption"]


class Line(NamedTuple):
    """One line of a transcript. `words` are being spoken and no turn yet; `text` is untrusted; `latency_ms` stands on agent turns."""

    kind: Kind
    side: Side
    text: str
    at: float
    latency_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Speech:
    """A stretch of one side's speech; `end` is None while it goes on."""

    side: Side
    start: float
    end: float | None


class Transcript:
    """One attempt. Read its fields; only `apply` and the readers in `session_files` change them."""

    def __init__(self, attempt: int = 0) -> None:
        self.attempt = attempt
        self.settled: list[Line] = []
        """Turns, tool calls and interruptions by time, the last 600."""
        self.dropped = 0
        """Earlier lines that are no longer held."""
        self.speaking: dict[Side, float] = {}
        """Who speaks now, since when."""
        self.interruptions: deque[tuple[Side, float]] = deque(maxlen=MAX_SPANS)
        self.max_duration = 0.0
        """How long the conversation may take, s; 0 where it is not known."""
        self.started: float | None = None
        """Wall clock at which the conversation began."""
        self.last_time = 0.0
        """Wall clock of the last sign of life of either bot."""
        self.last_at = 0.0
        """The newest time on the conversation's clock."""
        self._speech: deque[Speech] = deque(maxlen=MAX_SPANS)
        self._words: dict[Side, deque[tuple[float, str]]] = {"agent": deque(maxlen=MAX_WORDS), "user": deque(maxlen=MAX_WORDS)}

    @property
    def lines(self) -> list[Line]:
        """All that is to show, oldest first: what is settled, then the words that are being spoken, one line a side."""
        spoken = [
            Line("words", side, " ".join(text for _, text in pieces), pieces[0][0])
            for side, pieces in self._words.items()
            if pieces
        ]
        return [*self.settled, *sorted(spoken, key=lambda line: line.at)]

    @property
    def speech(self) -> list[Speech]:
        """Stretches of speech by their ends, the running ones last."""
        return [*self._speech, *(Speech(side, start, None) for side, start in self.speaking.items())]

    def apply(self, event: events.AttemptEvent) -> None:
        """Fold one event of this attempt in."""
        match event:
            case events.AttemptStarted():
                self.max_duration = event.max_duration
            case events.Words():
                self._touch(event.time, event.at)
                self._words[event.side].append((event.at, event.text))
            case events.TurnEnded():
                self._touch(event.time, event.end)
                self._settle_words(event.side, event.end)
                self.add(Line("turn", event.side, event.text, event.start, event.latency_ms))
            case events.ConversationStarted():
                self.started = self.last_time = event.time
            case events.Speaking():
                self._touch(event.time, event.at)
                if event.on:
                    self.speaking.setdefault(event.side, event.at)
                elif (since := self.speaking.pop(event.side, None)) is not None:
                    self._speech.append(Speech(event.side, since, event.at))
            case events.ToolCalled():
                self._touch(event.time, event.at)
                self._add_tool(event)
            case events.Interrupted():
                self._touch(event.time, event.at)
                self.interruptions.append((event.side, event.at))
                self.add(Line("interruption", event.side, "", event.at))
            case events.ConversationEnded() | events.AttemptDiscarded():
                self._stop()
            case _:
                pass

    def add(self, line: Line) -> None:
        """Put a settled line where its time says."""
        if self.settled and line.at < self.settled[-1].at:
            insort(self.settled, line, key=lambda each: each.at)
        else:
            self.settled.append(line)
        if len(self.settled) > MAX_LINES:
            del self.settled[0]
            self.dropped += 1

    def add_speech(self, speech: Speech) -> None:
        """A stretch that is over."""
        self._speech.append(speech)
        self.last_at = max(self.last_at, speech.end or speech.start)

    def _touch(self, time: float, at: float) -> None:
        if time > self.last_time:
            self.last_time = time
        if at > self.last_at:
            self.last_at = at

    def _add_tool(self, event: events.ToolCalled) -> None:
        """A call is told when it is made and once more when it has changed the database: one line for both."""
        if not event.applied:
            self.add(Line("tool", event.side, event.name, event.at))
            return
        changed = f"{event.name} (changed the database)"
        for place in range(len(self.settled) - 1, max(-1, len(self.settled) - 1 - _TOOL_LINES), -1):
            line = self.settled[place]
            if (line.kind, line.side, line.text) == ("tool", event.side, event.name):
                self.settled[place] = line._replace(text=changed)
                return
        self.add(Line("tool", event.side, changed, event.at))

    def _settle_words(self, side: Side, end: float) -> None:
        """What was said up to the end of a turn stands in the turn."""
        pieces = self._words[side]
        while pieces and pieces[0][0] <= end:
            pieces.popleft()

    def _stop(self) -> None:
        for side, since in self.speaking.items():
            self._speech.append(Speech(side, since, max(since, self.last_at)))
        self.speaking.clear()
        for side, pieces in self._words.items():
            if pieces:
                self.add(Line("words", side, " ".join(text for _, text in pieces), pieces[0][0]))
            pieces.clear()
