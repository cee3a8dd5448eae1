"""Starting an engine: real processes, what they are told, what they leave when whoever started them is gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from voiceeval_engine.run.options import DEMO_DEFAULTS, RunOptions
from voiceeval_engine.session import layout
from voiceeval_engine.session.lock import holder, last_holder
from voiceeval_tui import starting
from voiceeval_tui.starting import StartError, list_scenarios, start_engine

PACK = Path(__file__).parents[1] / "data" / "short_pack"
NAME = "short__order"
KEY = "sk-secret/key+1234"


def demo(output_dir: Path, **options: Any) -> RunOptions:
    given = {**DEMO_DEFAULTS, "demo": True, "scenarios": (NAME,), "scenario_dir": (PACK,), "output_dir": output_dir, **options}
    return RunOptions(**given)


def wait_for(condition: Any, patience: float = 60.0) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """What is given to processes, by any way: order, command line, environment."""
    seen: list[dict[str, Any]] = []
    popen, write = subprocess.Popen, starting._write

    class Watched(popen):  # type: ignore[type-arg, valid-type, misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            seen.append({"args": args, "environ": options["env"]})
            super().__init__(*args, **options)
            seen[-1]["engine"] = self

    def watched(engine: Any, order: bytes, deadline: float) -> None:
        seen[-1]["order"] = order.decode()
        write(engine, order, deadline)

    monkeypatch.setattr(starting.subprocess, "Popen", Watched)
    monkeypatch.setattr(starting, "_write", watched)
    return seen


def test_a_run_is_started_runs_to_its_end_and_leaves_no_zombie(tmp_path: Path) -> None:
    session = start_engine(demo(tmp_path), ["--demo"])
    assert session.parent == tmp_path
    held = holder(session)
    assert held is not None
    assert os.getsid(held.pid) == held.pid != os.getsid(0)
    wait_for(lambda: not Path(f"/proc/{held.pid}").exists())
    assert (session / NAME / layout.METRICS).is_file()
    record = json.loads((session / layout.RUN_ARGS).read_text())["invocations"][0]
    assert record["argv"] == ["--demo"]
    assert record["parsed_args"]["demo"] is True


def test_the_key_is_in_the_environment_and_nowhere_else(tmp_path: Path, orders: list[dict[str, Any]]) -> None:
    options = demo(tmp_path, judge_api_key=KEY, judge_api_key_name="MY_KEY")
    session = start_engine(options, ["--demo", "--judge-api-key", KEY, f"--judge-api-key={KEY}"])
    (seen,) = orders
    assert seen["environ"]["MY_KEY"] == KEY
    assert KEY not in seen["order"] + repr(seen["args"])
    held = last_holder(session)
    assert held is not None
    wait_for(lambda: not is_alive(held.pid))
    files = [path for path in session.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


@pytest.mark.parametrize("name", ["", "MY_KEY"])
def test_a_key_that_was_typed_takes_the_variable_that_the_engine_asks(
    tmp_path: Path, orders: list[dict[str, Any]], name: str
) -> None:
    with pytest.raises(StartError):
        start_engine(demo(tmp_path, judge_api_key_name=name, scenarios=("nobody__knows",)), [], KEY)
    (seen,) = orders
    told = json.loads(seen["order"])["options"]["judge_api_key_name"]
    assert told == (name or "JUDGE_API_KEY")
    assert seen["environ"][told] == KEY
    assert KEY not in seen["order"]


def test_without_a_key_the_environment_is_ours(tmp_path: Path, orders: list[dict[str, Any]]) -> None:
    list_scenarios(demo(tmp_path))
    assert orders[0]["environ"] == dict(os.environ)


@pytest.mark.parametrize("name", ["A=B", "A\0B"])
def test_a_variable_that_cannot_be_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StartError, match="--judge-api-key-name") as refused:
        start_engine(demo(tmp_path, judge_api_key_name=name), [], KEY)
    assert refused.value.code == 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"scenarios": ("nobody__knows",)}, "nobody__knows"),
        ({"scenarios": (), "resume": "20000101_000000"}, "directory not found"),
        ({"demo": False, "scenarios": (), "scenario_dir": ()}, "no scenarios are registered"),
    ],
)
def test_a_refusal_is_a_sentence(tmp_path: Path, options: dict[str, Any], told: str) -> None:
    with pytest.raises(StartError, match=told) as refused:
        start_engine(demo(tmp_path, **options), [])
    assert refused.value.code == 1


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys; sys.exit('the end of it')", "ended without an answer: the end of it"),
        ("print('[1, 2]')", "ended without an answer"),
        ("print('{}')", "the engine's answer is none"),
        (
            "import sys, time; print('half', end='', flush=True); print('late', file=sys.stderr); time.sleep(60)",
            "did not answer within 1 s: late",
        ),
    ],
)  # fmt: skip
def test_an_engine_that_is_none_is_told_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orders: list[dict[str, Any]], code: str, told: str
) -> None:
    monkeypatch.setattr(starting, "_COMMAND", (sys.executable, "-c", code))
    monkeypatch.setattr(starting, "PATIENCE", 1.0)
    with pytest.raises(StartError) as refused:
        start_engine(demo(tmp_path), [])
    assert told in str(refused.value)
    wait_for(lambda: orders[0]["engine"].returncode is not None, 5.0)


def test_a_command_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "_COMMAND", ("/nowhere/python",))
    with pytest.raises(StartError, match="cannot be started"):
        start_engine(demo(tmp_path), [])


def test_an_order_larger_than_a_pipe_arrives(tmp_path: Path) -> None:
    names = tuple(f"nobody__knows_{number:05d}" for number in range(20_000))
    with pytest.raises(StartError, match="nobody__knows_00000"):
        start_engine(demo(tmp_path, scenarios=names), [])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGINT])
def test_a_run_outlives_whoever_started_it(tmp_path: Path, number: int) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from test_starting import demo, last_holder, start_engine\n"
        "session = start_engine(demo(Path(sys.argv[2])), [])\n"
        "print(last_holder(session).pid, session, flush=True); time.sleep(60)"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1] / "helpers"), *sys.path])}
    console = subprocess.Popen(
        [sys.executable, "-c", code, str(Path(__file__).parent), str(tmp_path)],
        stdout=subprocess.PIPE, text=True, env=environ, process_group=0,
    )  # fmt: skip
    with console:
        assert console.stdout is not None
        pid, session = console.stdout.readline().split()
        os.killpg(console.pid, number)
        console.wait(10)
    assert is_alive(int(pid))
    wait_for(lambda: (Path(session) / layout.ALL_SUMMARY).is_file())
    wait_for(lambda: not is_alive(int(pid)))
    assert (Path(session) / NAME / layout.METRICS).is_file()


def test_scenarios_are_listed(tmp_path: Path) -> None:
    listed = list_scenarios(demo(tmp_path))
    assert (NAME, False) in listed.scenarios
    assert any(name.startswith("cafe__") and embedded for name, embedded in listed.scenarios)
    with pytest.raises(StartError, match="is no scenario pack"):
        list_scenarios(demo(tmp_path, scenario_dir=(tmp_path,)))
