"""`rejudge`: scores a saved session again from its files, without touching conversations.

Old judge results are kept beside the new ones; verdicts in `metrics.json` and all aggregates follow. May import lower floors and this
folder. Rules: running page, "Resume" (last lines); artifacts page, "While a verdict is out".
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from voiceeval_engine.offload import Offload
from voiceeval_engine.run.judging import Judged, find_key, has_verdict, open_desk
from voiceeval_engine.run.logs import RunLogs
from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.run.results import rewrite_aggregates
from voiceeval_engine.session import layout
from voiceeval_engine.session.files import UnreadableFile, read_json
from voiceeval_engine.session.metrics import PENDING_REASON
from voiceeval_engine.session.run_args import Invocation, append_invocation, read_invocations
from voiceeval_engine.session.summary import SummaryNotes

DEFAULT_FLOOR = 2


class RejudgeError(Exception):
    """The session cannot be judged again; the message says why."""


@dataclass(frozen=True)
class Rejudged:
    """What came of it: scenarios asked about, and those whose call failed; these keep a verdict that they had."""

    judged: tuple[str, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True)
class _Record:
    """What the session says: its timestamp, the queue of its last invocation, that one's options and floor."""

    timestamp: str
    queue: tuple[str, ...]
    parsed_args: dict[str, Any]
    min_agent_turns: int


async def rejudge(
    session: Path, options: RunOptions, argv: Sequence[str], *, only_failed: bool, on_judged: Callable[[Judged], None]
) -> Rejudged:
    """Judge every scenario of `session` that has a `metrics.json`, or only those whose call failed or is still out.

    Of `options` only those of the judge count. Raises RejudgeError where there is nothing to judge, OSError where it cannot be written.
    """
    if not options.judged:
        raise RejudgeError("there is no judge: --judge-url and --judge-model must not be empty")
    record = _read_record(session)
    names = [name for name in _judgeable(session, record.queue) if not only_failed or not has_verdict(session / name)]
    if not names:
        raise RejudgeError(f"{session}: no scenario {'whose judge call failed' if only_failed else 'with a readable metrics.json'}")
    key, offload = find_key(options), Offload()
    logs = RunLogs(session, lambda _: None)
    done: list[Judged] = []

    def note(judged: Judged) -> None:
        done.append(judged)
        on_judged(judged)

    try:
        _record_invocation(session, options, argv, record, key)
        logs.run.info("=== REJUDGING %d scenario(s) of %s ===", len(names), session.name)
        async with open_desk(options, key, record.min_agent_turns, offload, logs.run, note, keep_good=True) as desk:
            for name in names:
                _keep_result(session / name)
                if desk is not None:
                    desk.hand_in(name, session / name)
            if desk is not None:
                await desk.drain()
        queue = record.queue or tuple(names)
        missing = tuple((name, "no metrics.json") for name in queue if not (session / name / layout.METRICS).is_file())
        await offload.run(
            _metrics_bytes(session, queue), rewrite_aggregates, session, queue, record.min_agent_turns, record.timestamp,
            SummaryNotes(did_not_run=missing), finished=True,
        )  # fmt: skip
    finally:
        logs.close()
        offload.close()
    return Rejudged(tuple(each.name for each in done), tuple(each.name for each in done if each.verdict.failed))


def _metrics_bytes(session: Path, names: Sequence[str]) -> int:
    """The size of the scenarios' `metrics.json` together."""
    paths = [session / name / layout.METRICS for name in names]
    return sum(path.stat().st_size for path in paths if path.is_file())


def _read_record(session: Path) -> _Record:
    if not session.is_dir():
        raise RejudgeError(f"{session} is not a directory")
    try:
        invocations = [each for each in read_invocations(session) if isinstance(each, dict)]
    except UnreadableFile:
        invocations = []
    last = invocations[-1] if invocations else {}
    parsed, names = last.get("parsed_args"), last.get("resolved_scenario_names")
    parsed = parsed if isinstance(parsed, dict) else {}
    floor = parsed.get("min_agent_turns", DEFAULT_FLOOR)
    return _Record(
        timestamp=session.absolute().name.removeprefix(layout.SESSION_PREFIX),
        queue=tuple(name for name in names if isinstance(name, str) and Path(name).name == name) if isinstance(names, list) else (),
        parsed_args=parsed,
        min_agent_turns=floor if isinstance(floor, int) and not isinstance(floor, bool) and floor >= 0 else DEFAULT_FLOOR,
    )


def _judgeable(session: Path, queue: Sequence[str]) -> list[str]:
    """The scenarios with a readable `metrics.json`: the queue's in order, else all by name."""
    names = queue or sorted(entry.name for entry in os.scandir(session) if entry.is_dir() and not layout.is_killed(entry.name))
    return [name for name in names if isinstance(_read(session / name / layout.METRICS), dict)]


def _keep_result(folder: Path) -> None:
    """A copy of the old verdict, so that at no moment there is none."""
    old = folder / layout.JUDGE_RESULT
    result = _read(old)
    if isinstance(result, dict) and result.get("reason") != PENDING_REASON:
        moment = datetime.now().strftime(layout.TIMESTAMP_FORMAT)
        shutil.copy2(old, folder / f"{old.stem}.{moment}{old.suffix}")


def _record_invocation(session: Path, options: RunOptions, argv: Sequence[str], record: _Record, key: str | None) -> None:
    judge = {name: value for name, value in options.parsed_args().items() if name.startswith("judge_")}
    invocation = Invocation(
        started_at=datetime.now().isoformat(timespec="seconds"),
        argv=tuple(argv),
        parsed_args={**record.parsed_args, **judge},
        scenario_names=record.queue,
        resumed=True,
    )
    append_invocation(session, invocation, [key] if key else [])


def _read(path: Path) -> Any:
    try:
        return read_json(path)
    except UnreadableFile:
        return None
