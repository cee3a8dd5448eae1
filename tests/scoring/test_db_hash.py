"""The database hash that both sides of the wire must agree on."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.domains.state import db_hash

LISTED = ("standby_list", "notifications", "bookings", "system_accounts", "group_memberships", "asset_recoveries")
whole = st.integers(-(2**53), 2**53)
values = st.recursive(
    st.none() | st.booleans() | whole | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
databases = st.dictionaries(st.text(max_size=4), values, max_size=5)


def reordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(item) for item in value] if isinstance(value, list) else value


def with_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: with_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_floats(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def test_the_empty_database_has_the_known_hash() -> None:
    assert db_hash({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@given(databases)
def test_key_order_does_not_matter(db: dict[str, Any]) -> None:
    assert db_hash(db) == db_hash(reordered(db))


@given(databases)
def test_whole_floats_are_integers(db: dict[str, Any]) -> None:
    assert db_hash(db) == db_hash(with_floats(db))


@given(st.sampled_from(LISTED), st.lists(values), st.randoms(use_true_random=False))
def test_listed_lists_have_no_order(key: str, items: list[Any], source: random.Random) -> None:
    shuffled = source.sample(items, len(items))
    assert db_hash({"a": {key: items}}) == db_hash({"a": {key: shuffled}})


def test_other_lists_have_an_order() -> None:
    assert db_hash({"orders": [1, 2]}) != db_hash({"orders": [2, 1]})


@pytest.mark.parametrize("text", ["none", "None", " NULL "])
def test_texts_that_mean_nothing_are_null(text: str) -> None:
    assert db_hash({"a": text}) == db_hash({"a": None})


def test_only_the_top_level_session_is_dropped() -> None:
    assert db_hash({"session": 1}) == db_hash({})
    assert db_hash({"a": {"session": 1}}) != db_hash({"a": {}})


@given(databases, st.text(max_size=4), st.integers())
def test_a_change_changes_the_hash(db: dict[str, Any], key: str, value: int) -> None:
    changed = db | {key: [value, "changed"]}
    if changed != db and key != "session":
        assert db_hash(changed) != db_hash(db)
