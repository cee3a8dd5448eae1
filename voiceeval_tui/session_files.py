"""A session read from its files: what was said in a scenario, what came of it, what the invocations and the log tell.

For scenarios whose text is no longer held, and for sessions without a journal. Trusts nothing: other programs write these files, some while
we read. May import the standard library, the engine's `live/` and `session/`, and `transcript`. Rule: artifacts page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from voiceeval_engine.live import events
from voiceeval_engine.live.events import Side
from voiceeval_engine.session import layout
from voiceeval_engine.session.files import UnreadableFile, read_json
from voiceeval_engine.session.metrics import parse_metrics
from voiceeval_engine.session.results import event_fields, judgement_of, read_result
from voiceeval_engine.session.transcripts import local_time, read_log, turns_of
from voiceeval_tui.transcript import Line, Speech, Transcript

_LOG_LINE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) \| \S* \| \[(DEBUG|INFO|WARNING|ERROR)\]: (.*)")


def read_transcript(session: Path, scenario: str) -> Transcript | None:
    """What was said in a scenario's accepted attempt: from the journal, else its conversation log, else its metrics; None without any."""
    if not layout.is_folder_name(scenario):
        return None
    if (told := _from_journal(session / layout.JOURNAL, scenario)) is not None:
        return told
    folder = layout.scenario_dir(session, scenario)
    return _from_log(folder / layout.CONVERSATION_LOG) or _from_metrics(folder / layout.METRICS)


def read_scored(session: Path, scenario: str, attempt: int, time: float) -> events.ScenarioScored:
    """A scenario's `metrics.json` as the event that the engine would have sent. Raises UnreadableFile and BadMetrics."""
    metrics, judged = read_result(layout.scenario_dir(session, scenario))
    fields = event_fields(parse_metrics(metrics), judgement_of(judged))
    return events.ScenarioScored(scenario=scenario, attempt=attempt, time=time, **fields)


def parse_log_line(line: str) -> events.Logged | None:
    """A line of `evaluation_log.txt`; None for rules, empty and debug lines."""
    match = _LOG_LINE.match(line)
    if match is None or match[2] == "DEBUG" or not match[3].strip("= "):
        return None
    level: Any = match[2]
    return events.Logged(level=level, message=events.clip(match[3]), time=local_time(match[1]) or 0.0)


def journal_events(journal: Path, *marks: bytes) -> Iterator[events.Event]:
    """The events of a journal whose line holds one of `marks`, as far as it can be read; none where there is no journal."""
    marked = re.compile(b"|".join(map(re.escape, marks)))
    try:
        with journal.open("rb") as file:
            for line in filter(marked.search, file):
                try:
                    event = events.parse_event(line)
                except events.BadEvent:
                    continue
                yield event
    except OSError:
        return


def _from_journal(path: Path, scenario: str) -> Transcript | None:
    """The one source that knows tool calls and interruptions. Attempts that came to nothing are passed over."""
    mark = f'"scenario":{json.dumps(scenario, ensure_ascii=False)}'.encode("utf-8", "replace")
    current: Transcript | None = None
    accepted: Transcript | None = None
    for event in journal_events(path, mark):
        if not isinstance(event, events.AttemptEvent) or event.scenario != scenario:
            continue
        if isinstance(event, events.AttemptStarted):
            current = Transcript(event.attempt)
        if isinstance(event, events.ScenarioScored) and not event.restored and current is not None:
            accepted = current
        elif current is not None:
            current.apply(event)
    return accepted if accepted is not None and accepted.settled else None


def _from_log(path: Path) -> Transcript | None:
    transcript = Transcript()
    for segment in read_log(path):
        side = _side(segment.role)
        transcript.add(Line("turn", side, events.clip(segment.text), segment.start, segment.latency_ms))
        transcript.add_speech(Speech(side, segment.start, segment.end))
    return transcript if transcript.settled else None


def _from_metrics(path: Path) -> Transcript | None:
    """Turns with the time since the first; their moments are those of their last speech, so there are no lanes."""
    try:
        value = read_json(path)
    except UnreadableFile:
        return None
    transcript = Transcript()
    for turn in turns_of(value) if isinstance(value, dict) else ():
        transcript.add(Line("turn", _side(turn.role), events.clip(turn.text), turn.start))
    return transcript if transcript.settled else None


def _side(role: str) -> Side:
    return "agent" if role == "agent" else "user"
