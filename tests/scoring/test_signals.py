"""The conversation-end table, the conjunction, the floor."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.scenarios.model import SIGNALS, Signal
from voiceeval_engine.scoring.signals import breakdown, conversation_end, is_stalled
from voiceeval_engine.session.results import composite

TOOL = (True, "agent_end_conversation_tool")
MISSING = (False, "agent_end_conversation_tool_missing")
REPORTED = (True, "simulator_reported_end")
SILENT_AGENT = (True, "inactivity_timeout_after_user_final_turn")
NO_EVIDENCE = (False, "no_valid_terminal_evidence")
OTHERS = ("[TIMEOUT]", "[AGENT_DISCONNECTED]", "[USER_DISCONNECTED]", "[OPERATOR]", "")


@pytest.mark.parametrize("last", ["user", "agent", None])
@pytest.mark.parametrize("reported", [True, False])
def test_the_agents_exit_passes_under_both_policies(reported: bool, last: str | None) -> None:
    for policy in ("tool-only", "valid-terminal-state"):
        end = conversation_end("[EXIT]", reported, last, policy)  # type: ignore[arg-type]
        assert (end.clean_exit, end.reason) == TOOL


@pytest.mark.parametrize("last", ["user", "agent", None])
@pytest.mark.parametrize("reported", [True, False])
@pytest.mark.parametrize("stop", ["[SIMULATOR_EXIT]", "[INACTIVITY_TIMEOUT]", *OTHERS])
def test_nothing_else_passes_under_tool_only(stop: str, reported: bool, last: str | None) -> None:
    end = conversation_end(stop, reported, last, "tool-only")
    assert (end.clean_exit, end.reason) == MISSING


@pytest.mark.parametrize("last", ["user", "agent", None])
@pytest.mark.parametrize(
    ("stop", "reported"),
    [("[SIMULATOR_EXIT]", False), *((stop, True) for stop in ("[SIMULATOR_EXIT]", "[INACTIVITY_TIMEOUT]", *OTHERS))],
)
def test_a_reported_end_passes_under_valid_terminal_state(stop: str, reported: bool, last: str | None) -> None:
    end = conversation_end(stop, reported, last, "valid-terminal-state")
    assert (end.clean_exit, end.reason) == REPORTED


@pytest.mark.parametrize(
    ("stop", "last", "expected"),
    [
        ("[INACTIVITY_TIMEOUT]", "user", SILENT_AGENT),
        ("[INACTIVITY_TIMEOUT]", "agent", NO_EVIDENCE),
        ("[INACTIVITY_TIMEOUT]", None, NO_EVIDENCE),
        *((stop, last, NO_EVIDENCE) for stop in OTHERS for last in ("user", "agent", None)),
    ],
)
def test_silence_passes_only_after_the_users_last_word(stop: str, last: str | None, expected: tuple[bool, str]) -> None:
    end = conversation_end(stop, False, last, "valid-terminal-state")
    assert (end.clean_exit, end.reason) == expected


@given(
    st.sets(st.sampled_from(SIGNALS)),
    st.dictionaries(st.sampled_from(SIGNALS), st.sampled_from([True, False, None])),
)
def test_every_signal_is_in_at_most_one_bucket_in_order(whitelist: set[Signal], verdicts: dict[Signal, bool | None]) -> None:
    buckets = breakdown(tuple(whitelist), verdicts)
    inside = (*buckets.passed, *buckets.failed, *buckets.not_applicable)
    assert sorted(inside) == sorted(whitelist)
    assert set(buckets.excluded) == {name for name, verdict in verdicts.items() if verdict is not None} - whitelist
    for bucket in (buckets.passed, buckets.failed, buckets.not_applicable, buckets.excluded):
        assert list(bucket) == sorted(bucket, key=SIGNALS.index)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ({"is_action_match": True, "clean_exit": True}, (True, True)),
        ({"is_action_match": True, "clean_exit": False}, (False, True)),
        ({"is_action_match": False, "clean_exit": True}, (False, False)),
        ({"is_action_match": False, "clean_exit": False}, (False, False)),
        ({"is_action_match": None, "clean_exit": True}, (True, True)),
        ({"is_action_match": None, "clean_exit": None}, ("N/A", None)),
        ({"judge_passed": False}, ("N/A", None)),
    ],
)
def test_the_composite_is_a_conjunction_over_what_has_a_verdict(
    verdicts: dict[Signal, bool | None], expected: tuple[Any, Any]
) -> None:
    signals = breakdown(("is_action_match", "clean_exit"), verdicts)
    found = composite(signals.passed, signals.failed, stalled=False)
    assert (found["is_successful"], found.get("is_task_successful")) == expected
    assert composite(signals.passed, signals.failed, stalled=True) == {"is_successful": False, "is_task_successful": False}


@pytest.mark.parametrize(
    ("count", "floor", "stalled"), [(1, 2, True), (2, 2, False), (0, 0, False), (None, 2, False), (0, 1, True)]
)
def test_a_stall_is_a_known_count_below_the_floor(count: int | None, floor: int, stalled: bool) -> None:
    assert is_stalled(count, floor) is stalled
