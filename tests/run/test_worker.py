"""Workers, fuses and the queue together, over bots that are only rules and a clock that jumps: hours of outages in no time.

What is written is stood in for by `Book`; the files' side is in `test_fuse_end_to_end`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from fake_time import run_in_fake_time
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from voiceeval_engine.bridge.setup import Pair
from voiceeval_engine.live import events
from voiceeval_engine.run import worker as worker_module
from voiceeval_engine.run.attempt import AttemptResult
from voiceeval_engine.run.backlog import STOPPED, Backlog, Job
from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.run.retry import Decision
from voiceeval_engine.run.worker import Worker

NO_ROOM = OSError(errno.ENOSPC, "No space left on device")
Rule = Callable[[str, float], str]
"""What a pair does with a scenario at a time: "talks", "mute", "refuses", "loses user", "unreachable" or "raises"."""


def always(what: str) -> Rule:
    return lambda name, now: what


def until(seconds: float, what: str, then: str = "talks") -> Rule:
    return lambda name, now: what if now < seconds else then


@dataclass
class Book:
    """Stands in for `Records`: keeps what it is told, and fails where a test wants it to."""

    options: RunOptions
    queue: list[Job]
    pairs: int
    fails: dict[str, Callable[[Job], bool]] = field(default_factory=dict)
    build_seconds: float = 0.0
    told: list[events.Event] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)
    attempts: Counter[str] = field(default_factory=Counter)
    folders: set[str] = field(default_factory=set)
    restores: set[str] = field(default_factory=set)
    begun: list[str] = field(default_factory=list)
    give_back_seconds: float = 0.0
    ended: float = 0.0

    def __post_init__(self) -> None:
        self.backlog = Backlog(self.queue, range(self.pairs))
        self.shop = SimpleNamespace(options=self.options, emit=self.told.append)
        self.log = logging.LoggerAdapter(logging.getLogger("test"), {})

    def clean(self, text: str) -> str:
        return text

    async def build(self, name: str) -> Any:
        await asyncio.sleep(self.build_seconds)
        return SimpleNamespace(name=name, max_duration=30.0)

    async def open_attempt(self, job: Job) -> tuple[Path, Any]:
        assert self.backlog.in_hand(job.name) is job
        assert self.backlog.open, "an attempt began while the queue was held or closed"
        assert job.name not in self.folders, "two attempts in one folder"
        self.folders.add(job.name)
        job.attempts += 1
        self.attempts[job.name] += 1
        self.begun.append(job.name)
        assert self.attempts[job.name] < 100, "an endless loop"
        return Path(job.name), self.log

    async def close_attempt(self, log: Any) -> None:
        await asyncio.sleep(0)

    async def save_evidence(self, *_: Any) -> None:
        await asyncio.sleep(0)

    async def keep(self, job: Job, scenario: Any, folder: Path, result: AttemptResult, decision: Decision) -> None:
        await self._may_fail("keep", job)
        self.results[job.name] = "kept" if result.turns else "stalled"

    async def discard(self, job: Job, reason: str, tokens: int, *, free: bool = False) -> None:
        await self._may_fail("discard", job)
        self.folders.remove(job.name)
        job.reasons.append(reason)

    async def give_back(self, job: Job, reason: str) -> None:
        await asyncio.sleep(self.give_back_seconds)
        await self._may_fail("give_back", job)
        self.folders.discard(job.name)
        job.reasons.append(reason)
        job.retries, job.not_before = 0, 0.0
        del self.results[job.name]
        self.queue_again(job, reason)

    async def discard_for_disk(self, job: Job, error: OSError) -> bool:
        self.folders.discard(job.name)
        self.queue_again(job, "no room")
        return False

    def queue_again(self, job: Job, why: str, *, front: bool = True) -> None:
        self.told.append(events.Requeued(scenario=job.name, attempt=job.attempts, reason=why))
        self.backlog.put_back(job, front=front)

    async def came_to_nothing(self, job: Job, reason: str, tokens: int = 0, *, talked: bool = False) -> bool:
        self.results[job.name] = "stopped" if reason == STOPPED else "not run"
        return job.name in self.restores

    async def _may_fail(self, step: str, job: Job) -> None:
        await asyncio.sleep(0.01)
        if step in self.fails and self.fails[step](job):
            raise NO_ROOM

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.told if isinstance(event, kind)]


@pytest.fixture
def run_pairs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Book]:
    """Runs a queue of `count` scenarios on pairs with those rules; returns the book."""

    def run(
        rules: list[Rule],
        count: int,
        *,
        seconds: float | Callable[[str], float] = 20.0,
        operate: Callable[[Book], Any] | None = None,
        book: dict[str, Any] | None = None,
        probe_seconds: float = 0.1,
        **options: Any,
    ) -> Book:
        given_options = RunOptions(**{"min_agent_turns": 0, **options})
        made: list[Book] = []

        async def attempt(
            shop: Any, scenario: Any, number: int, pair: Pair, folder: Path, log: Any, halt: asyncio.Event
        ) -> AttemptResult:
            began = asyncio.get_running_loop().time()
            what = rules[pair.number](scenario.name, began - 1000.0)
            length = {"unreachable": 15.0, "refuses": 0.1, "raises": 0.0}.get(
                what, seconds(scenario.name) if callable(seconds) else seconds
            )
            try:
                async with asyncio.timeout(length):
                    await halt.wait()
                return AttemptResult(None, STOPPED, began, halted=True)
            except TimeoutError:
                pass
            if what == "raises":
                raise RuntimeError("boom")
            if what in ("unreachable", "refuses"):
                return AttemptResult(None, what, began, unreachable=what == "unreachable")
            tokens = {"agent": SimpleNamespace(total=0), "user": SimpleNamespace(total=0)}
            outcome: Any = SimpleNamespace(turns=() if what == "mute" else ("a turn",), tokens=tokens)
            return AttemptResult(outcome, "simulator lost" if what == "loses user" else None, began)

        async def probe(pair: Pair, log: Any) -> str | None:
            await asyncio.sleep(probe_seconds)
            what = rules[pair.number]("", asyncio.get_running_loop().time() - 1000.0)
            if what == "raises":
                raise RuntimeError("boom")
            return what if what == "unreachable" else None

        async def main() -> None:
            queue = [Job(number, f"s__{number}") for number in range(1, count + 1)]
            made.append(it := Book(given_options, queue, len(rules), **(book or {})))
            workers = [Worker(it, Pair(number, "ws://a", "ws://u"), count) for number in range(len(rules))]  # type: ignore[arg-type]
            operating = asyncio.create_task(operate(it)) if operate is not None else None
            await asyncio.gather(*(worker.serve() for worker in workers))
            it.ended = asyncio.get_running_loop().time() - 1000.0
            if operating is not None:
                await operating

        monkeypatch.setattr(worker_module, "run_attempt", attempt)
        monkeypatch.setattr(worker_module, "probe", probe)
        monkeypatch.setattr(worker_module, "_agent_responses", lambda result: None)
        run_in_fake_time(main())
        return made[0]

    return run


Run = Callable[..., Book]


def test_what_a_dead_pair_cost_is_given_back_and_done_by_the_other(run_pairs: Run) -> None:
    book = run_pairs([always("unreachable"), always("talks")], 6)
    assert set(book.results.values()) == {"kept"}
    assert len(book.results) == 6
    assert [event.pair for event in book.of(events.PairOut)] == [0]


def test_a_scenario_is_lost_to_no_number_of_dead_pairs_while_one_works(run_pairs: Run) -> None:
    for count in (4, 9, 16):
        for long in (20.0, 400.0):
            book = run_pairs([*[always("unreachable")] * 5, always("talks")], count, seconds=long)
            assert Counter(book.results.values()) == {"kept": count}
            assert len(book.of(events.PairOut)) <= 5


def test_pairs_that_are_slow_to_be_found_dead_lose_no_scenario(run_pairs: Run) -> None:
    def dies_late(after: float) -> Rule:
        return until(after, "talks", "unreachable")

    for step in (5.0, 17.0, 40.0):
        rules = [*(dies_late(step * number) for number in range(6)), always("talks")]
        book = run_pairs(rules, 30, seconds=100.0)
        assert Counter(book.results.values()) == {"kept": 30}


def test_a_lone_pair_that_comes_back_does_all(run_pairs: Run) -> None:
    for trouble in ("unreachable", "refuses", "mute", "raises"):
        book = run_pairs([lambda name, now, trouble=trouble: trouble if 50 <= now < 300 else "talks"], 8)
        if trouble != "raises":
            assert Counter(book.results.values()) == {"kept": 8}, trouble
            assert len(book.of(events.PairOut)) == len(book.of(events.PairBack)) == 1
        assert len(book.results) == 8


def test_a_pair_that_never_answers_ends_the_run_after_the_wait(run_pairs: Run) -> None:
    for trouble in ("unreachable", "mute", "refuses"):
        book = run_pairs([always(trouble)] * 2, 40, backend_wait=300.0)
        assert book.backlog.closed_because == "no pair of bots has answered for 300 s"
        assert "kept" not in book.results.values()


def test_no_wait_at_all_does_not_end_a_run_that_has_a_pair_left(run_pairs: Run) -> None:
    book = run_pairs([always("unreachable"), always("talks")], 6, backend_wait=0.0)
    assert Counter(book.results.values()) == {"kept": 6}


def test_a_back_off_longer_than_the_wait_does_not_end_the_run_before_the_probe(run_pairs: Run) -> None:
    book = run_pairs([until(100, "mute")], 1, max_auto_retries=5, auto_retry_backoff_secs=400.0, backend_wait=600.0)
    assert Counter(book.results.values()) == {"kept": 1}
    assert book.backlog.closed_because == ""
    book = run_pairs([until(1000, "mute")], 1, max_auto_retries=5, auto_retry_backoff_secs=400.0, backend_wait=600.0)
    assert len(book.of(events.PairOut)) == 1
    assert Counter(book.results.values()) == {"kept": 1}
    assert book.backlog.closed_because == ""


def test_a_bot_that_is_not_there_costs_no_retry_where_another_pair_is_left(run_pairs: Run) -> None:
    book = run_pairs([always("unreachable"), until(30, "mute")], 1, max_auto_retries=1)
    assert book.results == {"s__1": "kept"}
    assert book.attempts["s__1"] == 3


def test_what_is_given_back_runs_in_its_old_order_before_all_others(run_pairs: Run) -> None:
    book = run_pairs([until(100, "unreachable")], 5, max_auto_retries=0)
    assert book.begun == [f"s__{number}" for number in (1, 2, 3, 1, 2, 3, 4, 5)]
    book = run_pairs([until(100, "unreachable")], 3, max_auto_retries=1)
    assert book.begun == [f"s__{number}" for number in (1, 1, 2, 1, 2, 3)]


def test_what_ended_before_the_pair_was_last_of_use_is_not_given_back(run_pairs: Run) -> None:
    book = run_pairs([lambda name, now: "mute" if name == "s__1" else "unreachable" if 60 < now < 200 else "talks"], 5)
    assert book.results == {"s__1": "stalled", **{f"s__{number}": "kept" for number in (2, 3, 4, 5)}}
    assert len(book.of(events.PairOut)) == 1
    assert book.attempts["s__1"] == 2


def test_stalling_scenarios_end_as_stalls(run_pairs: Run) -> None:
    book = run_pairs([always("mute")], 3)
    assert Counter(book.results.values()) == {"stalled": 3}
    assert book.backlog.closed_because == ""
    assert max(book.attempts.values()) <= 5


def test_one_that_stalls_among_good_ones_takes_no_pair_out(run_pairs: Run) -> None:
    book = run_pairs([lambda name, now: "mute" if name == "s__2" else "talks"], 4)
    assert book.results == {"s__1": "kept", "s__2": "stalled", "s__3": "kept", "s__4": "kept"}
    assert book.of(events.PairOut) == []


def test_a_full_disk_at_the_moment_the_fuse_blows_leaves_no_pair_half_out(run_pairs: Run) -> None:
    third = Counter[str]()

    def at_the_third(job: Job) -> bool:
        third["all"] += 1
        return third["all"] == 2

    book = run_pairs([always("unreachable")], 2, book={"fails": {"discard": at_the_third}}, backend_wait=100.0)
    assert len(book.of(events.PairOut)) == 1
    assert book.backlog.closed_because


def test_one_that_cannot_be_given_back_keeps_its_end_and_costs_the_others_nothing(run_pairs: Run) -> None:
    book = run_pairs(
        [until(100, "unreachable")], 4, max_auto_retries=0, book={"fails": {"give_back": lambda job: job.name == "s__2"}}
    )
    assert book.results == {"s__1": "kept", "s__2": "not run", "s__3": "kept", "s__4": "kept"}


def test_a_run_is_not_over_while_something_is_given_back(run_pairs: Run) -> None:
    slow = {"give_back_seconds": 500.0}
    book = run_pairs([always("mute"), always("talks")], 6, max_auto_retries=0, seconds=1.0, book=slow)
    assert Counter(book.results.values()) == {"kept": 6}
    book = run_pairs([until(100, "unreachable"), until(30, "unreachable")], 6, max_auto_retries=0, seconds=1.0, book=slow)
    assert Counter(book.results.values()) == {"kept": 6}


def test_what_the_operator_runs_again_is_not_given_back_as_well(run_pairs: Run) -> None:
    async def operate(book: Book) -> None:
        while "s__1" not in book.results:
            await book.backlog.wait(1)
        book.folders.discard("s__1")
        book.backlog.put_back(Job(1, "s__1", attempts=1, by_hand=True))

    book = run_pairs([until(100, "unreachable")], 4, operate=operate, max_auto_retries=0)
    assert Counter(book.results.values()) == {"kept": 4}
    assert book.attempts["s__1"] <= 4


def test_an_earlier_result_that_counts_again_is_not_taken_away_by_the_fuse(run_pairs: Run) -> None:
    book = run_pairs([until(100, "unreachable")], 4, max_auto_retries=0, book={"restores": {"s__1"}})
    assert book.attempts["s__1"] == 1


def test_nothing_begins_that_was_being_built_when_the_queue_was_held_or_closed(run_pairs: Run) -> None:
    async def pause(book: Book) -> None:
        await asyncio.sleep(5)
        book.backlog.hold("operator", "by the operator")
        await asyncio.sleep(100)
        assert not book.attempts
        book.backlog.release("operator")

    book = run_pairs([always("talks")], 2, operate=pause, book={"build_seconds": 10.0})
    assert Counter(book.results.values()) == {"kept": 2}

    async def close(book: Book) -> None:
        await asyncio.sleep(5)
        book.backlog.close("stopped by the operator")

    book = run_pairs([always("talks")], 2, operate=close, book={"build_seconds": 10.0})
    assert not book.attempts


def test_an_end_on_a_dead_pair_stands_where_nothing_runs_any_more(run_pairs: Run) -> None:
    """The fuse blows after the run was told to end: the summary says what became of them, not that they never started."""

    async def close(book: Book) -> None:
        while len(book.attempts) < 3:
            await book.backlog.wait(0.5)
        book.backlog.close("stopped by the operator")

    book = run_pairs([always("unreachable")], 5, operate=close, max_auto_retries=0)
    assert book.results == dict.fromkeys(("s__1", "s__2", "s__3"), "not run")
    assert len(book.of(events.PairOut)) == 1


def test_a_pause_is_no_part_of_the_wait_for_bots(run_pairs: Run) -> None:
    async def pause(book: Book) -> None:
        while not book.of(events.PairOut):
            await book.backlog.wait(1)
        book.backlog.hold("operator", "by the operator")
        await asyncio.sleep(5000)
        book.backlog.release("operator")

    book = run_pairs([until(3000, "mute")], 4, operate=pause)
    assert Counter(book.results.values()) == {"kept": 4}


def test_a_retry_stopped_by_hand_while_its_folder_is_moved_is_stopped(run_pairs: Run) -> None:
    def halt(job: Job) -> bool:
        job.halt.set()
        return False

    book = run_pairs([always("refuses"), always("talks")], 1, book={"fails": {"discard": halt}})
    assert book.results == {"s__1": "stopped"}
    assert book.attempts["s__1"] == 1


def test_a_probe_is_dropped_when_the_run_is_over(run_pairs: Run) -> None:
    book = run_pairs([always("unreachable"), always("talks")], 6, seconds=30.0, probe_seconds=10_000.0)
    assert Counter(book.results.values()) == {"kept": 6}
    assert len(book.of(events.PairOut)) == 1
    assert book.ended < 1000


def test_a_probe_that_raises_is_one_that_found_nobody(run_pairs: Run) -> None:
    book = run_pairs([lambda name, now: "unreachable" if now < 60 else "raises" if now < 100 else "talks"], 4, backend_wait=400.0)
    assert Counter(book.results.values()) == {"kept": 4}
    assert len(book.of(events.PairOut)) == len(book.of(events.PairBack)) == 1


WHATS = st.sampled_from(["talks", "talks", "mute", "refuses", "unreachable", "loses user", "raises"])
PHASES = st.lists(st.tuples(st.floats(1, 500), WHATS), max_size=6)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    phases=st.lists(PHASES, min_size=1, max_size=4),
    last=st.lists(WHATS, min_size=4, max_size=4),
    odd=st.dictionaries(st.integers(1, 8), st.sampled_from(["mute", "refuses", "raises", "loses user"]), max_size=3),
    count=st.integers(0, 8),
    retries=st.integers(0, 2),
    backoff=st.sampled_from([0.0, 5.0, 100.0]),
    seed=st.integers(0, 2**16),
    operator=st.booleans(),
)
def test_every_run_ends_with_every_scenario_told_of_and_a_bounded_number_of_attempts(
    run_pairs: Run,
    phases: list[list[tuple[float, str]]],
    last: list[str],
    odd: dict[int, str],
    count: int,
    retries: int,
    backoff: float,
    seed: int,
    operator: bool,
) -> None:
    def rule(number: int) -> Rule:
        def what(name: str, now: float) -> str:
            if name and int(name[3:]) in odd:
                return odd[int(name[3:])]
            for length, then in phases[number]:
                if now < length:
                    return then
                now -= length
            return last[number]

        return what

    async def operate(book: Book) -> None:
        random = Random(seed)
        for _ in range(random.randrange(12)):
            await asyncio.sleep(random.uniform(0, 60))
            match random.randrange(4):
                case 0:
                    book.backlog.hold("operator", "by the operator")
                case 1:
                    book.backlog.release("operator")
                case 2:
                    job = random.choice(book.queue) if book.queue else None
                    if job is not None and book.backlog.in_hand(job.name) is job and job.name not in book.results:
                        book.backlog.halt(job)
                case 3 if random.random() < 0.1:
                    book.backlog.close("enough")
        book.backlog.release("operator")

    book = run_pairs(
        [rule(number) for number in range(len(phases))],
        count,
        operate=operate if operator else None,
        max_auto_retries=retries,
        auto_retry_backoff_secs=backoff,
    )
    assert all(attempts <= 2 * (retries + 1) + 2 + len(phases) for attempts in book.attempts.values()), book.attempts
    if not book.backlog.closed:
        assert len(book.results) == count
    outs = Counter(event.pair for event in book.of(events.PairOut))
    outs.subtract(Counter(event.pair for event in book.of(events.PairBack)))
    assert set(outs.values()) <= {0, 1}, "a pair that is out goes out no second time, and comes back only where it was out"
