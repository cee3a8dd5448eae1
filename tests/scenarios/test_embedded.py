"""Every scenario that is shipped: it loads, its scripts do what its description promises, and together they cover what they must."""

from __future__ import annotations

from typing import Any

import pytest

from voiceeval_engine.domains.registry import Db, Side, load_domain
from voiceeval_engine.domains.state import db_hash
from voiceeval_engine.scenarios.catalog import Catalog
from voiceeval_engine.scenarios.gold import ReplayFailed, replay
from voiceeval_engine.scenarios.model import SIGNALS, Scenario
from voiceeval_engine.scenarios.script import Script, find_script

CATALOG = Catalog.of_packs()
NAMES = CATALOG.names()


def script(scenario: Scenario, side: Side) -> Script:
    found = find_script(scenario.agent_prompt if side == "agent" else scenario.user_prompt)
    assert found is not None
    return found


def as_scripted(scenario: Scenario) -> tuple[dict[Side, Db | None], list[dict[str, Any]]]:
    """Both databases and the actions after all that the scripts do, turn by turn; refused calls do nothing."""
    domain = load_domain(scenario.domain)
    start: dict[Side, Db | None] = {"agent": scenario.agent_state.get("db"), "user": scenario.user_state.get("db")}
    agent, user = script(scenario, "agent").steps, script(scenario, "user").steps
    done: list[dict[str, Any]] = []
    for turn in range(max(len(agent), len(user))):
        for side, steps in (("agent", agent), ("user", user)):
            for call in steps[turn].tools if turn < len(steps) else ():
                act = {"side": side, "name": call.name, "arguments": call.arguments}
                if domain.tools(side)[call.name].writes and works(scenario, start, [*done, act]):
                    done.append(act)
    return replay(domain, start, scenario.initialization_actions, done), done


def works(scenario: Scenario, start: dict[Side, Db | None], actions: list[dict[str, Any]]) -> bool:
    try:
        replay(load_domain(scenario.domain), start, scenario.initialization_actions, actions)
    except ReplayFailed:
        return False
    return True


def holds(scenario: Scenario, assertion: dict[str, Any], databases: dict[Side, Db | None]) -> bool:
    predicate = load_domain(scenario.domain).predicates[assertion["func_name"]]
    return bool(predicate(databases[assertion["side"]], **assertion["arguments"]) == assertion["assert_value"])


def test_the_packs_have_no_problems_and_enough_scenarios() -> None:
    assert CATALOG.errors == []
    assert len(NAMES) >= 16
    assert set(CATALOG.domains()) == {"cafe", "phone_support"}


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_loads_with_scripts_for_both_sides_under_its_own_name(name: str) -> None:
    scenario = CATALOG.get(name)
    assert scenario.embedded
    assert script(scenario, "agent").name == script(scenario, "user").name == name
    assert scenario.sync is (scenario.domain == "phone_support")
    assert ("db_state_match" in scenario.success_signals) <= (scenario.expected_db_hash is not None)
    assert ("is_action_match" in scenario.success_signals) <= (scenario.reference_answer is not None)
    assert ("db_state_assertion" in scenario.success_signals) <= bool(scenario.db_state_assertions)
    assert ("nl_assertion" in scenario.success_signals) <= bool(scenario.nl_assertions)


WRONG = {"cafe__wrong_milk", "cafe__endless_small_talk", "phone_support__ticket_instead"}
CUT_OFF = {"phone_support__operator_falls_silent", "phone_support__line_drops"}


@pytest.mark.parametrize("name", [name for name in NAMES if CATALOG.get(name).expected_db_hash is not None])
def test_the_scripts_lead_to_the_expected_database_where_they_should_and_only_there(name: str) -> None:
    scenario = CATALOG.get(name)
    databases, done = as_scripted(scenario)
    right = name not in WRONG | CUT_OFF
    assert (db_hash(databases["agent"] or {}) == scenario.expected_db_hash) is right
    if scenario.reference_answer is not None:
        assert (sorted(map(str, done)) == sorted(map(str, scenario.reference_answer["actions"]))) is right
    if name not in WRONG:
        assert right <= all(holds(scenario, assertion, databases) for assertion in scenario.db_state_assertions)


def test_the_wrong_fix_holds_one_of_three_predicates() -> None:
    scenario = CATALOG.get("phone_support__ticket_instead")
    databases, _ = as_scripted(scenario)
    assert [holds(scenario, assertion, databases) for assertion in scenario.db_state_assertions] == [False, False, True]


@pytest.mark.parametrize(("name", "said"), [("cafe__good_manners", [True, True]), ("cafe__no_price_named", [True, False])])
def test_assertions_in_words_quote_what_the_agent_says_or_does_not(name: str, said: list[bool]) -> None:
    scenario = CATALOG.get(name)
    words = " ".join(step.say or "" for step in script(scenario, "agent").steps).lower()
    assert [assertion.split('"')[1] in words for assertion in scenario.nl_assertions] == said


def test_together_they_cover_what_a_run_must_show() -> None:
    scenarios = [CATALOG.get(name) for name in NAMES]
    agents = [step for scenario in scenarios for step in script(scenario, "agent").steps]
    users = [step for scenario in scenarios for step in script(scenario, "user").steps]
    assert {signal for scenario in scenarios for signal in scenario.success_signals} == set(SIGNALS)
    assert any(step.exit for step in agents)
    assert any(step.exit for step in users)
    assert {step.stall for step in agents} == {None, 1, "always"}
    assert any(step.die_after for step in agents)
    assert any(step.keeps_talking for step in agents)
    assert any(step.final_response for step in agents)
    assert any(step.barge_in for step in users)
    assert any(scenario.noise for scenario in scenarios)
    assert min(scenario.max_duration for scenario in scenarios) == 20
    assert {action["side"] for scenario in scenarios for action in scenario.initialization_actions} == {"agent", "user"}
    assert {assertion["side"] for scenario in scenarios for assertion in scenario.db_state_assertions} == {"agent", "user"}
