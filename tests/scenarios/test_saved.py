"""Scenarios of a saved session: what was written is read back, what cannot be run again is refused alone and says why."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine_run import scenario

from voiceeval_engine.run.finish import write_config
from voiceeval_engine.scenarios import saved
from voiceeval_engine.scenarios.catalog import Catalog
from voiceeval_engine.scenarios.model import NoiseConfig, Scenario, ScenarioError
from voiceeval_engine.scenarios.saved import SavedSource
from voiceeval_engine.session import layout

REFERENCE = Path(__file__).parent.parent / "data" / "reference_session" / "eval_20260101_000000"


def save(session: Path, name: str, **fields: Any) -> Scenario:
    """A scenario as an attempt leaves it."""
    saved_one = scenario(name, **fields)
    folder = session / name
    folder.mkdir(parents=True)
    write_config(folder, saved_one)
    return saved_one


def why_not(session: Path, name: str = "bad") -> str:
    """Why a scenario cannot be had from a session, without the words that every reason begins with."""
    with pytest.raises(ScenarioError) as caught:
        SavedSource(session).load(name)
    told = str(caught.value)
    assert told.startswith(f"{name} of {session.name}: ")
    assert len(told) < 300
    return told.removeprefix(f"{name} of {session.name}: ")


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """Of two scenarios; `bad` is what a test spoils."""
    session = tmp_path / "eval_20260101_000000"
    save(session, "bad", reference_answer={"item": "tea"})
    save(session, "good")
    return session


def test_what_was_saved_is_what_is_run_again(tmp_path: Path) -> None:
    noise = tmp_path / "street.wav"
    noise.touch()
    session = tmp_path / "eval_1"
    whole = save(
        session, "shop__1", domain="shop", description="All of it.", max_duration=7.5, success_signals=("is_action_match", "clean_exit"),
        agent_tools={"look": {"depth": 2}, "EndConversation": {}}, user_prompt="\r\nBuy\u2028 tea é.\n", nl_assertions=("It is polite.",),
        noise=NoiseConfig((str(noise),), gain_db=-3.0), reference_answer=[{"item": "tea"}], ignore_capitalization=True,
        ignore_punctuation=True, clean_text=True, disallow_extra_items=True,
    )  # fmt: skip
    source = SavedSource(session)
    assert (source.names, source.errors) == (("shop__1",), [])
    assert source.load("shop__1") == whole


def test_a_reference_answer_of_words_compares_as_it_did(session: Path) -> None:
    save(session, "words", reference_answer="a tea")
    assert SavedSource(session).load("words").reference_answer == {"message": "a tea"}


def test_a_session_of_the_reference_gives_what_needs_no_database() -> None:
    catalog = Catalog.open(session=REFERENCE)
    assert catalog.names() == ["domA__1", "domA__2", "domB__1", "domB__2", "simple"]
    assert (catalog.names("domA"), catalog.domains(), catalog.errors) == (["domA__1", "domA__2"], {"domA": 2, "domB": 2}, [])
    assert catalog.get("domA__1").reference_answer == {"items": [1, 2]}
    assert catalog.get("domA__1").agent_tools == {"EndConversationTool": {}}
    with pytest.raises(ScenarioError, match="domB__2 of eval_20260101_000000: its metadata shows an expected database"):
        catalog.get("domB__2")


@pytest.mark.parametrize(
    ("fields", "sign"),
    [
        ({"expected_db_hash": "0" * 64}, "its metadata shows an expected database"),
        ({"expected_user_db_hash": "0" * 64}, "its metadata shows an expected database"),
        ({"db_state_assertions": ({"func_name": "x", "assert_value": 1},)}, "its metadata shows assertions on a database"),
        ({"initialization_actions": ({"func_name": "x"},)}, "its metadata shows a database to initialize"),
    ],
)
def test_what_needs_a_database_is_refused(session: Path, fields: dict[str, Any], sign: str) -> None:
    shutil.rmtree(session / "bad")
    save(session, "bad", **fields)
    assert why_not(session) == f"{sign}, and no session holds the one that it begins with: run it from its own source"
    assert SavedSource(session).load("good").name == "good"


def test_bots_that_ended_with_a_database_had_one(session: Path) -> None:
    (session / "bad" / layout.DB_HASH).write_text("db_hash: 00\n")
    assert why_not(session).startswith("its bots had a database, and no session holds")


def _metadata(**values: Any) -> Callable[[Path], object]:
    def change(config: Path) -> None:
        file = config / "metadata.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **values}))

    return change


def _text(name: str, text: str | bytes) -> Callable[[Path], object]:
    return lambda config: (config / name).write_bytes(text.encode() if isinstance(text, str) else text)


def _link(name: str, target: str) -> Callable[[Path], object]:
    def change(config: Path) -> None:
        (config / name).unlink()
        (config / name).symlink_to(target)

    return change


def _pipe(name: str) -> Callable[[Path], object]:
    def change(config: Path) -> None:
        (config / name).unlink()
        os.mkfifo(config / name)

    return change


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda config: (config / "metadata.json").unlink(), "there is no metadata.json"),
        (lambda config: (config / "agent_prompt.txt").unlink(), "there is no agent_prompt.txt"),
        (lambda config: (config / "user_tools.json").unlink(), "there is no user_tools.json"),
        (_text("metadata.json", '{"domain": "ca'), "metadata.json: Unterminated string"),
        (_text("metadata.json", "[" * 100_000), "metadata.json: nested too deeply"),
        (_text("metadata.json", "[]"), "metadata.json: it is list where dict is expected"),
        (_text("metadata.json", ""), "metadata.json: Expecting value"),
        (_text("metadata.json", "{}"), "domain: Field required"),
        (_text("agent_tools.json", "{}"), "agent_tools.json: it is dict where str is expected"),
        (_text("agent_tools.json", '"[1]"'), "agent_tools: Input should be a valid dictionary"),
        (_text("agent_tools.json", '"{\\"a\\": NaN}"'), "agent_tools.json: NaN is not JSON"),
        (_text("reference_answer.json", "{"), "reference_answer.json: "),
        (_text("agent_prompt.txt", b"\xff"), "agent_prompt.txt is not UTF-8 at byte 0"),
        (_text("user_prompt.txt", "x" * 1001), "user_prompt.txt is longer than"),
        (_metadata(domain=3), "domain: Input should be a valid string"),
        (_metadata(max_duration="long"), "max_duration: "),
        (_metadata(max_duration=0), "max_duration: "),
        (_metadata(success_signals=["luck"]), "success_signals.0: "),
        (_metadata(success_signals=[]), "success_signals: "),
        (_metadata(nl_assertions={"a": 1}), "nl_assertions: "),
        (_metadata(noise_config={"gain_db": "loud"}), "noise_config.gain_db: "),
        (_metadata(noise_config={"noise_files": ["/dev/null"]}), "noise file /dev/null is not there"),
        (_metadata(noise_config={"noise_files": ["a\0b"]}), "noise file "),
        (_metadata(description="d" * 900 + "\x1b]0;x\x07", domain=["\x1b[2J" * 90]), "domain: "),
        (_link("agent_prompt.txt", "agent_prompt.txt"), "agent_prompt.txt cannot be read: "),
        (_link("agent_prompt.txt", "/etc/hostname"), "agent_prompt.txt leads out of the session"),
        (_link("agent_prompt.txt", "../../.."), "agent_prompt.txt leads out of the session"),
        (_pipe("agent_prompt.txt"), "agent_prompt.txt is no plain file"),
        (lambda config: shutil.rmtree(config), "there is no scenario_config"),
    ],
)  # fmt: skip
def test_a_bad_file_costs_its_scenario_alone(
    session: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], object], told: str
) -> None:
    monkeypatch.setattr(saved, "MAX_FILE_BYTES", 1000 if told.startswith("user_prompt") else 2**20)
    spoil(session / "bad" / layout.SCENARIO_CONFIG)
    assert why_not(session).startswith(told)
    assert SavedSource(session).load("good").name == "good"


def test_what_is_no_scenarios_folder_is_passed_over_and_a_bad_name_is_told(session: Path) -> None:
    (session / "evaluation_log.txt").touch()
    (session / "empty").mkdir()
    (session / "loop").symlink_to("loop")
    (session / "looped").mkdir()
    (session / "looped" / layout.SCENARIO_CONFIG).symlink_to(layout.SCENARIO_CONFIG)
    (session / "a b" / layout.SCENARIO_CONFIG).mkdir(parents=True)
    source = SavedSource(session)
    assert source.names == ("bad", "good")
    assert ["scenario name 'a b' is not usable" in str(error) for error in source.errors] == [True]


@pytest.mark.parametrize("name", ["bad", "b" * 238])
def test_an_attempt_that_was_moved_aside_counts_where_there_is_no_other(session: Path, name: str) -> None:
    if name != "bad":
        (session / "bad").rename(session / name)
    source = SavedSource(session)
    layout.move_aside(session / name, "20260101_000001")
    assert source.load(name).reference_answer == {"item": "tea"}
    assert SavedSource(session).errors == []
    assert SavedSource(session).names == (("bad", "good") if name == "bad" else ("good",))


def test_a_session_that_is_not_there_is_refused_by_the_options_name(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"--scenarios-from: .*: No such file or directory"):
        Catalog.open(session=tmp_path / "nowhere")
