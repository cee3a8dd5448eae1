"""What a resume would do with each scenario: one function for the run, the preview and `check-resume`.

Reads only. May import the standard library and this folder. Rules: running page, "Resume" and "check-resume", words included.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from voiceeval_engine.session import layout
from voiceeval_engine.session.files import UnreadableFile, read_json
from voiceeval_engine.session.metrics import BadMetrics, ScenarioMetrics, count_agent_responses, parse_metrics, saved_context, whole
from voiceeval_engine.session.run_args import REDACTED, recorded_names

State = Literal["completed", "in-flight", "fresh"]

NO_FOLDER = "no subdir"
NO_METRICS = "no metrics.json (in-flight)"
NO_TURNS = "0 turns (bot crashed before audio)"
CHECKED_FIELDS = (
    "domain",
    "scenarios",
    "duration",
    "inactivity_timeout",
    "judge_url",
    "judge_model",
    "judge_max_tokens",
    "judge_temperature",
    "judge_top_p",
    "judge_seed",
    "judge_threshold",
    "strict_match",
    "conversation_end_policy",
)
_EVIDENCE = (layout.METRICS, layout.BRIDGE_LOG, layout.SCENARIO_CONFIG)


@dataclass(frozen=True)
class Classified:
    """One scenario's state; `reason` is empty for completed ones. `auto_retry_count` is 0 where no readable metrics tell."""

    name: str
    state: State
    reason: str = ""
    auto_retry_count: int = 0


def classify(session: Path, name: str, min_agent_turns: int) -> Classified:
    """The state of one scenario of a session under a floor (0 = off)."""
    return examine(session, name, min_agent_turns)[0]


def examine(session: Path, name: str, min_agent_turns: int) -> tuple[Classified, ScenarioMetrics | None]:
    """As `classify`, and the metrics of a completed one, which have been read for it."""
    folder = f"{session}/{name}"  # a preview of 10,000 has no time for Path
    try:
        metrics = read_json(f"{folder}/{layout.METRICS}")
    except UnreadableFile as error:
        if not error.missing:
            return Classified(name, "in-flight", f"metrics.json unreadable ({error.reason})"), None
        if not os.path.lexists(folder):
            return Classified(name, "fresh", NO_FOLDER), None
        return Classified(name, "in-flight", NO_METRICS), None
    try:
        parsed = parse_metrics(metrics)
    except BadMetrics as error:
        return Classified(name, "in-flight", f"metrics.json unreadable ({error})"), None
    retries = max(whole(parsed.raw.get("auto_retry_count")) or 0, 0)
    if parsed.total_turns <= 0:
        return Classified(name, "in-flight", NO_TURNS, retries), None
    if min_agent_turns > 0:
        responses = count_agent_responses(parsed.raw, saved_context(folder))
        if responses is not None and responses < min_agent_turns:
            stop = parsed.raw.get("stop_reason", "?")
            return Classified(name, "in-flight", f"{responses} agent LLM response(s) < {min_agent_turns} ({stop})", retries), None
    return Classified(name, "completed", "", retries), parsed


def preview(session: Path, min_agent_turns: int) -> list[Classified]:
    """Every scenario folder on disk by name, attempts that were moved aside left out. Raises OSError for what is no directory."""
    found = (classify(session, name, min_agent_turns) for name in _kept_folders(session))
    return [each for each in found if each.reason not in (NO_FOLDER, NO_METRICS) or _has_evidence(session, each.name)]


def scenario_names(session: Path, known: Iterable[str] = ()) -> list[str]:
    """The names of what `preview` would give, without those in `known`. Raises OSError."""
    known = frozenset(known)
    return [name for name in _kept_folders(session) if name not in known and _has_evidence(session, name)]


def session_names(session: Path, records: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """All scenarios of a session: those that its first invocation chose, then what else is on disk by name. Raises OSError."""
    first = next(filter(None, map(recorded_names, records)), ())
    return (*dict.fromkeys(first), *scenario_names(session, first))


def render_preview(directory: str, min_agent_turns: int, scenarios: Sequence[Classified]) -> str:
    """What `check-resume` prints; `directory` as it was given."""
    completed = [each for each in scenarios if each.state == "completed"]
    again = [each for each in scenarios if each.state == "in-flight"]
    fresh = [each for each in scenarios if each.state == "fresh"]
    counts = f"({len(completed)} completed, {len(again)} would re-run, {len(fresh)} fresh)"
    lines = [f"Eval dir : {directory}", f"Min agent turns: {min_agent_turns}", f"Total scenarios: {len(scenarios)}  {counts}", ""]
    if again:
        lines += [f"Would re-run ({len(again)}):", *(f"  {each.name}  [{_with_retries(each)}]" for each in again), ""]
    retried = [each for each in completed if each.auto_retry_count]
    if retried:
        lines.append(f"Completed after an automatic in-run retry ({len(retried)}):")
        lines += [*(f"  {each.name}  [auto_retry_count={each.auto_retry_count}]" for each in retried), ""]
    if fresh:
        lines += [f"Fresh / never started ({len(fresh)}):", *(f"  {each.name}" for each in fresh), ""]
    if not again and not fresh:
        lines.append("All scenarios are complete — nothing to resume.")
    return "\n".join(lines).rstrip("\n") + "\n"


def soft_check(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Lines of a warning about scoring-relevant options that differ from the earlier invocation's; none where none does.

    A field that the earlier record lacks is no difference; values are compared as they are recorded.
    """
    lines = [
        f"  {name}: original={earlier[name]!r} resume={now[name]!r}"
        for name in CHECKED_FIELDS
        if name in earlier and name in now and not _same(earlier[name], now[name])
    ]
    if not lines:
        return []
    return [
        "WARNING: --resume invocation differs from the original run on these scoring-relevant fields:",
        *lines,
        "The aggregate may mix scenarios that were scored under different settings.",
    ]


def _same(earlier: Any, now: Any) -> bool:
    if isinstance(earlier, str) and isinstance(now, str) and REDACTED in earlier + now:
        return True
    return bool(earlier == now or (not earlier and not now and earlier in (None, []) and now in (None, [])))


def _with_retries(each: Classified) -> str:
    return f"{each.reason}; already auto-retried {each.auto_retry_count}x in-run" if each.auto_retry_count else each.reason


def _kept_folders(session: Path) -> list[str]:
    """The folders of a session by name, those of attempts that were moved aside left out."""
    with os.scandir(session) as entries:
        names = [entry.name for entry in entries if not layout.is_killed(entry.name) and layout.is_folder(entry)]
    return sorted(name for name in names if not os.path.lexists(f"{session}/{name}/{layout.KILLED_MARKER}"))


def _has_evidence(session: Path, name: str) -> bool:
    return any(os.path.lexists(f"{session}/{name}/{file}") for file in _EVIDENCE)
