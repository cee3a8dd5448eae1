"""A run that is stopped while a verdict is out is not complete, and the command that it prints completes it."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bot_farm import serving
from engine_run import Ran, run_engine, scenario
from hostile_bots import HostileBot, says_goodbye
from judges import WatchedJudge

from voiceeval_engine.live import events
from voiceeval_engine.run.runner import Runner
from voiceeval_engine.session.files import read_json
from voiceeval_engine.session.metrics import PENDING_REASON

PACK = str(Path(__file__).parent.parent / "data" / "short_pack")
PATIENCE = 60.0
JUDGED = {"success_signals": ("judge_passed", "clean_exit")}
OPTIONS: dict[str, Any] = {"max_auto_retries": 0, "min_agent_turns": 0, "judge_threshold": 0.5}


@pytest.fixture
def pair() -> Iterator[tuple[HostileBot, HostileBot]]:
    agent, user = HostileBot(says_goodbye), HostileBot()
    with serving(agent, user):
        yield agent, user


def _run_until_the_judge_is_asked(
    output: Path, pair: tuple[HostileBot, HostileBot], judge: WatchedJudge, names: list[str], **options: Any
) -> Ran:
    """Stopped by the call about the last scenario."""
    judge.answering.clear()
    runners: list[tuple[asyncio.AbstractEventLoop, Runner]] = []

    def watch(runner: Runner, event: events.Event) -> None:
        if not runners:
            runners.append((asyncio.get_running_loop(), runner))

    def stop() -> None:
        if judge.asked % len(names) == 0:
            loop, runner = runners[0]
            loop.call_soon_threadsafe(runner.stop)

    judge.on_asked = stop
    try:
        return run_engine(
            output, [pair], {name: scenario(name, **JUDGED) for name in names}, names,
            watch=watch, judge_url=judge.url, **OPTIONS, **options,
        )  # fmt: skip
    finally:
        judge.on_asked = None


def _pending(session: Path, name: str) -> bool:
    return bool(read_json(session / name / "judge_result.json")["reason"] == PENDING_REASON)


def _attempted(ran: Ran) -> list[str]:
    return [event.scenario for event in ran.events if isinstance(event, events.AttemptStarted)]


@pytest.mark.parametrize("names", [["s__a"], ["s__a", "s__b", "s__c"]], ids=len)
def test_a_run_that_is_stopped_while_a_verdict_is_out_is_not_complete_and_is_completed_by_a_resume(
    tmp_path: Path, pair: tuple[HostileBot, HostileBot], names: list[str]
) -> None:
    with WatchedJudge(answers=False) as judge:
        stopped = _run_until_the_judge_is_asked(tmp_path, pair, judge, names)
        timestamp = stopped.session.name.removeprefix("eval_")
        assert not stopped.complete
        assert stopped.tasks_left == []
        end = stopped.events[-1]
        assert isinstance(end, events.RunEnded)
        assert (end.complete, end.reason) == (False, "interrupted")
        assert shlex.split(end.resume_command) == ["voiceeval-tui", "--of", "a test", "--resume", timestamp]
        assert f"to go on       {end.resume_command}" in stopped.printed
        assert f"verdict out    {len(names)}: {', '.join(names)}" in stopped.printed
        assert all(_pending(stopped.session, name) for name in names)
        assert read_json(stopped.session / "all_metrics.json") == []
        summary = (stopped.session / "all_summary.txt").read_text()
        assert f"WARNING: {len(names)} verdict(s) are still pending and in no rate: {', '.join(names)}" in summary

        again = _run_until_the_judge_is_asked(tmp_path, pair, judge, names, resume=timestamp)
        assert (again.complete, _attempted(again)) == (False, [])
        assert all(_pending(stopped.session, name) for name in names)

        judge.answering.set()
        asked = judge.asked
        resumed = run_engine(tmp_path, [pair], {}, names, judge_url=judge.url, resume=timestamp, **OPTIONS)
        assert judge.asked == asked + len(names)
    assert resumed.complete
    assert _attempted(resumed) == []
    assert [each["is_successful"] for each in read_json(stopped.session / "all_metrics.json")] == [True] * len(names)
    end = resumed.events[-1]
    assert isinstance(end, events.RunEnded)
    assert end.complete
    assert "to go on" not in resumed.printed


def test_the_printed_command_goes_on_and_is_printed_alike_until_all_is_done(
    tmp_path: Path, pair: tuple[HostileBot, HostileBot]
) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    environment.pop("JUDGE_API_KEY", None)

    def start(command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-c", f"exec {command}"], cwd=tmp_path, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    with WatchedJudge(answers=False) as judge:
        typed = [
            "voiceeval-tui", "--scenario-dir", PACK, "--scenarios", "short__order", "--output-dir", "my results", "--pause", "0",
            "--agent-url", pair[0].url, "--user-url", pair[1].url, "--judge-url", judge.url, "--min-agent-turns", "0",
            "--judge-threshold=0.25", "--judge-model", "it's \"quoted\" $HOME",
        ]  # fmt: skip
        command, printed = shlex.join(typed), []
        for _ in range(3):
            with start(command) as process:
                judge.on_asked = lambda process=process: process.send_signal(signal.SIGINT)  # type: ignore[misc]
                out, err = process.communicate(timeout=PATIENCE)
            assert (process.returncode, err) == (1, "")
            (line,) = [line for line in out.splitlines() if line.startswith("  to go on ")]
            command = line.removeprefix("  to go on ").strip()
            printed.append(command)
        (session,) = (tmp_path / "my results").glob("eval_*")
        assert [shlex.split(each) for each in printed] == [[*typed, "--resume", session.name.removeprefix("eval_")]] * 3
        assert judge.asked == 3
        judge.on_asked = None
        judge.answering.set()
        with start(command) as process:
            out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    assert "start " not in out
    assert not _pending(session, "short__order")
    lines = [json.loads(line) for line in (session / "events.jsonl").read_text().splitlines()]
    assert [line["type"] for line in lines].count("conversation_started") == 1
    assert [line["complete"] for line in lines if line["type"] == "run_ended"] == [False, False, False, True]
