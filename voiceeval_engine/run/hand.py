"""The operator's hand: what a command over the control socket may do to a run, and what it may not.

Whether a command fits is read from the fold of events, as every console reads it. May import lower floors and this folder's `backlog`
and `records`. Rule: running page, "The operator's hand".
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from voiceeval_engine.live import events
from voiceeval_engine.live.commands import Command, Reply, Status
from voiceeval_engine.live.journal import Journal
from voiceeval_engine.live.state import ENDED, RunState, ScenarioState
from voiceeval_engine.run.backlog import Job
from voiceeval_engine.run.records import Records

_HOLD = "operator"
_BIASED = "it failed, and a fresh draw in place of a failure biases the rate: confirm to run it again"


class Hand:
    """Answers commands. `started_at` is the invocation's (ISO 8601), `stop_now` ends the run at once."""

    def __init__(
        self,
        names: Sequence[str],
        records: Records,
        journal: Journal,
        started_at: str,
        stop_now: Callable[[], None],
    ) -> None:
        self._numbers = {name: number for number, name in enumerate(names, start=1)}
        self._records = records
        self._backlog = records.backlog
        self._state = RunState()
        journal.listen(self._state.apply)
        self._emit = journal.emit
        self._log = records.log
        self._started_at = started_at
        self._began = time.monotonic()
        self._stop_now = stop_now

    def obey(self, command: Command) -> Reply:
        """Carry out a command, or refuse it with the reason."""
        match command.command:
            case "status":
                return Reply(ok=True, message="", status=self._status())
            case "pause":
                return self._pause()
            case "resume-queue":
                return self._go_on()
            case "stop" | "stop-now":
                return self._stop(after_current=command.command == "stop")
        name = command.scenario or ""
        scenario = self._state.scenarios.get(name)
        if scenario is None:
            return _refused(f"there is no scenario {name!r} in this run")
        if command.command == "skip":
            return self._skip(scenario)
        if command.command == "stop-attempt":
            return self._stop_attempt(scenario)
        return self._run_again(scenario, command.confirmed)

    def _pause(self) -> Reply:
        if self._backlog.held_by(_HOLD):
            return _refused("the queue is paused already")
        if self._backlog.over:
            return _refused("the queue has come to its end, no attempt is left to hold back")
        self._backlog.hold(_HOLD, events.BY_OPERATOR)
        return self._did("the queue is paused; conversations that run go on")

    def _go_on(self) -> Reply:
        if not self._backlog.held_by(_HOLD):
            return _refused(f"the queue was not paused by hand{f': {self._backlog.held}' if self._backlog.held else ''}")
        self._backlog.release(_HOLD)
        return self._did(f"the queue is still held: {self._backlog.held}" if self._backlog.held else "the queue goes on")

    def _stop(self, *, after_current: bool) -> Reply:
        self._emit(events.Stopping(after_current=after_current))
        if not after_current:
            self._stop_now()
            return self._did("the run stops now")
        self._backlog.close("stopped by the operator")
        return self._did("the run stops after the attempts that run now")

    def _skip(self, scenario: ScenarioState) -> Reply:
        job = self._backlog.waiting(scenario.name)
        if job is None:
            return _refused(f"{scenario.name} does not wait in the queue: it is {scenario.status}")
        self._backlog.remove(job)
        keeps = self._records.skip(job)
        return self._did(f"{job.name} keeps its earlier result" if keeps else f"{job.name} is skipped")

    def _stop_attempt(self, scenario: ScenarioState) -> Reply:
        job = self._backlog.in_hand(scenario.name)
        if job is None or scenario.status not in ("setting up", "talking", "retrying"):
            return _refused(f"{scenario.name} has no attempt to stop: it is {scenario.status}")
        self._backlog.halt(job)
        return self._did(f"the attempt at {scenario.name} is stopped")

    def _run_again(self, scenario: ScenarioState, confirmed: bool) -> Reply:
        name = scenario.name
        if self._backlog.over:
            return _refused("the queue has come to its end; resume the session to run it again")
        if scenario.status not in ENDED or self._backlog.waiting(name):
            return _refused(f"{name} has not ended: it is {scenario.status}")
        if scenario.status not in ("stalled", "not run") and not (scenario.status == "failed" and confirmed):
            return _refused(f"{name}: {_BIASED}" if scenario.status == "failed" else f"{name} has a result that stands")
        if self._backlog.in_hand(name):
            return _refused(f"{name} is {scenario.status}, but its attempt is still being closed; ask again in a moment")
        self._emit(events.Requeued(scenario=name, attempt=scenario.attempt, reason="by hand", by_hand=True))
        self._backlog.put_back(Job(self._numbers[name], name, attempts=scenario.attempt, by_hand=True))
        return self._did(f"{name} is queued again, before all others")

    def _did(self, message: str) -> Reply:
        self._log.info("by hand: %s", message)
        return Reply(ok=True, message=message)

    def _status(self) -> Status:
        state, elapsed = self._state, time.monotonic() - self._began  # no clock that somebody may set
        stopping = state.stopping is not None or self._backlog.closed
        success = state.success
        return Status(
            session=state.session,
            pid=os.getpid(),
            started_at=self._started_at,
            state="stopping" if stopping else "paused" if self._backlog.held else "running",
            reason=self._backlog.held,
            total=len(state.scenarios),
            done=state.done,
            running=tuple(name for name in state.scenarios if self._backlog.in_hand(name)),
            not_run=state.count("not run"),
            stalled=state.count("stalled"),
            success_k=success.k,
            success_n=success.n,
            elapsed=elapsed,
            eta=state.eta(state.started + elapsed),
            pairs=state.pairs_there,
            pairs_out=tuple(f"pair {number + 1}: {outage.reason}" for number, outage in sorted(state.outages.items())),
        )


def _refused(reason: str) -> Reply:
    return Reply(ok=False, message=reason)
