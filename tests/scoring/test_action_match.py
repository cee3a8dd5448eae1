"""The comparator: what matches, what never does, and our four differences from the reference."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from voiceeval_engine.scoring.action_match import MAX_DEPTH, MatchRules, match_actions

relaxed = settings(deadline=None)
STRICT = MatchRules(strict=True)
rule_sets = st.builds(MatchRules, *[st.booleans()] * 4)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=3), values, min_size=1, max_size=4)
documents = objects | st.lists(objects, min_size=1, max_size=4)
digits = st.from_regex(r"[0-9]{1,25}", fullmatch=True)


def matches(reference: Any, prediction: Any, **rules: bool) -> bool:
    verdict = match_actions(reference, prediction, MatchRules(**rules)).verdict
    assert isinstance(verdict, bool)
    return verdict


def with_extras(value: Any) -> Any:
    if isinstance(value, dict):
        return {"an extra key": 1, **{key: with_extras(item) for key, item in value.items()}}
    return [with_extras(item) for item in value] if isinstance(value, list) else value


@relaxed
@given(documents, rule_sets)
def test_a_reference_matches_itself(document: Any, rules: MatchRules) -> None:
    assert match_actions(document, copy.deepcopy(document), rules).verdict is True


@relaxed
@given(documents, rule_sets)
def test_extra_keys_never_hurt(document: Any, rules: MatchRules) -> None:
    assert match_actions(document, with_extras(document), rules).verdict is True


@relaxed
@given(st.lists(objects, min_size=1, max_size=4), rule_sets, st.data())
def test_renaming_or_dropping_a_required_key_always_fails(contents: list[Any], rules: MatchRules, data: st.DataObject) -> None:
    document = [{**content, "id": number} for number, content in enumerate(contents)]  # no item can stand in for another
    prediction = copy.deepcopy(document)
    item = data.draw(st.sampled_from(prediction))
    key = data.draw(st.sampled_from(sorted(item)))
    value = item.pop(key)
    if data.draw(st.booleans()):
        item["renamed " + key] = value
    assert match_actions(document, prediction, rules).verdict is False


@relaxed
@given(st.lists(objects, min_size=2, max_size=4), rule_sets)
def test_an_item_without_its_required_keys_leaves_one_reference_unmatched(document: list[Any], rules: MatchRules) -> None:
    assert match_actions(document, [*document[1:], {"something else": 1}], rules).verdict is False


@relaxed
@given(digits, digits, st.builds(MatchRules, st.booleans(), st.booleans(), st.booleans(), st.booleans()))
def test_digit_strings_that_differ_never_match(one: str, other: str, rules: MatchRules) -> None:
    assume(one != other)
    assert match_actions({"id": one}, {"id": other}, rules).verdict is False
    if str(int(other)) == other:
        assert match_actions({"id": one}, {"id": int(other)}, rules).verdict is False


@relaxed
@given(values, values, rule_sets)
def test_no_value_raises(reference: Any, prediction: Any, rules: MatchRules) -> None:
    result = match_actions(reference, prediction, rules)
    assert result.verdict in (True, False, "N/A")
    assert result.reason


@pytest.mark.parametrize(
    ("reference", "prediction"),
    [
        (12345678, 12345678.0),
        ("12345678", 12345678),
        ("1.0", 1),
        ("1.0", "1"),
        (-3, "-3"),
        (0.1 + 0.2, 0.3),
        (10, 10.00005),
        (19.99, "19.99"),
        ("19.9900", "19.99"),
        (1e300, 1e300),
        ("007", "007"),
        (True, True),
        (None, None),
    ],
)
def test_equal_numbers_match_however_they_are_written(reference: Any, prediction: Any) -> None:
    assert matches({"v": reference}, {"v": prediction})
    assert matches({"v": prediction}, {"v": reference})


@pytest.mark.parametrize(
    ("reference", "prediction"),
    [
        (12345678, 12345679),
        ("5551234567", "5551234999"),
        ("5551234567", 5551234999.0),
        ("007", 7),
        ("007", "7"),
        ("1e5", 100000),
        (True, 1),
        (False, 0),
        (True, "True"),
        (None, ""),
        (None, 0),
        (None, "None"),
        (19.99, 19.98),
        (10, 10.01),
        (10**400, 1.5),
        ("1" * 500, "1" * 499 + "2"),
        ("1" * 500 + ".5", "2" * 500 + ".5"),
        (math.inf, 10**400),
        (math.inf, -math.inf),
        (1, [1]),
        ({}, []),
        ([], {}),
        ("a", "A"),
        ("a.", "a"),
        ("a  b", "a b"),
    ],
)
def test_different_values_never_match(reference: Any, prediction: Any) -> None:
    assert not matches({"v": reference}, {"v": prediction})
    assert not matches({"v": prediction}, {"v": reference})


def test_texts_honour_the_scenarios_flags() -> None:
    assert matches({"v": "Ann Lee"}, {"v": "ann lee"}, ignore_capitalization=True)
    assert matches({"v": "A-1, please"}, {"v": "A1 please"}, ignore_punctuation=True)
    assert matches({"v": " a \n b "}, {"v": "a b"}, clean_text=True)
    assert matches({"v": " 12 "}, {"v": 12}, clean_text=True)
    assert not matches({"v": "1.0"}, {"v": "10"}, ignore_punctuation=True)


def test_one_reference_against_several_predictions_takes_the_last() -> None:
    assert matches({"a": 1}, [{"a": 2}, {"a": 1}])
    assert not matches([{"a": 1}], [{"a": 1}, {"a": 2}])


def test_every_reference_item_needs_its_own_prediction() -> None:
    assert not matches([{"a": 1}, {"a": 1}], [{"a": 1}, {"b": 1}])
    assert matches([{"a": 1}, {"b": 1}], [{"c": 1}, {"b": 1}, {"a": 1}])


def test_matching_finds_the_assignment_that_first_fit_misses() -> None:
    both, only_a = {"a": 1, "b": 2}, {"a": 1}
    assert matches([only_a, both], [both, only_a])
    assert matches({"actions": [only_a, both]}, {"actions": [both, only_a]})
    assert matches([{"x": [1]}, {"x": [2]}, {}], [{"x": [1, 2]}, {"x": [1]}, {"x": [2]}])


def test_strict_allows_no_extra_item_at_the_top_or_in_actions() -> None:
    two = [{"a": 1}, {"b": 1}]
    assert matches(two, [*two, {"c": 1}])
    assert not matches(two, [*two, {"c": 1}], strict=True)
    pulled = [{"actions": [*two, {"c": 1}]}]
    assert matches({"actions": two}, pulled)
    assert not matches({"actions": two}, pulled, strict=True)
    assert matches({"actions": two}, [{"actions": two, "more": 1}], strict=True)
    assert matches({"actions": [{"arguments": {"items": [1]}}]}, [{"actions": [{"arguments": {"items": [1, 2]}}]}], strict=True)


@pytest.mark.parametrize("bad", [1, "text", True, [1, 2], ["a"], [[{"a": 1}]], math.nan])
def test_malformed_values_are_false_with_a_reason(bad: Any) -> None:
    for result in (match_actions(bad, [{"a": 1}]), match_actions({"a": 1}, bad)):
        assert result.verdict is False
        assert "malformed" in result.reason


def test_a_stray_item_among_predictions_costs_only_itself() -> None:
    assert matches([{"a": 1}, {"b": 1}], [3, {"a": 1}, {"b": 1}])
    assert matches({"a": 1}, [3, {"a": 1}])


def test_no_reference_is_not_applicable_and_no_prediction_is_false() -> None:
    assert match_actions(None, {"a": 1}).verdict == "N/A"
    assert match_actions({"a": 1}, None).verdict is False
    assert match_actions({"a": 1}, []).verdict is False
    assert match_actions({}, [{"a": 1}]).verdict is True
    assert match_actions([], []).verdict is True
    assert match_actions([], [{"a": 1}], STRICT).verdict is False


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"k": inner}])
def test_bottomless_values_are_malformed(wrap: Any) -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH + 5):
        deep = wrap(deep)
    result = match_actions({"v": deep}, {"v": deep})
    assert (result.verdict, "nested" in result.reason) == (False, True)


def test_hostile_nesting_takes_no_exponential_time() -> None:
    def tree(depth: int, leaf: int) -> Any:
        return leaf if depth == 0 else [tree(depth - 1, leaf) for _ in range(2)]

    assert not matches({"v": tree(9, 1)}, {"v": tree(9, 2)})


def test_a_long_chain_of_displacements_needs_no_recursion() -> None:
    n = 300
    reference = [{"v": [k]} for k in range(n)]
    prediction = [{"v": [k, k + 1]} for k in range(n - 1)] + [{"v": [0]}]
    assert matches(reference, prediction) is matches(list(reversed(reference)), prediction) is True
