"""The configuration that an attempt was run with, as `scenario_config/` holds it."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

from attempts import SCENARIO

from voiceeval_engine.run.finish import write_config
from voiceeval_engine.scenarios.model import NoiseConfig
from voiceeval_engine.session.files import read_json

DATA = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"
CONFIG = replace(
    SCENARIO,
    name="domA__1",
    domain="default",
    description="d domA__1",
    max_duration=1,
    success_signals=("is_action_match", "clean_exit"),
    user_prompt="<prompt text>",
    agent_prompt="<prompt text>",
    agent_tools={"EndConversationTool": {}},
    reference_answer={"items": [1, 2]},
)


def test_the_configuration_is_the_references_byte_for_byte(tmp_path: Path) -> None:
    write_config(tmp_path, CONFIG)
    ours = {path.name: path.read_bytes() for path in (tmp_path / "scenario_config").iterdir()}
    assert ours == {path.name: path.read_bytes() for path in (DATA / "domA__1" / "scenario_config").iterdir()}


def test_metadata_with_everything_has_its_keys_in_order(tmp_path: Path) -> None:
    full = replace(
        CONFIG,
        reference_answer="bye",
        nl_assertions=("n",),
        db_state_assertions=({"side": "agent"},),
        initialization_actions=({"side": "user"},),
        expected_db_hash="ab",
        expected_user_db_hash="cd",
        noise=NoiseConfig(gain_db=float("nan")),
        agent_prompt="\ud83d",
    )
    write_config(tmp_path, pickle.loads(pickle.dumps(full)))
    folder = tmp_path / "scenario_config"
    assert list(read_json(folder / "metadata.json"))[-6:] == [
        "success_signals",
        "db_state_assertions",
        "nl_assertions",
        "initialization_actions",
        "expected_db_hash",
        "expected_user_db_hash",
    ]
    assert read_json(folder / "reference_answer.json") == {"message": "bye"}


def test_no_reference_answer_no_file(tmp_path: Path) -> None:
    write_config(tmp_path, replace(CONFIG, reference_answer=None))
    assert not (tmp_path / "scenario_config" / "reference_answer.json").exists()
