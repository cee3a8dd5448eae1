"""The resume preview: what it tells at every size, what speaks against a start, what is started."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hostile_text import HOSTILE
from outputs import metrics, put_record, put_result, put_session
from screens import assert_straight, home, lines, settle, text, until

from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.session import layout
from voiceeval_engine.session.lock import SessionLock
from voiceeval_tui import preflight as preflight_module
from voiceeval_tui.app import ConsoleApp
from voiceeval_tui.screens import resume as resume_screen
from voiceeval_tui.screens.dialog import Ask, AskText
from voiceeval_tui.screens.resume import ResumeScreen
from voiceeval_tui.screens.run import RunScreen
from voiceeval_tui.source import open_source
from voiceeval_tui.starting import Checked, Finding, StartError

SIZES = [(50, 15), (80, 24), (200, 50)]
NAMES = [f"retail__{number}" for number in range(36, 42)]
AGENT, JUDGE = Finding("agent", "ws://a", True, "answers"), Finding("judge", "http://localhost/j", True, "gave a verdict")
GOOD = Checked((AGENT, Finding("user", "ws://u", True, "answers"), JUDGE), False)
BAD = Checked((AGENT, Finding("user", "ws://u", False, "refused", "start it"), Finding("judge", "http://j", False, "no")), True)


class Engines:
    """Stands in for processes: what a check finds, and what was started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, checked: Checked | StartError = GOOD) -> None:
        self.started: list[tuple[RunOptions, list[str], str | None]] = []
        self.asked: list[str | None] = []
        self.checked = checked
        self.refusal: StartError | None = None
        monkeypatch.setattr(preflight_module, "check", self._check)
        monkeypatch.setattr(resume_screen, "start_engine", self._start)

    def _check(self, options: RunOptions, key: str | None = None, *, bots: bool = True) -> Checked:
        if bots:
            self.asked.append(key)
        if isinstance(self.checked, StartError):
            raise self.checked
        return self.checked if bots else replace(self.checked, findings=())

    def _start(self, options: RunOptions, argv: list[str], key: str | None = None) -> Path:
        if self.refusal is not None:
            raise self.refusal
        self.started.append((options, argv, key))
        return options.output_dir / f"eval_{options.resume}"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    found = put_session(tmp_path, 60, NAMES, 3, min_agent_turns=2, domain="retail")
    put_result(found, NAMES[3], metrics(responses=1, auto_retry_count=1))
    (found / NAMES[4] / layout.SCENARIO_CONFIG).mkdir(parents=True)
    return found


async def opened(pilot: Any, told: str | Callable[[], bool] = "answers") -> None:
    await until(pilot, lambda: "1 session" in text(pilot))
    await pilot.press("r")
    await until(pilot, (lambda: told in text(pilot)) if isinstance(told, str) else told)


@pytest.mark.parametrize("size", SIZES)
async def test_it_tells_all_there_is_to_know(session: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    Engines(monkeypatch, BAD)
    put_record(session, NAMES[:1], scenarios=(NAMES[0],))
    put_result(session, "other__1")
    async with home(session.parent, size) as pilot:
        await opened(pilot, "refused")
        assert_straight(pilot)
        assert "3 completed  2 re-run  1 fresh" in lines(pilot)[0]
        if size[0] >= 80:
            shown = text(pilot)
            assert "1 agent LLM response(s) < 2" in shown
            assert "no metrics.json (in-flight)" in shown
            assert "no subdir" in shown
            assert "differs" in shown
            assert "domain: original=None resume='retail'" in shown
            assert "other__1" in shown
            assert "agent ws://a: answers" in shown
            assert "already auto-retried 1x in-run" in shown  # at 80 columns below the list, where the chosen row's stands whole
        if size[0] >= 200:
            assert "done    retail__36" in shown
            assert "judge http://j: no" in shown


async def test_enter_starts_and_shows_the_session(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = Engines(monkeypatch)
    async with home(session.parent) as pilot:
        await opened(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        assert session.name in lines(pilot)[0]
    ((options, argv, key),) = engines.started
    assert (options.resume, options.output_dir, options.scenarios, options.domain) == ("20260618_000100", session.parent, (), None)
    assert argv == options.to_argv()
    assert key is None


async def test_a_demo_asks_no_bots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = Engines(monkeypatch)
    put_session(tmp_path, 60, NAMES, 1, demo=True)
    async with home(tmp_path) as pilot:
        await opened(pilot, "brings its own")
        await pilot.press("enter")
        await until(pilot, lambda: bool(engines.started))
    assert engines.started[0][0].demo
    assert engines.asked == []


async def test_the_floor_can_be_changed_and_the_preview_follows(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = Engines(monkeypatch)
    async with home(session.parent) as pilot:
        await opened(pilot)
        for typed, told in (("0", "4 completed  1 re-run"), ("7", "0 completed  5 re-run"), ("1", "4 completed  1 re-run")):
            await pilot.press("f")
            await settle(pilot)
            assert isinstance(pilot.app.screen, AskText)
            await pilot.press("backspace", typed, "enter")
            await until(pilot, lambda told=told: told in lines(pilot)[0])  # type: ignore[misc]
        for typed in ("-1", "x", ""):
            await pilot.press("f")
            await settle(pilot)
            await pilot.press("backspace", *typed, "enter")
            await settle(pilot)
            assert "4 completed  1 re-run" in lines(pilot)[0]
        await pilot.press("f", "escape")
        await settle(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: bool(engines.started))
    assert engines.started[0][0].min_agent_turns == 1


@pytest.mark.parametrize(("answer", "count"), [("y", 1), ("n", 0), ("escape", 0)])
async def test_bots_that_do_not_answer_are_asked_about(
    session: Path, monkeypatch: pytest.MonkeyPatch, answer: str, count: int
) -> None:
    engines = Engines(monkeypatch, BAD)
    async with home(session.parent) as pilot:
        await opened(pilot, "refused")
        await pilot.press("enter")
        await settle(pilot)
        assert isinstance(pilot.app.screen, Ask)
        await pilot.press(answer)
        await settle(pilot, 0.5)
    assert len(engines.started) == count


async def test_they_can_be_asked_again(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = Engines(monkeypatch, BAD)
    async with home(session.parent) as pilot:
        await opened(pilot, "refused")
        engines.checked = GOOD
        await pilot.press("c")
        await until(pilot, lambda: "user ws://u: answers" in text(pilot))


async def test_a_check_that_fails_is_told(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Engines(monkeypatch, StartError("no process"))
    async with home(session.parent) as pilot:
        await opened(pilot, "not asked: no process")


async def test_bots_in_use_are_not_asked(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = Engines(monkeypatch)
    other = put_session(session.parent, 1, NAMES, 0)
    lock = SessionLock(other, "2026-06-18T07:23:25")
    async with home(session.parent) as pilot:
        await until(pilot, lambda: "2 sessions" in text(pilot))
        await pilot.press("r")
        await until(pilot, lambda: "one client at a" in text(pilot))
    lock.release()
    assert engines.asked == []


async def test_a_complete_session_asks_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = Engines(monkeypatch)
    put_session(tmp_path, 60, NAMES, 6, finished=True)
    async with home(tmp_path) as pilot:
        await opened(pilot, "nothing to resume")
        await pilot.press("enter")
        await settle(pilot)
        assert isinstance(pilot.app.screen, Ask)
        await pilot.press("y")
        await until(pilot, lambda: bool(engines.started))


async def test_a_refused_start_stays_and_is_told(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = Engines(monkeypatch)
    engines.refusal = StartError("in use by process 7")
    async with home(session.parent) as pilot:
        await opened(pilot)
        await pilot.press("enter")
        await settle(pilot, 0.5)
        assert isinstance(pilot.app.screen, ResumeScreen)
        assert "in use by process 7" in [toast.message for toast in pilot.app._notifications]


@pytest.mark.parametrize(("typed", "given"), [("sk-9", "sk-9"), ("", None)])
async def test_a_key_that_is_not_at_hand_is_asked_for_masked(
    session: Path, monkeypatch: pytest.MonkeyPatch, typed: str, given: str | None
) -> None:
    monkeypatch.delenv("JUDGE_API_KEY", raising=False)
    engines = Engines(monkeypatch)
    record = json.loads((session / layout.RUN_ARGS).read_text())
    record["invocations"][-1]["parsed_args"]["judge_api_key"] = "<redacted>"
    (session / layout.RUN_ARGS).write_text(json.dumps(record))
    async with home(session.parent) as pilot:
        await opened(pilot)
        await pilot.press("enter")
        await settle(pilot)
        assert isinstance(pilot.app.screen, AskText)
        await pilot.press(*typed)
        await settle(pilot)
        assert not typed or typed not in text(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: bool(engines.started))
    ((_, argv, key),) = engines.started
    assert key == given
    assert not typed or typed not in " ".join(argv)


async def test_a_key_typed_before_is_used_for_the_check_and_the_start(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = Engines(monkeypatch)
    async with home(session.parent) as pilot:
        await opened(pilot)
        await pilot.press("a")
        await settle(pilot)
        await pilot.press(*"sk-9", "enter")
        await until(pilot, lambda: "sk-9" in engines.asked)
        await settle(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: bool(engines.started))
    assert engines.started[0][2] == "sk-9"


async def test_a_strangers_session_is_neither_asked_about_nor_started_unasked(
    session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = Engines(monkeypatch)
    put_record(session, NAMES, judge_url="https://judge.example/", judge_api_key_name="AWS_SECRET")
    monkeypatch.setenv("AWS_SECRET", "sk-9")
    async with home(session.parent, SIZES[-1]) as pilot:
        await opened(pilot, "not asked yet: it sends the key in $AWS_SECRET to https://judge.example/")
        assert engines.asked == []
        await pilot.press("enter")
        await settle(pilot, 0.5)
        assert engines.started == []
        await pilot.press("n")
        await settle(pilot)
        await pilot.press("c")
        await until(pilot, lambda: bool(engines.asked))
        await pilot.press("enter")
        await settle(pilot)
        await pilot.press("y")
        await until(pilot, lambda: bool(engines.started))


@pytest.mark.parametrize("kind", ["running", "no options", "empty", "gone"])
async def test_what_cannot_be_resumed_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    engines = Engines(monkeypatch)
    session = put_session(tmp_path, 60, [] if kind == "empty" else NAMES, 0)
    lock = None
    if kind == "running":
        lock = SessionLock(session, "2026-06-18T07:23:25")
    if kind == "no options":
        (session / layout.RUN_ARGS).write_text('{"invocations": [{"parsed_args": {"pause": "[red]soon"}}]}')
    app = ConsoleApp(None, defaults=RunOptions(output_dir=tmp_path), environ={})
    async with app.run_test() as pilot:
        app.push_screen(ResumeScreen(session if kind != "gone" else tmp_path / "eval_20260618_000009"))
        told = {"running": "runs it since", "no options": "'[red]soon'", "empty": "no scenario in it", "gone": "cannot be read"}[
            kind
        ]
        await until(pilot, lambda: told in text(pilot))
        assert_straight(pilot)
        await pilot.press("enter", "c", "f")
        await settle(pilot)
        assert isinstance(app.screen, ResumeScreen)
    if lock is not None:
        lock.release()
    assert engines.started == []


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_hostile_names_keep_the_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    Engines(monkeypatch)
    names = [f"d__{number}{bad[:40]}".encode("utf-8", "replace").decode().replace("/", "") for number, bad in enumerate(HOSTILE)]
    session = put_session(tmp_path, 60, [name for name in names if layout.is_folder_name(name)], 0)
    put_result(session, names[1], metrics(responses=1, stop_reason="[red]\x1b[31m\u202e"))
    async with home(tmp_path, size) as pilot:
        await opened(pilot)
        assert_straight(pilot)
        await pilot.press("end")
        await settle(pilot)
        assert_straight(pilot)


async def test_a_session_of_many_scenarios_opens_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Engines(monkeypatch)
    put_session(tmp_path, 60, [f"d__{number}" for number in range(2000)], 0)
    async with home(tmp_path) as pilot:
        await opened(pilot)
        assert "2000 fresh" in lines(pilot)[0]
        await pilot.press("end")
        await until(pilot, lambda: "d__1999" in text(pilot))


async def test_r_on_a_dead_session_leads_here_and_back(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = Engines(monkeypatch)
    app = ConsoleApp(open_source(session), fps=50, environ={})
    async with app.run_test() as pilot:
        await settle(pilot, 0.5)
        assert "r resume" in lines(pilot)[-1]
        await pilot.press("r")
        await until(pilot, lambda: "answers" in text(pilot))
        await pilot.press("escape")
        await settle(pilot)
        assert isinstance(app.screen, RunScreen)
        await pilot.press("r")
        await until(pilot, lambda: "answers" in text(pilot))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
    assert len(engines.started) == 1
