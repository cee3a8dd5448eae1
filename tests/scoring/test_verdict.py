"""Reading judges' replies: whatever stands around the verdict it is found, and nothing else is ever taken for it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceeval_engine.scoring.verdict import MAX_REPLY_CHARS, Verdict, failed_verdict, judge_result, read_reply
from voiceeval_engine.session.files import write_json

relaxed = settings(deadline=None)

ASSERTIONS = ("The agent greets.", "The agent confirms.", "The agent says goodbye.")
HOSTILE = '{}[]"\\`:,<>/ \n' + "abstheinkcor01"
texts = st.text(st.sampled_from(HOSTILE), max_size=30) | st.sampled_from(
    ["<think>", "</think>", '{"score": 1}', "```json\n", "{", "}", '"', "\\", "{{", "}}", "```"]
)
scores = st.floats(0, 1) | st.integers(0, 1)
plain = st.text(st.sampled_from(HOSTILE), max_size=30)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain, inner, max_size=3),
    max_leaves=6,
)
prose = st.text(st.sampled_from("abc .,:!()\n*#'"), max_size=40)
replies = st.builds(
    lambda score, reason, extra, indent: (score, reason, json.dumps({**extra, "score": score, "reason": reason}, indent=indent)),
    scores,
    texts,
    st.dictionaries(st.sampled_from(["notes", "details", "evidence"]), json_values | st.just({"score": 1, "a": {}}), max_size=2),
    st.none() | st.just(2),
)


def found(text: str) -> tuple[float, str]:
    verdict = read_reply(text, ())
    assert not verdict.failed, verdict.reason
    return verdict.score, verdict.reason


def is_failure(verdict: Verdict) -> bool:
    return verdict.failed and verdict.score == 0.0 and verdict.reason.startswith("Error: ")


@relaxed
@given(replies)
def test_a_plain_object_is_the_verdict(reply: tuple[float, str, str]) -> None:
    score, reason, text = reply
    assert found(text) == (score, reason)
    assert found(f"\n  {text}\n") == (score, reason)


@relaxed
@given(replies, prose, prose, st.sampled_from(["json", "", "JSON", "jsonc"]))
def test_a_fenced_object_is_the_verdict(reply: tuple[float, str, str], before: str, after: str, language: str) -> None:
    score, reason, text = reply
    assert found(f"{before}\n```{language}\n{text}\n```\n{after}") == (score, reason)


@relaxed
@given(replies, prose, prose)
def test_an_object_in_prose_is_the_verdict(reply: tuple[float, str, str], before: str, after: str) -> None:
    score, reason, text = reply
    assert found(f"{before}{text}{after}") == (score, reason)


@relaxed
@given(replies, texts.filter(lambda text: "</think>" not in text), prose)
def test_the_verdict_after_thinking_is_found(reply: tuple[float, str, str], thought: str, gap: str) -> None:
    score, reason, text = reply
    for opening in ("<think>", ""):
        assert found(f'{opening}{thought} {{"score": 0.5}} {thought}</think>{gap}{text}') == (score, reason)


@relaxed
@given(texts)
def test_what_stands_inside_thinking_is_never_the_verdict(thought: str) -> None:
    draft = '{"score": 1, "reason": "a draft"}'
    thought = thought.replace("</think>", "")
    for text in (
        f"<think>{thought}{draft}</think>",
        f"<think>{thought}{draft}",
        f"{draft}</think>",
        f"<think>{draft}</think>so be it",
        f"<think>{draft}</think><think>{draft}</think>",
        f"<think>a</think>{draft}</think>{{}}",
        f"<think>{draft}</think>```json\n{{\n```",
    ):
        assert is_failure(read_reply(text, ())), text


def test_thinking_that_quotes_half_an_object_does_not_hide_the_verdict() -> None:
    thought = 'It must begin with {"score" and a "quote, like {"score": <number>, "reason": "...'
    assert found(f'{thought}</think>{{"score": 0.5, "reason": "r"}}') == (0.5, "r")
    assert found(f'<think>{thought}</think>\n{{"score": 0.5, "reason": "r"}}') == (0.5, "r")


@pytest.mark.parametrize("quoted", ["<think>", "</think>", "<think>{</think>", '<think>{"score": 0}</think>', "```\n{}\n```"])
@pytest.mark.parametrize(
    "around", ["{}", "```json\n{}\n```", "<think>hm</think>{}", "hm</think>\n```json\n{}\n```", "My verdict: {}. That is all."]
)
def test_tags_and_fences_in_a_verdicts_strings_are_text(quoted: str, around: str) -> None:
    reason = f"the agent said {quoted} aloud"
    assert found(around.replace("{}", json.dumps({"score": 0.25, "reason": reason}))) == (0.25, reason)


@relaxed
@given(replies, st.lists(st.dictionaries(st.sampled_from(["name", "a", "b"]), json_values, max_size=2), max_size=3))
def test_other_objects_in_the_prose_are_passed_over(reply: tuple[float, str, str], others: list[Any]) -> None:
    score, reason, text = reply
    around = " then ".join(json.dumps(other) for other in others)
    assert found(f"Evidence: {around}. Verdict: {text} and {around}.") == (score, reason)


def test_the_last_object_with_a_score_counts_wherever_a_fence_stands() -> None:
    first, last = '{"score": 1, "reason": "quoted"}', '{"score": 0.1, "reason": "mine"}'
    for text in (f"{first} {last}", f"```\n{first}\n```\nbut I say {last}", f"{first}\n```json\n{last}\n```", f"[{first}, {last}]"):
        assert found(text) == (0.1, "mine")


def test_two_readings_that_differ_are_a_failure() -> None:
    text = 'I say {"score": 0, "quote": "</think>", "details": {"score": 1}} I think'
    assert is_failure(read_reply(text, ()))


def test_an_object_inside_another_is_never_the_verdict() -> None:
    for text in (
        '{"verdict": {"score": 1}}',
        'Here: {"verdict": {"score": 1}}',
        '{"score": , "details": {"score": 1}}',
        'It is {"reason": "he said "yes" twice", "details": {"score": 1}} I think',
    ):
        assert is_failure(read_reply(text, ())), text


def test_an_echoed_template_and_stray_braces_are_passed_over() -> None:
    template = (
        '{"score": <number from 0 to 1>, "reason": "<why>", "nl_assertion_verdicts": [{"index": <n>, "passed": true or false}]}'
    )
    assert found(f'As asked: {template}\n{{"score": 0.75, "reason": "r"}}') == (0.75, "r")
    assert found('A set {x} and a brace { here: {"score": 0.75, "reason": "r"} :-}') == (0.75, "r")
    assert found('{{"score": 0.75, "reason": "r"}}') == (0.75, "r")


def test_bare_line_breaks_in_strings_are_read() -> None:
    assert found('{"score": 0.75, "reason": "one\n\ttwo"}') == (0.75, "one\n\ttwo")


@relaxed
@given(replies, st.sampled_from(["{}", "```json\n{}\n```", '<think>maybe {"score": 1}</think>{}', "I say {}", "hm</think>{}"]))
def test_a_verdict_cut_off_anywhere_is_a_failure(reply: tuple[float, str, str], around: str) -> None:
    text = around.replace("{}", reply[2])
    end = text.rindex("}")
    for length in range(end + 1):
        verdict = read_reply(text[:length], ASSERTIONS)
        assert is_failure(verdict), text[:length]
        assert len(verdict.assertions) == 3


def test_a_cut_off_verdict_does_not_fall_back_on_an_earlier_or_an_inner_one() -> None:
    full = 'First {"score": 1}. Then {"score": 0.2, "details": {"score": 1}, "reason": "x"}'
    second = full.index('{"score": 0.2')
    for length in range(second + 1, len(full)):
        assert is_failure(read_reply(full[:length], ())), full[:length]


@pytest.mark.parametrize(
    "score",
    ["NaN", "Infinity", "-Infinity", "1e999", "-0.01", "1.0001", "2", "100", "true", "false", "null", '"0.5"', '"1"', "[1]", "{}",
     "[]", '{"score": 1}', "1" + "0" * 400, "-1" + "0" * 400, "9" * 5000, "[" * 500 + "]" * 500],
)  # fmt: skip
def test_a_score_that_is_no_number_from_0_to_1_is_a_failure_that_keeps_the_text(score: str) -> None:
    text = f'{{"score": {score}, "reason": "fine"}}'
    verdict = read_reply(text, ())
    assert is_failure(verdict)
    assert verdict.raw_response == text


@relaxed
@given(
    st.integers(2) | st.integers(max_value=-1) | st.floats(allow_nan=True).filter(lambda score: not 0 <= score <= 1) | st.booleans()
)
def test_a_score_outside_of_the_range_never_counts(score: float) -> None:
    assert is_failure(read_reply(json.dumps({"score": score}), ()))


@pytest.mark.parametrize(("score", "expected"), [("0", 0.0), ("1", 1.0), ("1.0", 1.0), ("-0.0", 0.0), ("1e-3", 0.001)])
def test_the_ends_of_the_range_count(score: str, expected: float) -> None:
    verdict = read_reply(f'{{"score": {score}}}', ())
    assert (verdict.score, verdict.reason, verdict.failed) == (expected, "", False)
    assert isinstance(verdict.score, float)


@pytest.mark.parametrize("content", [None, 5, 0.5, True, {"score": 1}, [{"type": "text", "text": '{"score": 1}'}], b'{"score": 1}'])
def test_content_that_is_no_text_is_a_failure(content: Any) -> None:
    verdict = read_reply(content, ASSERTIONS)
    assert is_failure(verdict)
    assert (verdict.raw_response is None) == (content is None)


@pytest.mark.parametrize("text", ["", " ", "null", "[]", "1", '"score"', "I cannot judge this.", '[{"a": 1}]', "\ufeff"])
def test_a_reply_without_a_verdict_is_a_failure(text: str) -> None:
    assert is_failure(read_reply(text, ()))


@relaxed
@given(json_values)
def test_a_reason_of_another_type_becomes_text(reason: Any) -> None:
    verdict = read_reply(json.dumps({"score": 1, "reason": reason}), ())
    assert not verdict.failed
    assert isinstance(verdict.reason, str)


@relaxed
@given(st.lists(texts, max_size=12).map("".join))
def test_no_text_crashes_the_reader(text: str) -> None:
    verdict = read_reply(text, ASSERTIONS)
    assert [each.index for each in verdict.assertions] == [1, 2, 3]
    assert 0 <= verdict.score <= 1
    assert verdict.failed == verdict.reason.startswith("Error: ")


@pytest.mark.parametrize(
    "unit",
    ["{", "[", "}", '"', "\\", '\\"', '{"', '{"a":', '[{"a":', '{"score":', '{"":}', "{ ", '{"\\"', "```\n", "```json\n{", "<think>",
     "</think>", '<think>{"', '{"a":1}', '{"score":1', '"{', "{\n"],
)  # fmt: skip
def test_a_megabyte_of_anything_is_read_in_about_a_second(unit: str) -> None:
    text = unit * (MAX_REPLY_CHARS // len(unit))
    start = time.process_time()
    verdict = read_reply(text, ())
    assert time.process_time() - start < 4.0  # a quadratic reader takes a minute
    assert is_failure(verdict)


def test_a_reply_beyond_the_limit_is_a_failure_and_not_read_in_part() -> None:
    draft, verdict = '{"score": 1} ', '</think>{"score": 0}'
    reply = read_reply(draft + "x" * MAX_REPLY_CHARS + verdict, ())
    assert is_failure(reply)
    assert len(reply.raw_response or "") == MAX_REPLY_CHARS


# -- assertions


def passed(entries: Any, assertions: tuple[str, ...] = ASSERTIONS) -> list[bool]:
    verdict = read_reply(json.dumps({"score": 1, "reason": "", "nl_assertion_verdicts": entries}), assertions)
    assert not verdict.failed
    assert [each.index for each in verdict.assertions] == list(range(1, len(assertions) + 1))
    assert [each.assertion for each in verdict.assertions] == list(assertions)
    return [each.passed for each in verdict.assertions]


def reasons(entries: Any, assertions: tuple[str, ...] = ASSERTIONS) -> list[str]:
    verdict = read_reply(json.dumps({"score": 1, "nl_assertion_verdicts": entries}), assertions)
    return [each.reason for each in verdict.assertions]


def entry(index: Any, outcome: Any = True, reason: Any = "seen") -> dict[str, Any]:
    return {"index": index, "passed": outcome, "reason": reason}


@relaxed
@given(st.permutations([entry(1), entry(2, False), entry(3)]))
def test_verdicts_belong_to_their_index_in_any_order(entries: list[Any]) -> None:
    assert passed(entries) == [True, False, True]
    assert reasons(entries) == ["seen"] * 3


def test_a_short_list_fails_what_is_missing_and_says_so() -> None:
    assert passed([entry(2)]) == [False, True, False]
    assert reasons([entry(2)])[0] == "the judge gave no verdict on this assertion"


def test_a_long_list_is_cut_to_the_assertions() -> None:
    assert passed([entry(index) for index in range(1, 9)]) == [True] * 3
    assert passed([entry(0, False), entry(1), entry(2), entry(3), entry(4, False), entry(-1, False)]) == [True] * 3


def test_duplicates_that_agree_count_and_those_that_contradict_fail() -> None:
    assert passed([entry(1), entry(1), entry(2), entry(2, False), entry(3, False), entry(3, False)]) == [True, False, False]
    assert "contradicting" in reasons([entry(1), entry(1, False)])[0]
    assert passed([entry(1), entry("1", False)])[0] is False


@pytest.mark.parametrize("outcome", ["true", 1, 1.0, None, [], {}, [True], "yes"])
def test_a_verdict_that_is_no_boolean_fails_and_says_so(outcome: Any) -> None:
    assert passed([entry(1, outcome), entry(2)]) == [False, True, False]
    assert "neither true nor false" in reasons([entry(1, outcome)])[0]
    assert passed([entry(1), entry(1, outcome)])[0] is False
    assert reasons([entry(1), entry(1, outcome)])[0] == reasons([entry(1, outcome)])[0]


def test_indexes_from_0_to_n_minus_1_are_taken_as_1_to_n_and_the_reason_says_so() -> None:
    entries = [entry(0), entry(1, False), entry(2)]
    assert passed(entries) == [True, False, True]
    assert all("counted from 0" in reason for reason in reasons(entries))
    assert passed([entry(0)], ASSERTIONS[:1]) == [True]


def test_a_zero_among_other_indexes_is_out_of_range() -> None:
    assert passed([entry(0), entry(1)]) == [True, False, False]
    assert passed([entry(0), entry(1), entry(2), entry(3, False)]) == [True, True, False]
    assert passed([entry(0), entry(1), entry(2), entry(7)]) == [True, True, False]
    assert passed([entry(0), entry(2)]) == [False, True, False]


@pytest.mark.parametrize("index", [True, None, "one", 1.5, [1], {}, "", "NaN", "1e999", 10**400, "1, 2"])
def test_an_index_that_is_no_whole_number_belongs_to_no_assertion(index: Any) -> None:
    assert passed([entry(index), entry(2)]) == [False, True, False]


def test_a_quoted_or_float_index_counts_if_it_is_whole() -> None:
    assert passed([entry("1"), entry(2.0), entry("3.0")]) == [True] * 3


@relaxed
@given(json_values | st.lists(json_values | st.builds(entry, json_values | st.integers(-1, 4), json_values, json_values)))
def test_there_is_exactly_one_entry_per_assertion_and_only_a_literal_true_passes(entries: Any) -> None:
    literal = (
        sum(1 for each in entries if isinstance(each, dict) and each.get("passed") is True) if isinstance(entries, list) else 0
    )
    assert sum(passed(entries)) <= literal


@relaxed
@given(json_values | st.lists(st.builds(entry, st.integers(-1, 4), st.booleans()), max_size=9))
def test_without_assertions_there_are_no_entries(entries: Any) -> None:
    assert passed(entries, ()) == []


def test_a_failed_verdict_fails_every_assertion() -> None:
    verdict = failed_verdict("no answer", ASSERTIONS)
    assert (verdict.score, verdict.reason, verdict.assertion_pass_rate) == (0.0, "Error: no answer", 0.0)
    assert [each.passed for each in verdict.assertions] == [False] * 3


# -- judge_result.json


def test_judge_result_holds_the_dictionarys_keys_in_order() -> None:
    text = json.dumps({"score": 0.5, "reason": "r", "nl_assertion_verdicts": [entry(1), entry(3)]})
    result = judge_result(read_reply(text, ASSERTIONS), "system", "user")
    assert list(result) == [
        "score", "reason", "judge_input", "nl_assertion_verdicts", "nl_assertion_pass_count", "nl_assertion_total",
        "nl_assertion_pass_rate",
    ]  # fmt: skip
    assert result["judge_input"] == {"system_prompt": "system", "user_content": "user"}
    assert (result["nl_assertion_pass_count"], result["nl_assertion_total"]) == (2, 3)
    assert result["nl_assertion_pass_rate"] == 2 / 3
    assert list(result["nl_assertion_verdicts"][0].items()) == [
        ("index", 1), ("assertion", ASSERTIONS[0]), ("passed", True), ("reason", "seen"),
    ]  # fmt: skip


def test_judge_result_without_assertions_has_none_of_their_keys() -> None:
    assert list(judge_result(read_reply('{"score": 1}', ()), "s", None)) == ["score", "reason", "judge_input"]
    assert judge_result(read_reply("?", ()), "s", None)["raw_response"] == "?"


@relaxed
@given(st.text(), st.text(st.characters()), json_values)
def test_judge_result_can_always_be_written(tmp_path_factory: Any, text: str, reason: str, entries: Any) -> None:
    path = tmp_path_factory.mktemp("judge") / "judge_result.json"
    reply = json.dumps({"score": 1, "reason": reason + "\ud800", "nl_assertion_verdicts": entries})
    for verdict in (read_reply(text, ASSERTIONS), read_reply(reply, ASSERTIONS)):
        write_json(path, judge_result(verdict, "s", text))
