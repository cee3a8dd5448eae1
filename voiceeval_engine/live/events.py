"""Every step of the engine as a typed event: what the journal holds and what every view is a fold of.

An event carries plain values only, shortened to what a view needs. `seq` and `time` are given by the journal when it is written.
May import the standard library and pydantic only. Rules: console page, "Two processes", and artifacts page, "Journal".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

Side = Literal["agent", "user"]
MAX_TEXT = 4000
BY_OPERATOR = "by the operator"
"""Why a command holds the queue."""


def clip(text: str) -> str:
    """Text as an event may carry it: at most 4,000 characters, without lone surrogates."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= MAX_TEXT else clean[: MAX_TEXT - 1] + "…"


Clipped = Annotated[str, BeforeValidator(clip)]


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    seq: int = 0
    time: float = 0.0
    """Wall clock, s since the epoch."""


class AttemptEvent(_Event):
    """Of one attempt at one scenario."""

    scenario: str
    attempt: int
    """1 for the first attempt in this invocation."""


class RunStarted(_Event):
    """One invocation begins. `scenarios` is its queue, in order; `pairs` are the bots' URLs, agent first."""

    type: Literal["run_started"] = "run_started"
    session: str
    scenarios: list[str]
    pairs: list[tuple[str, str]]
    inactivity_timeout: float
    min_agent_turns: int
    pairs_from: str = ""
    """The file that names the pairs where they come and go: `pairs` are then those of the beginning."""


class AttemptStarted(AttemptEvent):
    """A pair (0-based) takes a scenario: set-up begins. `number` is its place in the queue, from 1."""

    type: Literal["attempt_started"] = "attempt_started"
    pair: int
    number: int
    max_duration: float


class ConversationStarted(AttemptEvent):
    """Both bots are set up and connected; audio runs from here."""

    type: Literal["conversation_started"] = "conversation_started"


class Speaking(AttemptEvent):
    """A bot says that it begins (`on`) or ends speaking; `at` is s on the conversation's clock, as in all below."""

    type: Literal["speaking"] = "speaking"
    side: Side
    on: bool
    at: float


class Words(AttemptEvent):
    """Words that a bot is speaking."""

    type: Literal["words"] = "words"
    side: Side
    text: str
    at: float


class ToolCalled(AttemptEvent):
    """A bot called a tool; `applied` where it changed the bot's database."""

    type: Literal["tool_called"] = "tool_called"
    side: Side
    name: str
    applied: bool
    at: float


class Interrupted(AttemptEvent):
    """A bot dropped what it was saying."""

    type: Literal["interrupted"] = "interrupted"
    side: Side
    at: float


class TurnEnded(AttemptEvent):
    """A turn is settled. `latency_ms` stands on an agent turn that answered the user."""

    type: Literal["turn_ended"] = "turn_ended"
    side: Side
    text: str
    start: float
    end: float
    latency_ms: float | None = None


class ConversationEnded(AttemptEvent):
    """No more audio: why, after how long (s)."""

    type: Literal["conversation_ended"] = "conversation_ended"
    stop_reason: str
    duration: float
    turns: int


class AttemptDiscarded(AttemptEvent):
    """The attempt does not count. `retry_in` is the pause (s) before the next one, None where there is none."""

    type: Literal["attempt_discarded"] = "attempt_discarded"
    reason: str
    moved_to: str | None = None
    retry_in: float | None = None
    tokens: int = 0


class ScenarioScored(AttemptEvent):
    """The scenario has its `metrics.json`. The two verdicts are None for "N/A"; `signals` holds every computed one.

    While `pending`, the judge's verdict is out and another of these follows. `predicates` and `assertions` are (passed, all).
    """

    type: Literal["scenario_scored"] = "scenario_scored"
    verdict: bool | None
    task_verdict: bool | None
    failed_signals: list[Clipped]
    signals: dict[str, bool]
    stalled: bool
    stop_reason: Clipped
    turns: int
    latencies: list[float]
    tokens: int
    retries: int
    duration: float
    pending: bool = False
    judge_score: float | None = None
    judge_failed: bool = False
    predicates: tuple[int, int] = (0, 0)
    assertions: tuple[int, int] = (0, 0)
    restored: bool = False
    """Whether this is an earlier result that counts again, because the attempt that was to replace it came to nothing."""


class ScenarioNotRun(AttemptEvent):
    """No attempt gave a result; `attempt` is the last one made, 0 where there was none."""

    type: Literal["scenario_not_run"] = "scenario_not_run"
    reason: str


class Requeued(AttemptEvent):
    """The scenario waits in the queue again, its attempts so far not counting. `by_hand` where the operator wanted it."""

    type: Literal["requeued"] = "requeued"
    reason: str
    by_hand: bool = False


class PairOut(_Event):
    """A pair's fuse has blown: it takes no scenario until it answers. `since` is the wall clock of the first of its failures."""

    type: Literal["pair_out"] = "pair_out"
    pair: int
    reason: str
    since: float


class PairBack(_Event):
    """A pair that was out answers again."""

    type: Literal["pair_back"] = "pair_back"
    pair: int


class PairCame(_Event):
    """A pair of the file begins to serve, for the first time or again. `pair` is its number for the whole run, `urls` agent first."""

    type: Literal["pair_came"] = "pair_came"
    pair: int
    urls: tuple[str, str]


class PairLeft(_Event):
    """A pair is in the file no more: it takes no scenario."""

    type: Literal["pair_left"] = "pair_left"
    pair: int


class Paused(_Event):
    """No new attempt begins; what runs goes on. `reason` is BY_OPERATOR where nothing but a command holds it."""

    type: Literal["paused"] = "paused"
    reason: str


class GoneOn(_Event):
    """The queue goes on after a pause."""

    type: Literal["gone_on"] = "gone_on"


class Stopping(_Event):
    """The run is to end: `after_current` lets the attempts that run come to their end."""

    type: Literal["stopping"] = "stopping"
    after_current: bool


class Logged(_Event):
    """A line of the engine's log."""

    type: Literal["logged"] = "logged"
    level: Literal["INFO", "WARNING", "ERROR"]
    message: str


class RunEnded(_Event):
    """The invocation is over. `complete` is true when every queued scenario has its result; `files` are what to look at.

    `resume_command` goes on with a run that is not complete.
    """

    type: Literal["run_ended"] = "run_ended"
    complete: bool
    reason: str
    files: list[str]
    resume_command: str = ""


Event = (
    RunStarted
    | AttemptStarted
    | ConversationStarted
    | Speaking
    | Words
    | ToolCalled
    | Interrupted
    | TurnEnded
    | ConversationEnded
    | AttemptDiscarded
    | ScenarioScored
    | ScenarioNotRun
    | Requeued
    | PairOut
    | PairBack
    | PairCame
    | PairLeft
    | Paused
    | GoneOn
    | Stopping
    | Logged
    | RunEnded
)

_Tagged = Annotated[Event, Field(discriminator="type")]
_adapter: TypeAdapter[Event] = TypeAdapter(_Tagged)
_list_adapter: TypeAdapter[list[Event]] = TypeAdapter(list[_Tagged])


class BadEvent(Exception):
    """A line or object that is no event of this version."""


def parse_event(line: str | bytes) -> Event:
    """One line of a journal; raises BadEvent."""
    try:
        return _adapter.validate_json(line)
    except ValidationError as error:
        raise BadEvent(str(error.errors(include_url=False, include_input=False)[:1])) from error


def parse_events(lines: Sequence[bytes]) -> list[Event]:
    """The events of several lines, in less than half the time; raises BadEvent where one of them is none, without saying which."""
    try:
        found = _list_adapter.validate_json(b"[" + b",".join(lines) + b"]")
    except ValidationError as error:
        raise BadEvent("a line is no event") from error
    if len(found) != len(lines):
        raise BadEvent("a line holds more than one event, or part of one")
    return found


def to_line(event: Event) -> str:
    """The event as one line of a journal, without the newline."""
    return event.model_dump_json()
