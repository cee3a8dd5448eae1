"""When and why a conversation ends: the first reason wins, and silence is judged by activity, not by data.

Plain values in, plain values out; times are s on one monotonic clock. May import the standard library only. Rules: wire page,
"Inactivity" and "Stop reasons".
"""

from __future__ import annotations

from typing import Literal

Side = Literal["agent", "user"]
Policy = Literal["tool-only", "valid-terminal-state"]
StopReason = Literal[
    "[EXIT]", "[SIMULATOR_EXIT]", "[INACTIVITY_TIMEOUT]", "[TIMEOUT]", "[AGENT_DISCONNECTED]", "[USER_DISCONNECTED]", "[STOPPED]"
]

_ACTIVE_PREFIXES = ("bot-tts-", "bot-llm-", "llm-function-call")
_ACTIVE_TYPES = frozenset(
    {
        "bot-started-speaking",
        "bot-stopped-speaking",
        "user-started-speaking",
        "user-stopped-speaking",
        "bot-interrupted",
        "bot-output",
        "server-message",
    }
)


def is_activity(message_type: str) -> bool:
    """Whether a message of this type restarts the inactivity timer; metrics and user transcriptions do not."""
    return message_type in _ACTIVE_TYPES or message_type.startswith(_ACTIVE_PREFIXES)


class Ending:
    """Collects what speaks for an end. `reason` and `at` are set once, by whatever comes first."""

    def __init__(self, *, policy: Policy, duration: float, inactivity_timeout: float) -> None:
        self.reason: StopReason | None = None
        self.at = 0.0
        self.simulator_reported = False
        self._policy = policy
        self._duration = duration
        self._inactivity_timeout = inactivity_timeout
        self._last_activity = 0.0

    def start(self, now: float) -> None:
        """The first tick: both timers run from here."""
        self._deadline = now + self._duration
        self._last_activity = now

    def activity(self, now: float) -> None:
        """Either bot did something that counts."""
        self._last_activity = now

    def exit(self, side: Side, now: float) -> None:
        """`<exit>` from a side. The user's ends the conversation only under `valid-terminal-state`."""
        if side == "agent":
            self._stop("[EXIT]", now)
            return
        self.simulator_reported = True
        if self._policy == "valid-terminal-state":
            self._stop("[SIMULATOR_EXIT]", now)

    def lost(self, side: Side, now: float) -> None:
        """A side's connection is gone."""
        self._stop("[AGENT_DISCONNECTED]" if side == "agent" else "[USER_DISCONNECTED]", now)

    def stopped(self, now: float) -> None:
        """The operator ends it."""
        self._stop("[STOPPED]", now)

    def check(self, now: float, *, speech_buffered: bool) -> StopReason | None:
        """Time passes; the inactivity timer never fires while speech waits to be sent on."""
        if now >= self._deadline:
            self._stop("[TIMEOUT]", now)
        elif speech_buffered:
            self._last_activity = now
        elif now - self._last_activity >= self._inactivity_timeout:
            self._stop("[INACTIVITY_TIMEOUT]", now)
        return self.reason

    def _stop(self, reason: StopReason, now: float) -> None:
        if self.reason is None:
            self.reason, self.at = reason, now
