"""The details pane in the console: at every size, for every kind of scenario, with texts that would harm a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hostile_text import HOSTILE
from pilots import SIZES, console, lines, screen, settle, text
from rich.cells import cell_len
from sessions import START, all_kinds, attempt, scored, started, write_session
from textual.pilot import Pilot

from voiceeval_engine.live import events
from voiceeval_tui import details as details_module
from voiceeval_tui.view import View
from voiceeval_tui.widgets.details import DetailsPane
from voiceeval_tui.widgets.queue import QueuePane

NAMES = [f"retail__{number}" for number in range(36, 46)]
REFERENCE = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"
FULL: dict[str, Any] = {
    "total_turns": 5, "duration_seconds": 61.0, "scenario_duration": 75.5, "stop_reason": "[EXIT]",
    "conversation_end_reason": "agent_end_conversation_tool", "conversation_end_policy": "tool-only",
    "end_conversation_tool_called": True, "simulator_end_reported": False, "last_speaker": "agent",
    "latency_stats": {"count": 2, "mean_ms": 700.0, "p50_ms": 812.4, "p95_ms": 1904.0, "min_ms": 590.0, "max_ms": 1904.0},
    "judge_score": 0.75, "judge_passed": False, "token_usage": {"agent": {"n_calls": 6, "prompt": 12345, "completion": 67}},
    "db_state_expected_hash": "e" * 64, "db_state_match": False, "db_state_actual_hash": "a" * 64,
    "db_state_assertion_verdicts": [{"func_name": "paid", "side": "agent", "passed": False, "expected": True, "actual": False}],
    "success_breakdown": {"passed": ["clean_exit"], "failed": ["db_state_match"], "not_applicable": ["is_action_match"],
                          "excluded": ["judge_passed"]},
    "auto_retry_count": 1, "auto_retry_reasons": ["0 conversation turns (bots never exchanged audio)"],
    "is_successful": False, "is_task_successful": False,
}  # fmt: skip
VERDICT = {
    "score": 0.75,
    "reason": "The agent was polite.\nIt forgot the milk.",
    "nl_assertion_verdicts": [{"index": 1, "assertion": "Greets the guest.", "passed": True, "reason": "It did."}],
}


def _save(session: Path, name: str, metrics: Any = FULL, verdict: Any = VERDICT) -> None:
    folder = session / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (folder / "judge_result.json").write_text(json.dumps(verdict))


@pytest.fixture
def session(tmp_path: Path) -> Path:
    session = write_session(tmp_path / "eval_20260618_072325", all_kinds(NAMES))
    (session / "run_args.json").write_text(
        json.dumps({"invocations": [{"parsed_args": {"judge_threshold": 0.9, "min_agent_turns": 2}}]})
    )
    _save(session, "retail__37")
    return session


async def _open(pilot: Pilot[None], name: str) -> DetailsPane:
    pilot.app.query_one(QueuePane).choose(name)
    await settle(pilot)
    screen(pilot).stage = "details"
    screen(pilot).place_panes()
    pane = pilot.app.query_one(DetailsPane)
    pane.focus()
    await settle(pilot)
    return pane


def _text(pane: DetailsPane, width: int = 200) -> str:
    return "\n".join("".join(text for text, _ in row) for row in pane.rows(pane.view, width))


async def test_all_of_a_scenario_is_told(session: Path) -> None:
    async with console(session, (200, 50)) as pilot:
        told = _text(await _open(pilot, "retail__37"))
    for words in (
        "✗ failed", "[EXIT]", "agent_end_conversation_tool", "tool-only", "agent called the end tool; user did not report the end",
        "1m01s of talk, 1m16s with set-up and scoring", "6 of the agent, at least 2 wanted",
        "mean 700ms, p50 812ms, p95 1.9s, min 590ms, max 1.9s, n 2", "✗ db_state_match: fail", "- is_action_match: not applicable",
        "✗ judge_passed: fail, not part of the verdict", "✓ clean_exit: pass", "0.75, 0.9 needed  fail", "The agent was polite.",
        "It forgot the milk.", "assertions  1/1", "✓ Greets the guest.", "It did.", "database assertions  0/1", "✗ agent: paid",
        "expected true, found false", "e" * 64, "a" * 64, "they do not match",
        "6 calls, prompt 12,345, completion 67, total 12,412", "0 conversation turns (bots never exchanged audio)", "metrics.json",
        str(session / "retail__37"),
    ):  # fmt: skip
        assert words in told, words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("retail__36", ["passed", "metrics.json: no such file"]),
        ("retail__38", ["! interrupted", "discarded 1", "0 conversation turns"]),
        ("retail__39", ["stalled"]),
        ("retail__40", ["not run", "connection refused"]),
        ("retail__41", ["! interrupted", "since", "turns        2"]),
        ("retail__42", ["queued", "none yet", "nothing in it yet"]),
    ],
)
async def test_every_kind_of_scenario_is_told_from_what_is_known(session: Path, name: str, words: list[str]) -> None:
    async with console(session, (120, 40)) as pilot:
        told = _text(await _open(pilot, name))
        assert all(word in told for word in words), told
        assert all(word in text(pilot) for word in words[:1])


@pytest.mark.parametrize("size", SIZES)
async def test_a_session_of_files_is_told_at_every_size(size: tuple[int, int]) -> None:
    async with console(REFERENCE, size) as pilot:
        pane = await _open(pilot, "domB__1")
        assert "✗ failed" in text(pilot)
        assert "No user DB available" in _text(pane)
        assert all(cell_len(line) == size[0] for line in lines(pilot))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("bad", [*HOSTILE, "[/INST]"])
async def test_hostile_texts_stay_in_their_columns(tmp_path: Path, size: tuple[int, int], bad: str) -> None:
    reason = bad.encode("utf-8", "replace").decode()[:4000]
    session = write_session(
        tmp_path / "s",
        [
            started(["a"]),
            *attempt("a"),
            events.AttemptDiscarded(scenario="a", attempt=1, reason=reason),
            *attempt("a", 2),
            scored("a", 2),
        ],
    )
    record = {"func_name": bad, "side": bad, "message": bad, "error": bad, "passed": False}
    metrics = {
        **FULL,
        "stop_reason": bad,
        "auto_retry_reasons": [bad],
        "db_state_assertion_verdicts": [record],
        "db_state_actual_hash": bad,
    }
    _save(session, "a", metrics, {"reason": bad, "nl_assertion_verdicts": [{"assertion": bad, "reason": bad}]})
    async with console(session, size) as pilot:
        pane = await _open(pilot, "a")
        for _ in range(4):
            shown = lines(pilot)
            assert all(cell_len(line) == size[0] for line in shown)
            assert not any(ord(each) < 32 or 0x7F <= ord(each) < 0xA0 or each in "\u202e\u2066" for line in shown for each in line)
            assert "details" in "".join(shown)
            await pilot.press("pagedown")
            await settle(pilot)
        assert not any(line.by_console for line in screen(pilot).view.log)
        if bad.startswith("["):
            assert bad.split()[0] in _text(pane)


async def test_a_new_verdict_is_read(session: Path) -> None:
    async with console(session, (200, 50)) as pilot:
        pane = await _open(pilot, "retail__37")
        _save(session, "retail__37", FULL, {"score": 1.0, "reason": "On second thoughts."})
        write_session(session, [scored("retail__37")])
        await settle(pilot)
        assert "On second thoughts." in _text(pane)
        assert "✓ passed" in text(pilot)


async def test_another_scenario_begins_at_its_top(session: Path) -> None:
    async with console(session, (80, 24)) as pilot:
        pane = await _open(pilot, "retail__37")
        await pilot.press("end")
        assert pane.scroll_offset.y > 0
        await pilot.press("n")
        await settle(pilot)
        assert pane.scroll_offset.y == 0


async def test_files_are_read_only_where_the_pane_shows(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def reading(session: Path, name: str) -> details_module.Details:
        read.append(name)
        return details_module.Details(name, session)

    monkeypatch.setattr("voiceeval_tui.screens.run.read_details", reading)
    async with console(session, (80, 24)) as pilot:
        queue = pilot.app.query_one(QueuePane)
        screen(pilot).stage = "log"
        screen(pilot).place_panes()
        await settle(pilot)
        read.clear()
        queue.choose("retail__37")
        await settle(pilot)
        assert read == []
        await _open(pilot, "retail__37")
        await settle(pilot)
        assert read == ["retail__37"]


def test_before_a_run_there_is_a_word() -> None:
    assert _text(DetailsPane()) == "no scenario yet"


def test_files_of_another_scenario_are_not_taken_for_the_shown_ones() -> None:
    view = View()
    view.apply_all([started(["a", "b"]), *attempt("a", time=START)])
    view.select("b")
    assert view.put_details(details_module.Details("a", Path("/s/a"))) == frozenset()
    assert view.details() is None
    assert view.put_details(details_module.Details("b", Path("/s/b"))) == {"details"}
    assert view.details() is not None


@pytest.mark.parametrize("width", range(1, 60))
def test_rows_fit_their_width_and_none_is_too_small(width: int) -> None:
    view = View()
    view.apply_all([started(["domB__1"]), *attempt("domB__1"), scored("domB__1", verdict=False)])
    view.put_details(details_module.read_details(REFERENCE, "domB__1"))
    rows = DetailsPane().rows(view, width)
    assert len(rows) > 30
    texts = ["".join(text for text, _ in row) for row in rows]
    assert all(cell_len(text) <= max(width, len("database assertions  1/2")) for text in texts)
