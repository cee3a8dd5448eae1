from __future__ import annotations

import copy
from pathlib import Path

import pytest

from voiceeval_engine.domains.registry import load_domain
from voiceeval_engine.domains.state import db_hash
from voiceeval_engine.scenarios.model import NoiseConfig, ScenarioError
from voiceeval_engine.scenarios.packs import Pack
from voiceeval_engine.scenarios.script import find_script

DOMAIN = """\
domain: cafe
agent_prompt: You sell tea.
user_prompt: You buy tea.
agent_tools: {create_order: {}, add_item: {}, EndConversation: {}}
agent_db: counter.json
success_signals: [is_action_match]
"""
GOOD = """\
name: shop__good
description: A good one.
agent:
  instructions: Be quick.
  steps:
    - say: Hello.
      tools: [{name: create_order, arguments: {customer: Ana}}]
reference_actions: [{name: create_order, arguments: {customer: Ana}}]
"""
COUNTER = '{"menu": {"tea": {"price": 3, "stock": 1}}, "orders": {}, "cards": {}}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "domain.yaml").write_text(DOMAIN)
    (tmp_path / "counter.json").write_text(COUNTER)
    (tmp_path / "good.yaml").write_text(GOOD)
    return tmp_path


def problems(folder: Path) -> list[str]:
    return [str(error).removeprefix(f"{folder}/") for error in Pack(folder).errors]


def test_a_scenario_is_built_from_its_file_and_the_packs_defaults(folder: Path) -> None:
    pack = Pack(folder)
    assert (tuple(pack.names), pack.errors) == (("shop__good",), [])
    scenario = pack.load("shop__good")
    assert scenario.agent_prompt.startswith("You sell tea.\n\nBe quick.\n\n```script\nname: shop__good\n")
    script = find_script(scenario.agent_prompt)
    assert script is not None
    assert script.steps[0].say == "Hello."
    assert scenario.user_prompt == "You buy tea.\n"
    assert scenario.success_signals == ("is_action_match",)
    assert scenario.reference_answer == {"actions": [{"side": "agent", "name": "create_order", "arguments": {"customer": "Ana"}}]}
    assert scenario.agent_state["db"]["orders"] == {}
    replayed = copy.deepcopy(scenario.agent_state["db"])
    load_domain("cafe").agent_tools["create_order"].call(replayed, customer="Ana")
    assert scenario.expected_db_hash == db_hash(replayed)
    assert (scenario.user_state, scenario.expected_user_db_hash, scenario.sync, scenario.embedded) == ({}, None, False, False)


def test_a_file_may_hold_a_list_and_a_scenario_its_own_values(folder: Path) -> None:
    (folder / "more.yaml").write_text(
        "- {name: a, description: One.}\n"
        "- {name: b, description: Two., max_duration: 7, success_signals: [clean_exit], noise: {noise_files: [street.wav]},\n"
        "   reference_answer: [1], ignore_punctuation: true, reference_actions: []}\n"
    )
    pack = Pack(folder)
    assert tuple(pack.names) == ("a", "b", "shop__good")
    plain, own = pack.load("a"), pack.load("b")
    assert (plain.max_duration, plain.reference_answer, plain.expected_db_hash, plain.noise) == (120.0, None, None, None)
    assert (own.max_duration, own.success_signals, own.reference_answer) == (7, ("clean_exit",), [1])
    assert own.noise == NoiseConfig(noise_files=(str((folder / "street.wav").resolve()),))
    assert own.expected_db_hash == db_hash(own.agent_state["db"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: a\ndescription: x\nmax_duration: long\n", "bad.yaml:3: scenario a: max_duration: "),
        ("name: a\ndescription: x\nsuccess_signals:\n- clean_exit\n- luck\n", "bad.yaml:5: scenario a: success_signals.1: "),
        ("name: a\n\ncolour: red\ndescription: x\n", "bad.yaml:3: scenario a: colour: "),
        ("- {name: a, description: x}\n- name: a/b\n  description: x\n", "bad.yaml:2: scenario name 'a/b' is not usable"),
        ("description: x\n", "bad.yaml:1: scenario without a name: name: "),
        ("- 3\n", "bad.yaml:1: a scenario must be a mapping"),
        ("- [3]\n", "bad.yaml:1: a scenario must be a mapping"),
        ("# to be done\n", "bad.yaml: there is no scenario in it"),
        ("name: a\n\tdescription: x\n", "bad.yaml:2: is not usable YAML: a tab; indent with spaces"),
        ("name: a\ndescription: You are Ana: hello\n", "bad.yaml:2: is not usable YAML: mapping values are not allowed"),
        ("name: a\ndescription: x\n---\nname: b\n", "bad.yaml:3: is not usable YAML: found another document"),
        ("name: a\ndescription: x\nagent: {}\nname: b\n", "bad.yaml:4: 'name' is there twice"),
        ("name: a\ndescription: x\nagent:\n  steps:\n  - {say: hi, say: ho}\n", "bad.yaml:5: 'say' is there twice"),
        (
            "name: a\ndescription: x\nreference_action: []\n",
            "bad.yaml:3: scenario a: reference_action: there is no such field; did you",
        ),
        ("name: a\ndescription: x\nnoise: loud\n", "bad.yaml:3: scenario a: noise: must be a mapping; it is 'loud'"),
        (
            "name: a\ndescription: x\nnoise:\n  gain: 3\n",
            "bad.yaml:4: scenario a: noise.gain: there is no such field; did you mean gain_db?",
        ),
        ("name: a\ndescription: x\nnoise: {white_noise_db: 3}\n", "bad.yaml:3: scenario a: noise.white_noise_db: should be less"),
        ("name: a\n", "bad.yaml:1: scenario a: description: is missing"),
        ("name: 17\ndescription: x\n", "bad.yaml:1: scenario 17: name: must be a text; put it in quotes; it is 17"),
        (
            "name: a\ndescription: x\nnl_assertions: It is polite.\n",
            "bad.yaml:3: scenario a: nl_assertions: must be a list; it is 'It",
        ),
        ("name: a\ndescription: x\nagent: quick\n", "bad.yaml:3: scenario a: agent: must be a mapping; it is 'quick'"),
        ("name: a\ndescription: [\n", "bad.yaml:3: is not usable YAML: "),
        ("name: !!python/name:os.system\n", "bad.yaml:1: is not usable YAML: "),
        ("name: shop__good\ndescription: x\n", "good.yaml:1: scenario shop__good is there already, in bad.yaml"),
        (
            "name: a\ndescription: x\nagent:\n  steps:\n    - say: hi\n    - stall: -1\n",
            "bad.yaml:6: scenario a: agent.steps.1.stall",
        ),
    ],
)
def test_a_bad_scenario_is_reported_with_file_and_line_and_the_others_load(folder: Path, text: str, problem: str) -> None:
    (folder / "bad.yaml").write_text(text)
    found = problems(folder)
    assert len(found) == 1
    assert found[0].startswith(problem)
    assert "shop__good" in Pack(folder).names


@pytest.mark.parametrize(
    ("addition", "problem"),
    [
        ("user_db: ../secret.yaml\n", "'../secret.yaml' leads out of the pack"),
        ("user_db: missing.yaml\n", "cannot be read"),
        ("user_db: good.yaml\ninitialization_actions: [{side: user, func_name: nope}]\n", "unknown initialization function: nope"),
        ("user: {steps: [{say: hi, tools: [{name: fly}]}]}\n", "bad.yaml:8: shop__bad: the user's script calls 'fly'"),
        (
            "db_state_assertions:\n- {func_name: stok, assert_value: 1}\n",
            "bad.yaml:9: shop__bad: domain cafe has no predicate 'stok'; did you mean stock?",
        ),
        (
            "db_state_assertions: [{func_name: stock, arguments: {thing: tea}, assert_value: 1}]\n",
            "bad.yaml:8: shop__bad: stock: missing a required argument: 'item'",
        ),
        (
            "db_state_assertions: [{side: user, func_name: stock, arguments: {item: tea}, assert_value: 1}]\n",
            "bad.yaml:8: shop__bad: there is no database on the user's side",
        ),
    ],
)
def test_a_scenario_that_cannot_be_built_says_why_when_loaded(folder: Path, addition: str, problem: str) -> None:
    text = (
        GOOD.replace("shop__good", "shop__bad").replace("  steps:\n", "  manners: {speed: 2}\n  steps:\n").rsplit("reference", 1)[0]
    )
    (folder / "bad.yaml").write_text(text.replace("  manners: {speed: 2}\n", "") + addition)
    pack = Pack(folder)
    assert pack.errors == []
    with pytest.raises(ScenarioError) as caught:
        pack.load("shop__bad")
    assert problem in str(caught.value)
    assert pack.load("shop__good").name == "shop__good"


def test_a_reference_that_the_tools_refuse_is_blamed_on_its_scenario(folder: Path) -> None:
    (folder / "bad.yaml").write_text(
        "name: a\ndescription: x\nreference_actions: [{name: add_item, arguments: {order_id: '5', item: tea}}]\n"
    )
    with pytest.raises(ScenarioError, match=r"bad\.yaml:1: a: reference action add_item: there is no order '5'"):
        Pack(folder).load("a")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("domain: cafe", "domain: nowhere", r"domain\.yaml:1: domain 'nowhere' has no tools"),
        ("domain: cafe", "domain: other\nmodule: no.such.module", r"domain\.yaml:2: .* its module cannot be loaded"),
        ("domain: cafe", "domain: other\nmodule: tools.py", r"domain\.yaml:2: module: 'tools\.py' is a file's name; give 'tools'"),
        (
            "{create_order",
            "{dance: {}, create_order",
            r"domain\.yaml:4: agent_tools: domain cafe has no 'dance'; it has add_item, ",
        ),
        ("{create_order", "{creat_order: {}, create_order", "has no 'creat_order'; did you mean create_order?"),
        ("counter.json", "../counter.json", r"domain\.yaml:5: agent_db: '\.\./counter\.json' leads out of the pack"),
        ("counter.json", "none.json", r"none\.json: cannot be read: No such file or directory$"),
        ("counter.json", "list.json", "a database must be a mapping"),
    ],
)
def test_defaults_that_do_not_hold_are_told_when_a_scenario_is_loaded(folder: Path, old: str, new: str, problem: str) -> None:
    (folder / "list.json").write_text("[]")
    (folder / "domain.yaml").write_text(DOMAIN.replace(old, new))
    with pytest.raises(ScenarioError, match=problem):
        Pack(folder).load("shop__good")


def test_a_pack_without_usable_defaults_has_no_scenarios_and_says_why(folder: Path) -> None:
    (folder / "domain.yaml").write_text(DOMAIN.replace("user_prompt", "usr_prompt"))
    assert not Pack(folder).names
    assert problems(folder)[0].startswith("domain.yaml:1: the pack's defaults: user_prompt: ")
    (folder / "domain.yaml").unlink()
    assert problems(folder)[0].startswith("domain.yaml: cannot be read: ")


def test_a_date_stays_the_text_that_json_has_for_it(folder: Path) -> None:
    (folder / "good.yaml").write_text(GOOD.replace("customer: Ana", "customer: 2026-01-01"))
    (folder / "counter.json").write_text(COUNTER.replace('"cards": {}', '"cards": {}, "opened": 2026-01-01'))
    scenario = Pack(folder).load("shop__good")
    assert scenario.agent_state["db"]["opened"] == "2026-01-01"
    assert scenario.reference_answer["actions"][0]["arguments"] == {"customer": "2026-01-01"}


def test_a_pack_that_holds_no_scenario_says_so(folder: Path) -> None:
    (folder / "good.yaml").unlink()
    assert [str(error) for error in Pack(folder).errors] == [f"{folder}: there is no scenario beside domain.yaml"]


@pytest.mark.parametrize(
    ("raw", "problem"), [(b"name: a\nb: \xe9\n", "bad.yaml:2: is not UTF-8"), (None, "bad.yaml: cannot be read: Is a")]
)
def test_a_file_that_is_no_text_is_told_in_plain_words(folder: Path, raw: bytes | None, problem: str) -> None:
    if raw is None:
        (folder / "bad.yaml").mkdir()
    else:
        (folder / "bad.yaml").write_bytes(raw)
    (told,) = problems(folder)
    assert told.startswith(problem)
    assert "Errno" not in told


def test_a_name_that_is_not_there_is_an_error(folder: Path) -> None:
    with pytest.raises(ScenarioError, match="has no scenario 'x'"):
        Pack(folder).load("x")
