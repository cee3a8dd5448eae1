"""What a session holds while no engine runs, and what may not become of it: the invariants of the crash bench.

May import the product's names of files.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.processes import BenchError
from voiceeval_engine.session import layout

FLOOR = 1
_JUDGES_KEYS = ("judge_score", "judge_passed", "nl_assertion_pass_rate", "success_breakdown", "is_successful", "is_task_successful")

Violations = list[str]


@dataclass(frozen=True)
class Folder:
    """One attempt's folder: its name now and the files in it."""

    name: str
    files: frozenset[str]


@dataclass(frozen=True)
class Result:
    """A scenario that counts as completed, by the bench's own reading."""

    inode: int
    metrics: dict[str, Any]
    verdict: dict[str, Any] | None
    started: int

    @property
    def pending(self) -> bool:
        return self.verdict is None or str(self.verdict.get("reason")) == "Error: verdict pending"


@dataclass(frozen=True)
class Seen:
    """A session while no engine runs."""

    folders: dict[int, Folder]
    top: dict[str, int]
    results: dict[str, Result]
    invocations: list[Any]


def look(session: Path) -> Seen:
    """What a session holds; temporary files of writes that were cut off do not count."""
    folders, results, top = {}, {}, {}
    started = Counter(event["scenario"] for event in _events(session) if event.get("type") == "attempt_started")
    for entry in session.iterdir():
        if not entry.is_dir():
            if not entry.name.endswith(".tmp"):
                top[entry.name] = entry.stat().st_size
            continue
        files = (str(file.relative_to(entry)) for file in entry.rglob("*") if not file.name.endswith(".tmp"))
        folders[entry.stat().st_ino] = Folder(entry.name, frozenset(files))
        if layout.is_killed(entry.name):
            continue
        metrics = read_json(entry / layout.METRICS)
        if metrics and metrics["total_turns"] > 0 and metrics["token_usage"]["agent"]["n_calls"] >= FLOOR:
            verdict = read_json(entry / layout.JUDGE_RESULT)
            results[entry.name] = Result(entry.stat().st_ino, metrics, verdict, started[entry.name])
    record = read_json(session / layout.RUN_ARGS) or {"invocations": []}
    return Seen(folders, top, results, record["invocations"])


def compare(before: Seen | None, after: Seen) -> Violations:
    """What went wrong between two looks at one session."""
    if before is None:
        return []
    wrong = []
    for inode, folder in before.folders.items():
        now = after.folders.get(inode)
        if now is None:
            wrong.append(f"{folder.name} was deleted")
        elif now.name != folder.name and not now.name.startswith(f"{folder.name}{layout.KILLED_INFIX}"):
            wrong.append(f"{folder.name} became {now.name}")
        elif lost := folder.files - now.files:
            wrong.append(f"{folder.name} lost {sorted(lost)}")
    wrong += [f"{name} was deleted" for name in before.top.keys() - after.top.keys() - {layout.ALL_SUMMARY}]
    if layout.ALL_SUMMARY in before.top and len(_summaries(after)) < len(_summaries(before)):
        wrong.append("a summary was deleted")
    logs = (layout.JOURNAL, layout.EVALUATION_LOG)
    wrong += [f"{name} became shorter" for name in logs if after.top.get(name, 0) < before.top.get(name, 0)]
    if after.invocations[: len(before.invocations)] != before.invocations:
        wrong.append("run_args.json lost a record")
    for name, result in before.results.items():
        wrong += [f"{name} {how}" for how in _changed(result, after.results.get(name))]
    return wrong


def final(session: Path, whole: Path, names: Sequence[str]) -> Violations:
    """What is wrong with the end of a crashed run, seen against one that nothing interrupted."""
    wrong = []
    results, wanted = read_json(session / layout.ALL_METRICS) or [], read_json(whole / layout.ALL_METRICS)
    if [each["scenario_name"] for each in results] != list(names):
        wrong.append(f"all_metrics.json covers {[each['scenario_name'] for each in results]}")
    for one, other in zip(results, wanted, strict=False):
        wrong += [
            f"{one['scenario_name']}: {key} is {one.get(key)}, without interruption {other.get(key)}"
            for key in ("stop_reason", "is_action_match", "db_state_match", *_JUDGES_KEYS)
            if one.get(key) != other.get(key)
        ]
        if one != read_json(session / one["scenario_name"] / layout.METRICS):
            wrong.append(f"{one['scenario_name']}: all_metrics.json is not what stands in its folder")
    if rates(session) != rates(whole):
        wrong.append(f"the summary's rates are {rates(session)}, without interruption {rates(whole)}")
    bad, torn = bad_lines(session), len((read_json(session / layout.RUN_ARGS) or {})["invocations"])
    if bad > torn:
        wrong.append(f"events.jsonl has {bad} bad lines after {torn} invocations")
    return wrong


def _changed(old: Result, new: Result | None) -> Iterator[str]:
    if new is None:
        yield "was completed and is not any more"
        return
    if new.inode != old.inode or new.started != old.started:
        yield "was completed and ran again"
    if not old.pending and (new.metrics, new.verdict) != (old.metrics, old.verdict):
        yield "had its verdict and changed"
    if _conversed(new.metrics) != _conversed(old.metrics):
        yield "changed by more than its verdict"


def _conversed(metrics: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metrics.items() if key not in _JUDGES_KEYS}


def _summaries(seen: Seen) -> list[str]:
    return [name for name in seen.top if name.startswith("all_summary.")]


def rates(session: Path) -> list[str]:
    with suppress(OSError):
        return [line for line in (session / layout.ALL_SUMMARY).read_text().splitlines() if "%" in line or "WARNING" in line]
    return []


def read_json(path: Path) -> Any:
    with suppress(OSError):
        return json.loads(path.read_bytes())
    return None


def journal_lines(journal: bytes) -> Iterator[dict[str, Any] | None]:
    for line in journal.splitlines():
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError:
                yield None


def _events(session: Path) -> list[dict[str, Any]]:
    journal = session / layout.JOURNAL
    return [event for event in journal_lines(journal.read_bytes() if journal.exists() else b"") if event is not None]


def bad_lines(session: Path) -> int:
    return sum(event is None for event in journal_lines((session / layout.JOURNAL).read_bytes()))


def one_session(output: Path) -> Path | None:
    """The one session in `output`, None where there is none yet."""
    found = sorted(output.glob(f"{layout.SESSION_PREFIX}*"))
    if len(found) > 1:
        raise BenchError(f"{len(found)} sessions in {output}")
    return found[0] if found else None


def phases(journal: bytes) -> list[str]:
    """What each scenario was in when an invocation with that journal was killed."""
    states: dict[str, str] = {}
    begun = False
    for event in filter(None, journal_lines(journal)):
        kind, name = event["type"], event.get("scenario", "")
        begun = begun or kind == "run_started"
        if kind == "attempt_started":
            states[name] = "set-up"
        elif kind == "conversation_started":
            states[name] = "conversation"
        elif kind == "conversation_ended":
            states[name] = "evidence"
        elif kind == "attempt_discarded":
            states[name] = "retry"
        elif kind == "scenario_scored":
            states.pop(name, None)
            if event["pending"]:
                states[name] = "judging"
    return sorted(set(states.values())) or (["aggregating"] if begun else ["starting"])
