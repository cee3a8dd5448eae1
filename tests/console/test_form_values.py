"""The form's values become options, or a sentence beside the field that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from voiceeval_engine.run.options import DEMO_DEFAULTS, RunOptions
from voiceeval_tui.form import FIELDS, FieldError, first_texts, to_options


def filled(defaults: RunOptions | None = None, **texts: str) -> RunOptions:
    given = defaults or RunOptions()
    return to_options({**first_texts(given), **texts}, given)


def test_as_it_is_at_first_it_makes_the_options_it_was_given(tmp_path: Path) -> None:
    given = RunOptions(
        agent_url="ws://a", user_url="ws://b", output_dir=tmp_path, scenarios=("a b", "c"), scenario_dir=(tmp_path / "x y",),
        inactivity_timeout=7.5, judge_threshold=0.8, pause=0.1, strict_match=True, judge_url="",
    )  # fmt: skip
    assert filled(given) == given


def test_every_field_is_an_option() -> None:
    assert {each.name for each in FIELDS} <= set(RunOptions.__dataclass_fields__)


def test_what_is_typed_counts() -> None:
    options = filled(
        agent_url=" ws://x ", scenarios="'a b' c", pair="ws://a,ws://b ws://c,ws://d", conversation_end_policy="valid-terminal-state",
        max_auto_retries="3", judge_url="", judge_api_key="k", output_dir="~/there", domain="retail",
    )  # fmt: skip
    assert (options.agent_url, options.scenarios, options.max_auto_retries) == ("ws://x", ("a b", "c"), 3)
    assert options.pair == (("ws://a", "ws://b"), ("ws://c", "ws://d"))
    assert (options.judged, options.judge_api_key, options.domain) == (False, "k", "retail")
    assert options.output_dir == Path.home() / "there"


def test_what_is_left_empty_is_the_default() -> None:
    usual = RunOptions()
    empty = to_options({each.name: "" for each in FIELDS} | {"judge_url": usual.judge_url, "judge_model": usual.judge_model}, usual)
    assert empty == filled()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("agent_url", "http://x"), ("user_url", "soon"), ("pair", "ws://a"), ("pair", "ws://a,ws://b ws://a,ws://c"),
        ("scenarios", "'open"),
        ("inactivity_timeout", "0"), ("inactivity_timeout", "nan"), ("inactivity_timeout", "soon"), ("min_agent_turns", "-1"),
        ("min_agent_turns", "1.5"), ("max_auto_retries", "many"), ("judge_url", "ftp://x"), ("judge_threshold", "1.1"),
        ("conversation_end_policy", "whatever"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_at_its_field(name: str, text: str) -> None:
    with pytest.raises(FieldError) as wrong:
        filled(**{name: text})
    assert wrong.value.name == name
    assert text.split()[0] in str(wrong.value) or name == "pair"


def test_the_source_is_one_both_or_an_earlier_session(tmp_path: Path) -> None:
    assert [filled(source=each).source for each in ("both", "packs", "nemo")] == [None, "packs", "nemo"]
    assert filled(RunOptions(source="nemo")).source == "nemo"
    session = tmp_path / "eval_20260618_072325"
    session.mkdir()
    for text in (str(session), "20260618_072325"):
        assert filled(scenarios_from=text, output_dir=str(tmp_path)).scenarios_from == session
    assert filled(RunOptions(scenarios_from=session)).scenarios_from == session
    for texts in ({"scenarios_from": "20260618_072326"}, {"scenarios_from": str(session), "source": "packs"}):
        with pytest.raises(FieldError) as wrong:
            filled(**texts, output_dir=str(tmp_path))
        assert wrong.value.name == "scenarios_from"


def test_a_demo_brings_its_own_bots_and_limits() -> None:
    options = filled(demo="yes", agent_url="http://wrong", pair="nonsense,too", min_agent_turns="1")
    assert options.demo
    assert options.pairs == RunOptions().pairs
    assert {name: getattr(options, name) for name in DEMO_DEFAULTS} == DEMO_DEFAULTS
    assert options.min_agent_turns == 1
    assert filled(demo="yes", inactivity_timeout="33").inactivity_timeout == 33
