"""The queue of a run: who gets what and when, that nothing is lost or given twice, and that nobody waits for nothing."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from fake_time import Deadlock, run_in_fake_time
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceeval_engine.run.backlog import Backlog, Job

Test = Callable[[], Coroutine[Any, Any, None]]


def in_fake_time(test: Test) -> Callable[[], None]:
    """Makes a coroutine a test whose waits take no time."""

    def run() -> None:
        run_in_fake_time(test())

    run.__name__, run.__doc__ = getattr(test, "__name__", "test"), test.__doc__
    return run


def jobs(count: int) -> list[Job]:
    return [Job(number, f"s__{number}") for number in range(1, count + 1)]


def now() -> float:
    return asyncio.get_running_loop().time()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@in_fake_time
async def test_jobs_come_in_order_and_the_run_is_over_when_all_are_finished() -> None:
    backlog = Backlog(queue := jobs(3), [0])
    for job in queue:
        assert await backlog.take(0) is job
        assert backlog.in_hand(job.name) is job
        assert backlog.waiting(job.name) is None
        assert not backlog.over
        backlog.finish(job)
    assert backlog.over
    assert await backlog.take(0) is None


@in_fake_time
async def test_a_run_is_not_over_while_a_job_is_in_hand_and_who_waits_gets_it_when_it_comes_back() -> None:
    backlog = Backlog(jobs(1), [0, 1])
    job = await backlog.take(0)
    assert job is not None
    other = asyncio.create_task(backlog.take(1))
    await settle()
    assert not other.done()
    backlog.put_back(job)
    assert await other is job
    waits = asyncio.create_task(backlog.take(0))
    await settle()
    backlog.finish(job)
    assert await waits is None


@in_fake_time
async def test_a_job_goes_to_the_front_or_to_the_end() -> None:
    backlog = Backlog(jobs(2), [0])
    for front, then in ((True, "s__1"), (False, "s__2")):
        job = await backlog.take(0)
        assert job is not None
        backlog.put_back(job, front=front)
        job = await backlog.take(0)
        assert job is not None
        assert job.name == then
        backlog.put_back(job)


@in_fake_time
async def test_a_pair_that_refused_a_job_gets_it_only_when_no_other_usable_pair_is_left() -> None:
    job, other = jobs(2)
    job.refused_by = {0}
    backlog = Backlog([job, other], [0, 1])
    assert backlog.elsewhere(job)
    assert await backlog.take(0) is other
    waits = asyncio.create_task(backlog.take(0))
    await settle()
    assert not waits.done()
    backlog.pair_out(1)
    assert not backlog.elsewhere(job)
    assert await waits is job


@in_fake_time
async def test_a_job_that_all_refused_is_for_everybody() -> None:
    (job,) = jobs(1)
    job.refused_by = {0, 1}
    assert await Backlog([job], [0, 1]).take(1) is job


@in_fake_time
async def test_a_job_in_its_back_off_lets_others_pass_and_comes_when_it_is_due() -> None:
    first, second = jobs(2)
    first.not_before = (began := now()) + 5
    backlog = Backlog([first, second], [0])
    assert await backlog.take(0) is second
    assert now() < began + 1
    assert await backlog.take(0) is first
    assert now() >= began + 5


@in_fake_time
async def test_a_pair_that_goes_out_while_it_waits_gets_nothing() -> None:
    backlog = Backlog(jobs(1), [0, 1])
    await backlog.take(0)
    waits = asyncio.create_task(backlog.take(1))
    await settle()
    backlog.pair_out(1)
    assert await waits is None
    assert backlog._usable == {0}
    backlog.pair_back(1)
    assert backlog._usable == {0, 1}


@in_fake_time
async def test_a_hold_holds_queue_retries_and_probes_until_the_last_holder_lets_go() -> None:
    told: list[str] = []
    backlog = Backlog(queue := jobs(2), [0], told.append)
    job = await backlog.take(0)
    assert job is not None
    backlog.hold("operator", "by the operator")
    backlog.hold("disk", "no room")
    assert backlog.held == "by the operator; no room"
    assert not backlog.open
    assert backlog.take_probe() == (None, math.inf)
    retry, take = asyncio.create_task(backlog.may_begin(job)), asyncio.create_task(backlog.take(0))
    await settle()
    backlog.release("operator")
    backlog.release("nobody")
    await settle()
    assert not retry.done()
    assert not take.done()
    backlog.release("disk")
    assert await retry
    assert await take is queue[1]
    assert told == ["by the operator", "by the operator; no room", "no room", ""]
    assert backlog.open


@in_fake_time
async def test_a_retry_waits_for_its_back_off_and_then_for_a_hold() -> None:
    (job,) = jobs(1)
    backlog = Backlog([job], [0])
    await backlog.take(0)
    job.not_before = (began := now()) + 5
    assert await backlog.may_begin(job)
    assert now() >= began + 5
    job.not_before = now() + 5
    backlog.hold("operator", "by the operator")
    asyncio.get_running_loop().call_later(100, backlog.release, "operator")
    assert await backlog.may_begin(job)
    assert now() >= began + 105


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("end", ["halt", "close"])
def test_a_retry_that_is_not_wanted_any_more_does_not_wait(held: bool, end: str) -> None:
    async def run() -> None:
        (job,) = jobs(1)
        backlog = Backlog([job], [0])
        await backlog.take(0)
        job.not_before = (began := now()) + 100
        if held:
            backlog.hold("operator", "by the operator")
        loop = asyncio.get_running_loop()
        loop.call_later(1, *((backlog.halt, job) if end == "halt" else (backlog.close, "enough")))
        assert not await backlog.may_begin(job)
        assert now() - began < 2

    run_in_fake_time(run())


@in_fake_time
async def test_closing_ends_all_waiting_and_its_first_reason_stands() -> None:
    backlog = Backlog(jobs(2), [0, 1])
    await backlog.take(0)
    backlog.hold("operator", "by the operator")
    waits = [asyncio.create_task(backlog.take(pair)) for pair in (0, 1)]
    until = asyncio.create_task(backlog.until_over())
    await settle()
    assert not until.done()
    backlog.close("first")
    backlog.close("second")
    assert await asyncio.gather(*waits, until) == [None, None, None]
    assert (backlog.closed_because, backlog.over, backlog.open) == ("first", True, False)
    assert backlog.take_probe() == (None, math.inf)


@in_fake_time
async def test_a_job_that_is_removed_is_not_run() -> None:
    backlog = Backlog(queue := jobs(1), [0])
    backlog.hold("operator", "by the operator")
    waits = asyncio.create_task(backlog.take(0))
    await settle()
    backlog.remove(queue[0])
    assert await waits is None
    assert backlog.over


@in_fake_time
async def test_a_probe_takes_what_may_run_now_whoever_refused_it_and_else_says_when_one_may() -> None:
    first, second = jobs(2)
    first.not_before, second.refused_by = now() + 5, {0}
    backlog = Backlog([first, second], [0, 1])
    assert backlog.take_probe() == (second, 0.0)
    job, delay = backlog.take_probe()
    assert job is None
    assert delay == pytest.approx(5, abs=0.01)
    await asyncio.sleep(delay)
    assert backlog.take_probe() == (first, 0.0)
    assert backlog.take_probe() == (None, math.inf)


@in_fake_time
async def test_a_job_is_reclaimed_only_where_its_scenario_has_not_been_queued_anew() -> None:
    backlog = Backlog(queue := jobs(2), [0])
    job, other = await backlog.take(0), await backlog.take(0)
    assert [job, other] == queue
    assert job is not None
    assert other is not None
    assert backlog.reclaim(job), "it is in hand still"
    backlog.finish(job)
    assert backlog.reclaim(job)
    backlog.finish(other)
    assert not backlog.over, "what is reclaimed is in hand"
    backlog.put_back(job)
    assert not backlog.reclaim(job), "it waits"
    backlog.remove(job)
    again = Job(1, job.name, by_hand=True)
    backlog.put_back(again)
    assert not backlog.reclaim(job)
    assert await backlog.take(0) is again
    assert not backlog.reclaim(job)
    backlog.finish(again)
    assert not backlog.reclaim(job)
    assert backlog.reclaim(again)


@in_fake_time
async def test_the_time_without_pairs_counts_neither_probes_nor_holds() -> None:
    backlog = Backlog(jobs(2), [0, 1])
    backlog.pair_out(0)
    assert backlog.without_pairs() is None
    backlog.pair_out(1)
    await asyncio.sleep(10)
    backlog.pair_out(0)
    assert backlog.without_pairs() == pytest.approx(10, abs=0.01)
    job, _ = backlog.take_probe()
    assert job is not None
    assert backlog.without_pairs() is None
    backlog.put_back(job)
    backlog.hold("operator", "by the operator")
    assert backlog.without_pairs() is None
    await asyncio.sleep(1000)
    backlog.release("operator")
    assert backlog.without_pairs() == pytest.approx(0, abs=0.01), "who was not allowed to probe has not waited"
    await asyncio.sleep(3)
    assert backlog.without_pairs() == pytest.approx(3, abs=0.01)
    backlog.pair_back(1)
    assert backlog.without_pairs() is None


@in_fake_time
async def test_waiting_ends_after_its_time_or_at_a_change() -> None:
    backlog, began = Backlog(jobs(1), [0]), now()
    await backlog.wait(3)
    assert now() >= began + 3
    asyncio.get_running_loop().call_later(1, backlog.pair_out, 0)
    await backlog.wait(math.inf)
    assert now() < began + 5


def test_the_fake_clock_finds_who_waits_for_ever() -> None:
    with pytest.raises(Deadlock):
        run_in_fake_time(Backlog(jobs(1), [0]).until_over())


@dataclass
class Chaos:
    """Pairs that work, fail, go out and come back, and an operator, as `random` has it."""

    random: Random
    pairs: int
    count: int
    closes: bool
    ends: dict[Job, str] = field(default_factory=dict)
    busy: set[Job] = field(default_factory=set)
    put_backs: int = 0

    async def run(self) -> None:
        self.queue = jobs(self.count)
        self.backlog = Backlog(self.queue, range(self.pairs))
        operator = asyncio.create_task(self._operate())
        await asyncio.gather(*(self._serve(pair) for pair in range(self.pairs)))
        assert self.backlog.over
        await operator
        assert not self.busy
        if not self.backlog.closed:
            assert self.ends.keys() == set(self.queue), "a job was lost"

    async def _serve(self, pair: int) -> None:
        backlog, random = self.backlog, self.random
        while not backlog.over:
            if pair in backlog._usable:
                job = await backlog.take(pair)
                assert job is None or not backlog.held
                assert job is None or pair not in job.refused_by or not backlog.elsewhere(job)
            else:
                await asyncio.sleep(random.uniform(0, 20))
                job, delay = backlog.take_probe() if random.random() < 0.5 else (None, 1.0)
                if job is None:
                    await backlog.wait(min(delay, 30))
                if random.random() < 0.5:
                    backlog.pair_back(pair)
            if job is not None:
                assert not backlog.closed
                assert job.not_before <= now()
                await self._work(pair, job)

    async def _work(self, pair: int, job: Job) -> None:
        backlog, random = self.backlog, self.random
        assert job not in self.busy, "a job was handed out twice"
        assert job not in self.ends
        assert backlog.in_hand(job.name) is job
        self.busy.add(job)
        await asyncio.sleep(random.choice([0, 0, 1, 50]))
        if random.random() < 0.2:
            backlog.pair_out(pair)
        if random.random() < 0.3:
            job.not_before = now() + random.uniform(0, 30)
            if await backlog.may_begin(job):
                assert now() >= job.not_before
                assert not backlog.held
            else:
                assert backlog.closed or job.halt.is_set()
        self.busy.remove(job)
        if self.put_backs < 5 * self.count and random.random() < 0.6:
            self.put_backs += 1
            if random.random() < 0.5:
                job.refused_by.add(pair)
            if random.random() < 0.5:
                job.not_before = now() + random.uniform(0, 30)
            backlog.put_back(job, front=random.random() < 0.5)
            return
        self.ends[job] = "finished"
        if random.random() < 0.2 and self.put_backs < 5 * self.count:
            self.put_backs += 1
            assert backlog.reclaim(job)
            del self.ends[job]
            await asyncio.sleep(random.choice([0, 5]))
            backlog.put_back(job)
        else:
            backlog.finish(job)

    async def _operate(self) -> None:
        backlog, random = self.backlog, self.random
        for _ in range(random.randrange(20)):
            await asyncio.sleep(random.uniform(0, 20))
            job = random.choice(self.queue)
            match random.randrange(6):
                case 0:
                    backlog.hold(random.choice("ab"), "a reason")
                case 1:
                    backlog.release(random.choice("ab"))
                case 2 if backlog.waiting(job.name) is job:
                    backlog.remove(job)
                    self.ends[job] = "removed"
                case 3 if backlog.in_hand(job.name) is job:
                    backlog.halt(job)
                case 4:
                    backlog.pair_out(random.randrange(self.pairs))
                case 5 if self.closes and random.random() < 0.2:
                    backlog.close("enough")
        backlog.release("a")
        backlog.release("b")


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 6), st.booleans())
def test_whatever_happens_no_job_is_lost_or_given_twice_and_the_run_ends(seed: int, pairs: int, count: int, closes: bool) -> None:
    run_in_fake_time(Chaos(Random(seed), pairs, count, closes).run())
