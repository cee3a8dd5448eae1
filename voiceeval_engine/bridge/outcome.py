"""What goes into one conversation besides the bots, and what comes out of it.

May import session's models and this folder. Rule: wire page, "One attempt, step by step", steps 3 to 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from voiceeval_engine.bridge.ending import Policy, StopReason
from voiceeval_engine.bridge.latency import Handoff
from voiceeval_engine.bridge.pull import Pulled
from voiceeval_engine.bridge.turns import Side, Turn
from voiceeval_engine.session.metrics import TokenCount


@dataclass(frozen=True)
class ConversationSettings:
    """How to run one conversation; seconds and Hz."""

    chunk_seconds: float
    sample_rate: int
    duration: float
    inactivity_timeout: float
    policy: Policy
    recording: Path


@dataclass(frozen=True)
class Outcome:
    """What a conversation left. `turns` are in order of their end; `handoffs` index them; `ended_at` is local wall-clock time."""

    turns: tuple[Turn, ...]
    handoffs: tuple[Handoff, ...]
    stop_reason: StopReason
    simulator_reported: bool
    started_at: datetime
    ended_at: datetime
    duration_seconds: float
    tokens: dict[Side, TokenCount]
    pulled: dict[Side, Pulled]
    final_responses: tuple[str, ...]
    timing: dict[str, Any]

    def moment(self, seconds: float) -> datetime:
        """A moment of the conversation's clock as local wall-clock time."""
        return self.started_at + timedelta(seconds=seconds)
