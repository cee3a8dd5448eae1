"""Scenarios of an installed `nemo_voice_agent`, by a stand-in that has its interface and does everything wrong that one can."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from voiceeval_engine.bridge.sync import open_shadow
from voiceeval_engine.domains.state import db_hash
from voiceeval_engine.scenarios.catalog import Catalog
from voiceeval_engine.scenarios.model import MAX_NAME_BYTES, NoiseConfig, Scenario, ScenarioError
from voiceeval_engine.scenarios.nemo import NemoSource, is_installed
from voiceeval_engine.scenarios.nemo_process import HelperError, HelperProcess
from voiceeval_engine.scoring.db_state import evaluate_elsewhere

STANDIN = Path(__file__).parent.parent / "data" / "nemo_standin"
LONG = "long__" + "n" * 232


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The stand-in is installed; the file has a line for each helper that imported it."""
    monkeypatch.syspath_prepend(str(STANDIN))
    importlib.invalidate_caches()
    monkeypatch.setenv("STANDIN_STARTS", str(tmp_path / "starts"))
    return tmp_path / "starts"


@pytest.fixture
def helper(starts: Path) -> Iterator[HelperProcess]:
    made = HelperProcess(request_seconds=3.0)
    yield made
    made.close()


@pytest.fixture
def source(helper: HelperProcess) -> NemoSource:
    return NemoSource(helper)


def count(starts: Path) -> int:
    return len(starts.read_text().splitlines()) if starts.exists() else 0


def test_it_is_found_without_being_imported(starts: Path) -> None:
    assert is_installed()
    assert "nemo_voice_agent" not in sys.modules


def test_nothing_is_started_before_it_is_asked_for(starts: Path) -> None:
    catalog = Catalog.open()
    assert catalog.is_embedded("cafe__two_lattes")
    assert catalog.embedded_names()
    assert catalog.errors == []
    assert catalog.get("cafe__two_lattes").name == "cafe__two_lattes"
    assert count(starts) == 0


def test_the_names_that_can_be_used_are_listed_and_the_others_refused(source: NemoSource) -> None:
    assert "greeting__good" in source.names
    assert LONG in source.names
    assert len(LONG) == MAX_NAME_BYTES
    assert "bad/name" not in source.names
    assert [str(error).split(" is not usable")[0][:40] for error in source.errors] == [
        "nemo_voice_agent: scenario name 'bad/nam",
        "nemo_voice_agent: scenario name 'too_lon",
    ]


def test_the_catalogue_has_them_after_the_packs(starts: Path) -> None:
    catalog = Catalog.open()
    try:
        assert {"greeting": 2, "lamps": 3}.items() <= catalog.domains().items()
        assert not catalog.is_embedded("greeting__good")
        assert "cafe__two_lattes" in catalog.names()
        with pytest.raises(ScenarioError, match="did you mean greeting__good"):
            catalog.get("greeting__god")
        assert count(starts) == 1
    finally:
        catalog.close()
    assert "greeting__good" not in Catalog.open(source="packs").names()


def test_a_scenario_has_what_the_package_says(source: NemoSource) -> None:
    scenario = source.load("greeting__good")
    assert (scenario.name, scenario.domain, scenario.max_duration) == ("greeting__good", "greeting", 30.0)
    assert scenario.success_signals == ("clean_exit",)
    assert scenario.noise == NoiseConfig((), -3.0, 600.0, True, True, -80.0)
    assert (scenario.agent_tools, scenario.user_tools) == ({"EndConversation": {}}, {})
    assert (scenario.agent_state, scenario.user_state) == ({"db_path": "/data/agent.json"}, {"db_path": "/data/user.json"})
    assert (scenario.ignore_capitalization, scenario.ignore_punctuation) == (True, False)
    assert (scenario.expected_db_hash, scenario.nl_assertions, scenario.sync) == (None, (), False)
    assert "```script" in scenario.agent_prompt
    assert scenario.printed == "building a scenario"
    assert source.load(LONG).name == LONG


def test_a_dual_side_scenario_is_known_by_its_sync(source: NemoSource) -> None:
    scenario = source.load("lamps__dual")
    assert scenario.sync
    assert scenario.success_signals == ("is_action_match", "db_state_match", "db_state_assertion", "clean_exit")
    assert scenario.agent_state == {"db": {"lamp": "off"}}
    assert scenario.expected_db_hash == db_hash({"lamp": "off"})


def test_only_the_hash_of_a_large_database_comes_over(source: NemoSource) -> None:
    scenario = source.load("greeting__big")
    rows = [{"id": number, "text": "x" * 40, "price": 1.0} for number in range(80_000)]
    assert len(json.dumps(rows)) > 6_000_000
    assert scenario.expected_db_hash == db_hash({"rows": rows})


@pytest.mark.parametrize(
    ("name", "sentence", "printed"),
    [
        ("bad__prompt", "get_agent_prompt() raised ValueError: no prompt in the library", "looking for the prompt"),
        ("bad__property", "expected_scenario_db raised AttributeError: 'NoneType' object has no attribute 'tools'", ""),
        ("bad__system_exit", "get_user_tools() raised SystemExit: 3", ""),
        ("bad__no_json", "it cannot be handed on: TypeError", ""),
        ("bad__signal", "success_signals.0: Input should be", ""),
        ("bad__exits", "(exit code 7); it last printed: the last thing that it says", "the last thing that it says"),
        ("nothing", "the package has no scenario of that name", ""),
    ],
)
def test_what_goes_wrong_with_a_scenario_is_told_of_it_alone(source: NemoSource, name: str, sentence: str, printed: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        source.load(name)
    assert str(caught.value).startswith(f"{name} (of nemo_voice_agent): ")
    assert sentence in str(caught.value)
    assert caught.value.printed == printed
    assert source.load("greeting__good").name == "greeting__good"


def test_a_scenario_that_hangs_costs_its_time_and_another_helper(starts: Path) -> None:
    helper = HelperProcess(request_seconds=0.5)
    source = NemoSource(helper)
    try:
        source.load("greeting__good")
        began = time.monotonic()
        with pytest.raises(ScenarioError, match=r"bad__hangs .*took longer than 0\.5 s"):
            source.load("bad__hangs")
        assert time.monotonic() - began < 5
        assert source.load("greeting__good").name
        assert count(starts) == 2
    finally:
        helper.close()


def test_a_slow_import_has_a_limit_of_its_own(starts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_IMPORT_SECONDS", "1.5")
    helper = HelperProcess(request_seconds=1.0, start_seconds=20)
    assert "greeting__good" in NemoSource(helper).names
    helper.close()
    helper = HelperProcess(start_seconds=0.5)
    source = NemoSource(helper)
    assert source.names == ()
    assert "cannot be listed: took longer than 0.5 s" in str(source.errors[0])
    helper.close()


def test_a_package_that_cannot_be_imported_is_told_and_tried_a_few_times(starts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_IMPORT_FAILS", "1")
    helper = HelperProcess(max_bad=2)
    source = NemoSource(helper)
    assert source.names == ()
    assert "importing nemo_voice_agent raised RuntimeError: a dependency of it is missing" in str(source.errors[0])
    with pytest.raises(ScenarioError, match="importing"):
        source.load("greeting__good")
    with pytest.raises(ScenarioError, match="failed 2 times in a row and is not started again"):
        source.load("greeting__good")
    assert helper.pid is None


def test_it_is_not_there_for_a_closed_source(source: NemoSource) -> None:
    source.load("greeting__good")
    source.close()
    with pytest.raises(ScenarioError, match="the run is over"):
        source.load("greeting__good")


def test_closing_ends_a_request_that_hangs(starts: Path) -> None:
    helper = HelperProcess()
    source, raised = NemoSource(helper), []
    source.load("greeting__good")

    def load() -> None:
        try:
            source.load("bad__hangs")
        except ScenarioError as error:
            raised.append(error)

    thread = threading.Thread(target=load)
    thread.start()
    time.sleep(0.3)
    helper.close()
    thread.join(5)
    assert not thread.is_alive()
    assert len(raised) == 1


def test_a_helper_whose_owner_is_gone_ends_in_the_middle_of_a_request(helper: HelperProcess) -> None:
    helper.ask("names")
    running = helper._running
    assert running is not None
    running.requests.write(b'{"ask": "scenario", "name": "bad__hangs"}\n')
    running.requests.close()
    assert running.process.wait(5) == 0


def test_a_helper_that_grows_is_replaced(starts: Path) -> None:
    helper = HelperProcess(room=100_000_000)
    source = NemoSource(helper)
    shadow = open_shadow(source.load("lamps__dual"))
    try:
        for _ in range(5):
            source.load("keeps")
        assert 2 <= count(starts) <= 4
        assert shadow.sync() == {"user": {"seen": "off"}}
    finally:
        helper.close()


def action(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


def test_what_the_bots_did_is_replayed_in_the_helper(source: NemoSource) -> None:
    shadow = open_shadow(source.load("lamps__dual"))
    assert shadow.sync() == {"user": {"seen": "off"}}
    assert shadow.sync() == {}, "sync_state changed a copy"
    assert shadow.replay("agent", action("switch", on=True)) == {"user": {"seen": "on"}}
    assert shadow.replay("user", action("switch", on=False)) == {"user": {"seen": "off"}}
    assert shadow.troubles == []
    assert shadow.replay("agent", action("paint")) == {}
    assert "no 'paint'" in shadow.troubles[0]


def test_a_tool_that_ends_the_helper_or_hangs_does_not_cost_the_databases(starts: Path) -> None:
    helper = HelperProcess(request_seconds=1.0)
    shadow = open_shadow(NemoSource(helper).load("lamps__dual"))
    try:
        shadow.sync()
        shadow.replay("agent", action("switch", on=True))
        assert shadow.replay("agent", action("die")) == {}
        assert shadow.replay("agent", action("hang")) == {}
        assert ["exit code 9" in shadow.troubles[0], "longer than 1 s" in shadow.troubles[1]] == [True, True]
        assert shadow.sync() == {}, "the user knows already that the lamp is on"
        assert shadow.replay("agent", action("switch", on=False)) == {"user": {"seen": "off"}}
        assert count(starts) == 3
    finally:
        helper.close()


def test_initialization_is_the_packages_own(source: NemoSource) -> None:
    shadow = open_shadow(source.load("lamps__initialized"))
    assert shadow.troubles == ["unknown initialization function: no_such"]
    assert shadow.sync() == {"user": {"seen": "broken"}}


def test_a_tool_map_that_raises_is_the_scenarios_failure(source: NemoSource) -> None:
    with pytest.raises(ScenarioError, match=r"lamps__no_tool_map .*_build_tool_map\(\) raised NotADirectoryError"):
        open_shadow(source.load("lamps__no_tool_map"))


def test_databases_are_let_go(helper: HelperProcess, source: NemoSource) -> None:
    shadow = open_shadow(source.load("lamps__dual"))
    shadow.close()
    with pytest.raises(HelperError) as caught:
        helper.ask("sync", key=shadow._twins._key)  # type: ignore[attr-defined]
    assert caught.value.lost


def test_assertions_are_the_packages_own(source: NemoSource) -> None:
    elsewhere = source.load("lamps__dual").elsewhere
    assert elsewhere is not None
    big = json.dumps({"lamp": "off", "filler": ["x" * 1000] * 3000}, indent=1)
    seen = {"side": "user", "func_name": "seen", "assert_value": "off", "message": "m"}
    found = evaluate_elsewhere(
        elsewhere.verdict,
        [
            {"side": "agent", "func_name": "lamp", "assert_value": "off"},
            seen,
            {"side": "agent", "func_name": "nothing", "assert_value": 1},
            {"side": "agent", "func_name": "raises", "assert_value": 1},
            {"side": "both", "func_name": "lamp", "assert_value": 1},
        ],
        big,
        '{"seen": "on"}',
    )
    assert [(verdict.passed, verdict.actual, verdict.message) for verdict in found[:2]] == [(True, "off", None), (False, "on", "m")]
    assert [verdict.error for verdict in found[:3]] == [None, None, "unknown predicate nothing"]
    assert "lamps__dual (of nemo_voice_agent): evaluate_db_state_assertion() raised KeyError" in str(found[3].error)
    assert "unknown side" in str(found[4].error)
    (missing,) = evaluate_elsewhere(elsewhere.verdict, [seen], big, None)
    assert (missing.passed, missing.error) == (False, "the user bot returned no database, so nothing could be checked")


def test_a_scenario_goes_into_a_worker_process_without_its_functions(source: NemoSource) -> None:
    scenario = source.load("lamps__dual")
    copied: Scenario = pickle.loads(pickle.dumps(scenario))
    assert copied == scenario
    assert copied.elsewhere is None


def test_the_helper_sees_the_modules_that_we_see_and_no_others(
    starts: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    assert "PYTHONSAFEPATH" not in os.environ
    helper = HelperProcess()
    assert "greeting__good" in NemoSource(helper).names
    helper.close()
