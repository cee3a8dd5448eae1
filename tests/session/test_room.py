"""Whether a run fits: how much it may write, and which names and paths a file system takes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.session import layout, room

NAMES = st.text("abcä._-", min_size=1, max_size=238).filter(lambda name: len(name.encode()) <= 238)


def test_a_folder_that_is_not_there_is_judged_by_the_nearest_that_is(tmp_path: Path) -> None:
    assert room.nearest_folder(tmp_path / "a" / "b") == tmp_path
    assert room.free_bytes(tmp_path / "a" / "b") > 0
    assert not list(tmp_path.iterdir())


@given(st.lists(st.floats(0, 10**9), max_size=20), st.integers(4_000, 192_000))
def test_room_is_that_of_the_recordings_and_no_recording_outgrows_its_format(durations: list[float], rate: int) -> None:
    needed = room.needed_bytes(durations, rate)
    assert needed == sum(room.needed_bytes([each], rate) for each in durations)
    assert needed <= len(durations) * (2**32 + room.OTHER_BYTES)
    assert needed >= sum(min(2**32, each * rate * 4) - 4 for each in durations)


@given(NAMES)
def test_every_name_of_a_scenario_fits_a_usual_file_system(name: str) -> None:
    assert room.unfit_names(Path("/"), [name]) == {}


@pytest.mark.parametrize("limit", [100, 143, 254])
def test_names_are_refused_that_a_file_system_could_not_take(limit: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "pathconf", lambda _, what: {"PC_NAME_MAX": limit, "PC_PATH_MAX": 4096}[what])
    names = ["a" * size for size in range(1, 239)]
    unfit = room.unfit_names(tmp_path, names)
    for name in names:
        fits = len(layout.killed_name(name, layout.retry_tag(1, "20260618_072325"))) <= limit
        assert (name in unfit) == (not fits)
    assert f"the file system takes {limit}" in unfit["a" * 238]


def test_a_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["x" * 200] * 20)
    assert "longer than" in room.unfit_names(deep, ["a" * 200])["a" * 200]
