"""A run that goes on: what is complete is loaded and left alone, what was cut off is kept aside and runs again, nothing is lost."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bot_farm import serving
from engine_run import Ran, run_engine, scenario
from hostile_bots import HostileBot, Stage
from judges import WatchedJudge

from voiceeval_engine.live import events
from voiceeval_engine.offload import Offload
from voiceeval_engine.run import ledger as ledger_module
from voiceeval_engine.run.ledger import Ledger
from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.run.resuming import ResumeError, find_session, prepare
from voiceeval_engine.run.runner import Runner
from voiceeval_engine.session import layout
from voiceeval_engine.session.files import read_json, write_json
from voiceeval_engine.session.invocations import Selection, first_selection
from voiceeval_engine.session.lock import SessionHeld
from voiceeval_engine.session.metrics import PENDING, PENDING_REASON
from voiceeval_engine.session.run_args import read_invocations

NAMES = ["s__c", "s__a", "s__b"]
AGGREGATES = ("all_metrics.json", "all_latencies.csv", "all_summary.txt")
WORKS = {"total_turns": 3, "token_usage": {"agent": {"n_calls": 3}}, "stop_reason": "[EXIT]"}
Pairs = list[tuple[HostileBot, HostileBot]]


async def _says_goodbye(stage: Stage) -> None:
    await stage.speak("Goodbye.")
    await stage.exit()


@pytest.fixture
def pairs() -> Iterator[Pairs]:
    made = [(HostileBot(_says_goodbye), HostileBot()) for _ in range(4)]
    with serving(*(bot for pair in made for bot in pair)):
        yield made


def run(output: Path, pairs: Pairs, names: list[str] | None = None, **options: Any) -> Ran:
    named = names or NAMES
    fields = {"success_signals": ("judge_passed", "clean_exit")}
    return run_engine(output, pairs, {name: scenario(name, **fields) for name in named}, named, **{"max_auto_retries": 0} | options)


def resume(ran: Ran, pairs: Pairs, names: list[str] | None = None, **options: Any) -> Ran:
    return run(ran.session.parent, pairs, names, resume=timestamp(ran.session), **options)


def timestamp(session: Path) -> str:
    return session.name.removeprefix("eval_")


def attempted(ran: Ran) -> list[str]:
    return sorted(event.scenario for event in ran.events if isinstance(event, events.AttemptStarted))


def aggregates(session: Path) -> list[bytes]:
    return [(session / name).read_bytes() for name in AGGREGATES]


def files(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


# -- states


def test_only_what_is_not_complete_runs_again(tmp_path: Path, pairs: Pairs) -> None:
    first = run(tmp_path, pairs)
    (first.session / "s__a" / "metrics.json").unlink()
    shutil.rmtree(first.session / "s__b")
    complete, cut = files(first.session / "s__c"), files(first.session / "s__a")
    again = resume(first, pairs)
    assert again.session == first.session
    assert again.complete
    assert attempted(again) == ["s__a", "s__b"]
    assert files(again.session / "s__c") == complete
    (killed,) = again.session.glob("*.killed.*")
    assert killed.name.startswith("s__a.killed.2")
    kept = files(killed)
    assert kept.pop("__KILLED__")[2] == b""
    assert kept == cut
    assert [each["scenario_name"] for each in read_json(again.session / "all_metrics.json")] == NAMES


def test_the_log_tells_what_was_skipped_moved_and_left_to_run(tmp_path: Path, pairs: Pairs) -> None:
    first = run(tmp_path, pairs)
    (first.session / "s__a" / "metrics.json").unlink()
    before = first.log
    again = resume(first, pairs)
    assert again.log.startswith(before)
    (killed,) = again.session.glob("*.killed.*")
    told = [line.split("]: ", 1)[1] for line in again.log[len(before) :].splitlines()]
    wanted = [
        f"=== RESUMING run {again.session.name} ===",
        f"Queued 3 scenario(s): {NAMES}",
        f"[CLEANUP] s__a: subdir was in-flight (no metrics.json or no turns completed); moved to {killed.name}/ and will re-run.",
        "[SKIP] s__c: already complete, loaded metrics.json from disk.",
        "[SKIP] s__b: already complete, loaded metrics.json from disk.",
        "1 scenario(s) to run, 2 already completed.",
    ]
    assert [line for line in told if line in wanted] == wanted
    assert "Starting Scenario 2/3: s__a" in told


def test_the_views_are_told_of_what_was_loaded_as_of_what_ran(tmp_path: Path, pairs: Pairs) -> None:
    first = run(tmp_path, pairs)
    again = resume(first, pairs)
    for name in NAMES:
        (ran,), (loaded,) = first.of(name, events.ScenarioScored), again.of(name, events.ScenarioScored)
        ignored = {"attempt", "seq", "time"}
        assert ran.model_dump(exclude=ignored) == loaded.model_dump(exclude=ignored)


@pytest.mark.parametrize("times", [1, 3])
def test_a_complete_run_runs_nothing_and_leaves_the_same_aggregates(tmp_path: Path, pairs: Pairs, times: int) -> None:
    ran = run(tmp_path, pairs)
    before, summary = aggregates(ran.session), (ran.session / "all_summary.txt").read_bytes()
    for _ in range(times):
        again = resume(ran, pairs)
        assert again.complete
        assert attempted(again) == []
        assert aggregates(again.session) == before
    kept = list(ran.session.glob("all_summary.*.txt"))
    assert len(kept) == times, "a summary is kept by another name and never overwritten"
    assert {file.read_bytes() for file in kept} == {summary}


def test_a_stall_runs_again_under_a_higher_floor_and_stands_under_none(tmp_path: Path, pairs: Pairs) -> None:
    first = run(tmp_path, pairs, min_agent_turns=2)
    assert first.metrics("s__a")["insufficient_agent_turns"] is True
    assert attempted(resume(first, pairs, min_agent_turns=2)) == sorted(NAMES)
    stands = resume(first, pairs, min_agent_turns=0)
    assert attempted(stands) == []
    (loaded,) = stands.of("s__a", events.ScenarioScored)
    assert (loaded.stalled, loaded.verdict) == (False, True)
    assert "insufficient_agent_turns" not in read_json(first.session / "all_metrics.json")[0]
    assert stands.metrics("s__a")["insufficient_agent_turns"] is True, "the file itself is left alone"


def test_a_session_that_moved_names_its_folders_anew_in_the_aggregates_only(tmp_path: Path, pairs: Pairs) -> None:
    ran = run(tmp_path / "old", pairs)
    (tmp_path / "new").mkdir()
    moved = ran.session.rename(tmp_path / "new" / ran.session.name)
    before = files(moved / "s__a")
    run(tmp_path / "new", pairs, resume=timestamp(moved))
    assert [each["scenario_directory"] for each in read_json(moved / "all_metrics.json")] == [str(moved / name) for name in NAMES]
    assert files(moved / "s__a") == before


# -- selection and record


def test_each_invocation_leaves_its_record(tmp_path: Path, pairs: Pairs) -> None:
    ran = run(tmp_path, pairs)
    resume(ran, pairs)
    resume(ran, pairs, ["s__a"])
    records = read_invocations(ran.session)
    assert [record.get("resumed_from_invocation") for record in records] == [None, 0, 1]
    assert [record["resolved_scenario_names"] for record in records] == [NAMES, NAMES, ["s__a"]]
    assert [record["parsed_args"]["resume"] for record in records] == [None, *[timestamp(ran.session)] * 2]
    assert first_selection(ran.session) == Selection(tuple(NAMES), (), None)


def test_a_smaller_selection_is_aggregated_alone_and_the_others_are_named(tmp_path: Path, pairs: Pairs) -> None:
    ran = run(tmp_path, pairs)
    again = resume(ran, pairs, ["s__a"])
    assert again.complete
    assert [each["scenario_name"] for each in read_json(ran.session / "all_metrics.json")] == ["s__a"]
    summary = (ran.session / "all_summary.txt").read_text()
    assert "Total Scenarios: 1\n" in summary
    assert "WARNING: 2 scenario(s) on disk are not in this run: s__b, s__c" in summary
    assert [(ran.session / name / "metrics.json").exists() for name in NAMES] == [True] * 3


def test_a_larger_selection_runs_what_is_new(tmp_path: Path, pairs: Pairs) -> None:
    ran = run(tmp_path, pairs)
    assert attempted(resume(ran, pairs, ["s__new", *NAMES])) == ["s__new"]
    assert [each["scenario_name"] for each in read_json(ran.session / "all_metrics.json")] == ["s__new", *NAMES]


def test_options_that_change_scores_are_told_and_block_nothing(tmp_path: Path, pairs: Pairs) -> None:
    ran = run(tmp_path, pairs)
    again = resume(ran, pairs, strict_match=True, inactivity_timeout=2.0, pause=0.1)
    assert again.complete
    assert "WARNING: --resume invocation differs from the original run on these scoring-relevant fields:" in again.log
    assert "  inactivity_timeout: original=2.5 resume=2.0" in again.log
    assert "  strict_match: original=False resume=True" in again.log
    assert "pause: original" not in again.log
    same = resume(ran, pairs, strict_match=True, inactivity_timeout=2.0)
    assert same.log.count("differs from the original run") == 1, "it is the latest record that counts"


def test_a_session_that_is_not_there_or_is_a_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResumeError, match=f"--resume 20260101_000000: directory not found at {tmp_path}/eval_20260101_000000"):
        find_session(tmp_path, "20260101_000000")
    (tmp_path / "eval_x" / "inner").mkdir(parents=True)
    for given in ("x/inner", "x/../x", "../eval_x"):
        with pytest.raises(ResumeError):
            find_session(tmp_path, given)


def test_two_engines_on_one_session_the_second_is_refused(tmp_path: Path, pairs: Pairs) -> None:
    ran = run(tmp_path, pairs)
    refused: list[str] = []

    def start_another(runner: Runner, event: events.Event) -> None:
        if isinstance(event, events.RunStarted):
            with pytest.raises(SessionHeld) as caught:
                Runner(RunOptions(output_dir=tmp_path, resume=timestamp(ran.session)), runner._scenarios, NAMES, [])
            refused.append(str(caught.value))

    before = len(read_invocations(ran.session))
    again = run_engine(tmp_path, pairs, {}, NAMES, watch=start_another, resume=timestamp(ran.session))
    assert again.complete
    assert len(refused) == 1
    assert f"is in use by process {os.getpid()} on " in refused[0]
    assert len(read_invocations(ran.session)) == before + 1


# -- verdicts that were out


@pytest.fixture
def judge_url() -> Iterator[str]:
    with WatchedJudge() as judge:
        yield judge.url


def _cut_off_while_judging(folder: Path) -> dict[str, Any]:
    """What a kill leaves while the verdict is out."""
    metrics: dict[str, Any] = read_json(folder / "metrics.json")
    write_json(folder / "judge_result.json", PENDING)
    pending = {**metrics, "judge_score": 0.0, "judge_passed": False, "is_successful": False}
    write_json(folder / "metrics.json", pending)
    return pending


def test_a_verdict_that_is_out_is_fetched_and_the_conversation_is_not_held_again(
    tmp_path: Path, pairs: Pairs, judge_url: str
) -> None:
    judge = {"judge_url": judge_url, "judge_threshold": 0.5}
    ran = run(tmp_path, pairs, **judge)
    whole, before = aggregates(ran.session), {name: files(ran.session / name) for name in NAMES}
    _cut_off_while_judging(ran.session / "s__a")
    again = resume(ran, pairs, **judge)
    assert attempted(again) == []
    assert again.complete
    assert [each.pending for each in again.of("s__a", events.ScenarioScored)] == [True, False]
    assert [each.pending for each in again.of("s__b", events.ScenarioScored)] == [False]
    assert aggregates(ran.session) == whole
    after = {name: files(ran.session / name) for name in NAMES}
    assert [name for name in NAMES if after[name] != before[name]] == ["s__a"]
    assert {file for file, found in after["s__a"].items() if found != before["s__a"][file]} == {"metrics.json", "judge_result.json"}
    assert all(after["s__a"][file][2] == found[2] for file, found in before["s__a"].items())


def test_without_a_judge_a_verdict_stays_out_and_counts_for_nothing(tmp_path: Path, pairs: Pairs, judge_url: str) -> None:
    ran = run(tmp_path, pairs, judge_url=judge_url)
    pending = _cut_off_while_judging(ran.session / "s__a")
    again = resume(ran, pairs)
    assert attempted(again) == []
    assert again.metrics("s__a") == pending
    assert read_json(ran.session / "s__a" / "judge_result.json")["reason"] == PENDING_REASON
    assert [each["scenario_name"] for each in read_json(ran.session / "all_metrics.json")] == ["s__c", "s__b"]


# -- sessions that are broken


def _content(raw: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.mkdir()
        (path / "metrics.json").write_bytes(raw)

    return make


BROKEN: dict[str, Callable[[Path], Any]] = {
    "0 bytes": _content(b""),
    "cut [off] 📞": _content(b'{"total_turns": 3, "turns": ['),
    "not UTF-8": _content(b'{"total_turns": 3, "stop_reason": "\xff"}'),
    "list": _content(b"[]"),
    "null": _content(b"null"),
    "NaN": _content(b'{"total_turns": NaN}'),
    "infinity": _content(b'{"total_turns": 3, "scenario_duration": 1e999}'),
    "null turns": _content(b'{"total_turns": null}'),
    "text turns": _content(b'{"total_turns": "3"}'),
    "few calls": _content(b'{"total_turns": 3, "token_usage": {"agent": {"n_calls": "0"}}}'),
    "a file": lambda path: path.write_text("x"),
    "a broken link": lambda path: path.symlink_to("nowhere"),
    "metrics is a folder": lambda path: (path / "metrics.json").mkdir(parents=True),
}
ODD: dict[str, bytes] = {
    "usage is a list": b'{"total_turns": 3, "token_usage": [1]}',
    "usage is null": b'{"total_turns": 3, "token_usage": null}',
    "quoted calls": b'{"total_turns": 3, "token_usage": {"agent": {"n_calls": "3"}}}',
    "deep": b'{"total_turns": 3, "trace_metrics": ' + b"[" * 900 + b"]" * 900 + b"}",
    "whatever": json.dumps({**WORKS, "success_breakdown": 3, "latency_stats": None, "stop_reason": ["\x1b[31m"], "turns": "x",
                            "insufficient_agent_turns": True, "scenario_name": None, "judge_score": 1}).encode(),
}  # fmt: skip


def test_a_broken_session_is_resumed(tmp_path: Path, pairs: Pairs) -> None:
    session = tmp_path / "eval_20260101_000000"
    session.mkdir()
    for name, make in BROKEN.items():
        make(session / name)
    for name, raw in ODD.items():
        _content(raw)(session / name)
        (session / name / "judge_result.json").write_bytes(b"[")
    for number in range(100):
        (session / f"0 bytes.killed.20260101_{number:06d}").mkdir()
    ran = run(tmp_path, pairs, [*BROKEN, *ODD], resume="20260101_000000")
    assert ran.complete
    assert attempted(ran) == sorted(BROKEN)
    results = read_json(session / "all_metrics.json")
    assert [each.get("scenario_name") for each in results] == [*BROKEN, *[None] * len(ODD)]
    moved = sorted(path.name.split(".killed.")[0] for path in session.glob("*.killed.2*") if "20260101_0" not in path.name)
    assert moved == sorted(BROKEN)
    assert len(list(session.glob("0 bytes.killed.*"))) == 101
    for path in session.rglob("metrics.json"):
        if path.parent.name in BROKEN:
            json.loads(path.read_bytes())


BAD_RECORDS = [
    b"", b'{"invocations": [', b"\xff", b"[]", b"null", b"3", b'{"invocations": NaN}', b'{"invocations": null}',
    b'{"invocations": [null, 3, "x", {}]}', b'{"invocations": [{"parsed_args": [], "resolved_scenario_names": {}}]}',
    b'{"invocations": [{"parsed_args": {"domain": ["x"], "scenarios": 3}, "resolved_scenario_names": [1, null]}]}',
    b'{"x": ' + b"[" * 900 + b"]" * 900 + b"}", b"[" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("raw", BAD_RECORDS, ids=lambda raw: repr(raw[:60]))
def test_a_record_that_is_broken_tells_nothing_and_stops_nothing(tmp_path: Path, pairs: Pairs, raw: bytes) -> None:
    session = tmp_path / "eval_20260101_000000"
    _content(json.dumps(WORKS).encode())(_made(session) / "s__a")
    (session / "run_args.json").write_bytes(raw)
    assert first_selection(session) is None
    ran = run_engine(tmp_path, pairs[:1], {}, ["s__a"], resume="20260101_000000")
    assert ran.complete
    assert read_invocations(session)[-1]["resolved_scenario_names"] == ["s__a"]


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_record_made_by_a_stranger_moves_nothing_outside_the_session(tmp_path: Path) -> None:
    session = _made(tmp_path / "eval_20260101_000000")
    outside = _made(tmp_path / "outside")
    names = ["../outside", str(outside), "..", ".", "", "s__a", "a/b", "nul\0", "\ud800", "x" * 256, "s__a.killed.1", "s__a", "s b"]
    names += [path.name for path in _own_files(session)]
    write_json(session / "run_args.json", {"invocations": [{"resolved_scenario_names": names, "parsed_args": {"domain": "s"}}]})
    found = first_selection(session)
    assert found == Selection(("s__a", "s b"), (), "s")
    prepare(session, found.names, 2, "20260102_000000", {})
    assert outside.is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["eval_20260101_000000", "outside"]


def _own_files(session: Path) -> list[Path]:
    """All that a run has in its session beside the scenarios' folders."""
    for name in (*AGGREGATES, "evaluation_log.txt", "events.jsonl", "session.lock", "engine.log"):
        (session / name).touch()
    return [session / "run_args.json", *(path for path in session.iterdir() if path.name != "run_args.json")]


def test_the_first_record_with_scenarios_is_the_selection(tmp_path: Path) -> None:
    write_json(
        tmp_path / "run_args.json",
        {"invocations": [
            {"user_url": "a legacy record"},
            {"resolved_scenario_names": [], "parsed_args": {"domain": "none"}},
            {"resolved_scenario_names": ["b", "a"], "parsed_args": {"domain": None, "scenarios": ["b", "a"]}},
            {"resolved_scenario_names": ["c"], "parsed_args": {"domain": "c"}},
        ]},
    )  # fmt: skip
    assert first_selection(tmp_path) == Selection(("b", "a"), ("b", "a"), None)


def _replaced(session: Path, tag: str, metrics: dict[str, Any]) -> None:
    _made(session / "s__a")
    write_json(session / "s__a" / "metrics.json", metrics)
    layout.move_aside(session / "s__a", tag)


def test_a_result_comes_back_where_the_engine_was_killed_before_the_attempt_by_hand_began(tmp_path: Path) -> None:
    """The latest of them, and as often as the engine is killed."""
    for turns, tag in ((4, "byhand3.20260101_000000"), (9, "byhand11.20260101_000000"), (3, "byhand2.20251231_000000")):
        _replaced(tmp_path, tag, WORKS | {"total_turns": turns})
    found = prepare(tmp_path, ["s__a", "s__b"], 2, "20260102_000000", {})
    assert [(event.scenario, event.turns) for event in found.loaded] == [("s__a", 9)]
    assert [name for name in found.warnings if "counts again" in name]
    assert not (tmp_path / "s__a" / "__KILLED__").exists()
    assert prepare(tmp_path, ["s__a", "s__b"], 2, "20260103_000000", {}).moved == ()


@pytest.mark.parametrize("why", ["the attempt had begun", "it is a stall under this floor", "it is no folder of the session"])
def test_a_result_that_was_replaced_stays_aside(tmp_path: Path, why: str) -> None:
    session, stall = _made(tmp_path / "eval_20260101_000000"), {"token_usage": {"agent": {"n_calls": 1}}}
    _replaced(session, "byhand2.20260101_000000", WORKS | (stall if why.startswith("it is a stall") else {}))
    (kept,) = session.glob("*.killed.byhand*")
    if why == "the attempt had begun":
        _content(b"talked")(session / "s__a")
    elif why == "it is no folder of the session":
        kept.symlink_to(kept.rename(tmp_path / "outside"))
    assert prepare(session, ["s__a"], 2, "20260102_000000", {}).loaded == ()
    assert (kept / "metrics.json").is_file()
    assert (kept / "__KILLED__").is_file()


def test_moves_and_summaries_within_one_second_are_all_kept(tmp_path: Path) -> None:
    for number in range(3):
        _content(b"")(tmp_path / "s__a")
        (tmp_path / "s__a" / "number").write_text(str(number))
        (tmp_path / "all_summary.txt").write_text(str(number))
        prepared = prepare(tmp_path, ["s__a"], 2, "20260101_000000", {})
        assert [name for name, _ in prepared.moved] == ["s__a"]
    assert sorted(file.read_text() for file in tmp_path.glob("s__a.killed.*/number")) == ["0", "1", "2"]
    assert sorted(file.read_text() for file in tmp_path.glob("all_summary.*.txt")) == ["0", "1", "2"]
    assert not (tmp_path / "all_summary.txt").exists()


# -- the aggregates


async def test_aggregates_of_a_moment_never_replace_those_of_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends while the aggregates are being written: what was begun is ended first."""
    began, go_on, order = threading.Event(), threading.Event(), []

    def slow(*_: Any, finished: bool) -> list[str]:
        if not finished:
            began.set()
            assert go_on.wait(30)
        order.append(finished)
        return []

    monkeypatch.setattr(ledger_module, "rewrite_aggregates", slow)
    monkeypatch.setattr(ledger_module, "AGGREGATE_SECONDS", 0.0)
    offload = Offload()
    ledger = Ledger(
        tmp_path, "x", ["s__a"], 2, offload=offload, emit=lambda _: None, log=logging.LoggerAdapter(logging.getLogger("t"), {})
    )
    try:
        aggregating = asyncio.create_task(ledger.keep_up_to_date(lambda error: None))
        ledger.did_not_run("s__a", 0, "a test")
        await asyncio.to_thread(began.wait, 30)
        aggregating.cancel()
        await asyncio.sleep(0)
        ending = asyncio.create_task(_end(ledger, aggregating))
        await asyncio.sleep(0)
        go_on.set()
        await ending
    finally:
        offload.close()
    assert order == [False, True]


async def _end(ledger: Ledger, aggregating: asyncio.Task[None]) -> None:
    await asyncio.gather(aggregating, return_exceptions=True)
    await ledger.write(finished=True)
