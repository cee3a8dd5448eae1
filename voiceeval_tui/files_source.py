"""A session without a journal (the reference harness's own, live or finished) told as events, from its files.

Reads again what changed, once a second at most. Where a scenario stands follows from its folder: none is queued, one without metrics runs,
one with metrics is scored; attempts that were moved aside were discarded. May import the standard library, the engine's `live/` and
`session/`, `source`, `session_files`, `view`. Rules: console page, "Two processes"; artifacts page.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from voiceeval_engine.live import events
from voiceeval_engine.live.events import Event
from voiceeval_engine.session import layout
from voiceeval_engine.session.files import UnreadableFile, changed_at
from voiceeval_engine.session.metrics import BadMetrics
from voiceeval_engine.session.run_args import DEFAULT_FLOOR, floor_of, invocations, newest_options, recorded_names
from voiceeval_engine.session.transcripts import local_time
from voiceeval_tui.session_files import parse_log_line, read_scored, read_transcript
from voiceeval_tui.source import BUDGET_SECONDS, Batch, JournalSource
from voiceeval_tui.view import Link

POLL_SECONDS = 1.0
_LOG_BYTES = 1024 * 1024
"""How much of a log is read at one poll."""
_SETTLING_SECONDS = 5.0
"""A file that cannot be parsed may still be being written for this long."""

_RETRIED = re.compile(r"AUTO-RETRY \d+/\d+: .*?: (?P<reason>.*); attempt moved to (?P<folder>[^/]+)/")
_RETRY_FOLDER = re.compile(r"(?P<scenario>.+)\.killed\.autoretry(?P<number>\d+)\..+")


@dataclass(frozen=True)
class _Invocation:
    """What the newest record of `run_args.json` says, or what stands in for it."""

    names: tuple[str, ...] = ()
    started: float | None = None
    pairs: tuple[tuple[str, str], ...] = ()
    inactivity_timeout: float = 120.0
    min_agent_turns: int = DEFAULT_FLOOR


@dataclass
class _Known:
    """What was told of one scenario; `metrics`, `judged` and `log` are when those files were last written, ns."""

    number: int
    stage: Literal["queued", "running", "scored"] = "queued"
    attempt: int = 0
    discards: int = 0
    metrics: int = 0
    judged: int = 0
    log: int = 0
    turns: int = 0


class FilesSource:
    """Follows a session's files; goes over to the journal when there is one, because our engine went on with the session."""

    def __init__(self, session: Path) -> None:
        self.session = session
        self._journal: JournalSource | None = None
        self._last_poll = float("-inf")
        self._log_offset = 0
        self._log_behind = False
        self._log_times: tuple[float, float] | None = None
        self._reasons: dict[str, str] = {}
        self._names: tuple[str, ...] | None = None
        self._args_changed = 0
        self._invocation = _Invocation()
        self._known: dict[str, _Known] = {}
        self._ended = 0

    def poll(self, budget: float = BUDGET_SECONDS) -> Batch:
        if self._journal is None and (self.session / layout.JOURNAL).exists():
            self._journal = JournalSource(self.session)
            batch = self._journal.poll(budget)
            return Batch(batch.events, behind=batch.behind, restarted=True)
        if self._journal is not None:
            return self._journal.poll(budget)
        now = time.monotonic()
        if now - self._last_poll < POLL_SECONDS and not self._log_behind:
            return Batch([])
        self._last_poll = now
        logged = self._read_log()
        folders = self._folders()
        restarted = self._begin(folders)
        found: list[Event] = [self._run_started()] if restarted else []
        found += logged
        discarded = _discarded(folders)
        for name in self._names or ():
            found += self._tell(name, folders.get(name), discarded.get(name, []))
        found += self._tell_end()
        return Batch(found, behind=self._log_behind, restarted=restarted)

    def link(self, *, ended: bool) -> Link:
        if self._journal is not None:
            return self._journal.link(ended=ended)
        return Link("finished" if ended else "files")

    def _folders(self) -> dict[str, os.DirEntry[str]]:
        with os.scandir(self.session) as entries:
            return {entry.name: entry for entry in entries if layout.is_folder(entry)}

    def _begin(self, folders: dict[str, os.DirEntry[str]]) -> bool:
        """Find out the queue; returns whether the run is another one than the one that was told."""
        changed = changed_at(self.session / layout.RUN_ARGS)
        if changed != self._args_changed or self._names is None:
            self._args_changed, self._invocation = changed, _newest_invocation(self.session)
        present = sorted(name for name in folders if layout.is_folder_name(name) and _is_scenario(self.session / name))
        names = tuple(dict.fromkeys((*self._invocation.names, *present)))
        if self._names is not None and (names == self._names or set(names) < set(self._names)):
            return False
        self._names, self._ended = names, 0
        self._known = {name: _Known(number) for number, name in enumerate(names, start=1)}
        return True

    def _run_started(self) -> Event:
        invocation = self._invocation
        started = invocation.started or (self._log_times[0] if self._log_times else self.session.stat().st_mtime)
        return events.RunStarted(
            session=str(self.session), scenarios=list(self._names or ()), pairs=list(invocation.pairs), time=started,
            inactivity_timeout=invocation.inactivity_timeout, min_agent_turns=invocation.min_agent_turns,
        )  # fmt: skip

    def _tell(self, name: str, entry: os.DirEntry[str] | None, discarded: list[str]) -> Iterator[Event]:
        known, folder = self._known[name], self.session / name
        moment = changed_at(folder) / 1e9
        for moved_to in discarded[known.discards :] if known.stage != "scored" else ():
            if known.stage == "queued":
                known.attempt += 1
                yield self._started(name, known.attempt, moment)
            known.stage, known.discards = "queued", known.discards + 1
            reason = self._reasons.get(moved_to, "the attempt was moved aside")
            yield events.AttemptDiscarded(scenario=name, attempt=known.attempt, reason=reason, moved_to=moved_to, time=moment)
        if entry is None:
            if known.stage in ("running", "scored"):
                yield events.Requeued(
                    scenario=name, attempt=max(known.attempt, 1), reason="its folder was moved aside", time=moment
                )
                self._known[name] = _Known(known.number, attempt=known.attempt, discards=known.discards)
            return
        metrics, judged = changed_at(folder / layout.METRICS), changed_at(folder / layout.JUDGE_RESULT)
        if metrics:
            if (metrics, judged) != (known.metrics, known.judged):
                yield from self._tell_score(name, known, metrics, judged)
            return
        if known.stage != "running":
            known.stage, known.attempt, known.turns, known.log = "running", known.attempt + 1, 0, 0
            yield self._started(name, known.attempt, moment)
            if changed_at(folder / layout.BRIDGE_LOG):
                yield events.ConversationStarted(scenario=name, attempt=known.attempt, time=moment)
        yield from self._tell_turns(name, known)

    def _started(self, name: str, attempt: int, moment: float) -> Event:
        number = self._known[name].number
        return events.AttemptStarted(scenario=name, attempt=attempt, pair=0, number=number, max_duration=0.0, time=moment)

    def _tell_score(self, name: str, known: _Known, metrics: int, judged: int) -> Iterator[Event]:
        moment = metrics / 1e9
        attempt = known.attempt if known.stage in ("running", "scored") else known.attempt + 1
        try:
            event: Event = read_scored(self.session, name, attempt, moment)
        except (UnreadableFile, BadMetrics) as error:
            if time.time() - moment < _SETTLING_SECONDS:
                return
            reason = error.reason if isinstance(error, UnreadableFile) else str(error)
            event = events.ScenarioNotRun(scenario=name, attempt=attempt, reason=f"metrics.json unreadable ({reason})", time=moment)
        if known.stage != "scored" and attempt != known.attempt:
            yield self._started(name, attempt, moment)
        known.stage, known.attempt, known.metrics, known.judged = "scored", attempt, metrics, judged
        yield event

    def _tell_turns(self, name: str, known: _Known) -> Iterator[Event]:
        """Turns of a conversation that goes on, where its log grows with it."""
        changed = changed_at(self.session / name / layout.CONVERSATION_LOG)
        if not changed or changed == known.log:
            return
        known.log = changed
        transcript = read_transcript(self.session, name)
        lines = transcript.settled if transcript is not None else []
        for line in lines[known.turns :]:
            yield events.TurnEnded(
                scenario=name, attempt=known.attempt, side=line.side, text=events.clip(line.text), start=line.at, end=line.at,
                latency_ms=line.latency_ms, time=changed / 1e9,
            )  # fmt: skip
        known.turns = max(known.turns, len(lines))

    def _tell_end(self) -> Iterator[Event]:
        summary = changed_at(self.session / layout.ALL_SUMMARY)
        if not summary or summary < self._args_changed or summary == self._ended:
            return
        self._ended = summary
        files = [str(self.session / name) for name in (layout.ALL_SUMMARY, layout.ALL_METRICS, layout.ALL_LATENCIES)]
        complete = all(known.stage == "scored" for known in self._known.values())
        moment = self._log_times[1] if self._log_times else summary / 1e9
        yield events.RunEnded(complete=complete, reason="finished", files=files, time=moment)

    def _read_log(self) -> list[Event]:
        found: list[Event] = []
        self._log_behind = False
        try:
            with (self.session / layout.EVALUATION_LOG).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                if size < self._log_offset:
                    self._log_offset = 0
                file.seek(self._log_offset)
                text = file.read(_LOG_BYTES)
        except OSError:
            return []
        whole = text[: text.rfind(b"\n") + 1] or (text if len(text) == _LOG_BYTES else b"")
        self._log_offset += len(whole)
        self._log_behind = len(text) == _LOG_BYTES
        for line in whole.decode(errors="backslashreplace").splitlines():
            if retried := _RETRIED.search(line):
                self._reasons[retried["folder"]] = retried["reason"]
            if (event := parse_log_line(line)) is not None:
                found.append(event)
                self._log_times = (self._log_times[0] if self._log_times else event.time, event.time)
        return found


def _newest_invocation(session: Path) -> _Invocation:
    records = invocations(session)
    if not records:
        return _Invocation()
    record = records[-1]
    args = newest_options(records) or record
    urls = (args.get("agent_url"), args.get("user_url"))
    timeout = args.get("inactivity_timeout")
    return _Invocation(
        names=recorded_names(record),
        started=local_time(str(record.get("started_at"))),
        pairs=((str(urls[0]), str(urls[1])),) if all(isinstance(url, str) for url in urls) else (),
        inactivity_timeout=float(timeout) if isinstance(timeout, int | float) else 120.0,
        min_agent_turns=floor_of(args),
    )


def _is_scenario(folder: Path) -> bool:
    if (folder / layout.KILLED_MARKER).exists():
        return False
    return any((folder / name).exists() for name in (layout.METRICS, layout.SCENARIO_CONFIG, layout.BRIDGE_LOG))


def _discarded(folders: Iterable[str]) -> dict[str, list[str]]:
    """The folders of attempts that the automatic retry moved aside, by scenario, in order."""
    found: dict[str, list[tuple[int, str]]] = {}
    for folder in folders:
        if match := _RETRY_FOLDER.fullmatch(folder):
            found.setdefault(match["scenario"], []).append((int(match["number"]), folder))
    return {scenario: [folder for _, folder in sorted(numbered)] for scenario, numbered in found.items()}
