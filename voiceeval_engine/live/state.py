"""The fold: a run as its watchers see it, made from events alone.

`RunState.apply` takes one event and says which areas changed, so that a view draws only those. Plain values in, plain values out; time
is what the events carry. May import the standard library and `events`. Rule: console page, "Two processes" and "Panes".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from voiceeval_engine.live import events

Area = Literal["run", "queue", "transcript", "latency", "trouble", "log"]
Status = Literal[
    "queued", "setting up", "talking", "scoring", "judging", "retrying", "passed", "failed", "no verdict", "stalled", "not run"
]
ENDED: frozenset[Status] = frozenset({"passed", "failed", "no verdict", "stalled", "not run"})
JUDGE_SIGNALS = frozenset({"nl_assertion", "judge_passed"})
SCORED: frozenset[Status] = ENDED - {"not run"}

_ENDS = (events.AttemptStarted, events.AttemptDiscarded, events.ScenarioScored, events.ScenarioNotRun, events.Requeued)
"""What an attempt that is over may still bring, or begins another one."""

# What changed, made once: a journal of 100,000 events is folded while somebody waits.
_NOTHING: frozenset[Area] = frozenset()
_LOG: frozenset[Area] = frozenset({"log"})
_RUN: frozenset[Area] = frozenset({"run"})
_BEGINNING: frozenset[Area] = frozenset({"run", "queue"})
_PAIR: frozenset[Area] = frozenset({"run", "trouble"})
_ATTEMPT: frozenset[Area] = frozenset({"queue", "latency"})
_STEP: frozenset[Area] = frozenset({"queue"})
_SAID: frozenset[Area] = frozenset({"transcript"})
_TURN: frozenset[Area] = frozenset({"queue", "transcript"})
_MEASURED_TURN: frozenset[Area] = frozenset({"queue", "transcript", "latency"})
_DISCARDED: frozenset[Area] = frozenset({"queue", "trouble", "latency"})
_RESULT: frozenset[Area] = frozenset({"run", "queue", "trouble", "latency"})


@dataclass(frozen=True)
class Discarded:
    """An attempt that does not count, and why."""

    attempt: int
    reason: str
    tokens: int
    time: float = 0.0
    """Wall clock, s."""


@dataclass(frozen=True)
class Outage:
    """Why a pair takes no scenario, and since when (wall clock, s)."""

    reason: str
    since: float


@dataclass
class ScenarioState:
    """One scenario's place in the run. Latencies in ms, durations in s, `since` wall clock."""

    name: str
    number: int
    status: Status = "queued"
    attempt: int = 0
    pair: int | None = None
    since: float = 0.0
    turns: int = 0
    latencies: list[float] = field(default_factory=list)
    stop_reason: str | None = None
    reason: str | None = None
    verdict: bool | None = None
    task_verdict: bool | None = None
    failed_signals: tuple[str, ...] = ()
    signals: dict[str, bool] = field(default_factory=dict)
    retries: int = 0
    tokens: int = 0
    duration: float = 0.0
    judge_score: float | None = None
    judge_failed: bool = False
    predicates: tuple[int, int] = (0, 0)
    assertions: tuple[int, int] = (0, 0)
    loaded: bool = False
    """Whether its result comes from an earlier invocation."""
    by_hand: bool = False
    """Whether the operator had it run again, and no earlier result came back."""
    discarded: list[Discarded] = field(default_factory=list)

    @property
    def failed_by_judge_alone(self) -> bool:
        """Whether the judge's call failed and nothing else did: that says nothing about the agent."""
        return self.judge_failed and self.status == "failed" and JUDGE_SIGNALS.issuperset(self.failed_signals)

    @property
    def task_failed_by_judge_alone(self) -> bool:
        """The same for the task, where a missing clean exit does not count."""
        return self.judge_failed and self.status == "failed" and {*JUDGE_SIGNALS, "clean_exit"}.issuperset(self.failed_signals)


@dataclass(frozen=True)
class Count:
    """`k` of `n`."""

    k: int
    n: int


class RunState:
    """All that is known of a run. Read its fields; only `apply` changes them."""

    def __init__(self) -> None:
        self.session = ""
        self.pairs: tuple[tuple[str, str], ...] = ()
        self.started = 0.0
        self.now = 0.0
        self.inactivity_timeout = 0.0
        self.min_agent_turns = 0
        self.scenarios: dict[str, ScenarioState] = {}
        self.ended: events.RunEnded | None = None
        self.paused: str | None = None
        """Why no new attempt begins; None while the queue runs."""
        self.stopping: events.Stopping | None = None
        self.outages: dict[int, Outage] = {}
        """Pairs whose fuse has blown, by number."""
        self.pairs_from = ""
        """The file that names the pairs; empty where they are the same for the whole run."""
        self.left: set[int] = set()
        """Pairs that the file does not name any more."""

    def apply(self, event: events.Event) -> frozenset[Area]:
        """Fold one event in; returns the areas that changed. Events of unknown scenarios or of attempts that are over change nothing."""
        if event.time > self.now:
            self.now = event.time
        if not isinstance(event, events.AttemptEvent):
            return self._apply_to_run(event)
        scenario = self.scenarios.get(event.scenario)
        if scenario is None or _is_late(scenario, event):
            return _NOTHING
        if event.attempt > scenario.attempt and not isinstance(event, events.AttemptStarted):
            # Its beginning stood on a line that could not be read.
            scenario.status, scenario.attempt, scenario.turns, scenario.latencies = "talking", event.attempt, 0, []
            return self._apply_to(scenario, event) | {"queue", "latency"}
        return self._apply_to(scenario, event)

    @property
    def pairs_there(self) -> int:
        """How many pairs there are now, those that are out too."""
        return len(self.pairs) - len(self.left)

    def count(self, *statuses: Status) -> int:
        """How many scenarios are in one of these."""
        by_status = Counter(scenario.status for scenario in self.scenarios.values())
        return sum(by_status[status] for status in statuses)

    @property
    def done(self) -> int:
        """Scenarios that have ended, run or not."""
        return self.count(*ENDED)

    @property
    def success(self) -> Count:
        """Scenarios with a passing verdict, of those with a verdict; one that failed only because the judge did is left out."""
        verdicts = [each.verdict for each in self._scored() if each.verdict is not None and not each.failed_by_judge_alone]
        return Count(sum(verdicts), len(verdicts))

    @property
    def task_success(self) -> Count:
        """As `success`, clean exits aside."""
        verdicts = [
            each.task_verdict for each in self._scored() if each.task_verdict is not None and not each.task_failed_by_judge_alone
        ]
        return Count(sum(verdicts), len(verdicts))

    def signal(self, name: str) -> Count:
        """One signal over the scenarios that have it; stalled ones are in no signal's rate, failed judge calls in none of the judge's.

        The two assertion signals count predicates and assertions, not scenarios.
        """
        scored = [scenario for scenario in self._scored() if scenario.status != "stalled"]
        if name in JUDGE_SIGNALS:
            scored = [scenario for scenario in scored if not scenario.judge_failed]
        if name in ("db_state_assertion", "nl_assertion"):
            pairs = [each.predicates if name == "db_state_assertion" else each.assertions for each in scored]
            return Count(sum(passed for passed, _ in pairs), sum(total for _, total in pairs))
        verdicts = [scenario.signals[name] for scenario in scored if name in scenario.signals]
        return Count(sum(verdicts), len(verdicts))

    @property
    def judge_scores(self) -> list[float]:
        """The judge's scores of scenarios that did not stall; a failed call gave none."""
        return [
            each.judge_score
            for each in self._scored()
            if each.judge_score is not None and each.status != "stalled" and not each.judge_failed
        ]

    @property
    def latencies(self) -> list[float]:
        """Every measurement of accepted and running attempts, in ms."""
        return [value for scenario in self.scenarios.values() for value in scenario.latencies]

    @property
    def tokens(self) -> int:
        """Tokens of accepted attempts."""
        return sum(scenario.tokens for scenario in self._scored())

    def eta(self, now: float) -> float | None:
        """Seconds left at the rate so far; None while there is none."""
        rate = self.rate(now)
        return (len(self.scenarios) - self.done) / rate if rate else None

    def rate(self, now: float) -> float:
        """Scenarios ended a second in this invocation; those loaded from an earlier one took no time and do not count."""
        ended = sum(scenario.status in ENDED and not scenario.loaded for scenario in self.scenarios.values())
        return ended / (now - self.started) if now > self.started else 0.0

    def _scored(self) -> list[ScenarioState]:
        return [scenario for scenario in self.scenarios.values() if scenario.status in SCORED]

    def _start(self, event: events.RunStarted) -> None:
        self.session = event.session
        self.pairs = tuple(event.pairs)
        self.started = event.time
        self.inactivity_timeout = event.inactivity_timeout
        self.min_agent_turns = event.min_agent_turns
        self.scenarios = {name: ScenarioState(name, number) for number, name in enumerate(event.scenarios, start=1)}
        self.ended = self.paused = self.stopping = None
        self.outages = {}
        self.pairs_from, self.left = event.pairs_from, set()

    def _apply_to_run(self, event: events.Event) -> frozenset[Area]:
        match event:
            case events.Logged():
                return _LOG
            case events.RunStarted():
                self._start(event)
                return _BEGINNING
            case events.RunEnded():
                self.ended = event
            case events.PairCame():
                self._pair_came(event)
                return _PAIR
            case events.PairLeft():
                if 0 <= event.pair < len(self.pairs):
                    self.left.add(event.pair)
                self.outages.pop(event.pair, None)
                return _PAIR
            case events.PairOut():
                self.outages[event.pair] = Outage(event.reason, event.since)
                return _PAIR
            case events.PairBack():
                self.outages.pop(event.pair, None)
                return _PAIR
            case events.Paused():
                self.paused = event.reason
            case events.GoneOn():
                self.paused = None
            case events.Stopping():
                self.stopping = event
        return _RUN

    def _pair_came(self, event: events.PairCame) -> None:
        """The next number or a known one; one beyond is told after a line that could not be read, and that pair is missing too."""
        if event.pair < len(self.pairs):
            self.left.discard(event.pair)
        else:
            self.pairs = (*self.pairs, event.urls)
        self.outages.pop(event.pair, None)

    def _apply_to(self, scenario: ScenarioState, event: events.AttemptEvent) -> frozenset[Area]:
        match event:
            case events.TurnEnded():
                scenario.turns += 1
                if event.latency_ms is None:
                    return _TURN
                scenario.latencies.append(event.latency_ms)
                return _MEASURED_TURN
            case events.Words() | events.Speaking() | events.ToolCalled() | events.Interrupted():
                return _SAID
            case events.AttemptStarted():
                scenario.status, scenario.attempt, scenario.pair = "setting up", event.attempt, event.pair
                scenario.reason = None
                scenario.since, scenario.turns, scenario.latencies = event.time, 0, []
                return _ATTEMPT
            case events.ConversationStarted():
                scenario.status, scenario.since = "talking", event.time
                return _STEP
            case events.ConversationEnded():
                scenario.status, scenario.stop_reason = "scoring", event.stop_reason
                return _STEP
            case events.AttemptDiscarded():
                scenario.discarded.append(Discarded(event.attempt, event.reason, event.tokens, event.time))
                scenario.status, scenario.turns, scenario.latencies = "retrying", 0, []
                return _DISCARDED
            case events.ScenarioNotRun():
                scenario.status, scenario.reason, scenario.turns, scenario.latencies = "not run", event.reason, 0, []
                return _RESULT
            case events.ScenarioScored():
                self._score(scenario, event)
                return _RESULT
            case events.Requeued():
                scenario.status, scenario.turns, scenario.latencies = "queued", 0, []
                scenario.pair, scenario.reason = None, event.reason
                scenario.by_hand = scenario.by_hand or event.by_hand
                return _RESULT
            case _:
                return _NOTHING

    @staticmethod
    def _score(scenario: ScenarioState, event: events.ScenarioScored) -> None:
        if event.pending:
            scenario.status = "judging"
        elif event.stalled:
            scenario.status = "stalled"
        elif event.verdict is None:
            scenario.status = "no verdict"
        else:
            scenario.status = "passed" if event.verdict else "failed"
        scenario.verdict, scenario.task_verdict = event.verdict, event.task_verdict
        scenario.failed_signals, scenario.signals = tuple(event.failed_signals), dict(event.signals)
        scenario.stop_reason, scenario.turns, scenario.latencies = event.stop_reason, event.turns, list(event.latencies)
        scenario.tokens, scenario.retries, scenario.duration = event.tokens, event.retries, event.duration
        scenario.judge_score, scenario.judge_failed = event.judge_score, event.judge_failed
        scenario.loaded = scenario.attempt == 0
        scenario.by_hand = scenario.by_hand and not event.restored
        scenario.predicates, scenario.assertions = event.predicates, event.assertions


def _is_late(scenario: ScenarioState, event: events.AttemptEvent) -> bool:
    """Whether an event belongs to an attempt that is over; what a discarded one may still bring is the scenario's end or its return."""
    if event.attempt < scenario.attempt:
        return True
    if scenario.discarded and any(discarded.attempt == event.attempt for discarded in scenario.discarded):
        back = isinstance(event, events.ScenarioScored) and event.restored
        return not back and not isinstance(event, events.ScenarioNotRun | events.Requeued)
    return scenario.status in ENDED and not isinstance(event, _ENDS)


def percentile(values: Sequence[float], share: float) -> float | None:
    """`sorted[int(n * share)]`, as everywhere in a session; None for no values."""
    return at_share(sorted(values), share)


def at_share(ordered: Sequence[float], share: float) -> float | None:
    """`percentile` of values that are sorted already."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else None
