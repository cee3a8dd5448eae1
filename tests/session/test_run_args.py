"""run_args.json: one record an invocation, and no key anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from voiceeval_engine.session.files import read_json
from voiceeval_engine.session.run_args import REDACTED, Invocation, append_invocation, read_invocations, redact

KEY = "sk-s3cret/+ key"


def invocation(*argv: str, resumed: bool = False, **parsed: Any) -> Invocation:
    return Invocation("2026-01-01T00:00:00", argv, parsed, ("b", "a"), resumed)


def test_a_record_has_the_references_keys(tmp_path: Path) -> None:
    assert append_invocation(tmp_path, invocation("voiceeval-tui", "--pause", "1", pause=1.0)) is None
    assert read_json(tmp_path / "run_args.json") == {
        "invocations": [
            {
                "started_at": "2026-01-01T00:00:00",
                "argv": ["voiceeval-tui", "--pause", "1"],
                "parsed_args": {"pause": 1.0},
                "resolved_scenario_count": 2,
                "resolved_scenario_names": ["b", "a"],
            }
        ]
    }


def test_a_resume_names_the_invocation_that_it_continues(tmp_path: Path) -> None:
    append_invocation(tmp_path, invocation())
    append_invocation(tmp_path, invocation(resumed=True))
    append_invocation(tmp_path, invocation(resumed=True))
    records = read_invocations(tmp_path)
    assert "resumed_from_invocation" not in records[0]
    assert [record["resumed_from_invocation"] for record in records[1:]] == [0, 1]


@pytest.mark.parametrize(
    "argv",
    [
        ("--judge-api-key", KEY),
        (f"--judge-api-key={KEY}",),
        ("--judge-api-key", KEY, "--judge-url", f"http://host/v1?key={KEY}"),
        ("--judge-api-key", KEY, "--judge-url", "http://host/v1?key=sk-s3cret%2F%2B%20key"),
        ("--judge-api-key", KEY, "--judge-url", "http://host/v1?key=sk-s3cret%2f%2b+key"),
        ("--judge-api-key", KEY, KEY, f"x{KEY}y"),
    ],
)
def test_the_key_stands_nowhere_in_the_file(tmp_path: Path, argv: tuple[str, ...]) -> None:
    append_invocation(tmp_path, invocation(*argv, judge_api_key=KEY, judge_url=argv[-1], pairs=[argv[-1]]))
    assert "s3cret" not in (tmp_path / "run_args.json").read_text()
    assert read_invocations(tmp_path)[0]["parsed_args"]["judge_api_key"] == REDACTED


def test_a_key_from_the_environment_is_redacted_by_value(tmp_path: Path) -> None:
    append_invocation(tmp_path, invocation("--judge-url", f"http://{KEY}@host"), secrets=[KEY])
    assert read_invocations(tmp_path)[0]["argv"] == ["--judge-url", f"http://{REDACTED}@host"]


def test_no_key_stays_no_key(tmp_path: Path) -> None:
    append_invocation(tmp_path, invocation("--judge-api-key", judge_api_key=None), secrets=[""])
    assert read_invocations(tmp_path)[0]["parsed_args"] == {"judge_api_key": None}


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=12), before=st.text(), after=st.text())
def test_redaction_leaves_no_trace_of_any_key(key: str, before: str, after: str) -> None:
    cleaned = redact({"argv": [before + key + after, f"--judge-api-key={key}"]}, [key, key[:5]])
    assert all(key.lower() not in argument.lower() for argument in cleaned["argv"])


@pytest.mark.parametrize("legacy", ['{"user_url": "ws://x"}', "[1, 2]", '{"invocations": 3}'])
def test_a_file_of_another_shape_becomes_the_first_entry(tmp_path: Path, legacy: str) -> None:
    (tmp_path / "run_args.json").write_text(legacy)
    before = read_json(tmp_path / "run_args.json")
    assert append_invocation(tmp_path, invocation(resumed=True)) is None
    records = read_invocations(tmp_path)
    assert records[0] == before
    assert records[1]["resumed_from_invocation"] == 0


def test_unreadable_files_are_all_kept_and_named_in_a_warning(tmp_path: Path) -> None:
    for number, content in enumerate([b'{"invocations": [', b"\xff"]):
        (tmp_path / "run_args.json").write_bytes(content)
        warning = append_invocation(tmp_path, invocation(resumed=True))
        assert warning is not None
        kept = ["run_args.json.unreadable", "run_args.json.unreadable.2"][number]
        assert kept in warning
        assert (tmp_path / kept).read_bytes() == content
    assert len(read_invocations(tmp_path)) == 1
