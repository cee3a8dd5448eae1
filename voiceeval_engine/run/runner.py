"""The run: a session that is made or taken up, one queue, one worker a pair, the judge beside them, aggregates, an orderly end.

May import everything below. Rules: running page, "Resume", "Processes" and "Stopping"; artifacts page, `evaluation_log.txt`.
"""

from __future__ import annotations

import asyncio
import shlex
import signal
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from voiceeval_engine.bridge.pacer import Pacer
from voiceeval_engine.bridge.setup import Pair
from voiceeval_engine.live import events
from voiceeval_engine.live.commands import ControlUnavailable, socket_path
from voiceeval_engine.live.control import ControlServer
from voiceeval_engine.live.journal import Journal
from voiceeval_engine.offload import Offload
from voiceeval_engine.run.attempt import Workshop
from voiceeval_engine.run.backlog import Backlog, Job
from voiceeval_engine.run.hand import Hand
from voiceeval_engine.run.judging import Judged, open_desk
from voiceeval_engine.run.ledger import Ledger
from voiceeval_engine.run.logs import RunLogs
from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.run.records import FINISH_SECONDS, Records, Scenarios
from voiceeval_engine.run.results import scored_event
from voiceeval_engine.run.resuming import Prepared, find_session, prepare, timestamp_now
from voiceeval_engine.run.roster import Roster
from voiceeval_engine.run.worker import Worker
from voiceeval_engine.session import layout
from voiceeval_engine.session.lock import SessionLock
from voiceeval_engine.session.run_args import Invocation, append_invocation, redact


class Runner:
    """Runs `names` once. `run` returns whether every one of them has a result; `scenarios` is closed then."""

    def __init__(
        self,
        options: RunOptions,
        scenarios: Scenarios,
        names: Sequence[str],
        argv: Sequence[str],
        listeners: Sequence[Callable[[events.Event], object]] = (),
        *,
        judge_key: str | None = None,
        recorded: RunOptions | None = None,
        unusable: Sequence[Exception] = (),
    ) -> None:
        """`recorded` are the options as the user gave them, where the run's own differ (the demo's bots and judge).

        `unusable` tells of scenarios that could not be read; the run says so when it begins.
        """
        self._options = options
        self._parsed_args = dict((recorded or options).parsed_args())
        self._scenarios = scenarios
        self._names = tuple(names)
        self._argv = tuple(argv)
        self._unusable = tuple(unusable)
        self._judge_key = judge_key
        self._pairs = [Pair(number, *urls) for number, urls in enumerate(options.pairs)]
        self._stopping: asyncio.Event = asyncio.Event()
        self._run_ts = timestamp_now()
        if options.resume is None:
            self.session, timestamp = layout.create_session_dir(options.output_dir, datetime.now())
            self._run_ts = timestamp
        else:
            self.session, timestamp = find_session(options.output_dir, options.resume), options.resume
        self._timestamp = timestamp
        self._started_at = datetime.now().isoformat(timespec="seconds")
        self._lock = SessionLock(self.session, self._started_at, str(socket_path(self.session)))
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
        self._backlog = Backlog((), range(len(self._pairs)), self._on_held)
        shop = Workshop(options, Pacer(options.audio_chunk_in_seconds), self._offload, self._journal.emit)
        self._records = Records(self.session, self._run_ts, shop, scenarios, self._backlog, self._ledger, self._logs, self._secrets)
        self._roster = None if options.pairs_from is None else Roster(self._records, options.pairs_from, len(self._names))
        self._disk = self._records.disk
        hand = Hand(self._names, self._records, self._journal, self._started_at, self.stop)
        self._control = ControlServer(self.session, hand.obey, partial(self._log.warning, "%s"))

    def stop(self) -> None:
        """End now: conversations in progress are dropped, what is finished is aggregated."""
        self._stopping.set()

    async def run(self) -> bool:
        """Run the queue to its end or to `stop`; raises OSError when the session cannot be written."""
        handled = self._handle_signals()
        try:
            waiting = await self._begin()
            aggregating = asyncio.create_task(self._ledger.keep_up_to_date(self._disk.report), name="aggregates")
            try:
                await self._work(waiting)
                await self._settle()
            finally:
                aggregating.cancel()
                await asyncio.gather(aggregating, return_exceptions=True)
            self._ledger.waited_after = {job.name: job.reasons[-1] for job in self._backlog.unfinished() if job.reasons}
            while (full := await self._ledger.write(finished=True)) is not None and not self._stopping.is_set():
                self._disk.report(full)
                await self._until_stopped([asyncio.create_task(self._disk.room())])
            for error in self._journal.failures:
                self._log.warning("a view failed and was told no more: %r", error)
            if self._journal.error is not None:
                self._log.warning("the journal has gaps, it could not be written: %s", self._journal.error)
            elif self._journal.lost:
                self._log.warning("the journal has a gap: %d events found no room on the disk", self._journal.lost)
            reason = "interrupted" if self._stopping.is_set() else "" if self._ledger.complete else self._backlog.closed_because
            return self._ledger.close(reason or "finished", self._resume_command())
        finally:
            for signum in handled:
                asyncio.get_running_loop().remove_signal_handler(signum)
            await self._control.close()
            await self._disk.close()
            await self._journal.close()
            self._logs.close()
            self._scenarios.close()
            self._offload.close()
            self._lock.release()

    async def _work(self, unjudged: Sequence[str]) -> None:
        """All scenarios and all verdicts, those of `unjudged` too, or until told to stop."""
        options, records = self._options, self._records
        async with open_desk(
            options, self._judge_key, options.min_agent_turns, self._offload, self._log, self._on_judged,
            wait_for_room=self._wait_for_room,
        ) as desk:  # fmt: skip
            records.desk = desk
            if desk is not None:
                for name in unjudged:
                    desk.hand_in(name, layout.scenario_dir(self.session, name))
            serving = [self._roster] if self._roster else [Worker(records, pair, len(self._names)) for pair in self._pairs]
            await self._until_stopped([asyncio.create_task(each.serve(), name="worker") for each in serving])
            if desk is not None:
                await self._until_stopped([asyncio.create_task(desk.drain())])

    async def _settle(self) -> None:
        """What the operator wanted run again and what never began has its earlier result again."""
        settling = asyncio.create_task(self._records.settle(), name="settle")
        if self._stopping.is_set():
            await asyncio.wait({settling}, timeout=FINISH_SECONDS)
        await self._until_stopped([settling])

    async def _begin(self) -> list[str]:
        """Record the invocation, take up what an earlier one left; returns the scenarios whose verdict is still out."""
        options, names = self._options, list(self._names)
        prepared = Prepared()
        if options.resume is not None:
            self._log.info("=== RESUMING run %s%s ===", layout.SESSION_PREFIX, options.resume)
            prepared = await self._offload.run(
                0, prepare, self.session, names, options.min_agent_turns, self._run_ts, self._parsed_args
            )
        pairs = self._pairs if self._roster is None else await self._roster.first()
        try:
            await self._control.start()
        except ControlUnavailable as error:
            self._log.warning("this run takes no commands: %s", error)
        self._journal.emit(
            events.RunStarted(
                session=events.clip(str(self.session)),
                scenarios=names,
                pairs=[(self._records.clean(pair.agent_url), self._records.clean(pair.user_url)) for pair in pairs],
                inactivity_timeout=options.inactivity_timeout,
                min_agent_turns=options.min_agent_turns,
                pairs_from=events.clip(str(options.pairs_from or "")),
            )
        )
        invocation = Invocation(self._started_at, self._argv, self._parsed_args, self._names, resumed=options.resume is not None)
        for problem in self._unusable:
            self._log.warning("%s", problem)
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
        for number, name in enumerate(names, start=1):
            if name not in done:
                self._backlog.put_back(Job(number, name), front=False)
        self._log.info("%d scenario(s) to run, %d already completed.", len(names) - len(done), len(done))
        return [event.scenario for event in prepared.loaded if event.pending]

    async def _until_stopped(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Until all of `tasks` have ended, or until told to stop; they are cancelled then.

        One that fails is told and ends the run in order: what it had in hand nobody else can finish.
        """
        stop = asyncio.create_task(self._stopping.wait())
        left: set[asyncio.Task[Any]] = {stop, *tasks}
        try:
            while stop in left and len(left) > 1:
                done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                if any(not task.cancelled() and task.exception() for task in done):
                    self._backlog.close("an unexpected fault")
        finally:
            for task in (*tasks, stop):
                task.cancel()
            for result in await asyncio.gather(*tasks, stop, return_exceptions=True):
                if isinstance(result, Exception):
                    self._log.error("the run met an unexpected fault: %r", result, exc_info=result)

    def _on_judged(self, judged: Judged) -> None:
        result = self._ledger.result(judged.name)
        if result is not None:
            self._ledger.scored(scored_event(judged.name, result.attempt, judged.metrics, verdict=judged.verdict))

    def _on_held(self, reason: str) -> None:
        self._journal.emit(events.Paused(reason=reason) if reason else events.GoneOn())

    async def _wait_for_room(self, error: OSError) -> None:
        self._disk.report(error)
        await self._disk.room()

    def _resume_command(self) -> str:
        """The user's command line with `--resume`, for a shell."""
        words = [str(word) for word in redact(list(self._argv), self._secrets)]
        if self._options.resume is None:
            words += ["--resume", self._timestamp]
        return shlex.join(["voiceeval-tui", *words])

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
