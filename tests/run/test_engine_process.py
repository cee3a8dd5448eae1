"""The engine as a process of its own: an order on standard input, an answer, and a run that needs nobody."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from voiceeval_engine.run.options import DEMO_DEFAULTS, RunOptions
from voiceeval_engine.session import layout
from voiceeval_engine.session.metrics import parse_metrics

PACK = Path(__file__).parents[1] / "data" / "short_pack"
NAME = "short__order"


def _order(tmp_path: Path, **options: Any) -> bytes:
    given = {**DEMO_DEFAULTS, "demo": True, "scenarios": (NAME,), "scenario_dir": (PACK,), "output_dir": tmp_path, **options}
    return json.dumps({"options": dict(RunOptions(**given).parsed_args()), "argv": ["--demo"]}).encode() + b"\n"


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "voiceeval_engine"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def _ask(order: bytes) -> tuple[dict[str, Any], int, bytes]:
    with _start() as engine:
        answer, errors = engine.communicate(order, timeout=60)
    found: dict[str, Any] = json.loads(answer)
    return found, engine.returncode, errors


def test_an_order_is_answered_and_then_run_to_its_end(tmp_path: Path) -> None:
    answer, code, errors = _ask(_order(tmp_path))
    session = Path(answer["session"])
    assert (code, errors, session.parent) == (0, b"", tmp_path)
    assert answer["socket"].endswith(".sock")
    assert parse_metrics(json.loads((session / NAME / layout.METRICS).read_text())).is_successful
    assert (session / layout.ENGINE_LOG).read_bytes() == b""


def test_whoever_asked_may_be_gone_before_the_answer(tmp_path: Path) -> None:
    with _start() as engine:
        assert engine.stdin is not None
        assert engine.stdout is not None
        engine.stdout.close()
        engine.stdin.write(_order(tmp_path))
        engine.stdin.close()
        assert engine.wait(60) == 0
    (session,) = tmp_path.iterdir()
    assert (session / NAME / layout.METRICS).is_file()


@pytest.mark.parametrize(
    ("order", "told", "code"),
    [
        (b"nonsense\n", "not an order", 2),
        (b"", "not an order", 2),
        (b"[1]\n", "not an order", 2),
        (b'{"options": {}}\n', "not an order", 2),
        (b"[" * 100_000 + b"\n", "not an order", 2),
        (b'{"options": {"pause": "soon"}, "argv": []}\n', "--pause 'soon'", 2),
        (b'{"options": {"scenarios": ["nobody__knows"]}, "argv": []}\n', "nobody__knows", 1),
        (b'{"options": {"resume": "20000101_000000", "output_dir": "/nowhere"}, "argv": []}\n', "directory not found", 1),
    ],
)
def test_an_order_that_cannot_be_run_is_refused_with_a_sentence(order: bytes, told: str, code: int) -> None:
    answer, returned, errors = _ask(order)
    assert told in answer["error"]
    assert (answer["usage"], returned, errors) == (code == 2, code, b"")


def test_an_output_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer, code, _ = _ask(_order(tmp_path, output_dir=tmp_path / "file"))
    assert "the session cannot be made" in answer["error"]
    assert code == 1


@pytest.mark.parametrize(
    ("order", "told"),
    [
        (b'{"ask": "the time", "options": {}}\n', "not an order: ask 'the time'"),
        (b'{"ask": "scenarios", "options": {"scenario_dir": ["/nowhere"]}}\n', "is no scenario pack"),
        (b'{"ask": "check", "options": 3}\n', "not an order"),
    ],
)
def test_a_question_that_has_no_answer_is_refused(order: bytes, told: str) -> None:
    answer, code, errors = _ask(order)
    assert told in answer["error"]
    assert code in (1, 2)
    assert errors == b""
