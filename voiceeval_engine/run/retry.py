"""Whether an attempt is kept, tried again, or given up. By hand on purpose: every decision is an event and has a reason.

Plain values in, plain values out. May import the standard library only. Rule: running page, "Automatic retry, inside the run".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NO_TURNS = "0 conversation turns (bots never exchanged audio)"


@dataclass(frozen=True)
class RetryPolicy:
    """`on_stale` switches the hard trigger; `max_retries` counts per scenario."""

    on_stale: bool
    max_retries: int


@dataclass(frozen=True)
class Decision:
    """`kind` is what to do with the attempt; `reason` says why it is not simply kept, empty where it is.

    `keep` with a reason means that the retries are used up and the attempt is scored as it is; `give_up` that there is nothing to score.
    """

    kind: Literal["keep", "retry", "give_up"]
    reason: str = ""


def decide(policy: RetryPolicy, retries_used: int, *, failure: str | None, turns: int) -> Decision:
    """What to do with an attempt. `failure` says why it could not be run to an end that counts, None where it could."""
    if failure is None and turns > 0:
        return Decision("keep")
    reason = failure or NO_TURNS
    if policy.on_stale and retries_used < policy.max_retries:
        return Decision("retry", reason)
    return Decision("give_up" if failure else "keep", reason)
