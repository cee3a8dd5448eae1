"""Whether a run could start: what is found about judge, scenarios, disk and names, each with what mends it, never without end."""

from __future__ import annotations

import asyncio
import shutil
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from bot_farm import serving
from hostile_bots import HostileBot
from judges import WatchedJudge
from outputs import put_session

from voiceeval_engine.run import preflight as module
from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.session import room
from voiceeval_engine.wire import link

PACK = Path(__file__).parents[1] / "data" / "short_pack"
NAME = "short__order"
KEY = "sk-secret-0123456789"


def check(bots: bool = False, **options: Any) -> tuple[dict[str, list[dict[str, Any]]], bool]:
    """The findings by subject, and whether all is well."""
    given = {"scenario_dir": (PACK,), "scenarios": (NAME,), "judge_url": "", **options}
    findings = asyncio.run(module.preflight(RunOptions(**given), bots=bots))["findings"]
    by_subject: dict[str, list[dict[str, Any]]] = {}
    for each in findings:
        assert (each["mend"] == "") == each["good"]
        by_subject.setdefault(each["subject"], []).append(each)
    return by_subject, all(each["good"] for each in findings)


def test_what_is_well_is_said_with_its_figures_and_leaves_nothing_on_disk(tmp_path: Path) -> None:
    found, good = check(output_dir=tmp_path / "results", duration=60.0, output_sample_rate=16_000)
    assert good
    assert found["judge"][0]["found"] == "is switched off"
    assert "1 to run; all can be built" in found["scenarios"][0]["found"]
    assert "needs up to 5 MB (1 scenario, at most 1 min of recording at 16000 Hz)" in found["disk"][0]["found"]
    assert "the longest has 12 bytes" in found["names"][0]["found"]
    assert not list(tmp_path.iterdir())


def test_every_bot_of_every_pair_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "BOT_READY_TIMEOUT", 0.5)
    good, mute = HostileBot(), HostileBot(greets=False)
    with serving(good, mute):
        found, all_good = check(
            bots=True, pair=((good.url, mute.url), ("ws://127.0.0.1:9", "ws://127.0.0.1:7")), output_dir=tmp_path
        )
    assert [each["good"] for each in found["agent"] + found["user"]] == [True, False, False, False]
    assert [each["where"] for each in found["user"]] == [mute.url, "ws://127.0.0.1:7"]
    assert not all_good


def test_the_bots_that_a_file_names_are_asked_and_its_bad_lines_told(tmp_path: Path) -> None:
    file = tmp_path / "pairs"
    agent, user = HostileBot(), HostileBot()
    with serving(agent, user):
        file.write_text(f"# two bots\n{agent.url} {user.url}\nnonsense\n")
        found, good = check(bots=True, pairs_from=file, output_dir=tmp_path)
    assert not good
    assert [(each["where"], each["good"]) for each in found["agent"] + found["user"]] == [(agent.url, True), (user.url, True)]
    assert [each["found"].partition(":")[0] for each in found["pairs"]] == ["line 3"]
    file.write_text("")
    assert [each["found"] for each in check(bots=True, pairs_from=file, output_dir=tmp_path)[0]["pairs"]] == [
        "names no pair of bots now"
    ]


def test_the_judge_gives_a_verdict_and_its_key_stays_a_secret(tmp_path: Path) -> None:
    with WatchedJudge() as judge, WatchedJudge(refuses=True) as refusing:
        fine, good = check(judge_url=judge.url, output_dir=tmp_path)
        wrong, _ = check(judge_url=refusing.url, judge_api_key=KEY, output_dir=tmp_path)
        none, _ = check(judge_url=refusing.url, judge_api_key_name="", output_dir=tmp_path)
    assert good
    assert "gave a verdict" in fine["judge"][0]["found"]
    assert judge.asked == refusing.asked - 1 == 1
    assert "HTTP 401" in wrong["judge"][0]["found"]
    assert "is not the right one" in wrong["judge"][0]["mend"]
    assert "no key was found" in none["judge"][0]["mend"]
    assert KEY not in str(wrong)


@pytest.mark.parametrize(
    ("status", "body", "mend"),
    [
        (404, "no such model", "the path of --judge-url"),
        (429, "slow down", "wait until it has room"),
        (503, "overloaded", "wait until it has room"),
        (400, "what?", "--judge-model"),
        (200, "<html>", "look at --judge-url"),
        (200, '{"choices": [{"message": {"content": "Fine!"}}]}', "look at --judge-url"),
    ],
)
def test_a_judge_that_gives_no_verdict_is_told(status: int, body: str, mend: str, tmp_path: Path) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        found, good = check(judge_url=f"http://127.0.0.1:{server.server_port}/v1", output_dir=tmp_path)
        server.shutdown()
    assert not good
    assert mend in found["judge"][0]["mend"]


def test_a_judge_that_is_not_there_and_one_that_never_answers_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "JUDGE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        silent, _ = check(judge_url=f"http://127.0.0.1:{mute.getsockname()[1]}/", output_dir=tmp_path)
    assert "within 0.2 s" in silent["judge"][0]["found"]
    monkeypatch.setattr(module, "JUDGE_SECONDS", 20.0)
    dead, _ = check(judge_url="http://127.0.0.1:9/v1", output_dir=tmp_path)
    assert "cannot be reached" in dead["judge"][0]["found"]


def test_a_disk_without_room_is_told_with_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(room.shutil, "disk_usage", lambda _: usage._replace(free=3_000_000))
    found, good = check(output_dir=tmp_path, duration=600.0)
    assert not good
    assert "needs up to 39 MB" in found["disk"][0]["found"]
    assert "3 MB are free" in found["disk"][0]["found"]
    assert "--output-dir" in found["disk"][0]["mend"]


def test_an_output_folder_that_cannot_be_one_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found, good = check(output_dir=tmp_path / "file" / "results")
    assert not good
    assert "is no folder" in found["disk"][0]["found"]


def test_names_that_do_not_fit_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.room.os, "pathconf", lambda _, what: 40 if what == "PC_NAME_MAX" else 4096)
    found, good = check(output_dir=tmp_path)
    assert not good
    assert found["names"][0]["where"] == NAME


def test_of_a_resume_only_what_is_left_counts(tmp_path: Path) -> None:
    session = put_session(tmp_path, 60, [NAME, "short__other"], 1, scenarios=(NAME, "short__other"))
    found, _ = check(scenarios=(), resume=session.name.removeprefix("eval_"), output_dir=tmp_path)
    assert [each["where"] for each in found["scenarios"]] == ["short__other"]
    assert "there is no scenario" in found["scenarios"][0]["found"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"scenarios": ("short__nobody",)}, "short__nobody"),
        ({"scenario_dir": (Path("/nowhere"),)}, "is no scenario pack"),
        ({"scenarios": (), "resume": "20000101_000000"}, "directory not found"),
    ],
)
def test_a_run_of_nothing_is_told(options: dict[str, Any], told: str, tmp_path: Path) -> None:
    found, good = check(output_dir=tmp_path, **options)
    assert not good
    assert told in found["scenarios"][0]["found"]


def test_a_pack_whose_python_never_comes_back_holds_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = threading.Event()
    monkeypatch.setattr(module, "SCENARIOS_SECONDS", 0.1)
    monkeypatch.setattr(module, "make_plan", lambda *_, **__: stuck.wait())
    began = time.monotonic()
    found, good = check(output_dir=tmp_path)
    stuck.set()
    assert not good
    assert "could not be listed and built" in found["scenarios"][0]["found"]
    assert time.monotonic() - began < 30


def test_a_pack_whose_python_raises_anything_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise SystemExit("gone")

    monkeypatch.setattr(module, "make_plan", broken)
    found, good = check(output_dir=tmp_path)
    assert not good
    assert "SystemExit" in found["scenarios"][0]["found"]


def test_what_takes_long_to_build_is_estimated_from_what_was_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUILD_SECONDS", -1.0)
    found, good = check(output_dir=tmp_path, scenarios=(), domain="cafe", duration=60.0)
    assert good
    assert "1 were looked at" in found["scenarios"][0]["found"]
    assert "14 scenarios, at most 14 min" in found["disk"][0]["found"]
