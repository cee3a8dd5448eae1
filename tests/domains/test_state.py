from __future__ import annotations

from typing import Any

import pytest

from voiceeval_engine.domains.cafe import DOMAIN
from voiceeval_engine.domains.state import apply_delta, apply_initialization


def test_a_delta_sets_dotted_paths_in_objects_and_lists() -> None:
    db: dict[str, Any] = {"a": {"b": 1}, "items": [{"n": 1}, {"n": 2}]}
    assert apply_delta(db, {"a.b": 2, "a.new.deep": 3, "items.1.n": 9, "items.0": None}) == []
    assert db == {"a": {"b": 2, "new": {"deep": 3}}, "items": [None, {"n": 9}]}


@pytest.mark.parametrize("path", ["a.b.c", "items.7", "items.x.n", "a.b.c.d"])
def test_a_path_that_leads_nowhere_is_reported_and_the_others_are_set(path: str) -> None:
    db: dict[str, Any] = {"a": {"b": 1}, "items": [1]}
    errors = apply_delta(db, {path: 0, "ok": True})
    assert len(errors) == 1
    assert errors[0].startswith(path)
    assert db["ok"] is True


def test_initialization_runs_one_sides_actions_and_reports_what_failed() -> None:
    db = {"menu": {"tea": {"price": 3, "stock": 1}}}
    actions = [
        {"side": "user", "func_name": "set_stock", "arguments": {"item": "tea", "count": 0}},
        {"func_name": "set_stock", "arguments": {"item": "tea", "count": 7}},
        {"side": "agent", "func_name": "set_stock", "arguments": {"item": "soup", "count": 7}},
        {"side": "agent", "func_name": "sing"},
    ]
    errors = apply_initialization(DOMAIN, actions, "agent", db)
    assert db["menu"]["tea"]["stock"] == 7
    assert [error.split(":")[0] for error in errors] == ["set_stock", "unknown initialization function"]
