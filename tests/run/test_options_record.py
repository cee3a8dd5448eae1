"""Options go into a session's record and onto a command line, and come back the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.run.options import OptionError, RunOptions
from voiceeval_tui.arguments import build_parser
from voiceeval_tui.cli import _options

_ports = st.lists(st.integers(1, 65535), min_size=2, max_size=6, unique=True)
_words = st.text("abc_019", min_size=1, max_size=8)
_seconds = st.floats(0.1, 1e6, allow_nan=False)


def _pairs(ports: list[int]) -> tuple[tuple[str, str], ...]:
    return tuple((f"ws://localhost:{a}", f"ws://h/{u}") for a, u in zip(ports[::2], ports[1::2], strict=False))


_options_given = st.builds(
    RunOptions,
    pair=st.just(()) | _ports.map(_pairs),
    output_dir=st.sampled_from([Path("eval_results"), Path("/somewhere/else")]),
    scenarios=st.lists(_words, max_size=3, unique=True).map(tuple),
    domain=st.none() | _words,
    scenario_dir=st.lists(st.sampled_from([Path("/a"), Path("/b c")]), max_size=2, unique=True).map(tuple),
    source=st.sampled_from([None, "packs", "nemo"]),
    duration=st.none() | _seconds,
    inactivity_timeout=_seconds,
    conversation_end_policy=st.sampled_from(["tool-only", "valid-terminal-state"]),
    min_agent_turns=st.integers(0, 9),
    strict_match=st.booleans(),
    demo=st.just(False),
    auto_resume_on_stale=st.booleans(),
    auto_resume_on_insufficient_turns=st.booleans(),
    backend_wait=_seconds,
    judge_url=st.sampled_from(["", "http://localhost:8000/v1"]),
    judge_threshold=st.floats(0, 1),
    judge_thinking_token_budget=st.none() | st.integers(1, 99),
    judge_include_conversation=st.booleans(),
)


@given(_options_given)
def test_a_record_gives_the_options_back(options: RunOptions) -> None:
    record = json.loads(json.dumps(dict(options.parsed_args())))
    assert RunOptions.from_record(record) == replace(options, output_dir=options.output_dir.absolute())


@given(_options_given)
def test_a_command_line_gives_the_options_back(options: RunOptions) -> None:
    assert _options(vars(build_parser().parse_args(options.to_argv()))) == options


def test_default_options_need_no_command_line_and_a_key_is_never_on_one() -> None:
    assert RunOptions().to_argv() == []
    assert "secret" not in " ".join(RunOptions(judge_api_key="secret").to_argv())


def test_a_redacted_key_comes_from_the_environment_again() -> None:
    assert RunOptions.from_record({"judge_api_key": "<redacted>", "scenarios": None}).judge_api_key is None


def test_what_a_record_of_the_reference_lacks_takes_its_default() -> None:
    options = RunOptions.from_record({"user_url": "ws://x:1", "list": False, "scenarios": ["a"], "judge_seed": 7, "unknown": [1]})
    assert options == RunOptions(user_url="ws://x:1", scenarios=("a",), judge_seed=7)


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({"pause": "soon"}, "--pause 'soon'"),
        ({"pair": 3}, "--pair '3'"),
        ({"scenarios": "abc"}, "--scenarios"),
        ({"conversation_end_policy": "any"}, "--conversation-end-policy 'any'"),
        ({"user_url": "http://x"}, "--user-url 'http://x'"),
        ({"pause": float("nan")}, "--pause nan"),
        ({"min_agent_turns": -1}, "--min-agent-turns -1"),
        ({"scenario_dir": [[1]]}, "--scenario-dir"),
    ],
)
def test_a_record_that_cannot_be_used_is_refused_by_its_option(record: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionError) as caught:
        RunOptions.from_record(record)
    assert told in str(caught.value)
