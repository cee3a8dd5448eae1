"""What a bot does next: its manners, and the state machine that walks through a script.

Plain values in, plain values out: times come in as arguments (s, one monotonic clock), nothing here sleeps, sends or hears. The
script's model lives in `scenarios/script.py`, because packs write what bots read. May import `scenarios` and the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from voiceeval_engine.bots.ears import HANG_OVER
from voiceeval_engine.scenarios.script import Script, ScriptManners, Step

OPENING_DELAY = 0.3
"""s between the kick-off and the opening's first audio frame."""
YIELD_AFTER = 0.3
"""s of being spoken over after which a bot stops."""
SHORTEST_HANG_OVER = 0.05


@dataclass(frozen=True)
class Manners:
    """How a bot's audio and events come. Times in s unless the name says ms.

    `delay`: from the arrival of the other's last speech frame to the bot's first audio frame. `speed`: 3.0 sends three times
    faster than real time. `stopped_after`: how long after the audio has played out `bot-stopped-speaking` is sent, None = never.
    `streams_silence`: silent frames in real time between turns. `leading_silence`: silence at the start of every utterance.
    """

    chunk_ms: int = 40
    rate: int = 24000
    channels: int = 1
    speed: float = 1.0
    stopped_after: float | None = 0.0
    streams_silence: bool = False
    leading_silence: float = 0.0
    delay: float = 0.6

    def overridden(self, by: ScriptManners) -> Manners:
        """These manners with everything that a script sets itself."""
        return replace(self, **{name: getattr(by, name) for name in by.model_fields_set})

    @property
    def hang_over(self) -> float:
        """How long the ears wait before they call speech ended: it must be known before the answer is due."""
        return min(HANG_OVER, max(SHORTEST_HANG_OVER, self.delay - 0.05))


@dataclass(frozen=True)
class Cue:
    """Say `step`, its first audio frame at `at`. `heard_end` is the end of the speech that it answers, if it answers any."""

    step: Step
    at: float
    heard_end: float | None = None


class Attempts:
    """How often each script was begun, shared by all bots of a process: a retry may come to another pair.

    A script that was carried to its end starts the count anew, so a later run shows the same again.
    """

    def __init__(self) -> None:
        self._begun: dict[tuple[str, str], int] = {}

    def begin(self, side: str, name: str) -> int:
        """Count one more attempt of a side's script and return its number, from 1."""
        number = self._begun.get((side, name), 0) + 1
        self._begun[side, name] = number
        return number

    def finished(self, side: str, name: str) -> None:
        """The script came to its end."""
        self._begun.pop((side, name), None)


class Performance:
    """One attempt at a script. A cue is only a plan: the step counts as done when `said` is called."""

    def __init__(self, script: Script, attempt: int, delay: float) -> None:
        self._script = script
        self._attempt = attempt
        self._delay = delay
        self._position = 0

    @property
    def finished(self) -> bool:
        """Nothing is left to do."""
        return self._next() is None and not self._stalled

    def opening(self, now: float) -> Cue | None:
        """The other end asks the bot to begin."""
        step = self._next()
        return None if step is None else Cue(step, now + OPENING_DELAY)

    def other_started(self, at: float) -> Cue | None:
        """The other side began to speak: a cue where the next step barges in."""
        step = self._next()
        return None if step is None or step.barge_in is None else Cue(step, at + step.barge_in)

    def other_ended(self, at: float) -> Cue | None:
        """The other side ended at `at`: the answer comes after the delay."""
        step = self._next()
        return None if step is None else Cue(step, at + self._delay, at)

    def said(self, step: Step) -> None:
        """`step` has begun; the next one follows, unless it repeats."""
        if step is self._next() and not step.repeat:
            self._position += 1

    def _next(self) -> Step | None:
        while self._position < len(self._script.steps):
            step = self._script.steps[self._position]
            if step.stall is None:
                return step
            if step.stall == "always" or self._attempt <= step.stall:
                return None
            self._position += 1
        return None

    @property
    def _stalled(self) -> bool:
        return self._position < len(self._script.steps)


def is_spoken_over(now: float, talking_since: float, other_since: float | None) -> bool:
    """Whether a bot that talks since `talking_since` must yield: the other began later than it and goes on for 0.3 s.

    Who barges in began later than the one it interrupts, so it never yields to speech that was there before.
    """
    return other_since is not None and other_since > talking_since and now - other_since > YIELD_AFTER


def generic_script(side: str) -> Script:
    """Small talk for a prompt that holds no script."""
    lines = {
        "agent": (
            "Hello, how can I help you today?",
            "I see. Could you tell me a little more about that?",
            "Thank you, I have made a note of it. Have a nice day, goodbye.",
        ),
        "user": ("Hi, I am calling about a small matter.", "Well, that is really all there is to it.", "Thanks, goodbye."),
    }[side]
    steps = [Step(say=line) for line in lines]
    if side == "agent":
        steps[-1] = Step(say=lines[-1], exit="the conversation came to its end")
    return Script(name="small-talk", steps=tuple(steps))
