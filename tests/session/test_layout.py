"""Names in a session, making one, moving attempts aside."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from voiceeval_engine.session import layout

NOW = datetime(2026, 1, 1, 23, 59, 59)
TAG = layout.retry_tag(1, "20260101_000000")


def test_session_folder_is_named_by_its_second(tmp_path: Path) -> None:
    path, timestamp = layout.create_session_dir(tmp_path / "not" / "there", NOW)
    assert timestamp == "20260101_235959"
    assert path == layout.session_dir(tmp_path / "not" / "there", timestamp)
    assert path.is_dir()


def test_a_second_run_in_the_same_second_takes_the_next_free_one(tmp_path: Path) -> None:
    stamps = [layout.create_session_dir(tmp_path, NOW)[1] for _ in range(3)]
    assert stamps == ["20260101_235959", "20260102_000000", "20260102_000001"]


def test_killed_names_say_what_was_moved_and_when() -> None:
    assert layout.killed_name("dom__1", "20260101_000000") == "dom__1.killed.20260101_000000"
    assert layout.killed_name("dom__1", TAG) == "dom__1.killed.autoretry1.20260101_000000"
    assert layout.is_killed(layout.killed_name("dom__1", TAG))
    assert not layout.is_killed("dom__killed")


@pytest.mark.parametrize("scenario", ["x" * 238, "é" * 119, "x" * 230])
def test_a_killed_name_fits_a_file_system_and_stays_recognisable(scenario: str) -> None:
    for copy in (1, 2, 100):
        name = layout.killed_name(scenario, TAG, copy)
        assert len(name.encode()) <= 255
        assert layout.is_killed(name)
        assert layout.retry_tag(1, "20260101_000000") in name


def test_shortened_names_of_two_scenarios_differ() -> None:
    assert layout.killed_name("x" * 237 + "a", TAG) != layout.killed_name("x" * 237 + "b", TAG)


@pytest.mark.parametrize("scenario", ["dom__1", "x" * 238])
def test_moving_aside_never_loses_an_earlier_attempt(tmp_path: Path, scenario: str) -> None:
    moved = []
    for attempt in range(3):
        folder = layout.scenario_dir(tmp_path, scenario)
        folder.mkdir()
        if attempt:  # the first is empty: a rename would silently replace an empty folder
            (folder / "evidence").write_text(str(attempt))
        moved.append(layout.move_aside(folder, TAG))
        assert not folder.exists()
    assert len(set(moved)) == 3
    assert [(path / "evidence").read_text() for path in moved[1:]] == ["1", "2"]
    assert all((path / layout.KILLED_MARKER).read_bytes() == b"" for path in moved)
