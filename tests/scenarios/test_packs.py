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
    assert (pack.names, pack.errors, pack.domain_of("shop__good")) == (("shop__good",), (), "cafe")
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
    assert pack.names == ("a", "b", "shop__good")
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
        ("", "bad.yaml: a scenario must be a mapping"),
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
    ],
)
def test_a_scenario_that_cannot_be_built_says_why_when_loaded(folder: Path, addition: str, problem: str) -> None:
    text = (
        GOOD.replace("shop__good", "shop__bad").replace("  steps:\n", "  manners: {speed: 2}\n  steps:\n").rsplit("reference", 1)[0]
    )
    (folder / "bad.yaml").write_text(text.replace("  manners: {speed: 2}\n", "") + addition)
    pack = Pack(folder)
    assert pack.errors == ()
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
        ("domain: cafe", "domain: nowhere", "domain 'nowhere' has no tools"),
        ("domain: cafe", "domain: other\nmodule: no.such.module", "its module cannot be loaded"),
        ("{create_order", "{dance: {}, create_order", "agent_tools: domain cafe has no 'dance'"),
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
    assert Pack(folder).names == ()
    assert problems(folder)[0].startswith("domain.yaml:1: the pack's defaults: user_prompt: ")
    (folder / "domain.yaml").unlink()
    assert problems(folder)[0].startswith("domain.yaml: cannot be read: ")


def test_a_name_that_is_not_there_is_an_error(folder: Path) -> None:
    with pytest.raises(ScenarioError, match="has no scenario 'x'"):
        Pack(folder).load("x")
