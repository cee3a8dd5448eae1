"""The run: one queue, one worker a pair, one conversation at a time on each, retries, evidence, aggregates, an orderly end.

One scenario's trouble is never another's: whatever raises, the run goes on. May import everything below. Rules: running page,
"Automatic retry", "Stopping"; artifacts page, `evaluation_log.txt`.
"""

from __future__ import annotations

import asyncio
import shlex
import signal
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from voiceeval_engine.audio.noise import NoiseError
from voiceeval_engine.bridge.pacer import Pacer
from voiceeval_engine.bridge.setup import Pair
from voiceeval_engine.domains.registry import DomainError
from voiceeval_engine.live import events
from voiceeval_engine.live.journal import Journal
from voiceeval_engine.offload import Offload
from voiceeval_engine.run.attempt import AttemptResult, Workshop, run_attempt
from voiceeval_engine.run.finish import Scoring, finish, weight, write_evidence
from voiceeval_engine.run.judging import Judged, JudgeDesk, open_desk, pending_score
from voiceeval_engine.run.ledger import Ledger
from voiceeval_engine.run.logs import TOLD, RunLogs
from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.run.results import scored_event
from voiceeval_engine.run.resuming import Prepared, find_session, prepare, timestamp_now
from voiceeval_engine.run.retry import Decision, RetryPolicy, decide
from voiceeval_engine.scenarios.model import Scenario, ScenarioError
from voiceeval_engine.session import layout
from voiceeval_engine.session.lock import SessionLock
from voiceeval_engine.session.metrics import count_agent_responses, no_context
from voiceeval_engine.session.run_args import Invocation, append_invocation, redact

FINISH_SECONDS = 5.0
"""What is being written when the run is told to stop may take this long."""
_RULE = "=" * 80


class Scenarios(Protocol):
    """Where scenarios come from; `get` may take long and raises ScenarioError."""

    def get(self, name: str) -> Scenario: ...


class SourceFailed(Exception):
    """A source raised what it should not have; the message shows it, the cause holds it."""


class Runner:
    """Runs `names` once. `run` returns whether every one of them has a result."""

    def __init__(
        self,
        options: RunOptions,
        scenarios: Scenarios,
        names: Sequence[str],
        argv: Sequence[str],
        listeners: Sequence[Callable[[events.Event], None]] = (),
        *,
        judge_key: str | None = None,
        recorded: RunOptions | None = None,
    ) -> None:
        """`recorded` are the options as the user gave them, where the run's own differ (the demo's bots and judge)."""
        self._options = options
        self._parsed_args = dict((recorded or options).parsed_args())
        self._scenarios = scenarios
        self._names = tuple(names)
        self._argv = tuple(argv)
        self._judge_key = judge_key
        self._desk: JudgeDesk | None = None
        self._pairs = [Pair(number, *urls) for number, urls in enumerate(options.pairs)]
        self._queue = deque(enumerate(self._names, start=1))
        self._attempts: dict[str, int] = {}
        self._stopping: asyncio.Event = asyncio.Event()
        self._run_ts = timestamp_now()
        if options.resume is None:
            self.session, timestamp = layout.create_session_dir(options.output_dir, datetime.now())
            self._run_ts = timestamp
        else:
            self.session, timestamp = find_session(options.output_dir, options.resume), options.resume
        self._timestamp = timestamp
        self._lock = SessionLock(self.session, datetime.now().isoformat(timespec="seconds"))
        self._offload = Offload()
        self._journal = Journal(self.session / layout.JOURNAL, self._offload.threads)
        for listener in listeners:
            self._journal.listen(listener)
        self._secrets = [judge_key] if judge_key else []
        self._logs = RunLogs(self.session, self._journal.emit, self._secrets)
        self._log = self._logs.run
        self._ledger = Ledger(
            self.session,
            timestamp,
            self._names,
            options.min_agent_turns,
            offload=self._offload,
            emit=self._journal.emit,
            log=self._log,
        )
        self._shop = Workshop(options, Pacer(options.audio_chunk_in_seconds), self._offload, self._journal.emit)

    def stop(self) -> None:
        """End now: conversations in progress are dropped, what is finished is aggregated."""
        self._stopping.set()

    async def run(self) -> bool:
        """Run the queue to its end or to `stop`; raises OSError when the session cannot be written."""
        handled = self._handle_signals()
        try:
            waiting = await self._begin()
            aggregating = asyncio.create_task(self._ledger.keep_up_to_date(), name="aggregates")
            options = self._options
            try:
                async with open_desk(
                    options, self._judge_key, options.min_agent_turns, self._offload, self._log, self._on_judged
                ) as self._desk:
                    if self._desk is not None:
                        for name in waiting:
                            self._desk.hand_in(name, layout.scenario_dir(self.session, name))
                    await self._until_stopped([asyncio.create_task(self._serve(pair)) for pair in self._pairs])
                    if self._desk is not None:
                        await self._until_stopped([asyncio.create_task(self._desk.drain())])
            finally:
                aggregating.cancel()
                await asyncio.gather(aggregating, return_exceptions=True)
            await self._ledger.write(finished=True)
            for error in self._journal.failures:
                self._log.warning("a view failed and was told no more: %r", error)
            if self._journal.error is not None:
                self._log.warning("the journal has gaps, it could not be written: %s", self._journal.error)
            return self._ledger.close("interrupted" if self._stopping.is_set() else "finished", self._resume_command())
        finally:
            for signum in handled:
                asyncio.get_running_loop().remove_signal_handler(signum)
            await self._journal.close()
            self._logs.close()
            self._offload.close()
            self._lock.release()

    async def _begin(self) -> list[str]:
        """Record the invocation, take up what an earlier one left; returns the scenarios whose verdict is still out."""
        options, names = self._options, list(self._names)
        prepared = Prepared()
        if options.resume is not None:
            self._log.info("=== RESUMING run %s%s ===", layout.SESSION_PREFIX, options.resume)
            prepared = await self._offload.run(
                0, prepare, self.session, names, options.min_agent_turns, self._run_ts, self._parsed_args
            )
        self._journal.emit(
            events.RunStarted(
                session=events.clip(str(self.session)),
                scenarios=names,
                pairs=[(self._clean(pair.agent_url), self._clean(pair.user_url)) for pair in self._pairs],
                inactivity_timeout=options.inactivity_timeout,
                min_agent_turns=options.min_agent_turns,
            )
        )
        started_at = datetime.now().isoformat(timespec="seconds")
        invocation = Invocation(started_at, self._argv, self._parsed_args, self._names, resumed=options.resume is not None)
        warning = append_invocation(self.session, invocation, self._secrets)
        if warning is not None:
            self._log.warning("%s", warning)
        for line in prepared.warnings:
            self._log.warning("%s", line)
        self._log.info("Queued %d scenario(s): %s", len(names), names)
        for name, moved_to in prepared.moved:
            self._log.info(
                "[CLEANUP] %s: subdir was in-flight (no metrics.json or no turns completed); moved to %s/ and will re-run.",
                name, moved_to,
            )  # fmt: skip
        for event in prepared.loaded:
            self._log.info("[SKIP] %s: already complete, loaded metrics.json from disk.", event.scenario)
            self._ledger.scored(event)
        self._ledger.not_in_run = prepared.not_in_run
        done = {event.scenario for event in prepared.loaded}
        self._queue = deque((number, name) for number, name in self._queue if name not in done)
        self._log.info("%d scenario(s) to run, %d already completed.", len(self._queue), len(done))
        return [event.scenario for event in prepared.loaded if event.pending]

    async def _until_stopped(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Until all of `tasks` have ended, or until told to stop; they are cancelled then."""
        stop = asyncio.create_task(self._stopping.wait())
        everything = asyncio.gather(*tasks)
        either: set[asyncio.Future[Any]] = {everything, stop}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks, stop):
                task.cancel()
            await asyncio.gather(everything, stop, return_exceptions=True)

    async def _serve(self, pair: Pair) -> None:
        while self._queue and not self._stopping.is_set():
            number, name = self._queue.popleft()
            try:
                await self._run_scenario(number, name, pair)
            except (ScenarioError, DomainError, NoiseError) as error:
                self._ledger.did_not_run(name, self._attempts.get(name, 0), str(error))
            except OSError as error:
                self._ledger.did_not_run(name, self._attempts.get(name, 0), f"the session cannot be written: {error}")
            except SourceFailed as error:
                self._log.exception("scenario %s cannot be built", name)
                self._ledger.did_not_run(name, self._attempts.get(name, 0), str(error))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - one scenario's trouble never ends the run
                self._log.exception("scenario %s: unexpected error", name)
                self._ledger.did_not_run(name, self._attempts.get(name, 0), f"unexpected error: {error!r}")

    def _build(self, name: str) -> Scenario:
        """In a thread. Sources run foreign code; not all that it may raise can pass from a thread into the event loop."""
        try:
            return self._scenarios.get(name)
        except ScenarioError:
            raise
        except BaseException as error:
            raise SourceFailed(f"the scenario cannot be built: {error!r}") from error

    async def _run_scenario(self, number: int, name: str, pair: Pair) -> None:
        scenario = await self._offload.run(0, self._build, name)
        options = self._options
        floor = options.min_agent_turns if options.auto_resume_on_insufficient_turns else 0
        policy = RetryPolicy(options.auto_resume_on_stale, options.max_auto_retries, floor)
        folder = layout.scenario_dir(self.session, name)
        reasons: list[str] = []
        self._log.info("%s", _RULE)
        self._log.info("Starting Scenario %d/%d: %s", number, len(self._names), name)
        self._log.info("%s", _RULE)
        while True:
            attempt = len(reasons) + 1
            self._attempts[name] = attempt
            folder.mkdir()
            log = self._logs.attempt(name, attempt, folder)
            self._journal.emit(
                events.AttemptStarted(
                    scenario=name, attempt=attempt, pair=pair.number, number=number, max_duration=self._duration(scenario)
                )
            )
            try:
                result = await run_attempt(self._shop, scenario, attempt, pair, folder, log)
                decision = decide(
                    policy,
                    len(reasons),
                    failure=None if result.failure is None else self._clean(result.failure),
                    turns=result.turns,
                    responses=_agent_responses(result),
                )
                if decision.kind == "keep":
                    await _to_its_end(self._keep(scenario, attempt, folder, result, decision, tuple(reasons)))
                    return
                if result.outcome is not None:
                    chunk = self._options.audio_chunk_in_seconds
                    await self._offload.run(weight(result.outcome), write_evidence, folder, scenario, result.outcome, chunk)
            finally:
                await self._logs.end_attempt(log)
            if decision.kind == "give_up":
                self._ledger.did_not_run(name, self._attempts.get(name, 0), decision.reason, tokens=result.tokens)
                return
            reasons.append(decision.reason)
            await self._retry(name, attempt, folder, decision.reason, result.tokens)

    async def _keep(
        self, scenario: Scenario, attempt: int, folder: Path, result: AttemptResult, decision: Decision, reasons: tuple[str, ...]
    ) -> None:
        options, outcome = self._options, result.outcome
        if outcome is None:
            raise ValueError("an attempt without an outcome cannot be kept")
        if decision.reason:
            self._log.warning(
                "AUTO-RETRY EXHAUSTED: %s: %s (already retried %d/%d); keeping this attempt.",
                scenario.name, decision.reason, len(reasons), options.max_auto_retries, extra=TOLD,
            )  # fmt: skip
        scoring = Scoring(
            policy=options.conversation_end_policy,
            inactivity_timeout=options.inactivity_timeout,
            min_agent_turns=options.min_agent_turns,
            strict_match=options.strict_match,
            retry_reasons=reasons,
            spent=asyncio.get_running_loop().time() - result.began,
            pending_judge=None if self._desk is None else pending_score(options.judge_threshold, len(scenario.nl_assertions)),
        )
        size = weight(outcome)
        scored = await self._offload.run(size, finish, folder, scenario, outcome, options.audio_chunk_in_seconds, scoring)
        event = scored_event(scenario.name, attempt, scored.metrics, pending=self._desk is not None)
        self._ledger.scored(event)
        if self._desk is not None:
            self._desk.hand_in(scenario.name, folder)
        if scored.action_match_reason:
            self._log.info("%s: action list: %s", scenario.name, scored.action_match_reason)
        if event.stalled:
            self._log.warning(
                "%s: fewer than %d agent LLM response(s) (likely stalled LLM / server hang); counted as failure.",
                scenario.name, options.min_agent_turns, extra=TOLD,
            )  # fmt: skip
        self._log.info("%s", _RULE)
        self._log.info("Scenario '%s' Complete", scenario.name)
        self._log.info("%s", _RULE)

    def _on_judged(self, judged: Judged) -> None:
        attempt = self._attempts.get(judged.name, 0)
        self._ledger.scored(scored_event(judged.name, attempt, judged.metrics, verdict=judged.verdict))

    async def _retry(self, name: str, attempt: int, folder: Path, reason: str, tokens: int) -> None:
        backoff = self._options.auto_retry_backoff_secs
        tag = layout.retry_tag(attempt, self._run_ts)
        moved = await self._offload.run(0, layout.move_aside, folder, tag)
        self._log.warning(
            "AUTO-RETRY %d/%d: %s: %s; attempt moved to %s/, re-running in %gs.",
            attempt, self._options.max_auto_retries, name, reason, moved.name, backoff, extra=TOLD,
        )  # fmt: skip
        self._journal.emit(
            events.AttemptDiscarded(
                scenario=name, attempt=attempt, reason=events.clip(reason), moved_to=moved.name, retry_in=backoff, tokens=tokens
            )
        )
        await asyncio.sleep(backoff)

    def _clean(self, text: str) -> str:
        """A text without the judge's key, which may stand in a bot's URL."""
        return str(redact(text, self._secrets))

    def _resume_command(self) -> str:
        """The user's command line with `--resume`, for a shell."""
        words = [str(word) for word in redact(list(self._argv), self._secrets)]
        if self._options.resume is None:
            words += ["--resume", self._timestamp]
        return shlex.join(["voiceeval-tui", *words])

    def _duration(self, scenario: Scenario) -> float:
        return self._options.duration or scenario.max_duration

    def _handle_signals(self) -> list[signal.Signals]:
        """Ctrl-C, SIGTERM and SIGHUP end the run in good order; twice, at once. One inherited as ignored stays ignored (nohup)."""
        loop = asyncio.get_running_loop()
        wanted = [signum for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(signum) != signal.SIG_IGN]

        def on_signal() -> None:
            self.stop()
            for signum in wanted:
                loop.remove_signal_handler(signum)
                signal.signal(signum, signal.SIG_DFL)

        for signum in wanted:
            loop.add_signal_handler(signum, on_signal)
        return wanted


def _agent_responses(result: AttemptResult) -> int | None:
    """The agent's responses as the floor counts them, before anything is written."""
    if result.outcome is None:
        return None
    usage = {"agent": asdict(result.outcome.tokens["agent"])}
    turns = [{"role": turn.side, "text": turn.text} for turn in result.outcome.turns]
    return count_agent_responses({"token_usage": usage, "turns": turns}, no_context)


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Await `work`. A cancellation waits for it: a result that is half written when the run is stopped still counts."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=FINISH_SECONDS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
