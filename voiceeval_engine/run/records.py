"""What the attempts of a run leave behind: an attempt's folder and log, its result, its discarding, its return to the queue.

The workers decide, this does; each step is an event, and nothing is ever deleted. May import lower floors and this folder's `attempt`,
`backlog`, `disk`, `finish`, `judging`, `ledger`, `logs`, `results`, `retry`. Rules: running page, "Automatic retry" and "The
operator's hand"; artifacts page, `evaluation_log.txt`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from voiceeval_engine.bridge.outcome import Outcome
from voiceeval_engine.live import events
from voiceeval_engine.run.attempt import AttemptResult, Workshop
from voiceeval_engine.run.backlog import SKIPPED, Backlog, Job
from voiceeval_engine.run.disk import DiskWatch
from voiceeval_engine.run.finish import Scoring, finish, weight, write_evidence
from voiceeval_engine.run.judging import JudgeDesk, pending_score
from voiceeval_engine.run.ledger import Ledger
from voiceeval_engine.run.logs import TOLD, Log, RunLogs
from voiceeval_engine.run.results import scored_event
from voiceeval_engine.run.retry import Decision
from voiceeval_engine.scenarios.model import Scenario, ScenarioError
from voiceeval_engine.scoring.db_state import PredicateVerdict, evaluate_elsewhere
from voiceeval_engine.session import layout
from voiceeval_engine.session.files import is_full
from voiceeval_engine.session.run_args import redact

FINISH_SECONDS = 5.0
"""What is being written when the run is told to stop may take this long."""
RULE = "=" * 80

T = TypeVar("T")


class Scenarios(Protocol):
    """Where scenarios come from; `get` may take long and raises ScenarioError. After `close`, from another thread, it comes to its end."""

    def get(self, name: str) -> Scenario: ...

    def close(self) -> None: ...


class SourceFailed(Exception):
    """A source raised what it should not have; the message shows it, the cause holds it."""


class Records:
    """One run's. `desk` is the judge's, None where there is no judge or before it is open."""

    def __init__(
        self,
        session: Path,
        run_ts: str,
        shop: Workshop,
        scenarios: Scenarios,
        backlog: Backlog,
        ledger: Ledger,
        logs: RunLogs,
        secrets: Sequence[str],
    ) -> None:
        self.desk: JudgeDesk | None = None
        self.shop = shop
        self.backlog = backlog
        self.log: Log = logs.run
        self.disk = DiskWatch(session, backlog, shop.offload, logs.run)
        self._session = session
        self._run_ts = run_ts
        self._scenarios = scenarios
        self._ledger = ledger
        self._logs = logs
        self._secrets = secrets
        self._replaced: dict[str, tuple[Path, events.ScenarioScored]] = {}
        """Results that an attempt by hand is to replace, and where they were moved."""
        self._skipping: set[asyncio.Task[bool]] = set()

    def clean(self, text: str) -> str:
        """A text without the judge's key, which may stand in a bot's URL."""
        return str(redact(text, self._secrets))

    async def build(self, name: str) -> Scenario:
        """In a thread apart. Sources run foreign code; not all that it may raise can pass from a thread into the event loop."""

        def get() -> Scenario:
            try:
                return self._scenarios.get(name)
            except ScenarioError:
                raise
            except BaseException as error:
                raise SourceFailed(f"the scenario cannot be built: {error!r}") from error

        scenario = await self.shop.offload.apart(get)
        if scenario.printed:
            self.log.info("%s: printed while it was built:\n%s", name, scenario.printed)
        return scenario

    async def open_attempt(self, job: Job) -> tuple[Path, Log]:
        """The next attempt's folder and log. A result that it is to replace is moved aside. Raises OSError."""
        folder = layout.scenario_dir(self._session, job.name)
        if job.by_hand:
            await _to_its_end(self._set_result_aside(job))
        job.attempts += 1
        folder.mkdir()
        return folder, self._logs.attempt(job.name, job.attempts, folder)

    async def _set_result_aside(self, job: Job) -> None:
        folder, result = layout.scenario_dir(self._session, job.name), self._ledger.result(job.name)
        if folder.exists():
            moved = await self._move_aside(folder, layout.by_hand_tag(job.attempts + 1, self._run_ts))
            if result is not None:
                self._replaced[job.name] = moved, result
        self._ledger.forget(job.name)

    async def close_attempt(self, log: Log) -> None:
        """Once what is queued for the attempt's log has been written."""
        await self._logs.end_attempt(log)

    async def save_evidence(self, scenario: Scenario, folder: Path, outcome: Outcome) -> None:
        """All that a conversation left, without a result. Raises OSError."""
        chunk = self.shop.options.audio_chunk_in_seconds
        await self.shop.offload.run(weight(outcome), write_evidence, folder, scenario, outcome, chunk)

    async def keep(self, job: Job, scenario: Scenario, folder: Path, result: AttemptResult, decision: Decision) -> None:
        """Score the attempt and hand it to the judge; it counts even where the run is stopped meanwhile. Raises OSError."""
        await _to_its_end(self._keep(job, scenario, folder, result, decision))

    async def _keep(self, job: Job, scenario: Scenario, folder: Path, result: AttemptResult, decision: Decision) -> None:
        options, outcome = self.shop.options, result.outcome
        if outcome is None:
            raise ValueError("an attempt without an outcome cannot be kept")
        if decision.reason:
            self.log.warning(
                "AUTO-RETRY EXHAUSTED: %s: %s (already retried %d/%d); keeping this attempt.",
                job.name, decision.reason, job.retries, options.max_auto_retries, extra=TOLD,
            )  # fmt: skip
        scoring = Scoring(
            retry_reasons=tuple(job.reasons),
            spent=asyncio.get_running_loop().time() - result.began,
            pending_judge=None if self.desk is None else pending_score(options.judge_threshold, len(scenario.nl_assertions)),
            predicates=await self._verdicts_elsewhere(scenario, outcome),
        )
        scored = await self.shop.offload.run(weight(outcome), finish, folder, scenario, outcome, options, scoring)
        event = scored_event(job.name, job.attempts, scored.metrics, pending=self.desk is not None)
        self._ledger.scored(event)
        if self.desk is not None:
            self.desk.hand_in(job.name, folder)
        if scored.action_match_reason:
            self.log.info("%s: action list: %s", job.name, scored.action_match_reason)
        if event.stalled:
            self.log.warning(
                "%s: fewer than %d agent LLM response(s) (likely stalled LLM / server hang); counted as failure.",
                job.name, options.min_agent_turns, extra=TOLD,
            )  # fmt: skip
        self.log.info("%s", RULE)
        self.log.info("Scenario '%s' Complete", job.name)

    async def _verdicts_elsewhere(self, scenario: Scenario, outcome: Outcome) -> tuple[PredicateVerdict, ...] | None:
        """On the final databases, where the scenario's functions are in another process; None where they are in ours."""
        if scenario.elsewhere is None:
            return None
        texts = [outcome.pulled[side].db_text for side in ("agent", "user")]
        return await self.shop.offload.apart(evaluate_elsewhere, scenario.elsewhere.verdict, scenario.db_state_assertions, *texts)

    async def discard(self, job: Job, reason: str, tokens: int, *, free: bool = False) -> None:
        """The attempt does not count and another follows; `free` where that is none of the scenario's retries. Raises OSError."""
        options = self.shop.options
        moved = await self._discard_folder(job)
        job.reasons.append(reason)
        if free:
            self._log_free(job, reason, moved)
        else:
            self.log.warning(
                "AUTO-RETRY %d/%d: %s: %s; attempt moved to %s/, re-running in %gs.",
                job.retries, options.max_auto_retries, job.name, reason, moved, options.auto_retry_backoff_secs, extra=TOLD,
            )  # fmt: skip
        self._emit_discarded(job, reason, moved, tokens=tokens, retry_in=options.auto_retry_backoff_secs)

    async def give_back(self, job: Job, reason: str) -> None:
        """An end that a dead pair brought about is none: the scenario is queued again, before all others. Raises OSError."""
        if self.desk is not None:
            await self.desk.withdraw(job.name)
        await _to_its_end(self._give_back(job, reason))

    async def _give_back(self, job: Job, reason: str) -> None:
        moved = await self._discard_folder(job)
        job.reasons.append(reason)
        job.retries, job.not_before = 0, 0.0
        self._ledger.forget(job.name)
        self._log_free(job, reason, moved)
        self._emit_discarded(job, reason, moved)
        self.queue_again(job, "its pair of bots had died")

    async def discard_for_disk(self, job: Job, error: OSError) -> bool:
        """The attempt could not write: it is queued again and runs when there is room. True where even that failed."""
        self.disk.report(error)
        reason = f"no room on the disk: {error.strerror}"
        waits_to_be_replaced = job.by_hand and self._ledger.result(job.name) is not None
        try:
            moved = None if waits_to_be_replaced else await self._discard_folder(job)
        except OSError as trouble:
            await self.came_to_nothing(job, f"the session cannot be written: {trouble}")
            return True
        self._emit_discarded(job, reason, moved)
        self.queue_again(job, "it runs when there is room on the disk")
        return False

    def queue_again(self, job: Job, why: str, *, front: bool = True) -> None:
        """The scenario waits for a pair again."""
        self.shop.emit(events.Requeued(scenario=job.name, attempt=job.attempts, reason=why))
        self.backlog.put_back(job, front=front)

    async def came_to_nothing(self, job: Job, reason: str, tokens: int = 0, *, talked: bool = False) -> bool:
        """No attempt gave a result: the scenario did not run, or the result that it was to replace counts again (true).

        With `talked` the last attempt's evidence stands in that result's place: it had begun.
        """
        return await _to_its_end(self._came_to_nothing(job, reason, tokens, talked))

    async def _came_to_nothing(self, job: Job, reason: str, tokens: int, talked: bool) -> bool:
        reason = self.clean(reason)
        if talked:
            self._replaced.pop(job.name, None)
        result = await self._earlier_result(job)
        if result is None or reason != SKIPPED:
            self._ledger.did_not_run(job.name, job.attempts, reason, tokens=tokens)
        if result is not None:
            self._count_again(job, result)
        return result is not None

    def skip(self, job: Job) -> bool:
        """A job that is no longer in the queue is not to run; returns whether its scenario keeps an earlier result."""
        if job.name in self._replaced and self._ledger.result(job.name) is None:
            skipping = asyncio.get_running_loop().create_task(self.came_to_nothing(job, SKIPPED), name=f"skip {job.name}")
            self._skipping.add(skipping)
            skipping.add_done_callback(self._skipping.discard)
            return True
        result = self._ledger.result(job.name)
        if result is None:
            self._ledger.did_not_run(job.name, job.attempts, SKIPPED)
        else:
            self._ledger.restore(result, job.attempts)
        return result is not None

    async def settle(self) -> None:
        """The queue is at its end: results that scenarios still in it were to replace count again, those of attempts that began do not."""
        await asyncio.gather(*self._skipping)
        left = [job for job in self.backlog.unfinished() if job.by_hand and not self._is_running(job)]
        for job in left:
            self.backlog.remove(job)  # nobody else, an operator who skips it for one, is to settle it too
        for job in left:
            if (result := await self._earlier_result(job)) is not None:
                self._count_again(job, result)

    def _is_running(self, job: Job) -> bool:
        """Whether the job's attempt has begun: the end of the run cut it, and a resume runs it again."""
        return self.backlog.in_hand(job.name) is job and layout.scenario_dir(self._session, job.name).exists()

    async def _earlier_result(self, job: Job) -> events.ScenarioScored | None:
        """The result that the job was to replace, its folder in its place again; None where there is none."""
        if not job.by_hand:
            return None
        if (standing := self._ledger.result(job.name)) is not None:
            return standing
        moved, result = self._replaced.pop(job.name, (None, None))
        if moved is None or result is None:
            return None
        folder = layout.scenario_dir(self._session, job.name)
        try:
            if folder.exists():
                await self._move_aside(folder, layout.retry_tag(job.attempts, self._run_ts))
            await self._when_there_is_room(partial(layout.bring_back, moved, folder))
        except OSError as error:
            self.log.error("%s: its earlier result stays in %s/: %s", job.name, moved.name, error)
            return None
        return result

    def _count_again(self, job: Job, result: events.ScenarioScored) -> None:
        self._ledger.restore(result, job.attempts)
        self.log.warning("%s: the new attempt came to nothing, its earlier result counts again.", job.name)

    def _log_free(self, job: Job, reason: str, moved: str | None) -> None:
        self.log.warning(
            "%s: %s: laid to the pair of bots, no retry of the scenario's; attempt moved to %s/, it is queued again.",
            job.name, reason, moved, extra=TOLD,
        )  # fmt: skip

    async def _discard_folder(self, job: Job) -> str | None:
        """Move the latest attempt's folder aside; returns its new name, None where there is none."""
        folder = layout.scenario_dir(self._session, job.name)
        if not folder.exists():
            return None
        return (await self._move_aside(folder, layout.retry_tag(job.attempts, self._run_ts))).name

    async def _move_aside(self, folder: Path, tag: str) -> Path:
        return await self._when_there_is_room(partial(layout.move_aside, folder, tag))

    async def _when_there_is_room(self, work: Callable[[], T]) -> T:
        """Do a small thing with the session's names, in a thread; on a full disk again when there is room. Raises any other OSError."""
        while True:
            try:
                return await self.shop.offload.run(0, work)
            except OSError as error:
                if not is_full(error):
                    raise
                self.disk.report(error)
            await self.disk.room()

    def _emit_discarded(
        self, job: Job, reason: str, moved_to: str | None, *, tokens: int = 0, retry_in: float | None = None
    ) -> None:
        self.shop.emit(
            events.AttemptDiscarded(
                scenario=job.name,
                attempt=job.attempts,
                reason=events.clip(reason),
                moved_to=moved_to,
                retry_in=retry_in,
                tokens=tokens,
            )
        )


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Await `work`. A cancellation waits for it: a result that is half written when the run is stopped still counts."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=FINISH_SECONDS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
