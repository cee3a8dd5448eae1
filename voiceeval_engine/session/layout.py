"""The names of everything in a session directory, and the two operations that depend on names alone: making a session,
moving an attempt aside.

Rules: artifacts page of the specification ("Session directory", "Scenario directory"). May import the standard library
and this folder only.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from voiceeval_engine.session.files import is_full, sync_folder

TIMESTAMP_FORMAT = "%Y%m%d_%H%M%S"
SESSION_PREFIX = "eval_"
KILLED_INFIX = ".killed."
KILLED_MARKER = "__KILLED__"
MAX_NAME_BYTES = 255

EVALUATION_LOG = "evaluation_log.txt"
RUN_ARGS = "run_args.json"
ALL_METRICS = "all_metrics.json"
ALL_LATENCIES = "all_latencies.csv"
ALL_SUMMARY = "all_summary.txt"
JOURNAL = "events.jsonl"
LOCK = "session.lock"
ENGINE_LOG = "engine.log"
_SESSION_FILES = {EVALUATION_LOG, RUN_ARGS, ALL_METRICS, ALL_LATENCIES, ALL_SUMMARY, JOURNAL, LOCK, ENGINE_LOG}

METRICS = "metrics.json"
JUDGE_RESULT = "judge_result.json"
FINAL_RESPONSE = "final_agent_response.json"
DB_HASH = "final_scenario_db_hash.txt"
CONVERSATION_LOG = "conversation_log.txt"
CONVERSATION_SEGLST = "conversation_log.seglst.json"
RECORDING = "conversation_log.wav"
BRIDGE_LOG = "bridge_log.txt"
TIMING = "timing.json"
TRACE_METRICS = "trace_metrics.json"
AGENT_LOGS = "bot_logs_agent"
USER_LOGS = "bot_logs_user"
LLM_CONTEXT = "llm_context.json"
SCENARIO_CONFIG = "scenario_config"

_HASH_CHARS = 12
_BY_HAND = "byhand"
_BY_HAND_TAG = re.compile(rf"{_BY_HAND}(?P<number>\d{{1,9}})\.(?P<ts>\d{{8}}_\d{{6}})(?:\.(?P<copy>\d{{1,9}}))?", re.ASCII)


def create_session_dir(output_dir: Path, now: datetime) -> tuple[Path, str]:
    """Make `<output_dir>/eval_<ts>` exclusively and return it with its timestamp.

    `now` is local wall-clock time; a second that is taken is skipped for the next free one. Raises OSError when the
    folder cannot be made.
    """
    output_dir.mkdir(parents=True, exist_ok=True)
    moment = now
    while True:
        timestamp = moment.strftime(TIMESTAMP_FORMAT)
        session = output_dir / f"{SESSION_PREFIX}{timestamp}"
        try:
            session.mkdir()
        except FileExistsError:
            moment += timedelta(seconds=1)
        else:
            return session, timestamp


def session_dir(output_dir: Path, timestamp: str) -> Path:
    """Where the session of that timestamp lies, whether it is there or not."""
    return output_dir / f"{SESSION_PREFIX}{timestamp}"


def scenario_dir(session: Path, scenario: str) -> Path:
    """Where the evidence of a scenario's accepted attempt lies."""
    return session / scenario


def is_folder_name(name: str) -> bool:
    """Whether a name that a file of the session gives can be a scenario's folder in it: no path, no file of the session's own, nothing
    a file system refuses.
    """
    try:
        raw = name.encode()
    except UnicodeEncodeError:
        return False
    taken = name in (".", "..") or name in _SESSION_FILES or is_killed(name)
    return 0 < len(raw) <= MAX_NAME_BYTES and not taken and not {"/", "\0"} & set(name)


def is_killed(name: str) -> bool:
    """Whether a folder of that name is an attempt that was moved aside."""
    return KILLED_INFIX in name


def retry_tag(number: int, timestamp: str) -> str:
    """The tag of the attempt that the automatic retry `number` (from 1) discards; `timestamp` is when the run started.

    What a resume moves aside has that timestamp alone as its tag.
    """
    return f"autoretry{number}.{timestamp}"


def by_hand_tag(number: int, timestamp: str) -> str:
    """The tag of a result that attempt `number` is to replace because the operator wants it; `timestamp` as in `retry_tag`."""
    return f"{_BY_HAND}{number}.{timestamp}"


def is_replaced_result(name: str) -> bool:
    """Whether a folder of that name holds a result that the operator replaced, the proof of a draw that was repeated."""
    return name.partition(KILLED_INFIX)[2].startswith(_BY_HAND)


def replaced_results(session: Path, names: Sequence[str]) -> dict[str, Path]:
    """Those of `names` whose result the operator replaced, in any invocation, and where the latest old one lies. Raises OSError."""
    moved = sorted((entry for entry in session.iterdir() if is_replaced_result(entry.name)), key=_when_replaced)
    latest = {entry.name.partition(KILLED_INFIX)[0]: entry for entry in moved}
    shortened = {scenario[-_HASH_CHARS:]: entry for scenario, entry in latest.items() if "~" in scenario}
    found = ((name, latest.get(name) or (shortened and shortened.get(_digest(name)))) for name in names)
    return {name: entry for name, entry in found if entry}


def _when_replaced(moved: Path) -> tuple[str, int, int]:
    tag = _BY_HAND_TAG.fullmatch(moved.name.partition(KILLED_INFIX)[2])
    return ("", 0, 0) if tag is None else (tag["ts"], int(tag["number"]), int(tag["copy"] or 1))


def killed_name(scenario: str, tag: str, copy: int = 1) -> str:
    """`<scenario>.killed.<tag>`, at most 255 bytes: a longer one has the end of its scenario name replaced by a hash.

    `copy` above 1 makes further names for the same scenario and tag.
    """
    suffix = f"{KILLED_INFIX}{tag}" + (f".{copy}" if copy > 1 else "")
    room = MAX_NAME_BYTES - len(suffix.encode())
    raw = scenario.encode()
    if len(raw) <= room:
        return scenario + suffix
    kept = raw[: room - _HASH_CHARS - 1].decode(errors="ignore")
    return f"{kept}~{_digest(scenario)}{suffix}"


def _digest(scenario: str) -> str:
    return hashlib.sha256(scenario.encode()).hexdigest()[:_HASH_CHARS]


def unused(path: Path) -> Path:
    """`path`, or where that is taken `<stem>.2<suffix>`, `<stem>.3<suffix>` and so on beside it."""
    free, copy = path, 1
    while os.path.lexists(free):
        copy += 1
        free = path.with_name(f"{path.stem}.{copy}{path.suffix}")
    return free


def move_aside(attempt: Path, tag: str) -> Path:
    """Rename an attempt's folder to its killed name, drop an empty `__KILLED__` in it, return the new path.

    The name is made unique, nothing is overwritten. Only the holder of the session's lock may call this. Raises
    OSError.
    """
    copy = 1
    while os.path.lexists(target := attempt.with_name(killed_name(attempt.name, tag, copy))):
        copy += 1
    attempt.rename(target)
    if target.is_dir():
        try:
            (target / KILLED_MARKER).touch()
        except OSError as error:
            if not is_full(error):  # the name says it all
                raise
    _sync(attempt.parent)
    return target


def bring_back(moved: Path, attempt: Path) -> None:
    """Undo `move_aside`: the folder counts again. Raises OSError."""
    (moved / KILLED_MARKER).unlink(missing_ok=True)
    moved.rename(attempt)
    _sync(attempt.parent)


def _sync(folder: Path) -> None:
    """A rename that was made is not undone because a full disk cannot make it durable yet."""
    try:
        sync_folder(folder)
    except OSError as error:
        if not is_full(error):
            raise
