"""Verdicts beside the conversations: what stands on disk while one is out, when it comes, and when it never does."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from judges import WatchedJudge

from voiceeval_engine.bots.judge import OUT_MARK, judge_server
from voiceeval_engine.offload import INLINE_BYTES, Offload
from voiceeval_engine.run import judging
from voiceeval_engine.run.judging import Judged, JudgeDesk, JudgeRules, apply_verdict, has_verdict, open_desk, pending_score
from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.scoring.judge import Judge, JudgeSettings
from voiceeval_engine.scoring.judge_input import SYSTEM_PROMPT, InputOptions, read_user_content
from voiceeval_engine.scoring.rescore import JudgeScore, rescore
from voiceeval_engine.scoring.verdict import Verdict, failed_verdict, read_reply
from voiceeval_engine.session.aggregate import RunAggregate
from voiceeval_engine.session.files import UnreadableFile, read_json, write_json
from voiceeval_engine.session.metrics import PENDING_REASON, no_context

LOG = logging.LoggerAdapter(logging.getLogger("tests.judging"), {})
RULES = JudgeRules(threshold=0.5, min_agent_turns=2, inputs=InputOptions())
SIGNALS = ["is_action_match", "nl_assertion", "judge_passed", "clean_exit"]
ASSERTIONS = ['The agent says "welcome".', 'The agent says "goodbye".']
ACTION = {"side": "agent", "name": "order", "arguments": {"drink": "tea"}}
CONTEXT = [
    {"role": "system", "content": "Serve."},
    {"role": "assistant", "content": "Welcome!"},
    {"role": "assistant", "content": "Goodbye."},
]
CONVERSED = {
    "total_turns": 2,
    "duration_seconds": 9.5,
    "turns": [{"timestamp": "t", "role": "agent", "text": "Welcome!"}, {"timestamp": "t", "role": "agent", "text": "Goodbye."}],
    "latencies": [],
    "scenario_duration": 10.0,
    "stop_reason": "[EXIT]",
    "clean_exit": True,
    "is_action_match": True,
    "token_usage": {"agent": {"n_calls": 2, "prompt": 1, "completion": 1}, "user": {"n_calls": 0, "prompt": 0, "completion": 0}},
    "auto_retry_count": 0,
}  # fmt: skip
GOOD = read_reply(
    '{"score": 1, "reason": "r", "nl_assertion_verdicts": [{"index": 1, "passed": true}, {"index": 2, "passed": true}]}', ASSERTIONS
)


def saved(
    folder: Path,
    *,
    prediction: Any = ACTION,
    context: Any = CONTEXT,
    assertions: list[str] = ASSERTIONS,
    threshold: float | None = 0.5,
) -> Path:
    """A scenario whose evidence is complete and whose verdict is out."""
    for name in ("scenario_config", "bot_logs_agent", "bot_logs_user"):
        (folder / name).mkdir(parents=True)
    write_json(folder / "scenario_config" / "metadata.json", {"success_signals": SIGNALS, "nl_assertions": assertions})
    write_json(folder / "scenario_config" / "reference_answer.json", {"actions": [ACTION]})
    write_json(folder / "final_agent_response.json", [{"actions": [prediction]}])
    write_json(folder / "bot_logs_agent" / "llm_context.json", context)
    write_json(folder / "bot_logs_user" / "llm_context.json", [])
    pending = rescore(CONVERSED, SIGNALS, pending_score(threshold, len(assertions)), min_agent_turns=2, context_loader=no_context)
    write_json(folder / "judge_result.json", {"score": 0.0, "reason": PENDING_REASON})
    write_json(folder / "metrics.json", pending)
    return folder


def on_disk(folder: Path) -> tuple[Any, Any]:
    return read_json(folder / "metrics.json"), read_json(folder / "judge_result.json")


def is_pending(folder: Path) -> bool:
    aggregate = RunAggregate()
    aggregate.add("x", *on_disk(folder))
    return aggregate.report().pending == ("x",)


@pytest.fixture
def offload() -> Iterator[Offload]:
    made = Offload()
    yield made
    made.close()


@pytest.fixture
def embedded() -> Iterator[str]:
    """The embedded judge on a real port."""
    with WatchedJudge() as judge:
        yield judge.url


class Desk:
    """A desk over an endpoint that a test holds back or lets answer."""

    def __init__(self, offload: Offload, rules: JudgeRules = RULES, content: str | None = None) -> None:
        self.asked, self.answering = asyncio.Event(), asyncio.Event()
        self.judged: list[Judged] = []
        self.content = content or '{"score": 1, "reason": "r"}'
        transport = httpx.MockTransport(self._answer)
        self.judge = Judge(
            JudgeSettings("http://judge.test/", "m"), SYSTEM_PROMPT, offload, LOG, backoff=(0, 0, 0), transport=transport
        )
        self.desk = JudgeDesk(self.judge, rules, offload, LOG, self.judged.append)

    async def _answer(self, _: httpx.Request) -> httpx.Response:
        self.asked.set()
        await self.answering.wait()
        return httpx.Response(200, json={"choices": [{"message": {"content": self.content}}]})


# -- while a verdict is out


@pytest.mark.parametrize(
    ("threshold", "assertions", "expected"),
    [(0.5, 2, JudgeScore(0.0, False, 0.0)), (None, 2, JudgeScore(0.0, None, 0.0)), (0.0, 0, JudgeScore(0.0, False, None))],
)
def test_a_verdict_that_is_out_counts_as_a_failed_one(threshold: float | None, assertions: int, expected: JudgeScore) -> None:
    assert pending_score(threshold, assertions) == expected


def test_a_scenario_whose_verdict_is_out_is_pending_and_fails_for_other_tools(tmp_path: Path) -> None:
    folder = saved(tmp_path / "s")
    assert is_pending(folder)
    assert not has_verdict(folder)
    assert on_disk(folder)[0]["is_successful"] is False


# -- when it comes


@pytest.mark.parametrize("verdict", [GOOD, failed_verdict("down", ASSERTIONS)])
def test_a_verdict_replaces_both_files(tmp_path: Path, verdict: Verdict) -> None:
    folder = saved(tmp_path / "s")
    metrics, _ = apply_verdict(folder, verdict, "the sections", RULES)
    assert on_disk(folder)[0] == metrics
    assert not is_pending(folder)
    assert metrics["judge_score"] == on_disk(folder)[1]["score"] == verdict.score
    assert metrics["is_successful"] is not verdict.failed
    assert metrics["nl_assertion_pass_rate"] == on_disk(folder)[1]["nl_assertion_pass_rate"]
    assert on_disk(folder)[1]["judge_input"] == {"system_prompt": SYSTEM_PROMPT, "user_content": "the sections"}


def test_a_verdict_changes_nothing_that_the_conversation_gave(tmp_path: Path) -> None:
    folder = saved(tmp_path / "s")
    before = {path: path.read_bytes() for path in folder.rglob("*.json")}
    metrics, _ = apply_verdict(folder, GOOD, "c", RULES)
    assert {key: metrics[key] for key in CONVERSED} == CONVERSED
    assert {path.name for path, data in before.items() if path.read_bytes() != data} == {"metrics.json", "judge_result.json"}


@pytest.mark.parametrize("broken", ["metrics.json", "judge_result.json"])
def test_a_write_that_fails_or_a_crash_there_leaves_the_verdict_pending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    folder = saved(tmp_path / "s")

    def write(path: Path, value: Any) -> None:
        if path.name == broken:
            raise OSError("no space left")
        write_json(path, value)

    monkeypatch.setattr(judging, "write_json", write)
    with pytest.raises(OSError, match="no space"):
        apply_verdict(folder, GOOD, "c", RULES)
    assert is_pending(folder)
    monkeypatch.undo()
    apply_verdict(folder, GOOD, "c", RULES)
    assert not is_pending(folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [("metrics.json", "[]"), ("metrics.json", "{"), ("metrics.json", None), ("scenario_config/metadata.json", "[]"),
     ("scenario_config/metadata.json", "{}"), ("scenario_config/metadata.json", '{"success_signals": 5}'),
     ("scenario_config/metadata.json", '{"success_signals": "clean_exit"}'), ("scenario_config/metadata.json", None)],
)  # fmt: skip
def test_a_bad_file_is_named_and_leaves_the_verdict_pending(tmp_path: Path, name: str, content: str | None) -> None:
    folder = saved(tmp_path / "s")
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content)
    with pytest.raises(UnreadableFile) as error:
        apply_verdict(folder, GOOD, "c", RULES)
    assert error.value.path == folder / name
    assert read_json(folder / "judge_result.json")["reason"] == PENDING_REASON


@pytest.mark.parametrize("good_verdict", [GOOD, replace(GOOD, score=0.0)])
def test_a_failed_call_takes_the_place_of_a_verdict_unless_good_ones_are_kept(tmp_path: Path, good_verdict: Verdict) -> None:
    folder, down = saved(tmp_path / "s"), failed_verdict("down", ASSERTIONS)
    apply_verdict(folder, good_verdict, "c", RULES)
    good = on_disk(folder)
    keep = JudgeRules(0.5, 2, InputOptions(), keep_good=True)
    assert apply_verdict(folder, down, "c", keep) == (good[0], True)
    assert on_disk(folder) == good
    assert has_verdict(folder)
    metrics, kept = apply_verdict(folder, down, "c", RULES)
    assert (metrics["judge_score"], kept) == (0.0, False)
    assert not has_verdict(folder)


# -- the desk


async def test_handing_in_returns_at_once_and_draining_waits(tmp_path: Path, offload: Offload) -> None:
    it, folders = Desk(offload), [saved(tmp_path / name) for name in "abc"]
    async with it.judge:
        for folder in folders:
            it.desk.hand_in(folder.name, folder)
        assert it.judged == []
        await it.asked.wait()
        drained = asyncio.create_task(it.desk.drain())
        await asyncio.sleep(0)
        assert not drained.done()
        assert all(is_pending(folder) for folder in folders)
        it.answering.set()
        await drained
    assert sorted(each.name for each in it.judged) == ["a", "b", "c"]
    assert not any(is_pending(folder) for folder in folders)
    assert all(each.metrics == on_disk(tmp_path / each.name)[0] for each in it.judged)


async def test_draining_waits_for_what_is_handed_in_meanwhile(tmp_path: Path, offload: Offload) -> None:
    it, first, second = Desk(offload), saved(tmp_path / "first"), saved(tmp_path / "second")
    it.answering.set()

    def note(judged: Judged) -> None:
        it.judged.append(judged)
        if judged.name == "first":
            it.desk.hand_in("second", second)

    it.desk = JudgeDesk(it.judge, RULES, offload, LOG, note)
    async with it.judge:
        it.desk.hand_in("first", first)
        await it.desk.drain()
    assert [each.name for each in it.judged] == ["first", "second"]


async def test_draining_an_empty_desk_is_done_at_once(offload: Offload) -> None:
    it = Desk(offload)
    async with it.judge:
        await it.desk.drain()
        await it.desk.abandon()


async def test_abandoning_leaves_verdicts_pending_and_no_task(tmp_path: Path, offload: Offload) -> None:
    it, folders = Desk(offload), [saved(tmp_path / str(number)) for number in range(9)]
    async with it.judge:
        for folder in folders:
            it.desk.hand_in(folder.name, folder)
        await it.asked.wait()
        await it.desk.abandon()
        assert [task for task in asyncio.all_tasks() if task.get_name().startswith("judge ")] == []
        await it.desk.drain()
    assert all(is_pending(folder) for folder in folders)
    assert it.judged == []


async def test_of_many_that_are_handed_in_at_once_few_are_in_memory(
    tmp_path: Path, offload: Offload, monkeypatch: pytest.MonkeyPatch
) -> None:
    it, read = Desk(offload), list[Path]()

    def reading(folder: Path, options: InputOptions) -> tuple[str | None, tuple[str, ...]]:
        read.append(folder)
        return read_user_content(folder, options)

    monkeypatch.setattr(judging, "read_user_content", reading)
    async with it.judge:
        for number in range(30):
            it.desk.hand_in(str(number), saved(tmp_path / str(number)))
        await it.asked.wait()
        for _ in range(50):  # whatever else were to be read has been read then
            await offload.run(0, int)
        assert 4 <= len(read) <= 8
        it.answering.set()
        await it.desk.drain()
    assert len(it.judged) == 30


async def test_while_the_disk_is_full_no_more_verdicts_are_asked_for_than_are_kept_in_memory(
    tmp_path: Path, offload: Offload, monkeypatch: pytest.MonkeyPatch
) -> None:
    it, asked, room, write = Desk(offload), list[str | None](), asyncio.Event(), judging.apply_verdict

    async def wait_for_room(error: OSError) -> None:
        await room.wait()

    async def ask(content: str | None, assertions: Any) -> Verdict:
        asked.append(content)
        return GOOD

    def refused(*given: Any) -> tuple[dict[str, Any], bool]:
        if not room.is_set():
            raise OSError(errno.ENOSPC, "full")
        return write(*given)

    monkeypatch.setattr(judging, "apply_verdict", refused)
    monkeypatch.setattr(it.desk, "_wait_for_room", wait_for_room)
    monkeypatch.setattr(it.judge, "ask", ask)
    async with it.judge:
        for number in range(30):
            it.desk.hand_in(str(number), saved(tmp_path / str(number)))
        for _ in range(100):  # whatever else were to be asked about has been then
            await offload.run(0, int)
        assert 1 <= len(asked) <= 8
        room.set()
        await it.desk.drain()
    assert len(it.judged) == 30


async def test_a_verdict_that_cannot_be_written_stays_pending_and_is_told(
    tmp_path: Path, offload: Offload, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    it, folder = Desk(offload), saved(tmp_path / "s")
    it.answering.set()

    def write(path: Path, value: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(judging, "write_json", write)
    async with it.judge:
        it.desk.hand_in("s", folder)
        await it.desk.drain()
    assert is_pending(folder)
    assert it.judged == []
    assert "s: its verdict cannot be written and stays pending" in caplog.text


@pytest.mark.parametrize("content", ["{", "[]", '{"judge": ' + "[" * 900 + "]" * 900 + "}"])
async def test_a_scenario_whose_files_are_bad_does_not_hold_up_the_others(
    tmp_path: Path, offload: Offload, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    it, bad, good = Desk(offload), saved(tmp_path / "bad"), saved(tmp_path / "good")
    (bad / "metrics.json").write_text(content)
    it.answering.set()
    async with it.judge:
        for folder in (bad, good):
            it.desk.hand_in(folder.name, folder)
        await it.desk.drain()
    assert "good" in [each.name for each in it.judged]
    assert len(it.judged) + caplog.text.count("stays pending") == 2


async def test_a_fault_in_what_listens_is_told_and_not_swallowed(
    tmp_path: Path, offload: Offload, caplog: pytest.LogCaptureFixture
) -> None:
    it, folder = Desk(offload), saved(tmp_path / "s")
    it.answering.set()

    def listener(_: Judged) -> None:
        raise RuntimeError("the listener broke")

    it.desk = JudgeDesk(it.judge, RULES, offload, LOG, listener)
    async with it.judge:
        it.desk.hand_in("s", folder)
        await it.desk.drain()
    assert "the listener broke" in caplog.text


async def test_large_evidence_is_judged_in_the_worker_process(tmp_path: Path, offload: Offload) -> None:
    context = [*CONTEXT, {"role": "user", "content": "x" * (INLINE_BYTES + 1)}]
    it, folder = Desk(offload, content="no verdict"), saved(tmp_path / "s", context=context)
    it.answering.set()
    async with it.judge:
        it.desk.hand_in("s", folder)
        await it.desk.drain()
    assert it.judged[0].verdict.failed
    assert len(on_disk(folder)[1]["judge_input"]["user_content"]) > INLINE_BYTES
    assert on_disk(folder)[1]["raw_response"] == "no verdict"


# -- against the embedded judge


Judging = Callable[..., Any]


@pytest.fixture
def judge_all(embedded: str, offload: Offload) -> Judging:
    async def run(*folders: Path, **options: Any) -> dict[str, Judged]:
        judged: list[Judged] = []
        made = RunOptions(**{"judge_url": embedded, "judge_threshold": 0.5} | options)
        async with open_desk(made, None, 2, offload, LOG, judged.append) as desk:
            assert desk is not None
            for folder in folders:
                desk.hand_in(folder.name, folder)
            await desk.drain()
        return {each.name: each for each in judged}

    return run


async def test_the_embedded_judge_passes_fails_and_decides_assertions(tmp_path: Path, judge_all: Judging) -> None:
    right = saved(tmp_path / "right")
    wrong = saved(tmp_path / "wrong", prediction={**ACTION, "arguments": {"drink": "milk"}})
    quiet = saved(tmp_path / "quiet", context=[{"role": "assistant", "content": "Welcome!"}, *CONTEXT[:1]])
    judged = await judge_all(right, wrong, quiet)
    assert {name: each.metrics["is_successful"] for name, each in judged.items()} == {"right": True, "wrong": False, "quiet": False}
    assert judged["wrong"].metrics["success_breakdown"]["failed"] == ["judge_passed"]
    assert judged["quiet"].metrics["success_breakdown"]["failed"] == ["nl_assertion"]
    assert judged["quiet"].metrics["nl_assertion_pass_rate"] == 0.5
    assert [each["passed"] for each in on_disk(quiet)[1]["nl_assertion_verdicts"]] == [True, False]


async def test_a_judge_that_is_out_costs_its_scenario_and_no_other(
    tmp_path: Path, judge_all: Judging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "Judge", partial(Judge, backoff=(0, 0, 0)))
    out = saved(tmp_path / "out", context=[*CONTEXT, {"role": "user", "content": OUT_MARK}])
    judged = await judge_all(out, saved(tmp_path / "in"))
    assert (judged["out"].verdict.failed, judged["in"].verdict.failed) == (True, False)
    assert "HTTP 503" in on_disk(out)[1]["reason"]
    aggregate = RunAggregate()
    aggregate.add("out", *on_disk(out))
    assert aggregate.report().judge_failed == ("out",)


async def test_the_options_reach_the_judges_input(tmp_path: Path, judge_all: Judging) -> None:
    plain, spoken = saved(tmp_path / "plain"), saved(tmp_path / "spoken")
    await judge_all(plain)
    await judge_all(spoken, judge_include_conversation=True, judge_compact_context=True, judge_context_string_limit=3)
    contents = [on_disk(folder)[1]["judge_input"]["user_content"] for folder in (plain, spoken)]
    assert ["<conversation>" in content for content in contents] == [False, True]
    assert ["truncated 5 chars" in content for content in contents] == [False, True]


async def test_a_judge_that_cannot_be_reached_is_a_loud_warning_at_the_start(
    offload: Offload, caplog: pytest.LogCaptureFixture
) -> None:
    server = judge_server()
    server.server_close()
    options = RunOptions(judge_url=f"http://127.0.0.1:{server.server_port}/")
    async with open_desk(options, None, 2, offload, LOG, lambda _: None):
        assert "CANNOT BE REACHED" in caplog.text


@pytest.mark.parametrize("options", [{"judge_url": ""}, {"judge_model": ""}])
async def test_without_url_or_model_there_is_no_judge(offload: Offload, options: dict[str, str]) -> None:
    async with open_desk(RunOptions(**options), None, 2, offload, LOG, lambda _: None) as desk:
        assert desk is None


async def test_leaving_the_desk_abandons_what_is_out(tmp_path: Path, embedded: str, offload: Offload) -> None:
    folder = saved(tmp_path / "s")
    async with open_desk(RunOptions(judge_url=embedded), None, 2, offload, LOG, lambda _: None) as desk:
        assert desk is not None
        desk.hand_in("s", folder)
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("judge ")] == []
    assert is_pending(folder)
    json.loads((folder / "metrics.json").read_text())
