"""Sessions made of a journal alone, for the console's tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from voiceeval_engine.live import events
from voiceeval_engine.session import layout

START = 1_800_000_000.0


def scored(name: str, attempt: int = 1, **values: Any) -> events.ScenarioScored:
    """A scenario that passed, but for `values`."""
    given: dict[str, Any] = {
        "verdict": True, "task_verdict": True, "failed_signals": [], "signals": {"clean_exit": True}, "stalled": False,
        "stop_reason": "[EXIT]", "turns": 5, "latencies": [610.0, 590.0], "tokens": 1234, "retries": 0, "duration": 12.0,
        "time": START + 60,
    }  # fmt: skip
    return events.ScenarioScored(scenario=name, attempt=attempt, **{**given, **values})


def started(names: Sequence[str]) -> events.RunStarted:
    """A run of these on one pair."""
    return events.RunStarted(
        session="/results/eval_20260618_072325", scenarios=list(names), pairs=[("ws://a", "ws://u")], inactivity_timeout=120,
        min_agent_turns=2, time=START,
    )  # fmt: skip


def attempt(name: str, number: int = 1, time: float = START + 1) -> list[events.Event]:
    """An attempt up to where both talk."""
    return [
        events.AttemptStarted(scenario=name, attempt=number, pair=0, number=1, max_duration=900, time=time),
        events.ConversationStarted(scenario=name, attempt=number, time=time + 1),
    ]


def turn(name: str, text: str, at: float, side: Any = "agent", number: int = 1) -> events.TurnEnded:
    """A turn of one second."""
    latency = 700.0 if side == "agent" else None
    return events.TurnEnded(
        scenario=name, attempt=number, side=side, text=text, start=at, end=at + 1, latency_ms=latency, time=START + at
    )


def all_kinds(names: Sequence[str]) -> list[events.Event]:
    """A run in which the first six of `names` have each come to another pass, and the others wait."""
    one, two, three, four, five, six = names[:6]
    return [
        started(names),
        *attempt(one), turn(one, "Hello.", 1.0), scored(one),
        *attempt(two), scored(two, verdict=False, failed_signals=["db_state_match"], signals={"db_state_match": False}),
        *attempt(three), events.AttemptDiscarded(scenario=three, attempt=1, reason="0 conversation turns", retry_in=3.0),
        *attempt(four), scored(four, stalled=True, verdict=False, stop_reason="[TIMEOUT]", turns=1, latencies=[]),
        events.ScenarioNotRun(scenario=five, attempt=0, reason="connection refused"),
        *attempt(six), turn(six, "Yes, please.", 2.0, "user"), turn(six, "Done.", 4.0),
        events.Logged(level="INFO", message="Starting Scenario 6/8", time=START + 9),
    ]  # fmt: skip


def write_session(session: Path, stream: Iterable[events.Event]) -> Path:
    """The events as a session's journal; returns the session."""
    session.mkdir(parents=True, exist_ok=True)
    with (session / layout.JOURNAL).open("a", encoding="utf-8") as file:
        file.writelines(events.to_line(event) + "\n" for event in stream)
    return session
