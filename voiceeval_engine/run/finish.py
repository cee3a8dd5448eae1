"""From a finished conversation to its evidence on disk and its metrics: one function, run in a thread or in the worker process.

Everything is written before `metrics.json`, because its presence is what makes an attempt count. May import lower floors and
`options`. Rules: artifacts page, "Scenario directory"; wire page, "One attempt", step 5.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from voiceeval_engine.bridge.outcome import Outcome
from voiceeval_engine.domains.registry import Db, Domain, DomainError, load_domain
from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.scenarios.model import Scenario
from voiceeval_engine.scoring.db_state import PredicateVerdict
from voiceeval_engine.scoring.rescore import JudgeScore
from voiceeval_engine.scoring.score import AttemptRecord, ScoredAttempt, score_attempt
from voiceeval_engine.session import evidence, layout
from voiceeval_engine.session.files import UnreadableFile, json_safe, read_json, write_atomic, write_json
from voiceeval_engine.session.metrics import PENDING, LatencyRecord, TurnRecord

_CONTEXT_WEIGHT = 8
"""Python literals parse about this many times slower than JSON."""

_METADATA_ALWAYS = (
    "name",
    "domain",
    "description",
    "max_duration",
    "noise_config",
    "ignore_capitalization",
    "ignore_punctuation",
    "clean_text",
    "disallow_extra_items",
    "success_signals",
)
_METADATA_WHERE_PRESENT = (
    "db_state_assertions",
    "nl_assertions",
    "initialization_actions",
    "expected_db_hash",
    "expected_user_db_hash",
)


@dataclass(frozen=True)
class Scoring:
    """What to score by besides the run's options; `spent` is the time in s from the conversation's connection to the call of `finish`.

    `pending_judge` stands for the verdict until it comes, None where there is no judge.
    """

    retry_reasons: tuple[str, ...]
    spent: float
    pending_judge: JudgeScore | None = None
    predicates: tuple[PredicateVerdict, ...] | None = None
    """Verdicts of a scenario whose functions are elsewhere: this may run in a worker process, which has none of them."""


def weight(outcome: Outcome) -> int:
    """The size of the work in bytes, to choose between thread and worker process."""
    sizes = [len(pulled.db_text or "") + _CONTEXT_WEIGHT * len(pulled.context or "") for pulled in outcome.pulled.values()]
    return max(sizes)


def write_config(folder: Path, scenario: Scenario) -> None:
    """Write `scenario_config/`: what was asked."""
    target = folder / layout.SCENARIO_CONFIG
    target.mkdir(exist_ok=True)
    values = {**vars(scenario), "noise_config": scenario.noise and asdict(scenario.noise)}
    metadata = {key: values[key] for key in _METADATA_ALWAYS} | {key: values[key] for key in _METADATA_WHERE_PRESENT if values[key]}
    write_json(target / "metadata.json", json_safe(metadata), indent=4)
    for side in ("user", "agent"):
        write_atomic(target / f"{side}_prompt.txt", values[f"{side}_prompt"])
        write_json(target / f"{side}_tools.json", json.dumps(json_safe(values[f"{side}_tools"])), indent=4)
    if scenario.reference_answer is not None:
        document = evidence.reference_document(scenario.reference_answer)
        write_json(target / "reference_answer.json", json_safe(document), indent=4)


def write_evidence(folder: Path, scenario: Scenario, outcome: Outcome, chunk_seconds: float) -> list[Any]:
    """Write all that the conversation left; returns the prediction, as `final_agent_response.json` holds it."""
    latencies = {handoff.agent: handoff.latency_ms for handoff in outcome.handoffs}
    segments = tuple(
        evidence.LogSegment(
            start=turn.start_tick * chunk_seconds,
            end=(turn.end_tick + 1) * chunk_seconds,
            role=turn.side,
            text=turn.text,
            latency_ms=latencies.get(index),
        )
        for index, turn in enumerate(outcome.turns)
    )
    agent, user = outcome.pulled["agent"], outcome.pulled["user"]
    times = outcome.started_at.isoformat(), outcome.ended_at.isoformat()
    evidence.write_conversation_log(folder, segments, *times, outcome.stop_reason)
    evidence.write_seglst(folder, scenario.name, segments)
    prediction = evidence.final_response(agent.actions, user.actions, outcome.final_responses)
    write_json(folder / layout.FINAL_RESPONSE, prediction)
    evidence.write_db_hashes(folder, agent.db_hash, user.db_hash)
    evidence.write_llm_context(folder, "agent", evidence.parse_context(agent.context))
    evidence.write_llm_context(folder, "user", evidence.parse_context(user.context))
    write_json(folder / layout.TIMING, outcome.timing)
    return prediction


def finish(folder: Path, scenario: Scenario, outcome: Outcome, options: RunOptions, scoring: Scoring) -> ScoredAttempt:
    """Write the evidence, score it, write `metrics.json`; returns what was scored. Raises OSError."""
    began = time.monotonic()
    prediction = write_evidence(folder, scenario, outcome, options.audio_chunk_in_seconds)
    agent, user = outcome.pulled["agent"], outcome.pulled["user"]
    record = AttemptRecord(
        turns=tuple(
            TurnRecord(outcome.moment(turn.end).isoformat(timespec="microseconds"), turn.side, turn.text) for turn in outcome.turns
        ),
        latencies=tuple(
            LatencyRecord(outcome.turns[each.user].text, outcome.turns[each.agent].text, round(each.latency_ms, 3))
            for each in outcome.handoffs
        ),
        duration_seconds=round(outcome.duration_seconds, 6),
        scenario_directory=str(folder),
        scenario_duration=round(scoring.spent + time.monotonic() - began, 6),
        stop_reason=outcome.stop_reason,
        simulator_end_reported=outcome.simulator_reported,
        conversation_end_policy=options.conversation_end_policy,
        inactivity_timeout_seconds=options.inactivity_timeout,
        agent_tokens=outcome.tokens["agent"],
        user_tokens=outcome.tokens["user"],
        prediction=prediction,
        db_hash=agent.db_hash,
        agent_db=None if scoring.predicates is not None else _database(agent.db_text),
        user_db=None if scoring.predicates is not None else _database(user.db_text),
        retry_reasons=scoring.retry_reasons,
        judge=scoring.pending_judge,
        trace_metrics=_trace_metrics(folder),
        predicates=scoring.predicates,
    )
    scored = score_attempt(
        record, scenario, _domain(scenario), min_agent_turns=options.min_agent_turns, strict_match=options.strict_match
    )
    if scoring.pending_judge is not None:
        write_json(folder / layout.JUDGE_RESULT, PENDING)
    write_json(folder / layout.METRICS, scored.metrics)
    return scored


def _database(text: str | None) -> Db | None:
    return None if text is None else json.loads(text)


def _domain(scenario: Scenario) -> Domain | None:
    try:
        return load_domain(scenario.domain, scenario.tool_module)
    except DomainError:
        return None


def _trace_metrics(folder: Path) -> Any:
    for path in (folder / layout.TRACE_METRICS, folder / layout.AGENT_LOGS / layout.TRACE_METRICS):
        try:
            return read_json(path)
        except UnreadableFile:
            continue
    return None
