"""The rules that turn evidence into signals and signals into a verdict: how a conversation ended, what counts, what a stall does.

Pure tables and conjunctions. May import the standard library and lower floors only. Rules: artifacts page ("conversation end"),
scoring page (the six signals, "Stalls") of the specification.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from voiceeval_engine.scenarios.model import SIGNALS, Signal

EndPolicy = Literal["tool-only", "valid-terminal-state"]

EXIT = "[EXIT]"
SIMULATOR_EXIT = "[SIMULATOR_EXIT]"
INACTIVITY_TIMEOUT = "[INACTIVITY_TIMEOUT]"


@dataclass(frozen=True)
class ConversationEnd:
    """The `clean_exit` verdict and its `conversation_end_reason`."""

    clean_exit: bool
    reason: str


@dataclass(frozen=True)
class Breakdown:
    """`success_breakdown`: the signals in four buckets, each in the order of `SIGNALS`."""

    passed: tuple[Signal, ...]
    failed: tuple[Signal, ...]
    not_applicable: tuple[Signal, ...]
    excluded: tuple[Signal, ...]


def conversation_end(
    stop_reason: str, simulator_end_reported: bool, last_speaker: str | None, policy: EndPolicy
) -> ConversationEnd:
    """Judge how a conversation ended; `last_speaker` is the role of the last turn, None when there was none."""
    if stop_reason == EXIT:
        return ConversationEnd(True, "agent_end_conversation_tool")
    if policy == "tool-only":
        return ConversationEnd(False, "agent_end_conversation_tool_missing")
    if simulator_end_reported or stop_reason == SIMULATOR_EXIT:
        return ConversationEnd(True, "simulator_reported_end")
    if stop_reason == INACTIVITY_TIMEOUT and last_speaker == "user":
        return ConversationEnd(True, "inactivity_timeout_after_user_final_turn")
    return ConversationEnd(False, "no_valid_terminal_evidence")


def breakdown(whitelist: Collection[str], verdicts: Mapping[str, bool | None]) -> Breakdown:
    """Sort the signals: `whitelist` is the scenario's `success_signals`; a signal without a verdict is None or absent."""

    def bucket(wanted: bool | None) -> tuple[Signal, ...]:
        return tuple(signal for signal in SIGNALS if signal in whitelist and verdicts.get(signal) is wanted)

    excluded = tuple(signal for signal in SIGNALS if signal not in whitelist and verdicts.get(signal) is not None)
    return Breakdown(bucket(True), bucket(False), bucket(None), excluded)


def is_stalled(agent_responses: int | None, min_agent_turns: int) -> bool:
    """Whether the agent answered less often than the floor (0 = off); an unknown count is no stall."""
    return agent_responses is not None and agent_responses < min_agent_turns
