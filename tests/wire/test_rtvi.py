from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.wire import rtvi


def message(type_: str, data: Any = None, **more: Any) -> str:
    return json.dumps({"label": "rtvi-ai", "type": type_, "data": data, **more})


def test_events_carry_their_data_as_models() -> None:
    assert rtvi.parse(message("bot-tts-text", {"text": "hi", "more": 1})) == rtvi.Message(
        "bot-tts-text", None, rtvi.TextData(text="hi")
    )
    assert rtvi.parse(message("bot-started-speaking")).data == rtvi.NoData()
    assert rtvi.parse(message("something-new", [1, {"a": 2}])).data == rtvi.NoData()
    assert rtvi.parse(message("server-response", {"t": "reset", "d": True}, id="a-1")).data == rtvi.ServerResponseData(
        t="reset", d=True
    )
    assert rtvi.parse(message("error", {"error": "bad", "fatal": True})).data == rtvi.ErrorData(error="bad", fatal=True)


def test_an_id_may_be_echoed_as_a_number() -> None:
    assert rtvi.parse(message("bot-ready", id=7)).id == "7"


@pytest.mark.parametrize("data", [{}, {"tokens": None, "ttfb": None}, None])
def test_metrics_without_entries_are_no_trouble(data: Any) -> None:
    assert rtvi.parse(message("metrics", data)).data == rtvi.MetricsData()


@pytest.mark.parametrize(
    "text",
    [
        "", "nonsense", "{", "[]", "5", "null", '"x"', "{}", '{"label":"other","type":"metrics"}', '{"label":"rtvi-ai"}',
        '{"label":"rtvi-ai","type":5}', '{"label":"rtvi-ai","type":"x","id":[]}', "[" * 100_000, '{"a":' * 50_000, "1" * 5000,
        message("bot-tts-text"), message("bot-tts-text", {"text": 5}), message("bot-tts-text", "words"), message("bot-tts-text", [1]),
        message("metrics", {"tokens": 5}), message("metrics", {"ttfb": "x"}), message("server-message", "x"),
        message("server-message", {"text": 5}), message("server-message", {"type": "action-applied", "action": []}),
        message("bot-output", {"text": "x", "spoken": "perhaps"}), message("error-response", {"error": {}}),
    ],
    ids=lambda text: text[:30] or "nothing",
)  # fmt: skip
def test_what_cannot_be_used_is_refused_in_few_words(text: str) -> None:
    with pytest.raises(rtvi.BadMessage) as caught:
        rtvi.parse(text)
    assert len(str(caught.value)) < 800
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("data", "completed"),
    [
        ({}, True),
        ({"spoken": True}, True),
        ({"spoken": True, "spoken_status": "completed"}, True),
        ({"spoken": False}, False),
        ({"spoken": True, "spoken_status": "interrupted"}, False),
    ],
)
def test_only_output_that_was_spoken_to_its_end_is_completed(data: dict[str, Any], completed: bool) -> None:
    found = rtvi.parse(message("bot-output", {"text": "x", **data})).data
    assert isinstance(found, rtvi.BotOutputData)
    assert found.completed is completed


@pytest.mark.parametrize(
    ("data", "announced"),
    [
        ({"spoken": False, "will_be_spoken": True, "spoken_status": "new"}, True),
        ({"will_be_spoken": True, "spoken_status": "new"}, True),
        ({"spoken": True, "will_be_spoken": True, "spoken_status": "completed"}, False),
        ({"spoken": False, "will_be_spoken": False, "spoken_status": "new"}, False),
        ({"will_be_spoken": None, "spoken_status": "new"}, False),
        ({"spoken": False}, False),
    ],
)
def test_output_is_announced_that_will_be_spoken(data: dict[str, Any], announced: bool) -> None:
    found = rtvi.parse(message("bot-output", {"text": "x", **data})).data
    assert isinstance(found, rtvi.BotOutputData)
    assert found.announced is announced
    assert not (found.announced and found.completed)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec=None)), inner, max_size=4),
    max_leaves=12,
)
TYPES = st.sampled_from(sorted(rtvi._DATA_MODELS)) | st.text()


@given(st.text() | st.builds(message, TYPES, JSON) | st.builds(lambda t, d, i: message(t, d, id=i), TYPES, st.dictionaries(
    st.sampled_from(["text", "tokens", "ttfb", "action", "type", "d", "t", "error", "spoken"]), JSON), JSON))  # fmt: skip
def test_any_text_is_read_and_described_or_refused(text: str) -> None:
    refused: rtvi.BadMessage | None = None
    try:
        described = rtvi.describe(rtvi.parse(text))
    except rtvi.BadMessage as error:
        refused = error
    assert str(refused).isprintable() if refused else described.isprintable()


@pytest.mark.parametrize("value", ["\ud800", {"\ud800": 1}, float("nan")])
def test_data_that_cannot_be_written_can_still_be_described(value: Any) -> None:
    for data in ({"type": "action-applied", "action": {"name": value}}, {"text": value if isinstance(value, str) else "x"}):
        assert rtvi.describe(rtvi.parse(message("server-message", data))).startswith("server-message")


@pytest.mark.parametrize("depth", [200, 300, 900, 5_000])
def test_data_of_any_depth_is_described_or_refused(depth: int) -> None:
    text = message("server-message", {"type": "action-applied", "action": {"x": 0}}).replace("0", "[" * depth + "]" * depth)
    with contextlib.suppress(rtvi.BadMessage):
        assert len(rtvi.describe(rtvi.parse(text))) < 70_000


def test_a_long_text_is_cut_and_control_characters_are_shown() -> None:
    assert rtvi.shorten("abc", 3) == "abc"
    assert rtvi.shorten("abcdef", 4) == "abcd... (2 more characters)"
    assert rtvi.shorten("a\x1b[31m\nb\u202e") == "a\\x1b[31m\\nb\\u202e"
    assert len(rtvi.describe(rtvi.parse(message("bot-tts-text", {"text": "x" * 10**6})))) < 66_000


def test_requests_are_what_bots_expect() -> None:
    assert json.loads(rtvi.client_ready("i", "0.1")) == {
        "label": "rtvi-ai",
        "type": "client-ready",
        "id": "i",
        "data": {"version": "1.1.0", "about": {"library": "voiceeval-engine", "library_version": "0.1"}},
    }
    assert json.loads(rtvi.client_message("reset", {}, "i"))["data"] == {"t": "reset", "d": {}}
    assert json.loads(rtvi.send_text("i"))["data"] == {
        "content": "Hello",
        "options": {"run_immediately": True, "audio_response": True},
    }
    assert "id" not in json.loads(rtvi.build("bot-started-speaking"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<exit>done</exit>", "done"),
        ("before <exit>\n done\n</exit> after", "done"),
        ("<exit></exit>", ""),
        ("<exit>one</exit><exit>two</exit>", "one"),
        ("<exit>", None),
        ("exit", None),
        ("</exit>x<exit>", None),
    ],
)
def test_an_exit_is_what_stands_between_its_tags(text: str, found: str | None) -> None:
    assert rtvi.exit_text(text) == found


def test_all_final_responses_are_found() -> None:
    assert rtvi.final_responses("<final_response> {} </final_response>x<final_response>b\nc</final_response>") == ["{}", "b\nc"]
    assert rtvi.final_responses("nothing") == []
