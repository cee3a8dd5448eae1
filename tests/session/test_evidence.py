"""The evidence files of one attempt, whatever a bot sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from voiceeval_engine.session import evidence
from voiceeval_engine.session.evidence import LogSegment
from voiceeval_engine.session.files import read_json, write_json

DATA = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"
RULE = "=" * 80
SEGMENTS = (
    LogSegment(12.5, 13.25, "agent", "Hi\nthere", 640.06),
    LogSegment(1.0, 11.8599, "user", "Hello \ud83d"),
    LogSegment(0.0, 0.5, "agent", "Opening"),
)


def test_the_conversation_log_lists_segments_by_start(tmp_path: Path) -> None:
    evidence.write_conversation_log(tmp_path, SEGMENTS, "2026-01-01T00:00:00", "2026-01-01T00:01:00", "[EXIT]")
    assert (tmp_path / "conversation_log.txt").read_text(encoding="utf-8").split("\n") == [
        "RTVI Evaluation Bridge - Conversation Log",
        RULE,
        "Start Time: 2026-01-01T00:00:00",
        RULE,
        "",
        "[  0.000s -   0.500s] (0.500s) AGENT: Opening",
        "[  1.000s -  11.860s] (10.860s) USER: Hello \\ud83d",
        "[ 12.500s -  13.250s] (0.750s) AGENT: Hi there",
        "  → Response latency: 640.1ms",
        "",
        "",
        RULE,
        "End time: 2026-01-01T00:01:00",
        "Stop reason: [EXIT]",
        RULE,
        "",
    ]


def test_a_conversation_without_a_segment_still_has_its_footer(tmp_path: Path) -> None:
    evidence.write_conversation_log(tmp_path, (), "a", "b", "[TIMEOUT]")
    assert (tmp_path / "conversation_log.txt").read_text().endswith(f"\n\n{RULE}\nEnd time: b\nStop reason: [TIMEOUT]\n{RULE}\n")


def test_seglst_keeps_the_words_verbatim(tmp_path: Path) -> None:
    evidence.write_seglst(tmp_path, "dom__1", SEGMENTS)
    records = read_json(tmp_path / "conversation_log.seglst.json")
    assert [record["words"] for record in records] == ["Opening", "Hello \ud83d", "Hi\nthere"]
    assert list(records[0].items()) == [
        ("session_id", "dom__1"),
        ("words", "Opening"),
        ("speaker", "agent"),
        ("start_time", 0.0),
        ("end_time", 0.5),
    ]


@pytest.mark.parametrize(
    ("agent", "user", "pushed", "response"),
    [
        (None, None, [], []),
        ([], None, [], [{"actions": []}]),
        (None, None, ['{"a": 1}', "so long"], [{"a": 1}, {"message": "so long"}]),
        ([], [], ['{"a": 1}'], [{"a": 1}]),
        ([{"name": "x"}], None, ['{"a": 1}'], [{"actions": [{"side": "agent", "name": "x"}]}]),
        ([1], None, [], [{"actions": [1]}]),
        (
            [{"name": "x", "side": "user"}],
            [{"name": "y", "side": "agent"}],
            [],
            [{"actions": [{"side": "user", "name": "x"}, {"side": "user", "name": "y"}]}],
        ),
        (None, [{"name": "y"}], ["x"], [{"actions": [{"side": "user", "name": "y"}]}]),
    ],
)
def test_the_answer_is_pulled_or_else_pushed(agent: Any, user: Any, pushed: list[str], response: list[Any]) -> None:
    assert evidence.final_response(agent, user, pushed) == response


def test_the_side_comes_first_in_an_action() -> None:
    [answer] = evidence.final_response([{"name": "x", "side": "user"}], None, [])
    assert list(answer["actions"][0]) == ["side", "name"]


@pytest.mark.parametrize("payload", ["[" * 100_000, '{"a": NaN, "b": 1e999}', "", '"\\ud83d"', "1" * 5000])
def test_any_pushed_payload_can_be_written(tmp_path: Path, payload: str) -> None:
    write_json(tmp_path / "final_agent_response.json", evidence.final_response(None, None, [payload]))
    assert len(read_json(tmp_path / "final_agent_response.json")) == 1


def test_hashes_are_written_only_where_there_are_any(tmp_path: Path) -> None:
    evidence.write_db_hashes(tmp_path, None, None)
    assert list(tmp_path.iterdir()) == []
    evidence.write_db_hashes(tmp_path, "ab", None)
    assert (tmp_path / "final_scenario_db_hash.txt").read_text() == "db_hash: ab\n"
    evidence.write_db_hashes(tmp_path, "ab", "cd")
    assert (tmp_path / "final_scenario_db_hash.txt").read_text() == "db_hash: ab\nuser_db_hash: cd\n"


MESSAGES = [{"role": "system", "content": "it's"}, {"role": "assistant", "content": None, "tool_calls": [{"ok": True}]}]


@pytest.mark.parametrize("context", [str(MESSAGES), json.dumps(MESSAGES), MESSAGES])
def test_a_context_is_read_in_each_form_that_bots_send(context: Any) -> None:
    assert evidence.parse_context(context) == MESSAGES


@pytest.mark.parametrize("context", [None, "", "[]", []])
def test_no_context_is_an_empty_list(context: Any) -> None:
    assert evidence.parse_context(context) == []


@pytest.mark.parametrize(
    "context",
    ["__import__('os').getcwd()", "[1, 2", "[" * 100_000, "{[]: 1}", "\x00", "lambda: 0", "3", "\ud83d", "-" * 50_000 + "1", 7],
)
def test_a_context_that_cannot_be_parsed_is_kept_as_one_message(tmp_path: Path, context: Any) -> None:
    messages = evidence.parse_context(context)
    assert messages == [{"role": "unparsed", "content": context}]
    evidence.write_llm_context(tmp_path, "agent", messages)
    assert read_json(tmp_path / "bot_logs_agent" / "llm_context.json") == messages


def test_a_context_too_long_to_parse_is_kept_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "MAX_CONTEXT_CHARS", 5)
    assert evidence.parse_context("[1, 2]")[0]["role"] == "unparsed"


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    context=st.text(st.characters())
    | st.recursive(
        st.none() | st.floats() | st.text() | st.binary() | st.sets(st.integers()), lambda inner: st.lists(inner), max_leaves=5
    ).map(repr)
)
def test_every_context_can_be_written(tmp_path: Path, context: str) -> None:
    evidence.write_llm_context(tmp_path, "user", evidence.parse_context(context))
    assert isinstance(read_json(tmp_path / "bot_logs_user" / "llm_context.json"), list)
