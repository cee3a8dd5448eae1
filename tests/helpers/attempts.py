"""One attempt and its scenario, as scoring takes them; tests change what they are about."""

from __future__ import annotations

from voiceeval_engine.domains.registry import Domain
from voiceeval_engine.scenarios.model import SIGNALS, Scenario
from voiceeval_engine.scoring.score import AttemptRecord
from voiceeval_engine.session.metrics import LatencyRecord, TokenCount, TurnRecord

DOMAIN = Domain(name="domB", agent_tools={}, predicates={"assert_x": lambda db, v: db["x"] == v})
SCENARIO = Scenario(
    name="dom__1",
    domain="dom",
    description="",
    max_duration=60,
    user_prompt="",
    agent_prompt="",
    success_signals=SIGNALS,
    user_tools={},
    agent_tools={},
    user_state={},
    agent_state={},
)
TURNS = (TurnRecord("t", "agent", "hi"), TurnRecord("t", "user", "hello"), TurnRecord("t", "agent", "bye"))
RECORD = AttemptRecord(
    turns=TURNS,
    latencies=(LatencyRecord("hello", "bye", 500.0),),
    duration_seconds=9.0,
    scenario_directory="d",
    scenario_duration=10.0,
    stop_reason="[EXIT]",
    simulator_end_reported=False,
    conversation_end_policy="tool-only",
    inactivity_timeout_seconds=120.0,
    agent_tokens=TokenCount(3, 300, 30),
    user_tokens=TokenCount(2, 20, 2),
)
