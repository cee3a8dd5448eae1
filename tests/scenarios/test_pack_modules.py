"""A pack with tools of its own: found beside it, kept apart from another pack's, loaded by the worker process too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from bot_farm import serving
from engine_run import run_engine
from hostile_bots import HostileBot, says_goodbye

from voiceeval_engine.domains.registry import load_domain
from voiceeval_engine.domains.state import db_hash
from voiceeval_engine.offload import INLINE_BYTES
from voiceeval_engine.scenarios.catalog import Catalog
from voiceeval_engine.scenarios.model import ScenarioError
from voiceeval_engine.scenarios.packs import Pack

DOMAIN = """\
domain: {domain}
module: {module}
agent_prompt: You ring.
user_prompt: You listen.
agent_tools: {{ring: {{}}, EndConversation: {{}}}}
agent_db: bell.json
success_signals: [clean_exit]
"""
PLAIN = "domain: {domain}\nagent_prompt: You talk.\nuser_prompt: You talk.\n{tools}success_signals: [clean_exit]\n"
SCENARIO = "name: {name}\ndescription: One ring.\nreference_actions: [{{name: ring}}]\n"
MODULE = """\
import os
from voiceeval_engine.domains.registry import Domain, Tool

def ring(db):
    db["rings"] += {step}
    return db["rings"]

def rings(db, path):
    with open(path, "a") as file:
        file.write(str(os.getpid()) + chr(10))
    return db["rings"]

DOMAIN = Domain("bells", {{"ring": Tool("ring", ring)}}, predicates={{"rings": rings}})
"""


def make_pack(folder: Path, name: str, *, step: int = 1, domain: str = "bells", module: str = "bell_tools") -> Path:
    folder.mkdir()
    (folder / "domain.yaml").write_text(DOMAIN.format(domain=domain, module=module))
    (folder / "bell.json").write_text('{"rings": 0}')
    (folder / "scenario.yaml").write_text(SCENARIO.format(name=name))
    (folder / f"{module}.py").write_text(MODULE.format(step=step))
    return folder


@pytest.mark.parametrize("module", ["bell_tools", "json", "voiceeval_engine", "_x1"])
def test_a_tool_module_beside_the_pack_is_found_and_comes_before_an_installed_one(tmp_path: Path, module: str) -> None:
    folder = make_pack(tmp_path / "pack", "bells__one", module=module)
    pack = Pack(folder)
    assert (tuple(pack.names), pack.errors) == (("bells__one",), [])
    scenario = pack.load("bells__one")
    assert scenario.tool_module == str((folder / f"{module}.py").resolve())
    assert scenario.expected_db_hash == db_hash({"rings": 1})
    assert load_domain(scenario.domain, scenario.tool_module).agent_tools["ring"].call({"rings": 4}) == 5


def test_a_pack_that_is_opened_by_a_relative_path_names_its_module_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_pack(tmp_path / "pack", "bells__one")
    monkeypatch.chdir(tmp_path)
    pack = Pack(Path("pack"))
    module = pack.load("bells__one").tool_module
    assert module is not None
    assert Path(module).is_absolute()


@pytest.mark.parametrize("size", [0, INLINE_BYTES + 1], ids=["by_a_thread", "by_the_worker_process"])
def test_the_module_beside_the_pack_is_what_scores(tmp_path: Path, size: int) -> None:
    folder, by = make_pack(tmp_path / "pack", "bells__one"), tmp_path / "by"
    with (folder / "scenario.yaml").open("a") as file:
        file.write(
            "success_signals: [db_state_assertion, clean_exit]\n"
            f"db_state_assertions: [{{func_name: rings, arguments: {{path: {by}}}, assert_value: 7}}]\n"
        )
    summary = {"actions": [], "db_hash": None, "db": {"rings": 7, "more": "x" * size}}
    agent, user = HostileBot(says_goodbye, {"get_scenario_summary": summary}), HostileBot()
    with serving(agent, user):
        ran = run_engine(
            tmp_path / "out",
            [(agent, user)],
            {"bells__one": Pack(folder).load("bells__one")},
            max_auto_retries=0,
            min_agent_turns=0,
        )
    assert ran.complete
    assert ran.metrics("bells__one")["success_breakdown"]["passed"] == ["db_state_assertion", "clean_exit"]
    pids = set(by.read_text().split())
    assert len(pids) == 1
    assert (str(os.getpid()) in pids) is (size == 0)


@pytest.mark.parametrize(
    "tools", ["", "agent_tools: {}\n", "agent_tools: {EndConversation: {}}\nuser_tools: {EndConversation: {}}\n"]
)
def test_a_domain_without_tools_needs_no_module(tmp_path: Path, tools: str) -> None:
    (tmp_path / "domain.yaml").write_text(PLAIN.format(domain="small_talk", tools=tools))
    (tmp_path / "a.yaml").write_text("name: small_talk__one\ndescription: Talk.\n")
    scenario = Pack(tmp_path).load("small_talk__one")
    assert (scenario.domain, scenario.tool_module) == ("small_talk", None)
    agent, user = HostileBot(says_goodbye), HostileBot()
    with serving(agent, user):
        ran = run_engine(tmp_path / "out", [(agent, user)], {"small_talk__one": scenario}, max_auto_retries=0, min_agent_turns=0)
    assert ran.metrics("small_talk__one")["is_successful"] is True


@pytest.mark.parametrize("tools", ["agent_tools: {ring: {}}\n", "user_tools: {ring: {}}\n"])
def test_a_domain_with_tools_and_no_module_says_so(tmp_path: Path, tools: str) -> None:
    (tmp_path / "domain.yaml").write_text(PLAIN.format(domain="small_talk", tools=tools))
    (tmp_path / "a.yaml").write_text("name: small_talk__one\ndescription: Talk.\n")
    with pytest.raises(ScenarioError, match="domain 'small_talk' has no tools"):
        Pack(tmp_path).load("small_talk__one")


@pytest.mark.parametrize("domain", ["bells", "cafe"], ids=["of_their_own", "named_as_ours"])
@pytest.mark.parametrize("modules", [("tools", "tools"), ("first", "second")], ids="+".join)
@pytest.mark.parametrize("order", [(0, 1, 0), (1, 0, 1)])
def test_two_packs_of_one_domain_name_get_their_own_tools(
    tmp_path: Path, domain: str, modules: tuple[str, str], order: tuple[int, ...]
) -> None:
    names, steps = ("bells__one", "bells__two"), (1, 10)
    folders = [
        make_pack(tmp_path / name, name, step=step, domain=domain, module=module)
        for name, step, module in zip(names, steps, modules, strict=True)
    ]
    catalog = Catalog.of_packs(folders)
    for which in order:
        scenario = catalog.get(names[which])
        assert scenario.expected_db_hash == db_hash({"rings": steps[which]})
        assert load_domain(scenario.domain, scenario.tool_module).agent_tools["ring"].call({"rings": 0}) == steps[which]


@pytest.mark.parametrize(
    "text",
    [
        "opened: !!timestamp 2026-01-01\n",
        "days:\n  - {on: {first: !!timestamp 2026-01-01T10:00:00Z}}\n",
        "!!timestamp 2026-01-01: opened\n",
        "seats: !!set {a, b}\n",
        "photo: !!binary aGVsbG8=\n",
        "price: .nan\n",
        "price: .inf\n",
        "itself: &it\n  again: *it\n",
    ],
)
@pytest.mark.parametrize("side", ["agent", "user"])
def test_a_database_that_json_cannot_hold_is_a_problem_of_the_pack_that_names_the_file(
    tmp_path: Path, text: str, side: str
) -> None:
    folder = make_pack(tmp_path / "pack", "bells__good")
    (folder / "odd.yaml").write_text("name: bells__odd\ndescription: Odd.\n" + f"{side}_db: db/odd_db.yaml\n")
    (folder / "db").mkdir()
    (folder / "db" / "odd_db.yaml").write_text(text)
    pack = Pack(folder)
    with pytest.raises(ScenarioError) as caught:
        pack.load("bells__odd")
    assert str(caught.value).startswith(str(folder / "db" / "odd_db.yaml"))
    assert pack.load("bells__good").name == "bells__good"
