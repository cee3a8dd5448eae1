"""The sessions of a folder at a glance: counts, rates, states, and how little is read for them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hostile_text import HOSTILE
from outputs import metrics, put_record, put_result, put_session

from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.session import layout
from voiceeval_engine.session.lock import SessionLock
from voiceeval_tui import listing
from voiceeval_tui.listing import Found, Listing, used_by

NAMES = [f"retail__{number}" for number in range(6)]
REFERENCE = Path(__file__).parents[1] / "data" / "reference_session"


def only(output_dir: Path) -> Found:
    (found,) = Listing(output_dir).look()
    return found


def test_a_folder_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert Listing(tmp_path / "nowhere").look() == ()


def test_a_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        Listing(tmp_path / "file").look()


def test_sessions_come_newest_first_and_nothing_else(tmp_path: Path) -> None:
    for number in (1, 3, 2):
        put_session(tmp_path, number, NAMES, 0)
    for other in ("eval_x", "20260618_000009", "eval_20260618_000009.bak", "notes"):
        (tmp_path / other).mkdir()
    (tmp_path / "eval_20260618_000010").write_text("a file")
    assert [each.name[-1] for each in Listing(tmp_path).look()] == ["3", "2", "1"]


def test_what_a_session_is(tmp_path: Path) -> None:
    put_session(tmp_path, 1, NAMES, 6, finished=True, domain="retail")
    found = only(tmp_path)
    assert (found.domain, found.done, found.total, found.k, found.n) == ("retail", 6, 6, 4, 6)
    assert (found.state, found.foreign, found.demo, found.trouble) == ("finished", False, False, "")
    assert found.started is not None
    assert found.started.isoformat() == "2026-06-18T00:00:01"


def test_a_session_of_the_reference(tmp_path: Path) -> None:
    found = only(REFERENCE)
    assert (found.foreign, found.state, found.done, found.total) == (True, "finished", 5, 5)
    assert found.domain == "3 domains"


@pytest.mark.parametrize(("names", "told"), [(["a__1", "a__2"], "a"), (["a__1", "b__1"], "2 domains"), (["x", "y"], ""), ([], "")])
def test_the_domain_is_what_all_names_begin_with(tmp_path: Path, names: list[str], told: str) -> None:
    put_session(tmp_path, 1, names, 0)
    assert only(tmp_path).domain == told


def test_states(tmp_path: Path) -> None:
    session = put_session(tmp_path, 1, NAMES, 2, finished=True)
    assert only(tmp_path).state == "stopped"
    looking = Listing(tmp_path)
    assert looking.look()[0].state == "stopped"
    lock = SessionLock(session, "2026-06-18T07:23:25")
    assert looking.look()[0].state == "running"
    for name in NAMES:
        put_result(session, name)
    lock.release()
    assert looking.look()[0].state == "finished"
    put_record(session, [*NAMES, "retail__more"])
    os.utime(session / layout.RUN_ARGS, (time.time() + 5, time.time() + 5))
    assert looking.look()[0].state == "stopped"


def test_results_that_come_are_counted_while_it_runs(tmp_path: Path) -> None:
    session = put_session(tmp_path, 1, NAMES, 1)
    lock = SessionLock(session, "2026-06-18T07:23:25")
    looking = Listing(tmp_path)
    looking.look()
    put_result(session, NAMES[1])
    (session / layout.JOURNAL).write_text("grown\n")
    found = looking.look()[0]
    lock.release()
    assert (found.done, found.k, found.n) == (2, 2, 2)


@pytest.mark.parametrize(
    ("value", "judge", "rate"),
    [
        (metrics(verdict=True), None, (1, 1)),
        (metrics(verdict=False, failed=["db_state_match"]), None, (0, 1)),
        (metrics(verdict="N/A"), None, (0, 0)),
        (metrics(verdict=False, failed=["judge_passed"]), "Error: verdict pending", (0, 0)),
        (metrics(verdict=False, failed=["judge_passed", "db_state_match"]), "Error: 500", (0, 1)),
        (metrics(verdict=False, failed=["judge_passed"]), "It was rude", (0, 1)),
        (metrics(verdict=False, responses=1, insufficient_agent_turns=True), "Error: 500", (0, 1)),
        ({"is_successful": False, "z": "x" * 9000}, None, (0, 1)),
        ("{broken", None, (0, 0)),
        ("", None, (0, 0)),
        ("[]", None, (0, 0)),
        ({"is_successful": "yes", "z": "x" * 9000}, None, (0, 0)),
    ],
)
def test_a_rate_counts_what_the_run_counts(tmp_path: Path, value: object, judge: str | None, rate: tuple[int, int]) -> None:
    put_result(put_session(tmp_path, 1, NAMES, 0), NAMES[0], value, judge)
    found = only(tmp_path)
    assert (found.k, found.n) == rate


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"invocations": [1, null]}', '{"invocations": [{"parsed_args": 3}]}',
    '{"invocations": [{"resolved_scenario_names": [1, "../x", "a/b"], "parsed_args": {"pair": [3, [4]]}}]}'])  # fmt: skip
def test_broken_records_are_no_end(tmp_path: Path, content: str) -> None:
    session = tmp_path / "eval_20260618_000001"
    session.mkdir()
    (session / layout.RUN_ARGS).write_text(content)
    found = only(tmp_path)
    assert (found.total, found.state) == (0, "stopped")


def test_hostile_names_are_kept_as_they_are(tmp_path: Path) -> None:
    put_session(tmp_path, 1, NAMES, 0, domain=HOSTILE[2])
    assert only(tmp_path).domain == HOSTILE[2]


def test_an_empty_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "eval_20260618_000001").mkdir()
    assert "no record" in only(tmp_path).trouble


def test_rates_come_within_a_budget_newest_first_and_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(300):
        put_session(tmp_path, number, NAMES[:2], 2, finished=True)
    looking = Listing(tmp_path)
    first = looking.look(budget=0.0)
    assert len(first) == 300
    assert all(each.n is None and each.done == 2 for each in first)
    part = looking.look(budget=0.01)
    assert part[0].n == 2
    looking.look(budget=60.0)
    read: list[Path] = []
    monkeypatch.setattr(listing, "_read", lambda path, **_: read.append(path))
    monkeypatch.setattr(listing, "_verdict", lambda path: read.append(path))
    begun = time.perf_counter()
    again = looking.look()
    assert time.perf_counter() - begun < 1.0
    assert all(each.n == 2 for each in again)
    assert read == []


def test_a_running_session_on_the_same_bots_is_found(tmp_path: Path) -> None:
    session = put_session(tmp_path, 1, NAMES, 0, agent_url="ws://a", user_url="ws://u")
    mine = RunOptions(pair=(("ws://b", "ws://u"),))
    assert used_by(tmp_path, mine) is None
    lock = SessionLock(session, "2026-06-18T07:23:25")
    found = used_by(tmp_path, mine)
    assert found is not None
    assert found.path == session
    assert used_by(tmp_path, RunOptions(demo=True)) is None
    assert used_by(tmp_path, RunOptions()) is None
    assert used_by(tmp_path / "nowhere", mine) is None
    lock.release()
