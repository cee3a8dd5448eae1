from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.bridge.ending import Ending, Policy, is_activity


def ending(policy: Policy = "tool-only", *, duration: float = 300.0, inactivity: float = 120.0, start: float = 50.0) -> Ending:
    made = Ending(policy=policy, duration=duration, inactivity_timeout=inactivity)
    made.start(start)
    return made


@pytest.mark.parametrize(
    "kind",
    [
        "bot-started-speaking", "bot-stopped-speaking", "user-started-speaking", "bot-tts-started", "bot-tts-text", "bot-tts-stopped",
        "bot-output", "bot-llm-started", "bot-llm-text", "bot-llm-stopped", "llm-function-call", "llm-function-call-started",
        "llm-function-call-stopped", "server-message",
    ],
)  # fmt: skip
def test_what_a_bot_does_counts_as_activity(kind: str) -> None:
    assert is_activity(kind)


@pytest.mark.parametrize(
    "kind",
    [
        "metrics",
        "user-transcription",
        "bot-ready",
        "error",
        "error-response",
        "server-response",
        "bot-transcription",
        "",
        "xbot-tts-x",
    ],
)
def test_what_says_nothing_of_progress_does_not(kind: str) -> None:
    assert not is_activity(kind)


def test_silence_ends_the_conversation_after_the_inactivity_timeout() -> None:
    end = ending()
    assert end.check(169.9, speech_buffered=False) is None
    assert end.check(170.0, speech_buffered=False) == "[INACTIVITY_TIMEOUT]"
    assert (end.reason, end.at) == ("[INACTIVITY_TIMEOUT]", 170.0)


def test_activity_restarts_the_timer() -> None:
    end = ending()
    end.activity(160.0)
    assert end.check(279.0, speech_buffered=False) is None
    assert end.check(280.0, speech_buffered=False) == "[INACTIVITY_TIMEOUT]"


def test_the_timer_never_fires_while_speech_is_buffered_and_runs_anew_after_it() -> None:
    end = ending()
    assert end.check(200.0, speech_buffered=True) is None
    assert end.check(319.0, speech_buffered=False) is None
    assert end.check(320.0, speech_buffered=False) == "[INACTIVITY_TIMEOUT]"


def test_the_duration_ends_the_conversation_whatever_goes_on() -> None:
    end = ending(duration=60.0)
    end.activity(109.0)
    assert end.check(109.9, speech_buffered=True) is None
    assert end.check(110.0, speech_buffered=True) == "[TIMEOUT]"


def test_the_agents_exit_ends_under_either_policy() -> None:
    for policy in ("tool-only", "valid-terminal-state"):
        end = ending(policy)
        end.exit("agent", 60.0)
        assert (end.reason, end.at, end.simulator_reported) == ("[EXIT]", 60.0, False)


def test_the_simulators_exit_ends_only_under_valid_terminal_state() -> None:
    ends = ending("valid-terminal-state")
    ends.exit("user", 60.0)
    assert (ends.reason, ends.simulator_reported) == ("[SIMULATOR_EXIT]", True)
    goes_on = ending("tool-only")
    goes_on.exit("user", 60.0)
    assert (goes_on.check(61.0, speech_buffered=False), goes_on.simulator_reported) == (None, True)
    goes_on.exit("agent", 70.0)
    assert goes_on.reason == "[EXIT]"


def test_a_simulator_that_reports_after_the_agents_exit_is_still_noted() -> None:
    end = ending("valid-terminal-state")
    end.exit("agent", 60.0)
    end.exit("user", 60.2)
    assert (end.reason, end.at, end.simulator_reported) == ("[EXIT]", 60.0, True)


def test_a_lost_side_is_named_even_before_the_first_tick() -> None:
    for side, reason in (("agent", "[AGENT_DISCONNECTED]"), ("user", "[USER_DISCONNECTED]")):
        end = Ending(policy="tool-only", duration=1.0, inactivity_timeout=1.0)
        end.lost(side, 7.0)
        assert (end.reason, end.at) == (reason, 7.0)


HAPPENINGS = st.lists(
    st.tuples(
        st.sampled_from(["activity", "exit agent", "exit user", "lost agent", "lost user", "check", "buffered"]), st.floats(0, 60)
    ),
    max_size=30,
)


@given(HAPPENINGS, st.sampled_from(["tool-only", "valid-terminal-state"]))
def test_the_first_reason_wins_for_good(happenings: list[tuple[str, float]], policy: Policy) -> None:
    end, now, first = ending(policy, start=0.0, inactivity=50.0), 0.0, None
    for what, seconds in happenings:
        now += seconds
        match what.split():
            case ["activity"]:
                end.activity(now)
            case ["exit", "agent" | "user" as side]:
                end.exit(side, now)
            case ["lost", "agent" | "user" as side]:
                end.lost(side, now)
            case _:
                end.check(now, speech_buffered=what == "buffered")
        first = first or (end.reason and (end.reason, end.at))
        assert first == (end.reason and (end.reason, end.at))
