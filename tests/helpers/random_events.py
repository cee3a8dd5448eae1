"""Hypothesis strategies for events of every kind, about a few scenarios that know nothing of each other's order."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import strategies as st

from voiceeval_engine.live import events

KINDS: tuple[type[Any], ...] = get_args(events.Event)
NAMES = ("a__1", "a__2", "b__1")
_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_seconds = st.floats(0, 1e6, allow_nan=False)
_count = st.integers(0, 1000)
_passed_of_all = st.integers(0, 9).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total)))
_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "time": _seconds,
    "scenario": st.sampled_from([*NAMES, "unknown"]),
    "attempt": st.integers(0, 4),
    "session": _text,
    "scenarios": st.lists(st.sampled_from(NAMES), unique=True),
    "pairs": st.lists(st.tuples(_text, _text), max_size=3),
    "inactivity_timeout": _seconds,
    "since": _seconds,
    "min_agent_turns": _count,
    "pair": st.integers(0, 3),
    "urls": st.tuples(_text, _text),
    "pairs_from": _text,
    "number": st.integers(1, 3),
    "max_duration": _seconds,
    "side": st.sampled_from(["agent", "user"]),
    "on": st.booleans(),
    "applied": st.booleans(),
    "at": _seconds,
    "text": _text,
    "name": _text,
    "start": _seconds,
    "end": _seconds,
    "latency_ms": st.none() | _seconds,
    "stop_reason": st.sampled_from(["[EXIT]", "[TIMEOUT]", "[AGENT_DISCONNECTED]"]),
    "duration": _seconds,
    "turns": _count,
    "reason": _text,
    "moved_to": st.none() | _text,
    "retry_in": st.none() | _seconds,
    "tokens": _count,
    "verdict": st.none() | st.booleans(),
    "task_verdict": st.none() | st.booleans(),
    "failed_signals": st.lists(st.sampled_from(["is_action_match", "clean_exit"]), unique=True),
    "signals": st.dictionaries(st.sampled_from(["is_action_match", "clean_exit"]), st.booleans()),
    "stalled": st.booleans(),
    "latencies": st.lists(_seconds, max_size=3),
    "judge_score": st.none() | st.floats(0, 1),
    "predicates": _passed_of_all,
    "assertions": _passed_of_all,
    "retries": st.integers(0, 3),
    "level": st.sampled_from(["INFO", "WARNING", "ERROR"]),
    "message": _text,
    "complete": st.booleans(),
    "files": st.lists(_text, max_size=3),
}


def of_kind(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Events of one kind, every field filled; a field that is not named above takes any value of its type."""

    def values(name: str, field: Any) -> st.SearchStrategy[Any]:
        known: st.SearchStrategy[Any] | None = _FIELDS.get(name)
        return st.from_type(field.annotation) if known is None else known

    fields = {name: field for name, field in kind.model_fields.items() if name not in ("seq", "type")}
    return st.builds(kind, **{name: values(name, field) for name, field in fields.items()})


def some_event() -> st.SearchStrategy[Any]:
    return st.one_of([of_kind(kind) for kind in KINDS])


def a_run() -> st.SearchStrategy[list[Any]]:
    """A queue of the three scenarios, then anything."""
    start = events.RunStarted(
        session="/s", scenarios=list(NAMES), pairs=[("ws://a", "ws://u")], inactivity_timeout=8, min_agent_turns=2, time=100.0
    )
    return st.lists(some_event(), max_size=30).map(lambda more: [start, *more])
