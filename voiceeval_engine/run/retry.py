"""Whether an attempt is kept, tried again, or given up. By hand on purpose: every decision is an event and has a reason.

Plain values in, plain values out. May import the standard library only. Rule: running page, "Automatic retry, inside the run".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NO_TURNS = "0 conversation turns (bots never exchanged audio)"


@dataclass(frozen=True)
class RetryPolicy:
    """`on_stale` switches the hard trigger, `floor` above 0 the soft one; `max_retries` counts per scenario."""

    on_stale: bool
    max_retries: int
    floor: int = 0


@dataclass(frozen=True)
class Decision:
    """`kind` is what to do with the attempt; `reason` says why it is not simply kept, empty where it is.

    `keep` with a reason means that the retries are used up and the attempt is scored as it is; `give_up` that there is nothing to score.
    """

    kind: Literal["keep", "retry", "give_up"]
    reason: str = ""


def decide(policy: RetryPolicy, retries_used: int, *, failure: str | None, turns: int, responses: int | None = None) -> Decision:
    """What to do with an attempt. `failure` says why it could not be run to an end that counts, None where it could.

    `responses` is the agent's, None where it is unknown: the soft trigger wants at least one, and fewer than the floor.
    """
    if failure is None and turns > 0:
        if responses is None or not 0 < responses < policy.floor:
            return Decision("keep")
        reason, wanted = f"{responses} agent LLM response(s) < min_agent_turns={policy.floor}", True
    else:
        reason, wanted = failure or NO_TURNS, policy.on_stale
    if wanted and retries_used < policy.max_retries:
        return Decision("retry", reason)
    if failure is not None:
        return Decision("give_up", reason)
    return Decision("keep", reason if wanted else "")
