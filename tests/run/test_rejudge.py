"""A saved session scored again: conversations stay as they are, no verdict is lost, everything that follows is made anew."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from judges import WatchedJudge

from voiceeval_engine.bots.judge import OUT_MARK
from voiceeval_engine.run import judging
from voiceeval_engine.run import rejudge as rejudge_module
from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.run.rejudge import Rejudged, RejudgeError, rejudge
from voiceeval_engine.scoring.judge import Judge
from voiceeval_engine.session.files import read_json, write_json
from voiceeval_engine.session.invocations import first_selection
from voiceeval_engine.session.lock import SessionLock
from voiceeval_engine.session.metrics import PENDING, PENDING_REASON
from voiceeval_engine.session.resume import classify, soft_check
from voiceeval_engine.session.run_args import Invocation, append_invocation, read_invocations

REFERENCE = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"
KEY = "sk-s3cret-key"
GOOD = {"score": 0.25, "reason": "an earlier verdict"}
FAILED = {"score": 0.0, "reason": "Error: HTTP 503"}
RIGHT, WRONG = {"name": "order", "arguments": {"drink": "tea"}}, {"name": "order", "arguments": {"drink": "milk"}}


def save(session: Path, name: str, result: Any = GOOD, *, did: Any = RIGHT, calls: int = 3, spoken: str = "Bye.") -> Path:
    """A scenario with all its evidence and this `judge_result.json` (None: there is none)."""
    folder = session / name
    (folder / "scenario_config").mkdir(parents=True)
    (folder / "bot_logs_agent").mkdir()
    write_json(folder / "scenario_config" / "metadata.json", {"success_signals": ["judge_passed", "clean_exit"]})
    write_json(folder / "scenario_config" / "reference_answer.json", {"actions": [RIGHT]})
    write_json(folder / "final_agent_response.json", [{"actions": [did]}])
    write_json(folder / "bot_logs_agent" / "llm_context.json", [{"role": "assistant", "content": spoken}])
    metrics = {
        "total_turns": 3, "scenario_name": name, "scenario_directory": str(folder), "stop_reason": "[EXIT]", "clean_exit": True,
        "judge_score": 0.25, "judge_passed": False, "token_usage": {"agent": {"n_calls": calls, "prompt": 1, "completion": 1}},
        "success_breakdown": {"passed": ["clean_exit"], "failed": ["judge_passed"], "not_applicable": [], "excluded": []},
        "auto_retry_count": 0, "is_successful": False, "is_task_successful": False,
    }  # fmt: skip
    write_json(folder / "metrics.json", metrics)
    if result is not None:
        write_json(folder / "judge_result.json", result)
    return folder


def record(session: Path, *names: str, **parsed: Any) -> None:
    args = {"judge_model": "old", "judge_seed": 1, "min_agent_turns": 2, "inactivity_timeout": 9.0} | parsed
    append_invocation(session, Invocation("2026-01-01T00:00:00", ("--x",), args, names, resumed=True))


@pytest.fixture
def session(tmp_path: Path) -> Path:
    made = tmp_path / "eval_20260101_000000"
    made.mkdir()
    return made


@pytest.fixture(autouse=True)
def _no_pause_between_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "Judge", partial(Judge, backoff=(0, 0, 0)))


@pytest.fixture
def judge_url() -> Iterator[str]:
    with WatchedJudge() as judge:
        yield judge.url


async def again(session: Path, url: str, *argv: str, only_failed: bool = False, **options: Any) -> Rejudged:
    made = RunOptions(judge_url=url, **{"judge_threshold": 0.5} | options)
    return await rejudge(session, made, ["rejudge", *argv], only_failed=only_failed, on_judged=lambda _: None)


def result(session: Path, name: str) -> Any:
    return read_json(session / name / "judge_result.json")


def kept(session: Path, name: str) -> list[Any]:
    return [read_json(path) for path in sorted((session / name).glob("judge_result.*.json"))]


def covered(session: Path) -> list[str]:
    return [each["scenario_name"] for each in read_json(session / "all_metrics.json")]


async def test_every_scenario_is_judged_and_all_that_follows_is_made_anew(session: Path, judge_url: str) -> None:
    save(session, "s__right")
    save(session, "s__wrong", did=WRONG)
    record(session, "s__wrong", "s__right")
    before = {name: read_json(session / name / "metrics.json") for name in ("s__right", "s__wrong")}
    done = await again(session, judge_url)
    assert (sorted(done.judged), done.failed) == (["s__right", "s__wrong"], ())
    verdicts = {name: read_json(session / name / "metrics.json") for name in before}
    assert [(each["judge_score"], each["is_successful"]) for each in verdicts.values()] == [(1.0, True), (0.0, False)]
    follows = {"judge_score", "judge_passed", "success_breakdown", "is_successful", "is_task_successful"}
    for name, metrics in verdicts.items():
        assert {key: value for key, value in metrics.items() if key not in follows} == {
            key: value for key, value in before[name].items() if key not in follows
        }
    assert covered(session) == ["s__wrong", "s__right"]
    assert [each["judge_score"] for each in read_json(session / "all_metrics.json")] == [0.0, 1.0]
    assert "Overall Success Rate: 50.00% (1/2" in (session / "all_summary.txt").read_text()
    assert (session / "all_latencies.csv").read_text().startswith("Scenario,")


async def test_old_results_are_kept_however_often(session: Path, judge_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class OneSecond(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime(2026, 1, 2, 3, 4, 5)

    monkeypatch.setattr(rejudge_module, "datetime", OneSecond)
    save(session, "s__a")
    for _ in range(3):
        await again(session, judge_url)
    names = sorted(path.name for path in (session / "s__a").glob("judge_result*"))
    stem = "judge_result.20260102_030405"
    assert names == [f"{stem}.2.json", f"{stem}.3.json", f"{stem}.json", "judge_result.json"]
    assert kept(session, "s__a").count(GOOD) == 1
    assert [each["score"] for each in kept(session, "s__a")].count(1.0) == 2


async def test_a_copy_is_whole_or_not_there(session: Path, judge_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    save(session, "s__a")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rejudge_module, "write_atomic", full)
    with pytest.raises(OSError, match="No space"):
        await again(session, judge_url)
    assert result(session, "s__a") == GOOD
    assert kept(session, "s__a") == []


async def test_only_failed_asks_about_failed_pending_and_missing_verdicts(session: Path, judge_url: str) -> None:
    for name, old in (("s__good", GOOD), ("s__failed", FAILED), ("s__out", PENDING), ("s__none", None)):
        save(session, name, old)
    record(session, "s__good", "s__failed", "s__out", "s__none")
    done = await again(session, judge_url, only_failed=True)
    assert sorted(done.judged) == ["s__failed", "s__none", "s__out"]
    assert result(session, "s__good") == GOOD
    assert kept(session, "s__failed") == [FAILED]
    assert kept(session, "s__out") == [], "a pending verdict is none"
    assert covered(session) == ["s__good", "s__failed", "s__out", "s__none"]


async def test_only_failed_of_a_foreign_session_aggregates_all_of_it(session: Path, judge_url: str) -> None:
    save(session, "s__good")
    save(session, "s__failed", FAILED)
    await again(session, judge_url, only_failed=True)
    assert covered(session) == ["s__failed", "s__good"]


async def test_a_call_that_fails_keeps_a_good_verdict_and_replaces_a_failed_one(session: Path, judge_url: str) -> None:
    for name, old in (("s__good", GOOD), ("s__failed", FAILED)):
        save(session, name, old, spoken=OUT_MARK)
    before = (session / "s__good" / "metrics.json").read_bytes()
    done = await again(session, judge_url)
    assert sorted(done.failed) == ["s__failed", "s__good"]
    assert result(session, "s__good") == GOOD
    assert (session / "s__good" / "metrics.json").read_bytes() == before
    assert "HTTP 503" in result(session, "s__failed")["reason"]
    assert "1 judge call(s) failed and were scored 0.0: s__failed" in (session / "all_summary.txt").read_text()


@pytest.mark.parametrize("broken", ["metrics.json", "judge_result.json"])
async def test_a_crash_between_the_files_leaves_the_verdict_out_and_the_old_one_kept(
    session: Path, judge_url: str, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    save(session, "s__a")

    def crash(path: Path, value: Any, indent: int | None = 2) -> None:
        if path.name == broken and value != PENDING:
            raise OSError("the power failed")
        write_json(path, value, indent)

    with monkeypatch.context() as patch:
        patch.setattr(judging, "write_json", crash)
        await again(session, judge_url)
    assert result(session, "s__a")["reason"] == PENDING_REASON
    assert kept(session, "s__a") == [GOOD]
    assert covered(session) == []
    assert classify(session, "s__a", 2).state == "completed"
    await again(session, judge_url, only_failed=True)
    assert result(session, "s__a")["score"] == 1.0
    assert covered(session) == ["s__a"]


async def test_the_record_is_the_last_ones_with_the_judges_options(session: Path, judge_url: str) -> None:
    save(session, "s__a")
    record(session, "s__a", inactivity_timeout=8.0)
    record(session, "s__a", min_agent_turns=1)
    await again(session, judge_url, "--judge-seed", "7", judge_seed=7, judge_model="new", inactivity_timeout=77.0)
    records = read_invocations(session)
    last = records[-1]
    assert len(records) == 3
    assert last["argv"] == ["rejudge", "--judge-seed", "7"]
    assert last["resumed_from_invocation"] == 1
    assert last["resolved_scenario_names"] == ["s__a"]
    parsed = last["parsed_args"]
    assert (parsed["judge_seed"], parsed["judge_model"], parsed["inactivity_timeout"], parsed["min_agent_turns"]) == (
        7,
        "new",
        9.0,
        1,
    )
    lines = soft_check(parsed, {**records[1]["parsed_args"], "judge_threshold": 0.5, "judge_url": judge_url})
    assert lines[1:-1] == ["  judge_model: original='new' resume='old'", "  judge_seed: original=7 resume=1"]


@pytest.mark.parametrize(("floor", "stalled"), [(0, False), (3, False), (4, True), ("many", False), (None, False)])
async def test_the_floor_comes_from_the_record(session: Path, judge_url: str, floor: Any, stalled: bool) -> None:
    save(session, "s__a", calls=3)
    record(session, "s__a", min_agent_turns=floor)
    await again(session, judge_url, min_agent_turns=9)
    metrics = read_json(session / "s__a" / "metrics.json")
    assert metrics.get("insufficient_agent_turns", False) is stalled
    assert metrics["is_successful"] is not stalled
    assert ("Stalled scenarios: s__a" in (session / "all_summary.txt").read_text()) is stalled


async def test_all_of_a_session_is_judged_in_the_first_invocations_order(session: Path, judge_url: str) -> None:
    for name in ("s__a", "s__b", "s__c", "s__z"):
        save(session, name)
    save(session, "s__a.killed.20260101_000001")
    (session / "s__cut" / "scenario_config").mkdir(parents=True)
    record(session, "s__z", "s__b", "../outside", "s__gone")
    record(session, "s__a")
    done = await again(session, judge_url)
    assert sorted(done.judged) == ["s__a", "s__b", "s__c", "s__z"]
    assert covered(session) == ["s__z", "s__b", "s__a", "s__c"]
    assert (
        "2 scenario(s) did not run: s__gone (no metrics.json), s__cut (no metrics.json)"
        in (session / "all_summary.txt").read_text()
    )


async def test_a_session_of_the_reference_is_judged_though_files_are_missing(tmp_path: Path, judge_url: str) -> None:
    session = tmp_path / REFERENCE.name
    shutil.copytree(REFERENCE, session)
    before = {path: path.read_bytes() for path in session.rglob("*") if path.is_file()}
    done = await again(session, judge_url)
    names = ["domA__1", "domA__2", "domB__1", "domB__2", "simple"]
    assert sorted(done.judged) == names
    assert covered(session) == names
    rewritten = {"metrics.json", "judge_result.json", "all_metrics.json", "all_summary.txt", "all_latencies.csv"}
    changed = {path.relative_to(session) for path, old in before.items() if not path.exists() or path.read_bytes() != old}
    assert {path.name for path in changed} <= rewritten | {"evaluation_log.txt"}
    assert (session / "evaluation_log.txt").read_bytes().startswith(before[session / "evaluation_log.txt"])
    for name in names:
        assert kept(session, name) == [read_json(REFERENCE / name / "judge_result.json")]
    assert first_selection(session) is not None
    assert [classify(session, name, 2).state for name in names] == [classify(REFERENCE, name, 2).state for name in names]


async def test_the_key_is_written_nowhere(session: Path, judge_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    save(session, "s__a")
    save(session, "s__out", spoken=OUT_MARK)
    record(session, "s__a")
    monkeypatch.setenv("OTHER_KEY", KEY)
    await again(session, f"{judge_url}?key={KEY}", "--judge-url", f"{judge_url}?key={KEY}", judge_api_key_name="OTHER_KEY")
    await again(session, judge_url, "--judge-api-key", KEY, judge_api_key=KEY)
    for path in session.rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes(), path
    assert read_invocations(session)[-1]["parsed_args"]["judge_api_key"] == "<redacted>"


async def test_a_session_in_use_is_refused_and_left_alone(session: Path, judge_url: str) -> None:
    save(session, "s__a")
    lock = SessionLock(session, "2026-01-01T00:00:00")
    before = {path: path.read_bytes() for path in session.rglob("*") if path.is_file()}
    with pytest.raises(RejudgeError, match=r"is in use by process \d+ on .* since 2026-01-01T00:00:00"):
        await again(session, judge_url)
    assert {path: path.read_bytes() for path in session.rglob("*") if path.is_file()} == before
    lock.release()
    await again(session, judge_url)
    SessionLock(session, "now").release()


async def test_the_lock_is_let_go_when_it_fails(session: Path, judge_url: str) -> None:
    save(session, "s__good")
    with pytest.raises(RejudgeError, match="no scenario whose judge call failed"):
        await again(session, judge_url, only_failed=True)
    SessionLock(session, "now").release()


@pytest.mark.parametrize("options", [{"judge_url": ""}, {"judge_model": ""}])
async def test_without_a_judge_there_is_nothing_to_do(session: Path, options: dict[str, str]) -> None:
    save(session, "s__a")
    with pytest.raises(RejudgeError, match="there is no judge"):
        await rejudge(session, RunOptions(**options), [], only_failed=False, on_judged=lambda _: None)


async def test_a_folder_that_is_no_session_is_refused_and_nothing_is_written(tmp_path: Path, judge_url: str) -> None:
    (tmp_path / "photos").mkdir()
    for folder, why in ((tmp_path, "no scenario with a readable metrics.json"), (tmp_path / "nowhere", "is not a directory")):
        with pytest.raises(RejudgeError, match=why):
            await again(folder, judge_url)
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


@pytest.mark.parametrize("raw", [b"", b"[]", b"null", b'{"total_turns": NaN}', b'{"total_turns": null}'])
async def test_a_scenario_that_is_broken_does_not_hold_up_the_others(session: Path, judge_url: str, raw: bytes) -> None:
    save(session, "s__a")
    (save(session, "s__broken") / "metrics.json").write_bytes(raw)
    done = await again(session, judge_url)
    assert "s__a" in done.judged
    assert covered(session) == ["s__a"]
    assert result(session, "s__a")["score"] == 1.0
