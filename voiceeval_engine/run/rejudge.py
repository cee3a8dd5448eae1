"""`rejudge`: scores a saved session again from its files, without touching conversations.

Old judge results are kept beside the new ones; verdicts in `metrics.json` and all aggregates follow. May import lower floors and this
folder. Rules: running page, "Resume" (last lines); artifacts page, "While a verdict is out".
"""

from __future__ import annotations

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
from voiceeval_engine.session.files import read_json_if_any, size_of, write_atomic
from voiceeval_engine.session.lock import SessionHeld, SessionLock
from voiceeval_engine.session.metrics import PENDING_REASON
from voiceeval_engine.session.resume import session_names
from voiceeval_engine.session.run_args import Invocation, append_invocation, floor_of, invocations, newest_options
from voiceeval_engine.session.summary import SummaryNotes


class RejudgeError(Exception):
    """The session cannot be judged again; the message says why."""


@dataclass(frozen=True)
class Rejudged:
    """What came of it: scenarios asked about, and those whose call failed; these keep a verdict that they had."""

    judged: tuple[str, ...]
    failed: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """Scenarios whose verdict could not be asked for or written; the evaluation log says why."""


@dataclass(frozen=True)
class _Record:
    """What the session says: its timestamp, all its scenarios in order, the options of its last invocation and that one's floor."""

    timestamp: str
    queue: tuple[str, ...]
    parsed_args: dict[str, Any]
    min_agent_turns: int


async def rejudge(
    session: Path, options: RunOptions, argv: Sequence[str], *, only_failed: bool, on_judged: Callable[[Judged], None]
) -> Rejudged:
    """Judge every scenario of `session` that has a `metrics.json`, or only those whose call failed or is still out.

    Of `options` only those of the judge count. Raises RejudgeError where there is nothing to judge or the session is in use, OSError
    where it cannot be written.
    """
    if not options.judged:
        raise RejudgeError("there is no judge: --judge-url and --judge-model must not be empty")
    lock = _take_lock(session)
    try:
        return await _rejudge(session, options, argv, only_failed, on_judged)
    finally:
        lock.release()


async def _rejudge(
    session: Path, options: RunOptions, argv: Sequence[str], only_failed: bool, on_judged: Callable[[Judged], None]
) -> Rejudged:
    record = _read_record(session)
    judgeable = [name for name in record.queue if isinstance(read_json_if_any(session / name / layout.METRICS), dict)]
    names = [name for name in judgeable if not only_failed or not has_verdict(session / name)]
    if not names:
        raise RejudgeError(f"{session}: no scenario {'whose judge call failed' if only_failed else 'with a readable metrics.json'}")
    key, offload = find_key(options), Offload()
    logs = RunLogs(session, lambda _: None, [key] if key else [])
    failed: dict[str, bool] = {}

    def note(judged: Judged) -> None:
        failed[judged.name] = judged.verdict.failed
        on_judged(judged)

    try:
        _record_invocation(session, options, argv, record, key)
        logs.run.info("=== REJUDGING %d scenario(s) of %s ===", len(names), session.name)
        try:
            async with open_desk(options, key, record.min_agent_turns, offload, logs.run, note, keep_good=True) as desk:
                for name in names:
                    _keep_result(session / name)
                    if desk is not None:
                        desk.hand_in(name, session / name)
                if desk is not None:
                    await desk.drain()
        finally:
            files = {name: session / name / layout.METRICS for name in record.queue}
            missing = tuple((name, "no metrics.json") for name, file in files.items() if not file.is_file())
            await offload.run(
                size_of(files.values()), rewrite_aggregates, session, record.queue, record.min_agent_turns,
                record.timestamp, SummaryNotes(did_not_run=missing), finished=True,
            )  # fmt: skip
    finally:
        logs.close()
        offload.close()
    return Rejudged(
        judged=tuple(failed),
        failed=tuple(name for name in failed if failed[name]),
        left_out=tuple(name for name in names if name not in failed),
    )


def _take_lock(session: Path) -> SessionLock:
    if not session.is_dir():
        raise RejudgeError(f"{session} is not a directory")
    if not _read_record(session).queue:
        raise RejudgeError(f"{session}: no scenario with a readable metrics.json")
    try:
        return SessionLock(session, datetime.now().isoformat(timespec="seconds"))
    except SessionHeld as error:
        raise RejudgeError(str(error)) from error


def _read_record(session: Path) -> _Record:
    records = invocations(session)
    parsed = newest_options(records)
    return _Record(
        timestamp=session.absolute().name.removeprefix(layout.SESSION_PREFIX),
        queue=session_names(session, records),
        parsed_args=parsed,
        min_agent_turns=floor_of(parsed),
    )


def _keep_result(folder: Path) -> None:
    """A copy of the old verdict, so that at no moment there is none."""
    old = folder / layout.JUDGE_RESULT
    result = read_json_if_any(old)
    if isinstance(result, dict) and result.get("reason") != PENDING_REASON:
        moment = datetime.now().strftime(layout.TIMESTAMP_FORMAT)
        write_atomic(layout.unused(old.with_name(f"{old.stem}.{moment}{old.suffix}")), old.read_bytes())


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
