"""Response latency: one measurement per handoff from the user to the agent, dated by energy.

Plain values in, plain values out. May import the standard library and `turns`. Rule: wire page, "Latency".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from voiceeval_engine.bridge.turns import Turn


@dataclass(frozen=True, slots=True)
class Handoff:
    """`user` and `agent` index the list of turns; `latency_ms`: from the user's last speech frame sent on to the agent's start."""

    user: int
    agent: int
    user_end: float
    agent_start: float

    @property
    def latency_ms(self) -> float:
        return (self.agent_start - self.user_end) * 1000.0


def agent_start(turn: Turn) -> float:
    """When the agent's reply began: the arrival of its first speech, or later where the bot sent it ahead of real time."""
    return max(turn.arrived, turn.heard)


def in_order(turns: Sequence[Turn]) -> list[Turn]:
    """Turns by their end of speech, as they are reported."""
    return sorted(turns, key=lambda turn: turn.end)


def find_handoffs(turns: Sequence[Turn]) -> list[Handoff]:
    """The handoffs in `turns`, in order of the agent's start.

    A reply is the first agent turn that began after the user turn's last speech was sent on. Of several user turns before one reply
    the last counts; a user turn that goes on after the agent's start is an overlap and waits for the next agent turn.
    """
    users = sorted((turn.end, index) for index, turn in enumerate(turns) if turn.side == "user" and turn.measured)
    agents = sorted((agent_start(turn), index) for index, turn in enumerate(turns) if turn.side == "agent" and turn.measured)
    handoffs: list[Handoff] = []
    answered = 0
    for start, agent in agents:
        ended = answered
        while ended < len(users) and users[ended][0] < start:
            ended += 1
        if ended > answered:
            user_end, user = users[ended - 1]
            handoffs.append(Handoff(user, agent, user_end, start))
            answered = ended
    return handoffs


def overlap_seconds(turn: Turn, turns: Sequence[Turn]) -> float:
    """How long the other side spoke during this turn, in s (its turns taken as unbroken)."""
    return sum(max(0.0, min(turn.end, other.end) - max(turn.start, other.start)) for other in turns if other.side != turn.side)
