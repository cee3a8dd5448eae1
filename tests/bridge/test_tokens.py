from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.bridge.tokens import add_tokens
from voiceeval_engine.session.metrics import TokenCount

HAD = TokenCount(2, 100, 10)


@pytest.mark.parametrize(
    ("entry", "prompt", "completion"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 7}, 5, 7),
        ({"prompt_tokens": "5", "completion_tokens": " 7 "}, 5, 7),
        ({"prompt_tokens": 5.0, "completion_tokens": "7.0"}, 5, 7),
        ({"prompt_tokens": 5}, 5, 0),
        ({"prompt_tokens": None, "completion_tokens": 0, "model": "m"}, 0, 0),
        ({}, 0, 0),
    ],
)
def test_an_entry_is_one_call_and_its_numbers_are_added(entry: dict[str, Any], prompt: int, completion: int) -> None:
    assert add_tokens(HAD, entry) == (TokenCount(3, 100 + prompt, 10 + completion), None)


@pytest.mark.parametrize(
    "bad", [-1, 1.5, True, "many", "", "nan", "inf", float("nan"), float("inf"), [], {}, [5], 10**400, "1e400", 1e300, 2**63]
)
def test_what_is_no_count_is_passed_over_with_a_sentence_and_the_rest_of_the_entry_counts(bad: Any) -> None:
    count, trouble = add_tokens(HAD, {"prompt_tokens": bad, "completion_tokens": 3})
    assert count == TokenCount(3, 100, 13)
    assert trouble is not None
    assert "prompt_tokens" in trouble


@pytest.mark.parametrize("bad", [None, 5, "x", [], True])
def test_an_entry_that_is_no_object_is_no_call(bad: Any) -> None:
    count, trouble = add_tokens(HAD, bad)
    assert count == HAD
    assert trouble is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON | st.fixed_dictionaries({"prompt_tokens": JSON, "completion_tokens": JSON}))
def test_whatever_comes_the_count_grows_by_at_most_one_call_and_stays_writable(entry: Any) -> None:
    count, trouble = add_tokens(HAD, entry)
    assert count.n_calls - HAD.n_calls in (0, 1)
    assert count.prompt >= HAD.prompt
    assert count.completion >= HAD.completion
    assert count.total < 2**63
    assert trouble is None or len(trouble) < 200
    json.dumps(count.total)
