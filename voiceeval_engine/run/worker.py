"""One pair at work: it takes scenarios from the backlog, tries them again where they did not count, and its fuse takes it out.

May import lower floors and this folder's `attempt`, `backlog`, `fuse`, `logs`, `records` and `retry`. Rules: running page,
"Automatic retry" and "The fuse, per pair".
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Literal

from voiceeval_engine.audio.noise import NoiseError
from voiceeval_engine.bridge.setup import Pair, probe
from voiceeval_engine.domains.registry import DomainError
from voiceeval_engine.live import events
from voiceeval_engine.run.attempt import AttemptResult, racing, run_attempt
from voiceeval_engine.run.backlog import STOPPED, Job
from voiceeval_engine.run.fuse import Fuse
from voiceeval_engine.run.logs import TOLD
from voiceeval_engine.run.records import RULE, Records, SourceFailed
from voiceeval_engine.run.retry import NO_TURNS, Decision, RetryPolicy, decide
from voiceeval_engine.scenarios.model import Scenario, ScenarioError
from voiceeval_engine.session.files import is_full
from voiceeval_engine.session.metrics import count_agent_responses, no_context

PAIR_LEFT = "its pair of bots has left"


class Worker:
    """Serves one pair until the run is over or the pair leaves. `total` is the length of the run's queue.

    `look`, where pairs come and go, finds out which are there and lets the others leave: a bot may be gone because its pair is.
    """

    def __init__(self, records: Records, pair: Pair, total: int, look: Callable[[], Awaitable[None]] | None = None) -> None:
        self.pair = pair
        self.left = False
        self._records = records
        self._backlog = records.backlog
        self._options = records.shop.options
        self._log = records.log
        self._look = look
        self._total = total
        self._fuse = Fuse()
        self._cost: dict[Job, str] = {}
        """Scenarios whose end came of the bad attempts in a row, and how: the fuse gives them back."""
        floor = self._options.min_agent_turns if self._options.auto_resume_on_insufficient_turns else 0
        self._policy = RetryPolicy(self._options.auto_resume_on_stale, self._options.max_auto_retries, floor)

    async def serve(self) -> None:
        """Take scenarios until none is left, or the pair has. Raises nothing but a cancellation."""
        while not (self._backlog.over or self.left):
            job = await (self._next_probe() if self._fuse.blown else self._backlog.take(self.pair.number))
            if job is None:
                continue
            ended = await self._guarded(job)
            given_back = self._reclaim_cost() if self._fuse.blown or self.left else {}
            if ended and job not in given_back:
                self._backlog.finish(job)
            for each, reason in reversed(given_back.items()):
                await self._give_back(each, reason)
        if self.left:
            for each, reason in reversed(self._reclaim_cost().items()):
                await self._give_back(each, reason)

    def leave(self) -> None:
        """The pair takes nothing more; what it has in hand it finishes, or hands back where its bots are gone."""
        self.left = True
        self._backlog.pair_gone(self.pair.number)

    def stay(self) -> None:
        """The pair is there again before its scenario has ended."""
        self.left = False
        self._fuse.good()
        self._backlog.pair_back(self.pair.number)

    async def _next_probe(self) -> Job | None:
        """Wait until a probe is due; one that needs a scenario returns it."""
        without = self._backlog.without_pairs()
        left = math.inf if without is None else self._options.backend_wait - without
        delay = self._fuse.wait(_now())
        if left <= 0:
            self._backlog.close_without_pairs(self._options.backend_wait)
        elif delay > 0:
            await self._backlog.wait(min(delay, left))
        elif self._fuse.probes_with_scenario:
            job, delay = self._backlog.take_probe()
            if job is None:
                await self._backlog.wait(min(delay, left))
            return job
        elif (trouble := await self._probe()) is None:
            self._mended()
        else:
            self._fuse.bad("unreachable", self._records.clean(trouble), _now())
        return None

    async def _probe(self) -> str | None:
        """As `bridge.setup.probe`; whatever it raises is no answer either, and it is dropped when the run is over."""
        try:
            async with racing(probe(self.pair, self._log), self._backlog.until_over()) as probing:
                return await probing if probing.done() else "the run is over"
        except Exception as error:  # noqa: BLE001 - a worker that dies would leave its scenarios to nobody
            self._log.exception("pair %d: the probe failed", self.pair.number + 1)
            return f"unexpected error: {error!r}"

    async def _guarded(self, job: Job) -> bool:
        """Run the job; whatever it raises is its own trouble. Returns whether it has come to its end."""
        records = self._records
        try:
            return await self._run(job)
        except (ScenarioError, DomainError, NoiseError) as error:
            if printed := getattr(error, "printed", ""):
                self._log.warning("%s: printed before that:\n%s", job.name, printed)
            await records.came_to_nothing(job, str(error))
        except SourceFailed as error:
            self._log.exception("scenario %s cannot be built", job.name)
            await records.came_to_nothing(job, str(error))
        except OSError as error:
            if is_full(error):
                return await records.discard_for_disk(job, error)
            await records.came_to_nothing(job, f"the session cannot be written: {error}")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - one scenario's trouble never ends the run
            self._log.exception("scenario %s: unexpected error", job.name)
            await records.came_to_nothing(job, f"unexpected error: {error!r}")
        return True

    async def _run(self, job: Job) -> bool:
        """Attempts on this pair, until the scenario has its end (true) or waits in the backlog again."""
        records = self._records
        try:
            scenario = await records.build(job.name)
        except asyncio.CancelledError:
            self._backlog.put_back(job)  # its attempt has not begun
            raise
        if not self._backlog.open:
            self._backlog.put_back(job)
            return False
        self._log.info("%s", RULE)
        self._log.info("Starting Scenario %d/%d: %s", job.number, self._total, job.name)
        self._log.info("%s", RULE)
        while True:
            result, decision = await self._attempt(job, scenario)
            if result.halted:
                await records.came_to_nothing(job, STOPPED, tokens=result.tokens, talked=result.outcome is not None)
                return True
            blew = self._tell_fuse(result, decision.reason)
            if decision.kind == "retry":
                follows = await self._discard(job, result, decision.reason, blew)
                if follows == "another":
                    continue
                return follows == "nothing"
            counts = decision.kind == "keep" or not await records.came_to_nothing(job, decision.reason, tokens=result.tokens)
            if counts and not result.turns and (blew or not self._fuse.blown):
                self._cost[job] = decision.reason
            return True

    async def _attempt(self, job: Job, scenario: Scenario) -> tuple[AttemptResult, Decision]:
        """One attempt; where it is to be kept, it has been kept."""
        records = self._records
        folder, log = await records.open_attempt(job)
        try:
            duration = self._options.duration or scenario.max_duration
            records.shop.emit(
                events.AttemptStarted(
                    scenario=job.name, attempt=job.attempts, pair=self.pair.number, number=job.number, max_duration=duration
                )
            )
            result = await run_attempt(records.shop, scenario, job.attempts, self.pair, folder, log, job.halt)
            if self._look is not None and _bots_gone(result):
                await self._look()
            decision = self._decide(job, result)
            if result.outcome is not None:
                if decision.kind == "keep" and not result.halted:
                    await records.keep(job, scenario, folder, result, decision)
                else:
                    await records.save_evidence(scenario, folder, result.outcome)
        finally:
            await records.close_attempt(log)
        return result, decision

    def _decide(self, job: Job, result: AttemptResult) -> Decision:
        """As the policy says; but a probe that fails costs the scenario nothing the first time, and a bot that is not there never does
        while there is another pair to try.
        """
        probed = self._fuse.blown and not result.turns
        if result.failure is not None and not result.halted:
            job.refused_by.add(self.pair.number)
        decision = decide(
            self._policy,
            self._policy.max_retries if probed else job.retries,
            failure=None if result.failure is None else self._records.clean(result.failure),
            turns=result.turns,
            responses=_agent_responses(result),
        )
        if (
            (self.left and _bots_gone(result))
            or (probed and not job.probed)
            or (result.unreachable and self._backlog.elsewhere(job))
        ):
            return Decision("retry", decision.reason or (PAIR_LEFT if result.turns else NO_TURNS))
        return decision

    async def _discard(
        self, job: Job, result: AttemptResult, reason: str, blew: bool
    ) -> Literal["another", "the queue", "nothing"]:
        """The attempt does not count; tells what follows: another one here and now, a place in the queue, or nothing."""
        records, probed = self._records, self._fuse.blown and not blew
        handed_over = result.failure is not None and self._backlog.elsewhere(job)
        job.probed = job.probed or probed
        free = probed or self.left or (handed_over and result.unreachable)
        job.retries += not free
        await records.discard(job, reason, result.tokens, free=free)
        job.not_before = _now() + self._options.auto_retry_backoff_secs
        if job.halt.is_set():
            await records.came_to_nothing(job, STOPPED)
            return "nothing"
        if self.left or probed or blew or handed_over:
            why = PAIR_LEFT if self.left else f"pair {self.pair.number + 1} failed it"
            records.queue_again(job, why, front=self.left or not probed)
            return "the queue"
        if await self._backlog.may_begin(job) and not self.left:
            return "another"
        if job.halt.is_set():
            await records.came_to_nothing(job, STOPPED)
            return "nothing"
        records.queue_again(job, PAIR_LEFT if self.left else "the run is ending")
        return "the queue"

    def _tell_fuse(self, result: AttemptResult, reason: str) -> bool:
        """Whether this attempt blew the fuse: the pair is out then. One with turns mends it."""
        if self.left:
            return False
        if not result.turns:
            blew = self._fuse.bad("unreachable" if result.unreachable else "of no use", reason or NO_TURNS, _now())
            if blew:
                self._take_out()
            return blew
        if self._fuse.blown:
            self._mended()
        self._fuse.good()
        self._cost.clear()
        return False

    def _take_out(self) -> None:
        fuse, number = self._fuse, self.pair.number
        since = time.time() - (_now() - fuse.since)
        began = time.strftime("%H:%M:%S", time.localtime(since))
        self._log.error("PAIR %d IS OUT since %s: %s. It is probed until it answers.", number + 1, began, fuse.reason, extra=TOLD)
        self._records.shop.emit(events.PairOut(pair=number, reason=events.clip(fuse.reason), since=since))
        self._backlog.pair_out(number)

    def _reclaim_cost(self) -> dict[Job, str]:
        """Take in hand again what the fuse cost, each scenario once only: so the run is not over before they are queued."""
        if self._backlog.closed:
            return {}
        cost, self._cost = self._cost, {}
        given_back = {job: reason for job, reason in cost.items() if not job.returned and self._backlog.reclaim(job)}
        for job in given_back:
            job.returned = True
        return given_back

    async def _give_back(self, job: Job, reason: str) -> None:
        """Queue a scenario again; where its folder cannot be moved, its end stands."""
        try:
            await self._records.give_back(job, reason or NO_TURNS)
        except OSError as error:
            self._log.error("%s: what the pair cost it cannot be undone: %s", job.name, error, extra=TOLD)
            self._backlog.finish(job)

    def _mended(self) -> None:
        if self.left:
            return
        self._fuse.good()
        self._cost.clear()
        self._log.info("pair %d answers again", self.pair.number + 1)
        self._records.shop.emit(events.PairBack(pair=self.pair.number))
        self._backlog.pair_back(self.pair.number)


def _bots_gone(result: AttemptResult) -> bool:
    """Whether the attempt ended as it does when a pair's bots are stopped."""
    lost = result.outcome is not None and result.outcome.stop_reason in ("[AGENT_DISCONNECTED]", "[USER_DISCONNECTED]")
    return not result.halted and (lost or result.failure is not None or not result.turns)


def _agent_responses(result: AttemptResult) -> int | None:
    """The agent's responses as the floor counts them, before anything is written."""
    if result.outcome is None:
        return None
    usage = {"agent": asdict(result.outcome.tokens["agent"])}
    turns = [{"role": turn.side, "text": turn.text} for turn in result.outcome.turns]
    return count_agent_responses({"token_usage": usage, "turns": turns}, no_context)


def _now() -> float:
    return asyncio.get_running_loop().time()
