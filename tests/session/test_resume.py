"""What a resume would do with a scenario: every state and reason, and sessions that are broken in every way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from voiceeval_engine.session.aggregate import RunAggregate
from voiceeval_engine.session.files import read_json
from voiceeval_engine.session.resume import (
    CHECKED_FIELDS,
    Classified,
    classify,
    preview,
    render_preview,
    scenario_names,
    soft_check,
)

UNREADABLE = "metrics.json unreadable ("
NO_METRICS = "no metrics.json (in-flight)"
NO_TURNS = "0 turns (bot crashed before audio)"
AGENT_TURN, USER_TURN = {"role": "agent", "text": "Hello."}, {"role": "user", "text": "Hi."}


def metrics(calls: Any = 3, **fields: Any) -> dict[str, Any]:
    usage = {"agent": {"n_calls": calls, "prompt": 1, "completion": 1}}
    return {"total_turns": 3, "stop_reason": "[EXIT]", "token_usage": usage, **fields}


def save(session: Path, name: str, content: Any) -> Path:
    """A scenario whose `metrics.json` has this content: bytes as they are, else as JSON (NaN too)."""
    folder = session / name
    folder.mkdir(parents=True)
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / "metrics.json").write_bytes(raw)
    return folder


def context(folder: Path, messages: Any) -> None:
    (folder / "bot_logs_agent").mkdir()
    (folder / "bot_logs_agent" / "llm_context.json").write_text(json.dumps(messages))


# -- states and reasons


@pytest.mark.parametrize(
    ("content", "state", "reason"),
    [
        (metrics(), "completed", ""),
        (metrics(calls=2), "completed", ""),
        (metrics(calls=1, stop_reason="[TIMEOUT]"), "in-flight", "1 agent LLM response(s) < 2 ([TIMEOUT])"),
        (metrics(calls=0), "in-flight", "0 agent LLM response(s) < 2 ([EXIT])"),
        (metrics(calls=0, turns=[AGENT_TURN, USER_TURN, AGENT_TURN]), "completed", ""),
        (metrics(calls=0, turns=[AGENT_TURN, USER_TURN]), "in-flight", "1 agent LLM response(s) < 2 ([EXIT])"),
        (metrics(calls="2"), "completed", ""),
        (metrics(calls="1"), "in-flight", "1 agent LLM response(s) < 2 ([EXIT])"),
        (metrics(calls=None), "completed", ""),
        (metrics(token_usage=None), "completed", ""),
        (metrics(token_usage=[1, 2]), "completed", ""),
        ({"total_turns": 4}, "completed", ""),
        ({"total_turns": 4, "token_usage": {"agent": {"n_calls": 1}}}, "in-flight", "1 agent LLM response(s) < 2 (?)"),
        ({"total_turns": 4.0}, "completed", ""),
        (metrics(total_turns=0), "in-flight", NO_TURNS),
        (metrics(calls=0, total_turns=0), "in-flight", NO_TURNS),
        (metrics(total_turns=None), "in-flight", f"{UNREADABLE}total_turns is None, not a number of turns)"),
        (metrics(total_turns="3"), "in-flight", f"{UNREADABLE}total_turns is '3', not a number of turns)"),
        (metrics(total_turns=True), "in-flight", f"{UNREADABLE}total_turns is True, not a number of turns)"),
        (metrics(total_turns=-1), "in-flight", f"{UNREADABLE}total_turns is -1, not a number of turns)"),
        (metrics(total_turns=2.5), "in-flight", f"{UNREADABLE}total_turns is 2.5, not a number of turns)"),
        (metrics(total_turns=float("nan")), "in-flight", f"{UNREADABLE}NaN is not JSON)"),
        (metrics(scenario_duration=float("inf")), "in-flight", f"{UNREADABLE}Infinity is not JSON)"),
        (b'{"total_turns": 3, "deep": [1e999]}', "in-flight", f"{UNREADABLE}1e999 is no finite number)"),
        (metrics(latencies={}), "in-flight", f"{UNREADABLE}latencies is no list)"),
        ([], "in-flight", f"{UNREADABLE}the root is no object)"),
        ([metrics()], "in-flight", f"{UNREADABLE}the root is no object)"),
        (None, "in-flight", f"{UNREADABLE}the root is no object)"),
        (b"", "in-flight", f"{UNREADABLE}Expecting value: line 1 column 1 (char 0))"),
        (b'{"total_turns": 3', "in-flight", UNREADABLE),
        (b'{"total_turns": 3} 4', "in-flight", f"{UNREADABLE}Extra data: line 1 column 20 (char 19))"),
        (b'{"stop_reason": "\xff"}', "in-flight", f"{UNREADABLE}not UTF-8 at byte 17)"),
        (b"\xef\xbb\xbf{}", "in-flight", f"{UNREADABLE}begins with a byte order mark)"),
        (b'{"a": ' + b"[" * 100_000, "in-flight", f"{UNREADABLE}nested too deeply)"),
    ],
    ids=lambda value: (value if isinstance(value, bytes) else json.dumps(value).encode())[:60].decode(errors="replace") or "empty",
)  # fmt: skip
def test_metrics_tell_the_state_and_why(tmp_path: Path, content: Any, state: str, reason: str) -> None:
    save(tmp_path, "dom__1", content)
    found = classify(tmp_path, "dom__1", 2)
    assert (found.name, found.state) == ("dom__1", state)
    assert found.reason == reason or (reason == UNREADABLE and found.reason.startswith(UNREADABLE))
    assert preview(tmp_path, 2) == [found]


def test_a_floor_of_0_asks_for_turns_only(tmp_path: Path) -> None:
    save(tmp_path, "dom__1", metrics(calls=0))
    assert classify(tmp_path, "dom__1", 0).state == "completed"


@pytest.mark.parametrize(
    ("messages", "state"),
    [
        ([{"role": "assistant"}, {"role": "user"}], "in-flight"),
        ([{"role": "assistant"}, {"role": "assistant"}], "completed"),
        ([{"role": "unparsed", "content": "x"}], "completed"),
        ([], "completed"),
        ({"role": "assistant"}, "completed"),
    ],
)
def test_the_saved_context_tells_where_no_call_is_counted(tmp_path: Path, messages: Any, state: str) -> None:
    context(save(tmp_path, "dom__1", {"total_turns": 2}), messages)
    assert classify(tmp_path, "dom__1", 2).state == state


def test_retries_are_counted_where_metrics_are_readable(tmp_path: Path) -> None:
    save(tmp_path, "ok", metrics(auto_retry_count=2))
    save(tmp_path, "stuck", metrics(total_turns=0, auto_retry_count="1"))
    save(tmp_path, "odd", metrics(auto_retry_count=-3))
    save(tmp_path, "text", metrics(auto_retry_count="often"))
    assert {each.name: each.auto_retry_count for each in preview(tmp_path, 2)} == {"ok": 2, "stuck": 1, "odd": 0, "text": 0}


def test_no_folder_is_fresh(tmp_path: Path) -> None:
    assert classify(tmp_path, "dom__1", 2) == Classified("dom__1", "fresh", "no subdir")


def _empty(path: Path) -> None:
    path.mkdir()


def _broken_link(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def _file(path: Path) -> None:
    path.write_text("not a folder")


def _only_a_log(path: Path) -> None:
    path.mkdir()
    (path / "bridge_log.txt").touch()


@pytest.mark.parametrize("make", [_empty, _file, _broken_link, _only_a_log])
def test_what_is_there_without_metrics_is_in_flight(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "dom__1")
    assert classify(tmp_path, "dom__1", 2) == Classified("dom__1", "in-flight", NO_METRICS)


def test_metrics_that_cannot_be_opened_are_in_flight_with_the_systems_reason(tmp_path: Path) -> None:
    (tmp_path / "folder" / "metrics.json").mkdir(parents=True)
    (tmp_path / "loop").symlink_to("loop")
    assert classify(tmp_path, "folder", 2).reason == f"{UNREADABLE}Is a directory)"
    assert classify(tmp_path, "loop", 2).reason == f"{UNREADABLE}Too many levels of symbolic links)"


@pytest.mark.parametrize("name", ["two words", "📞 call", "[1] (a) {b}", "a*?", "-rf", "..x", ".hidden", "line\nbreak", "x" * 255])
def test_any_name_is_a_name(tmp_path: Path, name: str) -> None:
    save(tmp_path, name, metrics())
    assert classify(tmp_path, name, 2) == Classified(name, "completed")
    assert [each.name for each in preview(tmp_path, 2)] == [name]


# -- the preview


def test_the_preview_takes_scenario_folders_by_name_and_nothing_else(tmp_path: Path) -> None:
    for number in range(100):
        save(tmp_path, f"dom__1.killed.20260101_0000{number:02d}", metrics())
    save(tmp_path, "dom__1.killed.autoretry1.20260101_000000", metrics())
    (save(tmp_path, "moved by hand", metrics()) / "__KILLED__").touch()
    (tmp_path / "dom__3" / "scenario_config").mkdir(parents=True)
    _only_a_log(tmp_path / "dom__4")
    save(tmp_path, "dom__2", metrics())
    save(tmp_path, "dom__1", metrics())
    _empty(tmp_path / "empty")
    _broken_link(tmp_path / "link")
    _file(tmp_path / "all_metrics.json")
    (tmp_path / "elsewhere").symlink_to("dom__1")
    assert [(each.name, each.state) for each in preview(tmp_path, 2)] == [
        ("dom__1", "completed"),
        ("dom__2", "completed"),
        ("dom__3", "in-flight"),
        ("dom__4", "in-flight"),
        ("elsewhere", "completed"),
    ]
    assert scenario_names(tmp_path) == [each.name for each in preview(tmp_path, 2)]


def test_a_directory_that_is_none_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        preview(tmp_path / "nowhere", 2)


def test_the_preview_writes_nothing(tmp_path: Path) -> None:
    save(tmp_path, "ok", metrics())
    save(tmp_path, "bad", b"")
    _only_a_log(tmp_path / "cut")
    before = [(path, path.lstat().st_mtime_ns) for path in sorted([tmp_path, *tmp_path.rglob("*")])]
    preview(tmp_path, 2)
    assert [(path, path.lstat().st_mtime_ns) for path in sorted([tmp_path, *tmp_path.rglob("*")])] == before


def test_the_preview_reads_as_the_references_does() -> None:
    scenarios = [
        Classified("dom__stuck", "in-flight", "1 agent LLM response(s) < 2 ([TIMEOUT])", 1),
        Classified("dom__cut", "in-flight", NO_METRICS),
        Classified("dom__ok", "completed", "", 1),
        Classified("dom__a", "completed"),
        Classified("dom__new", "fresh", "no subdir"),
    ]
    assert render_preview("eval_x/", 2, scenarios) == (
        "Eval dir : eval_x/\n"
        "Min agent turns: 2\n"
        "Total scenarios: 5  (2 completed, 2 would re-run, 1 fresh)\n"
        "\n"
        "Would re-run (2):\n"
        "  dom__stuck  [1 agent LLM response(s) < 2 ([TIMEOUT]); already auto-retried 1x in-run]\n"
        "  dom__cut  [no metrics.json (in-flight)]\n"
        "\n"
        "Completed after an automatic in-run retry (1):\n"
        "  dom__ok  [auto_retry_count=1]\n"
        "\n"
        "Fresh / never started (1):\n"
        "  dom__new\n"
    )


@pytest.mark.parametrize("scenarios", [[], [Classified("a", "completed")]])
def test_where_nothing_is_to_do_the_preview_says_so(scenarios: list[Classified]) -> None:
    lines = render_preview("x", 0, scenarios).splitlines()
    assert lines[2:] == [
        f"Total scenarios: {len(scenarios)}  ({len(scenarios)} completed, 0 would re-run, 0 fresh)",
        "",
        "All scenarios are complete — nothing to resume.",
    ]


# -- anything at all

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
foreign = st.fixed_dictionaries(
    {},
    optional={
        key: json_values | st.integers(0, 4)
        for key in ("total_turns", "token_usage", "latencies", "stop_reason", "auto_retry_count", "turns", "success_breakdown",
                    "insufficient_agent_turns", "scenario_duration", "judge_score", "db_state_assertion_verdicts")
    },
)  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=foreign | json_values | st.binary(max_size=40), floor=st.integers(0, 3))
def test_what_is_completed_can_be_counted_whatever_the_file_holds(tmp_path: Path, content: Any, floor: int) -> None:
    folder = tmp_path / "s"
    folder.mkdir(exist_ok=True)
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / "metrics.json").write_bytes(raw)
    found = classify(tmp_path, "s", floor)
    assert found.state in ("completed", "in-flight")
    assert bool(found.reason) == (found.state == "in-flight")
    if found.state == "completed":
        aggregate = RunAggregate(["s"], floor)
        aggregate.add("s", read_json(folder / "metrics.json"))
        assert [entry.name for entry in aggregate.report().entries] == ["s"]


# -- the soft check

ARGS: dict[str, Any] = {
    "domain": None, "scenarios": ["a", "b"], "duration": None, "inactivity_timeout": 120.0, "judge_url": "http://a/v1",
    "judge_model": "m", "judge_max_tokens": 100, "judge_temperature": 1.0, "judge_top_p": 0.95, "judge_seed": 42,
    "judge_threshold": 0.9, "strict_match": False, "conversation_end_policy": "tool-only", "output_dir": "/x",
    "agent_url": "ws://a", "min_agent_turns": 2,
}  # fmt: skip


def test_the_fields_that_are_compared() -> None:
    assert CHECKED_FIELDS == (
        "domain", "scenarios", "duration", "inactivity_timeout", "judge_url", "judge_model", "judge_max_tokens",
        "judge_temperature", "judge_top_p", "judge_seed", "judge_threshold", "strict_match", "conversation_end_policy",
    )  # fmt: skip


def test_the_same_options_give_no_warning() -> None:
    assert soft_check(ARGS, dict(ARGS)) == []
    assert soft_check(ARGS, {**ARGS, "output_dir": "/y", "agent_url": "ws://b", "min_agent_turns": 0}) == []


@pytest.mark.parametrize("name", CHECKED_FIELDS)
def test_a_field_that_differs_is_told_with_both_values(name: str) -> None:
    lines = soft_check(ARGS, {**ARGS, name: "other"})
    assert lines[0] == "WARNING: --resume invocation differs from the original run on these scoring-relevant fields:"
    assert lines[1:-1] == [f"  {name}: original={ARGS[name]!r} resume='other'"]
    assert "mix" in lines[-1]


def test_differences_are_told_in_the_order_of_the_fields() -> None:
    lines = soft_check(ARGS, {**ARGS, "strict_match": True, "domain": "d", "judge_seed": 7})
    assert [line.split(":")[0].strip() for line in lines[1:-1]] == ["domain", "judge_seed", "strict_match"]


@pytest.mark.parametrize("name", CHECKED_FIELDS)
def test_a_field_that_the_earlier_record_lacks_is_no_difference(name: str) -> None:
    earlier = {key: value for key, value in ARGS.items() if key != name}
    assert soft_check(earlier, {**ARGS, name: "other"}) == []
    assert soft_check({}, ARGS) == []


@pytest.mark.parametrize(
    ("name", "earlier", "now"),
    [
        ("judge_url", "http://host/v1?key=<redacted>", "http://host/v1?key=sk-secret"),
        ("scenarios", None, []),
        ("scenarios", [], None),
        ("inactivity_timeout", 120, 120.0),
    ],
)
def test_what_only_reads_differently_is_no_difference(name: str, earlier: Any, now: Any) -> None:
    assert soft_check({**ARGS, name: earlier}, {**ARGS, name: now}) == []


@pytest.mark.parametrize(
    ("name", "earlier", "now"),
    [
        ("scenarios", None, ["a"]),
        ("duration", None, 0.5),
        ("strict_match", None, False),
        ("domain", None, ""),
        ("judge_seed", 0, None),
    ],
)
def test_nothing_and_something_differ(name: str, earlier: Any, now: Any) -> None:
    assert len(soft_check({**ARGS, name: earlier}, {**ARGS, name: now})) == 3
