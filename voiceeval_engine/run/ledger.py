"""What has come of each scenario of a run, and the aggregates that follow from it, kept up to date while the run goes on.

May import lower floors, `results` and `logs`. Rules: artifacts page, "Session directory"; running page, "Stopping".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path

from voiceeval_engine.live import events
from voiceeval_engine.offload import Offload
from voiceeval_engine.run.logs import TOLD, Log
from voiceeval_engine.run.results import rewrite_aggregates
from voiceeval_engine.session import layout
from voiceeval_engine.session.files import is_full
from voiceeval_engine.session.summary import SummaryNotes

AGGREGATE_SECONDS = 3.0
_BYTES_PER_RESULT = 6_000
_FILES = {
    "Results saved to:": layout.ALL_METRICS,
    "Latencies saved to:": layout.ALL_LATENCIES,
    "Summary saved to:": layout.ALL_SUMMARY,
}


class Ledger:
    """The run's book. `timestamp` is the session's, `names` its queue in order."""

    def __init__(
        self,
        session: Path,
        timestamp: str,
        names: Sequence[str],
        min_agent_turns: int,
        *,
        offload: Offload,
        emit: Callable[[events.Event], None],
        log: Log,
    ) -> None:
        self.not_in_run: tuple[str, ...] = ()
        self.waited_after: dict[str, str] = {}
        """Why the latest attempt was discarded, of scenarios that were to run again when the run ended."""
        self._session = session
        self._timestamp = timestamp
        self._names = tuple(names)
        self._min_agent_turns = min_agent_turns
        self._offload = offload
        self._emit = emit
        self._log = log
        self._not_run: dict[str, str] = {}
        self._results: dict[str, events.ScenarioScored] = {}
        self._changed = asyncio.Event()

    @property
    def complete(self) -> bool:
        """Whether every queued scenario has a `metrics.json`."""
        return len(self._results) == len(self._names)

    def scored(self, event: events.ScenarioScored) -> None:
        """A scenario has its `metrics.json`, or a new verdict in it."""
        self._results[event.scenario] = event
        self._not_run.pop(event.scenario, None)
        self._changed.set()
        self._emit(event)

    def did_not_run(self, name: str, attempt: int, reason: str, tokens: int = 0) -> None:
        """No attempt gave a result; `tokens` is what the last one used."""
        self._not_run[name] = reason
        self._results.pop(name, None)
        self._changed.set()
        self._log.error("%s did not run: %s", name, reason, extra=TOLD)
        if tokens:
            self._emit(events.AttemptDiscarded(scenario=name, attempt=attempt, reason=events.clip(reason), tokens=tokens))
        self._emit(events.ScenarioNotRun(scenario=name, attempt=attempt, reason=events.clip(reason)))

    def forget(self, name: str) -> None:
        """The scenario has no result any more: it is to run again."""
        self._results.pop(name, None)
        self._not_run.pop(name, None)
        self._changed.set()

    def restore(self, result: events.ScenarioScored, attempt: int) -> None:
        """An earlier result counts again; `attempt` is the latest one made."""
        self.scored(result.model_copy(update={"attempt": attempt, "restored": True}))

    def result(self, name: str) -> events.ScenarioScored | None:
        """The scenario's result, None where it has none."""
        return self._results.get(name)

    async def keep_up_to_date(self, on_full: Callable[[OSError], None]) -> None:
        """Rewrite `all_metrics.json` and the CSV as scenarios finish, at most every few seconds; for ever. `on_full`: no room for them."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(AGGREGATE_SECONDS)
            self._changed.clear()
            if (full := await self.write(finished=False)) is not None:
                on_full(full)

    async def write(self, *, finished: bool) -> OSError | None:
        """Rewrite the aggregates, `all_summary.txt` too where `finished`; what stands in the way is an error in the log.

        Returns the error where the disk is full: that may pass. A cancellation waits for what is being written, so that it never takes
        the place of what is written after it.
        """
        writing = asyncio.ensure_future(self._write(finished))
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait({writing})
            raise

    async def _write(self, finished: bool) -> OSError | None:
        not_run = dict(self._not_run)
        if finished:
            left = (name for name in self._names if name not in not_run and name not in self._results)
            not_run |= {name: self._why_left(name) for name in left}
        notes = SummaryNotes(
            did_not_run=tuple((name, not_run[name]) for name in self._names if name in not_run),
            not_in_run=self.not_in_run,
        )
        size = _BYTES_PER_RESULT * len(self._results)
        try:
            warnings = await self._offload.run(
                size,
                rewrite_aggregates,
                self._session,
                self._names,
                self._min_agent_turns,
                self._timestamp,
                notes,
                finished=finished,
            )
        except (OSError, BrokenExecutor) as error:
            self._log.error("the aggregates cannot be written: %s", error)
            return error if isinstance(error, OSError) and is_full(error) else None
        for line in warnings if finished else ():
            self._log.warning("%s", line, extra=TOLD)
        return None

    def _why_left(self, name: str) -> str:
        if (self._session / name).is_dir():
            return "interrupted"
        return f"not started again after: {self.waited_after[name]}" if name in self.waited_after else "not started"

    def close(self, reason: str, resume_command: str) -> bool:
        """Tell the end of the run and where its results are; returns whether nothing of it is left to do."""
        complete = reason == "finished" and self.complete
        self._log.info("Evaluation Complete!" if reason == "finished" else "Evaluation interrupted.")
        for label, file in _FILES.items():
            self._log.info("%s %s", label, self._session / file)
        paths = [events.clip(str(self._session / file)) for file in _FILES.values()]
        self._emit(events.RunEnded(complete=complete, reason=reason, files=paths, resume_command=resume_command))
        return complete
