"""Atomic writes, JSON that is JSON, typed reading errors."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from voiceeval_engine.session.files import UnreadableFile, UnwritableValue, json_safe, read_json, write_atomic, write_json

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
python_values = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(st.characters()) | st.binary() | st.just(2**13000) | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.none() | st.integers() | st.text(), inner, max_size=3)
    ),
    max_leaves=10,
)


@relaxed
@given(value=json_values)
def test_json_comes_back_as_it_was_written(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "value.json"
    write_json(path, value)
    assert read_json(path) == value
    assert path.read_bytes().isascii()
    assert [entry.name for entry in tmp_path.iterdir()] == ["value.json"]


@relaxed
@given(value=python_values)
def test_anything_made_safe_can_be_written(tmp_path: Path, value: Any) -> None:
    write_json(tmp_path / "value.json", json_safe(value))
    read_json(tmp_path / "value.json")


def test_what_json_has_no_form_for_takes_the_nearest() -> None:
    assert json_safe({1: (2, 3), "x": math.nan}) == {"1": [2, 3], "x": "nan"}


def test_endless_nesting_is_cut_when_made_safe(tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    write_json(tmp_path / "deep.json", json_safe(deep))


@pytest.mark.parametrize("value", [math.nan, [math.inf], {"a": -math.inf}, {"a": object()}, {"a": {1, 2}}])
def test_what_is_not_json_is_refused_and_the_old_file_stays(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "value.json"
    write_json(path, 1)
    with pytest.raises(UnwritableValue, match=r"value\.json"):
        write_json(path, value)
    assert path.read_text() == "1"
    assert [entry.name for entry in tmp_path.iterdir()] == ["value.json"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_disk_that_refuses_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "value.txt"
    write_atomic(path, "old")
    with monkeypatch.context() as patched:
        patched.setattr(os if failing == "fsync" else Path, failing, refuse)
        with pytest.raises(OSError, match="No space"):
            write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["value.txt"]


def test_a_lone_surrogate_in_a_text_is_written_as_its_escape(tmp_path: Path) -> None:
    write_atomic(tmp_path / "text", "a\ud83db")
    assert (tmp_path / "text").read_text(encoding="utf-8") == "a\\ud83db"


@pytest.mark.parametrize(
    "content",
    [b"", b'{"a": 1', b'{"a": NaN}', b"[Infinity]", b"[-Infinity]", b"[1e999]", b'"\xff"', b"[" * 100_000, b"{'a': 1}"],
)
def test_a_bad_file_is_a_typed_error_with_a_reason(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(UnreadableFile) as caught:
        read_json(path)
    assert caught.value.path == path
    assert caught.value.reason
    assert str(path) in str(caught.value)
    assert not caught.value.missing


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile) as caught:
        read_json(tmp_path / "none.json")
    assert caught.value.missing


def test_a_folder_in_place_of_a_file_is_unreadable_not_missing(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile) as caught:
        read_json(tmp_path)
    assert not caught.value.missing


def test_a_named_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f.json")
    with pytest.raises(UnreadableFile) as caught:
        read_json(tmp_path / "f.json")
    assert not caught.value.missing


def test_indentation_and_end_of_file_are_the_references(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"k": "é"}, indent=4)
    assert (tmp_path / "a.json").read_text() == json.dumps({"k": "é"}, indent=4)
