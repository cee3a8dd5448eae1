"""The README's example of a scenario pack is carried out as it stands there; its tables hold every field and default of the format."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest
from bot_farm import patient_pair, serving
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic.fields import FieldInfo

from voiceeval_engine.bots.script import Manners
from voiceeval_engine.scenarios import pack_format as pack
from voiceeval_engine.scenarios import script
from voiceeval_tui.cli import main

README = Path(__file__).parent.parent.joinpath("README.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- example: (\S+) -->\n```\w+\n(.*?)^```$", README, re.MULTILINE | re.DOTALL))
TABLES: list[str] = re.findall(r"<!-- fields: (.+) -->", README)
MODELS: dict[str, type[Any]] = {
    model.__name__: model
    for model in (
        pack.DomainFile, pack.ScenarioFile, pack.SideSpec, pack.Action, pack.Initialization, pack.Assertion, pack.Noise,
        script.Step, script.ToolCall, script.ScriptManners,
    )
}  # fmt: skip


def commands(example: str) -> Iterator[list[str]]:
    """The arguments of each command line."""
    for line in EXAMPLES[example].splitlines():
        program, *arguments = shlex.split(line)
        assert program == "voiceeval-tui"
        yield arguments


def test_the_example_pack_loads_and_its_scenario_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("tea/domain.yaml", "tea/db/shop.yaml", "tea/orders.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(EXAMPLES[name])
    monkeypatch.chdir(tmp_path)
    assert list(commands("bots")) == [["bots"]]
    listing, run = commands("run")
    assert main(listing) == 0
    out, err = capfd.readouterr()
    assert ("tea:\n  tea__two_greens\n" in out, err) == (True, "")
    pair = patient_pair()
    with serving(pair):
        assert main([*run, "--agent-url", pair.agent.url, "--user-url", pair.user.url]) == 0
    out, _ = capfd.readouterr()
    assert re.search(r"success +1/1 100\.0%", out), out
    (summary,) = tmp_path.glob("eval_results/*/all_summary.txt")
    for signal in (
        "Action-list match: True",
        "DB-state match: True",
        "DB-state-assertion pass rate: 100.00%",
        "Is successful: True",
    ):
        assert signal in summary.read_text()


def rows(table: str) -> dict[str, str]:
    """Every field of a table and its default."""
    lines = README.split(f"<!-- fields: {table} -->\n")[1].split("\n\n")[0].splitlines()[2:]
    found: dict[str, str] = {}
    for line in lines:
        _, fields, _, default, _ = (cell.strip() for cell in line.split("|"))
        names = re.findall(r"`(\w+)`", fields)
        own = default.split(", ")
        found |= dict(zip(names, own if len(own) == len(names) else [default] * len(names), strict=True))
    return found


def fields_of(model: type[Any]) -> Mapping[str, FieldInfo]:
    return pydantic_dataclass(model, frozen=True).__pydantic_fields__ if is_dataclass(model) else model.model_fields


def default_of(model: type[Any], name: str) -> str | None:
    """As a table says it; None where that is words, because the default is no value."""
    field = fields_of(model)[name]
    if field.is_required():
        return "required"
    value = getattr(Manners(), name) if model is script.ScriptManners else field.get_default(call_default_factory=True)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, int | float) else value if isinstance(value, str) and value else None


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_every_field_and_its_default(table: str) -> None:
    models = [MODELS[name] for name in table.split(", ")]
    told = rows(table)
    assert set(told) == {field for model in models for field in fields_of(model)}
    for field, default in told.items():
        known = {default_of(model, field) for model in models if field in fields_of(model)}
        assert default in known or (None in known and not re.fullmatch(r"required|true|false|[\d.]+", default)), field


def test_every_part_of_the_format_has_its_table() -> None:
    assert {name for table in TABLES for name in table.split(", ")} == set(MODELS)
