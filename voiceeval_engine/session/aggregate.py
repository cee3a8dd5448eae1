"""The aggregate of a run: scenarios go in one at a time in any order, rates and names in queue order come out.

Live scenarios and those loaded from disk go through the same call.
Rules: scoring page ("Stalls", "Aggregation"), artifacts page ("While a verdict is out") of the specification. May
import the standard library and this folder only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from voiceeval_engine.session import layout
from voiceeval_engine.session.files import UnreadableFile
from voiceeval_engine.session.metrics import (
    BadMetrics,
    ContextLoader,
    ScenarioMetrics,
    TokenCount,
    count_agent_responses,
    latency_stats,
    no_context,
    parse_metrics,
    saved_context,
)
from voiceeval_engine.session.results import composite, judgement_of, read_result

AGENT_DISCONNECTED = "[AGENT_DISCONNECTED]"


@dataclass(frozen=True)
class Rate:
    """`k` of `n`; n is never 0 in a report."""

    k: int
    n: int

    @property
    def percent(self) -> float:
        """0 to 100."""
        return 100.0 * self.k / self.n


@dataclass(frozen=True)
class Entry:
    """One counted scenario. `assertions` holds each natural-language assertion's outcome, `judge_failed` a failed call."""

    name: str
    metrics: ScenarioMetrics
    assertions: tuple[bool, ...] = ()
    judge_failed: bool = False


@dataclass(frozen=True)
class RunReport:
    """A run's aggregate. Names and entries are in queue order; `rates` are by the names in `OUTCOMES`, one with nothing to count is absent.

    `by_domain` holds the same of each domain, sorted by domain. `unreadable` holds (name, reason). `latency` is `latency_stats` over
    every measurement in ms, all but the count -1 without any. `duration` is the sum of the conversations in s.
    """

    entries: tuple[Entry, ...]
    min_agent_turns: int
    total_turns: int
    duration: float
    latency: Mapping[str, float]
    agent_tokens: TokenCount
    user_tokens: TokenCount
    rates: Mapping[str, Rate]
    by_domain: Mapping[str, Mapping[str, Rate]]
    judge_score_mean: float | None
    judge_score_count: int
    stalled: tuple[str, ...] = ()
    judge_failed: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    agent_disconnected: tuple[str, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()


@dataclass
class RunAggregate:
    """Collects scenarios. What it reports depends on what was added, never on the order of adding.

    `queue_order` names the scenarios as they were queued; others follow by name. `min_agent_turns` is the floor of this
    run (0 = off).
    """

    queue_order: Sequence[str] = ()
    min_agent_turns: int = 2
    _entries: dict[str, Entry] = field(default_factory=dict)
    _pending: set[str] = field(default_factory=set)
    _unreadable: dict[str, str] = field(default_factory=dict)

    def add(
        self,
        name: str,
        metrics: Any,
        judge_result: Any = None,
        *,
        scenario_directory: str | None = None,
        context_loader: ContextLoader = no_context,
    ) -> None:
        """Count a scenario, each once.

        `metrics` and `judge_result` are what `metrics.json` and `judge_result.json` hold (None: no judge).
        `scenario_directory` replaces the one in `metrics` where the session has moved. `context_loader` gives the
        agent's context if the floor needs it. A verdict still pending keeps the scenario out of everything but
        `pending`. Never raises: bad values end in `unreadable`.
        """
        judgement = judgement_of(judge_result)
        if judgement.pending:
            self._pending.add(name)
            return
        try:
            parsed = on_own_merits(parse_metrics(metrics), self.min_agent_turns, context_loader)
        except BadMetrics as error:
            self._unreadable[name] = str(error)
            return
        if scenario_directory is not None:
            parsed = replace(parsed, raw={**parsed.raw, "scenario_directory": scenario_directory})
        self._entries[name] = Entry(name, parsed, judgement.assertions, judgement.failed)

    def read(self, session: Path, name: str) -> Mapping[str, Any]:
        """Add a scenario from its folder, if there is a result in it; returns the value of its `judge_result.json`, {} for none."""
        folder = layout.scenario_dir(session, name)
        try:
            metrics, judged = read_result(folder)
        except UnreadableFile as error:
            if not error.missing:
                self._unreadable[name] = error.reason
            return {}
        self.add(name, metrics, judged, scenario_directory=str(folder), context_loader=saved_context(folder))
        return judged

    def report(self) -> RunReport:
        """The aggregate of what was added so far."""
        entries = [self._entries[name] for name in self._ordered(self._entries)]
        scored = [entry for entry in entries if not entry.metrics.stalled]
        latencies = [record.latency_ms for entry in entries for record in entry.metrics.latencies]
        scores = [entry.metrics.judge_score for entry in scored if entry.metrics.judge_score is not None]
        return RunReport(
            entries=tuple(entries),
            min_agent_turns=self.min_agent_turns,
            total_turns=sum(entry.metrics.total_turns for entry in entries),
            duration=sum(entry.metrics.scenario_duration for entry in entries),
            latency=latency_stats(latencies) if latencies else dict.fromkeys(latency_stats([]), -1) | {"count": 0},
            agent_tokens=sum((entry.metrics.agent_tokens for entry in entries), TokenCount()),
            user_tokens=sum((entry.metrics.user_tokens for entry in entries), TokenCount()),
            rates=_rates(entries),
            by_domain={domain: _rates(within) for domain, within in _by_domain(entries)},
            judge_score_mean=sum(scores) / len(scores) if scores else None,
            judge_score_count=len(scores),
            stalled=tuple(entry.name for entry in entries if entry.metrics.stalled),
            judge_failed=tuple(entry.name for entry in entries if entry.judge_failed),
            pending=tuple(self._ordered(self._pending)),
            agent_disconnected=tuple(entry.name for entry in entries if entry.metrics.stop_reason == AGENT_DISCONNECTED),
            unreadable=tuple((name, self._unreadable[name]) for name in self._ordered(self._unreadable)),
        )

    def _ordered(self, names: Iterable[str]) -> list[str]:
        place = {name: index for index, name in reversed(list(enumerate(self.queue_order)))}
        return sorted(names, key=lambda name: (place.get(name, len(place)), name))


def on_own_merits(parsed: ScenarioMetrics, min_agent_turns: int, context_loader: ContextLoader) -> ScenarioMetrics:
    """A scenario's metrics as they stand under this floor: unchanged below it and without a stall, else with both verdicts derived
    again.

    The flag is dropped and the verdicts come from `success_breakdown`; without a readable one nothing changes.
    """
    metrics = parsed.raw
    if not parsed.stalled:
        return parsed
    if min_agent_turns > 0:
        count = count_agent_responses(metrics, context_loader)
        if count is None or count < min_agent_turns:
            return parsed
    breakdown = metrics.get("success_breakdown")
    if not isinstance(breakdown, Mapping):
        return parsed
    passed, failed = breakdown.get("passed"), breakdown.get("failed")
    if not isinstance(passed, list) or not isinstance(failed, list):
        return parsed
    verdicts = composite(passed, failed, stalled=False)
    dropped = {"insufficient_agent_turns", "is_task_successful"} - verdicts.keys()
    return parse_metrics({key: value for key, value in metrics.items() if key not in dropped} | verdicts)


def _one(verdict: bool | None) -> tuple[bool, ...]:
    return () if verdict is None else (verdict,)


_STALLED_TOO = ("success", "task_success")
OUTCOMES: Mapping[str, Callable[[Entry], tuple[bool, ...]]] = {
    "success": lambda entry: _one(entry.metrics.is_successful),
    "task_success": lambda entry: _one(entry.metrics.is_task_successful),
    "is_action_match": lambda entry: _one(entry.metrics.is_action_match),
    "db_state_match": lambda entry: _one(entry.metrics.db_state_match),
    "db_state_assertion": lambda entry: entry.metrics.assertions,
    "nl_assertion": lambda entry: entry.assertions,
    "judge_passed": lambda entry: _one(entry.metrics.judge_passed),
    "clean_exit": lambda entry: _one(entry.metrics.clean_exit),
}
"""What each rate counts of a scenario. One that stalled is in the first two only."""


def _rates(entries: Sequence[Entry]) -> dict[str, Rate]:
    rates: dict[str, Rate] = {}
    for name, outcomes in OUTCOMES.items():
        counted = (entry for entry in entries if name in _STALLED_TOO or not entry.metrics.stalled)
        found = [outcome for entry in counted for outcome in outcomes(entry)]
        if found:
            rates[name] = Rate(sum(found), len(found))
    return rates


def _by_domain(entries: Iterable[Entry]) -> list[tuple[str, list[Entry]]]:
    buckets: dict[str, list[Entry]] = {}
    for entry in entries:
        buckets.setdefault(entry.name.split("__", 1)[0], []).append(entry)
    return sorted(buckets.items())
