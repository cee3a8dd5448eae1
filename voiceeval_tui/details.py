"""What a scenario's files tell besides its words: figures, signals, the judge's reasons, database checks, hashes, files.

Held in bounds however large a file is, and never what the judge was sent. Trusts nothing: other programs write these files, some while we
read; what is broken is named and the rest told. May import the standard library and the engine's `session/`. Rules: console page, "Panes"
(details); artifacts page.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from voiceeval_engine.session import layout
from voiceeval_engine.session.files import UnreadableFile, read_json
from voiceeval_engine.session.metrics import (
    BadMetrics,
    TokenCount,
    at,
    count_agent_responses,
    finite,
    latency_stats,
    parse_metrics,
    token_count,
    whole,
)
from voiceeval_engine.session.results import judgement_of, saved_verdicts
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


def _items(value: Any) -> list[Any]:
    return value[:MAX_ITEMS] if isinstance(value, list) else []


def _bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _verdict(value: Any) -> bool | str | None:
    return value if isinstance(value, bool) or value == "N/A" else None


def _text(value: Any, most: int) -> str:
    """A text, or a plain value's; nothing for null and for what holds others."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        return ""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _predicate(record: Any) -> Check:
    side, name = _text(at(record, "side"), 40), _text(at(record, "func_name"), 200)
    asked = _text(at(record, "message"), MAX_ITEM_TEXT)
    passed = at(record, "passed") is True
    note = _text(at(record, "error"), MAX_ITEM_TEXT)
    if not passed and not note:
        note = f"expected {_text(at(record, 'expected'), 200)}, found {_text(at(record, 'actual'), 200)}"
    return Check(f"{side or '?'}: {name or '?'}" + (f": {asked}" if asked else ""), passed, note)


_Text = Annotated[str, BeforeValidator(partial(_text, most=MAX_ITEM_TEXT))]
_Flag = Annotated[bool | None, BeforeValidator(_bool)]
_Number = Annotated[float | None, BeforeValidator(finite)]
_Whole = Annotated[int | None, BeforeValidator(whole)]
_Verdict = Annotated[bool | str | None, BeforeValidator(_verdict)]


class Measured(BaseModel):
    """What `metrics.json` says. None or empty: not there or of another type. Durations in s; verdicts may be the text "N/A"."""

    model_config = ConfigDict(frozen=True)

    verdict: _Verdict = Field(None, alias="is_successful")
    task_verdict: _Verdict = Field(None, alias="is_task_successful")
    turns: _Whole = Field(None, alias="total_turns")
    responses: int | None
    stalled: Annotated[bool, BeforeValidator(lambda value: value is True)] = Field(False, alias="insufficient_agent_turns")
    conversation: _Number = Field(None, alias="duration_seconds")
    scenario: _Number = Field(None, alias="scenario_duration")
    stop_reason: _Text = ""
    end_reason: _Text = Field("", alias="conversation_end_reason")
    end_policy: _Text = Field("", alias="conversation_end_policy")
    end_tool_called: _Flag = Field(None, alias="end_conversation_tool_called")
    simulator_ended: _Flag = Field(None, alias="simulator_end_reported")
    last_speaker: _Text = ""
    latency: LatencyFigures | None
    signals: tuple[Signal, ...]
    judge_score: _Number = None
    judge_passed: _Flag = None
    predicates: Annotated[tuple[Check, ...], BeforeValidator(lambda value: tuple(map(_predicate, _items(value))))] = Field(
        (), alias="db_state_assertion_verdicts"
    )
    hash_expected: _Text = Field("", alias="db_state_expected_hash")
    hash_actual: _Text = Field("", alias="db_state_actual_hash")
    hash_match: _Flag = Field(None, alias="db_state_match")
    tokens: tuple[tuple[str, TokenCount], ...]
    retries: _Whole = Field(None, alias="auto_retry_count")
    retry_reasons: Annotated[tuple[_Text, ...], BeforeValidator(_items)] = Field((), alias="auto_retry_reasons")


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
        measured=_measured(metrics, folder, problems) if metrics is not None else None,
        judged=_judged(judged) if judged is not None else None,
        threshold=finite(options.get("judge_threshold")),
        floor=whole(options.get("min_agent_turns")),
        description=_text(at(metadata, "description"), MAX_ITEM_TEXT),
        files=tuple(sorted(files)[:MAX_FILES]),
        left_off=max(0, len(files) - MAX_FILES),
        aside=_aside(session, scenario),
        problems=tuple(problems),
    )


def _object(path: Path) -> Any:
    value = read_json(path)
    if not isinstance(value, Mapping):
        raise UnreadableFile(path, "the root is no object")
    return value


def _read(path: Path, problems: list[str], load: Callable[[Path], Any] = _object) -> Any:
    """What `load` makes of a file; None where there is none, and where it cannot be used, which is a problem."""
    try:
        _check_plain(path)
        return load(path)
    except UnreadableFile as error:
        if not error.missing:
            problems.append(f"{path.name}: {error.reason}")
        return None


def _check_plain(path: Path) -> None:
    """Raises UnreadableFile for what is no plain file of bearable size."""
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


def _options(session: Path, problems: list[str]) -> Mapping[str, Any]:
    """The options of the newest invocation; a session may have none."""
    records = _read(session / layout.RUN_ARGS, problems, lambda _: read_invocations(session))
    found = at(records[-1] if records else None, "parsed_args")
    return found if isinstance(found, Mapping) else {}


def _measured(metrics: Mapping[str, Any], folder: Path, problems: list[str]) -> Measured:
    try:
        parse_metrics(metrics)
    except BadMetrics as error:
        problems.append(f"{layout.METRICS}: {error}")
    usage = metrics.get("token_usage")
    return Measured.model_validate(
        {
            **metrics,
            "responses": count_agent_responses(
                metrics, lambda: _read(folder / layout.AGENT_LOGS / layout.LLM_CONTEXT, [], read_json)
            ),
            "latency": _latency(metrics),
            "signals": _signals(metrics),
            "tokens": [(side, token_count(at(usage, side))) for side in ("agent", "user") if isinstance(at(usage, side), Mapping)],
        }
    )


def _latency(metrics: Mapping[str, Any]) -> LatencyFigures | None:
    """The file's own figures; where it has none, those of its measurements."""
    stats: Any = metrics.get("latency_stats")
    if not isinstance(stats, Mapping):
        latencies = metrics.get("latencies")
        values = [finite(at(each, "latency_ms")) for each in (latencies if isinstance(latencies, list) else ())]
        stats = latency_stats([value for value in values if value is not None])
    if not (count := whole(stats.get("count"))):
        return None
    return LatencyFigures(count, *(finite(stats.get(f"{name}_ms")) for name in ("mean", "p50", "p95", "min", "max")))


def _signals(metrics: Mapping[str, Any]) -> tuple[Signal, ...]:
    breakdown = metrics.get("success_breakdown")
    named = {
        key: [_text(each, 100) for each in _items(at(breakdown, key))] for key in ("passed", "failed", "not_applicable", "excluded")
    }
    found = [Signal(name, True) for name in named["passed"]] + [Signal(name, False) for name in named["failed"]]
    found += [Signal(name, None) for name in named["not_applicable"]]
    computed = saved_verdicts(metrics)
    found += [Signal(name, computed.get(name), excluded=True) for name in named["excluded"]]
    order = [*computed, *(each.name for each in found)]
    return tuple(sorted(found, key=lambda each: order.index(each.name)))


def _judged(result: Mapping[str, Any]) -> Judged:
    judgement = judgement_of(result)
    return Judged(
        score=finite(result.get("score")),
        reason=_text(result.get("reason"), MAX_TEXT),
        pending=judgement.pending,
        failed=judgement.failed,
        assertions=tuple(
            Check(_text(at(each, "assertion"), MAX_ITEM_TEXT), at(each, "passed") is True, _text(at(each, "reason"), MAX_ITEM_TEXT))
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
