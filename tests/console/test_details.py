"""What a scenario's files tell: the reference's sessions, and files that are broken in every way."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hostile_text import HOSTILE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from voiceeval_engine.session import layout
from voiceeval_engine.session.metrics import TokenCount
from voiceeval_tui.details import (
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_ITEM_TEXT,
    MAX_ITEMS,
    MAX_TEXT,
    Check,
    LatencyFigures,
    Signal,
    read_details,
)

REFERENCE = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"
NAME = "retail__1"
JSON_FILES = ("metrics.json", "judge_result.json", "scenario_config/metadata.json")


def _write(session: Path, name: str, value: Any) -> Path:
    path = session / NAME / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_a_scenario_of_the_reference_is_told_in_full() -> None:
    details = read_details(REFERENCE, "domB__1")
    measured, judged = details.measured, details.judged
    assert measured is not None
    assert judged is not None
    assert details.problems == ()
    assert (measured.verdict, measured.task_verdict) == (False, False)
    assert (measured.turns, measured.responses, measured.stalled) == (2, 3, False)
    assert measured.latency == LatencyFigures(1, 50.0, 50.0, 50.0, 50.0, 50.0)
    assert measured.signals == (
        Signal("db_state_match", True), Signal("db_state_assertion", False), Signal("judge_passed", True, excluded=True),
        Signal("clean_exit", True),
    )  # fmt: skip
    assert measured.hash_match is True
    assert measured.hash_expected == measured.hash_actual != ""
    assert measured.predicates[0] == Check("agent: assert_x: m", True, "")
    assert measured.predicates[1].note.startswith("No user DB available")
    assert measured.tokens == (("agent", TokenCount(3, 3000, 30)), ("user", TokenCount(3, 2100, 21)))
    assert (judged.score, judged.reason, judged.pending, judged.failed) == (0.95, "r", False, False)
    assert details.description == "d domB__1"
    assert dict(details.files)["scenario_config/metadata.json"] > 0


def test_discarded_attempts_of_the_reference_are_named() -> None:
    details = read_details(REFERENCE, "domA__1")
    assert details.aside == ("domA__1.killed.autoretry1.20261130_161728",)


@pytest.mark.parametrize("name", [each.name for each in REFERENCE.iterdir() if each.is_dir() and ".killed." not in each.name])
def test_every_scenario_of_the_reference_reads_without_a_problem(name: str) -> None:
    details = read_details(REFERENCE, name)
    assert details.problems == ()
    assert details.measured is not None
    assert details.judged is not None


def test_threshold_and_floor_are_those_of_the_newest_invocation(tmp_path: Path) -> None:
    records = [{"parsed_args": {"judge_threshold": value, "min_agent_turns": 3}} for value in (0.5, 0.8)]
    (tmp_path / layout.RUN_ARGS).write_text(json.dumps({"invocations": records}))
    details = read_details(tmp_path, NAME)
    assert (details.threshold, details.floor) == (0.8, 3)


def test_what_is_not_there_is_no_problem(tmp_path: Path) -> None:
    details = read_details(tmp_path, NAME)
    assert (details.problems, details.measured, details.judged, details.files) == ((), None, None, ())


@pytest.mark.parametrize("name", JSON_FILES)
@pytest.mark.parametrize(
    "content", ["", "[]", "null", "NaN", '"text"', "3", '{"a": NaN}', '{"a": 1e999}', "{", "[" * 100_000, "\ufeff{}"]
)
def test_a_broken_file_is_named_with_its_reason(tmp_path: Path, name: str, content: str) -> None:
    _write(tmp_path, name, content)
    details = read_details(tmp_path, NAME)
    assert len(details.problems) == 1
    assert details.problems[0].startswith(f"{Path(name).name}: ")
    assert (details.measured, details.judged, details.description) == (None, None, "")
    assert [name for name, _ in details.files] == [name]


@pytest.mark.parametrize("content", ["", "[", '"x"', "[]", '{"invocations": []}', '{"invocations": [3]}', "NaN"])
def test_broken_run_args_cost_the_threshold_only(tmp_path: Path, content: str) -> None:
    _write(tmp_path, "metrics.json", {"total_turns": 1})
    (tmp_path / layout.RUN_ARGS).write_text(content)
    details = read_details(tmp_path, NAME)
    assert details.threshold is None
    assert details.measured is not None


@pytest.mark.parametrize("wrong", [None, [], {}, "text", -1, True, 10**30, [[[]]], [{"passed": 3}, None, "x"], {"agent": []}, 1.5])
def test_values_of_the_wrong_type_are_left_out(tmp_path: Path, wrong: Any) -> None:
    metrics = json.loads((REFERENCE / "domB__1" / "metrics.json").read_text())
    verdict = json.loads((REFERENCE / "domB__1" / "judge_result.json").read_text())
    for key in [*metrics, "nl_assertion_pass_rate", "insufficient_agent_turns", "auto_retry_reasons"]:
        _write(tmp_path, "metrics.json", {**metrics, key: wrong})
        assert read_details(tmp_path, NAME).measured is not None, key
    for key in [*verdict, "nl_assertion_verdicts"]:
        _write(tmp_path, "judge_result.json", {**verdict, key: wrong})
        assert read_details(tmp_path, NAME).judged is not None, key


def test_a_number_that_counts_nowhere_is_a_problem_and_the_rest_is_told(tmp_path: Path) -> None:
    _write(tmp_path, "metrics.json", {"total_turns": "many", "stop_reason": "[EXIT]"})
    details = read_details(tmp_path, NAME)
    assert details.problems == ("metrics.json: total_turns is 'many', not a number of turns",)
    assert details.measured is not None
    assert details.measured.stop_reason == "[EXIT]"


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "N/A", "1", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["agent", "count", "passed", "side", "failed"]), inner)
    ),
    max_leaves=8,
)
_KEYS = sorted(json.loads((REFERENCE / "domB__1" / "metrics.json").read_text()))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(st.sampled_from(_KEYS), _VALUES),
    st.dictionaries(st.sampled_from(["score", "reason", "nl_assertion_verdicts"]), _VALUES),
)
def test_no_json_makes_it_raise(tmp_path_factory: pytest.TempPathFactory, metrics: Any, judged: Any) -> None:
    session = tmp_path_factory.mktemp("any")
    _write(session, "metrics.json", metrics)
    _write(session, "judge_result.json", judged)
    details = read_details(session, NAME)
    assert details.measured is not None
    assert details.judged is not None


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    _write(tmp_path, "metrics.json", {"total_turns": 1, "judge_score": 0.5})
    path = _write(tmp_path, "judge_result.json", "{}")
    os.truncate(path, 50_000_000)
    details = read_details(tmp_path, NAME)
    assert details.problems == ("judge_result.json: too large to show (50.0 MB)",)
    assert details.judged is None
    assert details.measured is not None
    assert details.measured.judge_score == 0.5


def test_what_the_judge_was_sent_is_not_held_and_texts_are_bounded(tmp_path: Path) -> None:
    sent = "x" * (MAX_FILE_BYTES // 2)
    verdicts = [{"index": 1, "assertion": "a" * 5000, "passed": True, "reason": "r" * 5000}] * 500
    judged = {
        "score": 1.0,
        "reason": "why " * 10_000,
        "judge_input": {"user_content": sent},
        "nl_assertion_verdicts": verdicts[:100],
    }
    _write(tmp_path, "judge_result.json", judged)
    found = read_details(tmp_path, NAME).judged
    assert found is not None
    assert len(found.reason) == MAX_TEXT
    assert len(found.assertions) == MAX_ITEMS
    assert all(len(each.text) <= MAX_ITEM_TEXT and len(each.note) <= MAX_ITEM_TEXT for each in found.assertions)
    assert "xxxxx" not in repr(found)


def test_a_folder_full_of_files_is_cut(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    folder.mkdir()
    for number in range(MAX_FILES + 30):
        (folder / f"{number:04}").touch()
    details = read_details(tmp_path, NAME)
    assert (len(details.files), details.left_off) == (MAX_FILES, 30)


def test_pipes_links_and_loops_are_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    folder.mkdir()
    os.mkfifo(folder / "metrics.json")
    (folder / "round").symlink_to(folder)
    details = read_details(tmp_path, NAME)
    assert details.problems == ("metrics.json: is no plain file",)
    assert [name for name, _ in details.files] == ["metrics.json", "round"]


@pytest.mark.parametrize("name", ["", ".", "..", "../other", "a/b", "a\0b", "x" * 300, "a.killed.1"])
def test_a_name_that_is_no_folder_leads_nowhere(name: str) -> None:
    details = read_details(REFERENCE, name)
    assert details.problems
    assert details.files == ()


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_read(tmp_path: Path, text: str) -> None:
    _write(tmp_path, "metrics.json", {"total_turns": 1, "stop_reason": text, "success_breakdown": {"failed": [text]}})
    _write(tmp_path, "judge_result.json", {"reason": text})
    details = read_details(tmp_path, NAME)
    assert details.measured is not None
    assert details.measured.stop_reason[:10] == text[:10]


@pytest.mark.parametrize(
    ("reason", "pending", "failed"),
    [("Error: verdict pending", True, False), ("Error: timed out", False, True), ("fine", False, False)],
)
def test_a_verdict_that_is_out_and_a_call_that_failed_are_told_apart(
    tmp_path: Path, reason: str, pending: bool, failed: bool
) -> None:
    _write(tmp_path, "judge_result.json", {"score": 0.0, "reason": reason})
    found = read_details(tmp_path, NAME).judged
    assert found is not None
    assert (found.pending, found.failed) == (pending, failed)
