"""What a scenario's files tell besides its words: figures, signals, the judge's reasons, database checks, hashes, files.

Held in bounds however large a file is, and never what the judge was sent. Trusts nothing: other programs write these files, some while we
read; what is broken is named and the rest told. May import the standard library and the engine's `session/`. Rules: console page, "Panes"
(details); artifacts page.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from voiceeval_engine.session import layout
from voiceeval_engine.session.files import UnreadableFile, read_json
from voiceeval_engine.session.metrics import (
    PENDING_REASON,
    BadMetrics,
    TokenCount,
    count_agent_responses,
    latency_stats,
    parse_metrics,
    whole,
)
from voiceeval_engine.session.run_args import read_invocations

MAX_FILE_BYTES = 8 * 1024 * 1024
"""A larger JSON file is named and not read."""
MAX_TEXT = 8000
MAX_ITEM_TEXT = 1000
MAX_ITEMS = 60
MAX_FILES = 200
MAX_ASIDE = 20
_MAX_COUNTED = 5000
_MAX_DEPTH = 4

_SIGNALS = ("is_action_match", "db_state_match", "db_state_assertion", "nl_assertion", "judge_passed", "clean_exit")


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal's outcome; `passed` None where it is not applicable. `excluded`: computed, and not part of the verdict."""

    name: str
    passed: bool | None
    excluded: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """An assertion of the judge's or a predicate on a database: what was asked, whether it holds, and why (untrusted)."""

    text: str
    passed: bool
    note: str


@dataclass(frozen=True, slots=True)
class LatencyFigures:
    """In ms, but for the count; None where the file holds no number."""

    count: int
    mean: float | None
    p50: float | None
    p95: float | None
    least: float | None
    most: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """What `metrics.json` says. None or empty: not there or of another type. Durations in s; verdicts may be the text "N/A"."""

    verdict: bool | str | None
    task_verdict: bool | str | None
    turns: int | None
    responses: int | None
    stalled: bool
    conversation: float | None
    scenario: float | None
    stop_reason: str
    end_reason: str
    end_policy: str
    end_tool_called: bool | None
    simulator_ended: bool | None
    last_speaker: str
    latency: LatencyFigures | None
    signals: tuple[Signal, ...]
    judge_score: float | None
    judge_passed: bool | None
    predicates: tuple[Check, ...]
    hash_expected: str
    hash_actual: str
    hash_match: bool | None
    tokens: tuple[tuple[str, TokenCount], ...]
    retries: int | None
    retry_reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """What `judge_result.json` says."""

    score: float | None
    reason: str
    pending: bool
    failed: bool
    assertions: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class Details:
    """All of it. `files` are (path in the folder, bytes), `left_off` how many more there are; `aside` names moved attempts."""

    scenario: str
    folder: Path
    problems: tuple[str, ...] = ()
    measured: Measured | None = None
    judged: Judged | None = None
    threshold: float | None = None
    floor: int | None = None
    description: str = ""
    files: tuple[tuple[str, int], ...] = ()
    left_off: int = 0
    aside: tuple[str, ...] = ()


def read_details(session: Path, scenario: str) -> Details:
    """Read a scenario's files; takes a moment, so not in the loop that draws. Raises nothing."""
    folder = layout.scenario_dir(session, scenario)
    if not layout.is_folder_name(scenario):
        return Details(scenario, session, problems=("its name can be no folder's",))
    problems: list[str] = []
    metrics = _read(folder / layout.METRICS, problems)
    judged = _read(folder / layout.JUDGE_RESULT, problems)
    metadata = _read(folder / layout.SCENARIO_CONFIG / "metadata.json", problems)
    options = _options(session, problems)
    files = list(islice(_files(folder, "", 0, problems), _MAX_COUNTED))
    return Details(
        scenario=scenario,
        folder=folder,
        measured=_measured(metrics, folder, problems) if isinstance(metrics, Mapping) else None,
        judged=_judged(judged) if isinstance(judged, Mapping) else None,
        threshold=_number(options.get("judge_threshold")),
        floor=whole(options.get("min_agent_turns")),
        description=_text(_at(metadata, "description"), MAX_ITEM_TEXT),
        files=tuple(sorted(files)[:MAX_FILES]),
        left_off=max(0, len(files) - MAX_FILES),
        aside=_aside(session, scenario),
        problems=tuple(problems),
    )


def _read(path: Path, problems: list[str]) -> Any:
    """A JSON object; None where there is none. A file that is there and no such thing is a problem."""
    try:
        value = _load(path)
    except UnreadableFile as error:
        if not error.missing:
            problems.append(f"{path.name}: {error.reason}")
        return None
    if not isinstance(value, Mapping):
        problems.append(f"{path.name}: the root is no object")
        return None
    return value


def _load(path: Path, load: Callable[[Path], Any] = read_json) -> Any:
    """What `load` makes of a file that is a plain one of bearable size. Raises UnreadableFile."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise UnreadableFile(path, "no such file", missing=True) from None
    except OSError as error:
        raise UnreadableFile(path, error.strerror or "cannot be read") from error
    if not stat.S_ISREG(found.st_mode):
        raise UnreadableFile(path, "is no plain file")
    if found.st_size > MAX_FILE_BYTES:
        raise UnreadableFile(path, f"too large to show ({found.st_size / 1e6:.1f} MB)")
    return load(path)


def _options(session: Path, problems: list[str]) -> Mapping[str, Any]:
    """The options of the newest invocation; a session may have none."""
    path = session / layout.RUN_ARGS
    try:
        records = _load(path, lambda _: read_invocations(session))
    except UnreadableFile as error:
        if not error.missing:
            problems.append(f"{path.name}: {error.reason}")
        return {}
    found = _at(records[-1] if records else None, "parsed_args")
    return found if isinstance(found, Mapping) else {}


def _measured(metrics: Mapping[str, Any], folder: Path, problems: list[str]) -> Measured:
    try:
        parse_metrics(metrics)
    except BadMetrics as error:
        problems.append(f"{layout.METRICS}: {error}")
    usage = metrics.get("token_usage")
    return Measured(
        verdict=_verdict(metrics.get("is_successful")),
        task_verdict=_verdict(metrics.get("is_task_successful")),
        turns=whole(metrics.get("total_turns")),
        responses=count_agent_responses(metrics, lambda: _context(folder)),
        stalled=metrics.get("insufficient_agent_turns") is True,
        conversation=_number(metrics.get("duration_seconds")),
        scenario=_number(metrics.get("scenario_duration")),
        stop_reason=_text(metrics.get("stop_reason"), MAX_ITEM_TEXT),
        end_reason=_text(metrics.get("conversation_end_reason"), MAX_ITEM_TEXT),
        end_policy=_text(metrics.get("conversation_end_policy"), MAX_ITEM_TEXT),
        end_tool_called=_bool(metrics.get("end_conversation_tool_called")),
        simulator_ended=_bool(metrics.get("simulator_end_reported")),
        last_speaker=_text(metrics.get("last_speaker"), MAX_ITEM_TEXT),
        latency=_latency(metrics),
        signals=_signals(metrics),
        judge_score=_number(metrics.get("judge_score")),
        judge_passed=_bool(metrics.get("judge_passed")),
        predicates=tuple(_predicate(each) for each in _items(metrics.get("db_state_assertion_verdicts"))),
        hash_expected=_text(metrics.get("db_state_expected_hash"), MAX_ITEM_TEXT),
        hash_actual=_text(metrics.get("db_state_actual_hash"), MAX_ITEM_TEXT),
        hash_match=_bool(metrics.get("db_state_match")),
        tokens=tuple((side, _tokens(_at(usage, side))) for side in ("agent", "user") if isinstance(_at(usage, side), Mapping)),
        retries=whole(metrics.get("auto_retry_count")),
        retry_reasons=tuple(_text(each, MAX_ITEM_TEXT) for each in _items(metrics.get("auto_retry_reasons"))),
    )


def _context(folder: Path) -> Any:
    try:
        return _load(folder / layout.AGENT_LOGS / layout.LLM_CONTEXT)
    except UnreadableFile:
        return None


def _latency(metrics: Mapping[str, Any]) -> LatencyFigures | None:
    """The file's own figures; where it has none, those of its measurements."""
    stats: Any = metrics.get("latency_stats")
    if not isinstance(stats, Mapping):
        latencies = metrics.get("latencies")
        values = [_number(_at(each, "latency_ms")) for each in (latencies if isinstance(latencies, list) else ())]
        stats = latency_stats([value for value in values if value is not None])
    if not (count := whole(stats.get("count"))):
        return None
    return LatencyFigures(count, *(_number(stats.get(f"{name}_ms")) for name in ("mean", "p50", "p95", "min", "max")))


def _signals(metrics: Mapping[str, Any]) -> tuple[Signal, ...]:
    breakdown = metrics.get("success_breakdown")
    named = {
        key: [_text(each, 100) for each in _items(_at(breakdown, key))]
        for key in ("passed", "failed", "not_applicable", "excluded")
    }
    found = [Signal(name, True) for name in named["passed"]] + [Signal(name, False) for name in named["failed"]]
    found += [Signal(name, None) for name in named["not_applicable"]]
    found += [Signal(name, _computed(metrics, name), excluded=True) for name in named["excluded"]]
    return tuple(sorted(found, key=lambda each: _SIGNALS.index(each.name) if each.name in _SIGNALS else len(_SIGNALS)))


def _computed(metrics: Mapping[str, Any], name: str) -> bool | None:
    """A signal that is no part of the verdict has its outcome in a key of its own."""
    if name in ("db_state_assertion", "nl_assertion"):
        rate = _number(metrics.get(f"{name}_pass_rate"))
        return rate == 1.0 if rate is not None else None
    return _bool(metrics.get(name))


def _predicate(record: Any) -> Check:
    side, name = _text(_at(record, "side"), 40), _text(_at(record, "func_name"), 200)
    asked = _text(_at(record, "message"), MAX_ITEM_TEXT)
    passed = _at(record, "passed") is True
    note = _text(_at(record, "error"), MAX_ITEM_TEXT)
    if not passed and not note:
        note = f"expected {_text(_at(record, 'expected'), 200)}, found {_text(_at(record, 'actual'), 200)}"
    return Check(f"{side or '?'}: {name or '?'}" + (f": {asked}" if asked else ""), passed, note)


def _judged(result: Mapping[str, Any]) -> Judged:
    reason = _text(result.get("reason"), MAX_TEXT)
    pending = result.get("reason") == PENDING_REASON
    return Judged(
        score=_number(result.get("score")),
        reason=reason,
        pending=pending,
        failed=not pending and reason.startswith("Error: "),
        assertions=tuple(
            Check(
                _text(_at(each, "assertion"), MAX_ITEM_TEXT), _at(each, "passed") is True, _text(_at(each, "reason"), MAX_ITEM_TEXT)
            )
            for each in _items(result.get("nl_assertion_verdicts"))
        ),
    )


def _files(folder: Path, under: str, depth: int, problems: list[str]) -> Iterator[tuple[str, int]]:
    """Every file below a folder with its bytes; links are not followed."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = f"{under}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    if depth < _MAX_DEPTH:
                        yield from _files(folder / entry.name, f"{name}/", depth + 1, problems)
                else:
                    yield name, _size(entry)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        problems.append(f"{folder.name}/: {error.strerror or 'cannot be listed'}")


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0  # it went away meanwhile


def _aside(session: Path, scenario: str) -> tuple[str, ...]:
    try:
        with os.scandir(session) as entries:
            found = [entry.name for entry in entries if entry.name.startswith(f"{scenario}{layout.KILLED_INFIX}")]
    except OSError:
        return ()
    return tuple(sorted(found)[-MAX_ASIDE:])


def _at(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


def _items(value: Any) -> list[Any]:
    return value[:MAX_ITEMS] if isinstance(value, list) else []


def _tokens(value: Any) -> TokenCount:
    return TokenCount(*(max(whole(_at(value, key)) or 0, 0) for key in ("n_calls", "prompt", "completion")))


def _bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _verdict(value: Any) -> bool | str | None:
    return value if isinstance(value, bool) or value == "N/A" else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _text(value: Any, most: int) -> str:
    """A text, or a plain value's; nothing for null and for what holds others."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        return ""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"
