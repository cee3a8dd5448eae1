"""The new-run form: at every size, by keyboard alone, checked before it starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hostile_text import HOSTILE
from outputs import put_session
from screens import assert_straight, home, lines, settle, text, until
from textual.widgets import Input

from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.session.lock import SessionLock
from voiceeval_tui import preflight as preflight_module
from voiceeval_tui.form import FIELDS
from voiceeval_tui.screens import form as form_screen
from voiceeval_tui.screens.dialog import Ask, Help
from voiceeval_tui.screens.form import FormScreen
from voiceeval_tui.screens.home import HomeScreen
from voiceeval_tui.screens.pick import PickScreen
from voiceeval_tui.screens.run import RunScreen
from voiceeval_tui.starting import Checked, Finding, Listed, StartError
from voiceeval_tui.widgets.cycle import Cycle

SIZES = [(50, 15), (80, 24), (200, 50)]
GOOD = Checked((Finding("agent", "ws://a", True, "answers"), Finding("user", "ws://u", True, "answers")), False)
BAD = Checked(
    (
        Finding("user", "ws://u", True, "answers"),
        Finding("agent", "ws://a", False, "refused", "start it"),
        Finding("judge", "http://far/j", False, "no route"),
    ),
    True,
)
LISTED = Listed((("shop__1", False), ("shop__2", False), ("cafe__[red]1", True)), ("pack x: [red]broken",))


class Engines:
    """Stands in for processes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, checked: Checked | StartError = GOOD, session: Path | None = None) -> None:
        self.started: list[tuple[RunOptions, list[str]]] = []
        self.asked: list[RunOptions] = []
        self.checked = checked
        self.session = session
        self.listed: Listed | StartError = LISTED
        monkeypatch.setattr(preflight_module, "check", self._check)
        monkeypatch.setattr(form_screen, "start_engine", self._start)
        monkeypatch.setattr(form_screen, "list_scenarios", self._list)

    def _check(self, options: RunOptions, key: str | None = None, *, bots: bool = True) -> Checked:
        if bots:
            self.asked.append(options)
        if isinstance(self.checked, StartError):
            raise self.checked
        return self.checked if bots else replace(self.checked, findings=())

    def _start(self, options: RunOptions, argv: list[str]) -> Path:
        if self.session is None:
            raise StartError("no scenarios are registered")
        self.started.append((options, argv))
        return self.session

    def _list(self, options: RunOptions) -> Listed:
        if isinstance(self.listed, StartError):
            raise self.listed
        return self.listed


async def fill(pilot: Any, name: str, words: str) -> None:
    pilot.app.screen.query_one(f"#{name}", Input).value = words
    await settle(pilot)


async def form(pilot: Any) -> None:
    await pilot.press("n")
    await until(pilot, lambda: isinstance(pilot.app.screen, FormScreen) and "agent" in text(pilot))


@pytest.mark.parametrize("size", SIZES)
async def test_every_field_is_reached_by_keyboard_and_seen(tmp_path: Path, size: tuple[int, int]) -> None:
    async with home(tmp_path, size) as pilot:
        await form(pilot)
        assert_straight(pilot)
        seen = []
        await pilot.press("up")
        for _ in FIELDS:
            focused = pilot.app.focused
            assert focused is not None
            seen.append(focused.id)
            await settle(pilot, 0.05)
            assert focused.region.y + focused.region.height <= size[1] - 1
            assert focused.region.y > 0
            await pilot.press("down")
        assert seen == [each.name for each in FIELDS]
        assert pilot.app.focused is not None
        assert pilot.app.focused.id == "start"


async def test_what_was_given_stands_in_it(tmp_path: Path) -> None:
    async with home(
        tmp_path, (200, 50), agent_url="ws://mine:1", judge_threshold=0.7, domain="retail", judge_api_key="secret"
    ) as pilot:
        await form(pilot)
        for words in ("ws://mine:1", "0.7", "retail", str(tmp_path), "tool-only"):
            assert words in text(pilot)
        assert "secret" not in text(pilot)


async def test_what_is_wrong_is_told_beside_it_and_nothing_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = Engines(monkeypatch)
    async with home(tmp_path, (120, 40)) as pilot:
        await form(pilot)
        await fill(pilot, "judge_threshold", "2")
        await fill(pilot, "inactivity_timeout", "[red]soon")
        assert "--inactivity-timeout '[red]soon'" in text(pilot)
        for key in ("ctrl+s", "f5", "f2"):
            await pilot.press(key)
            await settle(pilot)
            assert pilot.app.focused is not None
            assert pilot.app.focused.id == "inactivity_timeout"
        await fill(pilot, "inactivity_timeout", "5")
        assert "--judge-threshold 2" in text(pilot)
        await fill(pilot, "judge_threshold", "1")
        assert "--judge-threshold" not in text(pilot)
    assert engines.asked == engines.started == []


async def test_a_check_shows_sentences_and_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = Engines(monkeypatch, BAD)
    async with home(tmp_path) as pilot:
        await form(pilot)
        await pilot.press("f5")
        await until(pilot, lambda: "WRONG  agent ws://a: refused. To mend it: start it" in text(pilot))
        assert "WRONG  judge http://far/j: no route" in text(pilot)
        engines.checked = GOOD
        await pilot.press("f5")
        await until(pilot, lambda: "user ws://u: answers" in text(pilot))
        engines.checked = StartError("no process")
        await pilot.press("f5")
        await until(pilot, lambda: "no process" in text(pilot))
        assert isinstance(pilot.app.screen, FormScreen)
    assert engines.started == []


async def test_start_checks_first_then_shows_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = Engines(monkeypatch, session=put_session(tmp_path, 60, ["a"], 1))
    async with home(tmp_path) as pilot:
        await form(pilot)
        await fill(pilot, "scenarios", "a 'b c'")
        await fill(pilot, "judge_api_key", "sk-9")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
    ((options, argv),) = engines.started
    assert engines.asked == [options]
    assert options.scenarios == ("a", "b c")
    assert options.judge_api_key == "sk-9"
    assert argv == ["--output-dir", str(tmp_path), "--scenarios", "a", "b c"]


@pytest.mark.parametrize(("answer", "count"), [("y", 1), ("n", 0)])
async def test_what_does_not_answer_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, count: int
) -> None:
    engines = Engines(monkeypatch, BAD, put_session(tmp_path, 60, ["a"], 1))
    async with home(tmp_path) as pilot:
        await form(pilot)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(pilot.app.screen, Ask))
        assert "refused" in text(pilot)
        await pilot.press(answer)
        await settle(pilot, 0.5)
        assert isinstance(pilot.app.screen, RunScreen if count else FormScreen)
    assert len(engines.started) == count


async def test_bots_in_use_are_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = Engines(monkeypatch)
    lock = SessionLock(put_session(tmp_path, 60, ["a"], 1), "2026-06-18T07:23:25")
    async with home(tmp_path) as pilot:
        await form(pilot)
        await pilot.press("f5")
        await until(pilot, lambda: "runs on one of them" in text(pilot))
    lock.release()
    assert engines.asked == []


async def test_a_refused_start_is_told_and_the_form_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Engines(monkeypatch)
    async with home(tmp_path) as pilot:
        await form(pilot)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "no scenarios are registered" in text(pilot))
        assert isinstance(pilot.app.screen, FormScreen)


async def test_a_demo_needs_no_bots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = Engines(monkeypatch, session=put_session(tmp_path, 60, ["a"], 1))
    async with home(tmp_path) as pilot:
        await form(pilot)
        await pilot.press("up")
        assert isinstance(pilot.app.focused, Cycle)
        for key, told in (("space", "< yes >"), ("enter", "< no >"), ("right", "< yes >"), ("left", "< no >"), ("left", "< yes >")):
            await pilot.press(key)
            await settle(pilot)
            assert told in text(pilot)
        assert "simulated user" not in text(pilot)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
    assert engines.started[0][0].demo


async def test_what_was_typed_is_kept_but_a_key(tmp_path: Path) -> None:
    async with home(tmp_path, (120, 40)) as pilot:
        await form(pilot)
        await fill(pilot, "domain", "retail")
        await fill(pilot, "judge_api_key", "sk-9")
        await pilot.press("escape")
        await settle(pilot)
        assert isinstance(pilot.app.screen, HomeScreen)
        await form(pilot)
        assert pilot.app.screen.query_one("#domain", Input).value == "retail"
        assert pilot.app.screen.query_one("#judge_api_key", Input).value == ""


async def test_buttons_and_the_line_of_keys_do_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = Engines(monkeypatch)
    async with home(tmp_path, (120, 40)) as pilot:
        await form(pilot)
        await pilot.click("#check")
        await until(pilot, lambda: len(engines.asked) == 1 and not pilot.app.screen._busy)  # type: ignore[attr-defined]
        await pilot.click("Footer", offset=(lines(pilot)[-1].index("check"), 0))
        await until(pilot, lambda: len(engines.asked) == 2 and not pilot.app.screen._busy)  # type: ignore[attr-defined]
        await pilot.click("#pick")
        await until(pilot, lambda: isinstance(pilot.app.screen, PickScreen))
        await pilot.press("question_mark")
        await settle(pilot)
        assert isinstance(pilot.app.screen, Help)


async def test_scenarios_are_picked_from_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Engines(monkeypatch)
    async with home(tmp_path) as pilot:
        await form(pilot)
        await fill(pilot, "scenarios", "shop__2 gone__1")
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(pilot.app.screen, PickScreen))
        await settle(pilot)
        assert_straight(pilot)
        assert "1 of 3 chosen  1 packs" in text(pilot) or "1 of 3 chosen" in text(pilot)
        assert "[x] shop__2" in text(pilot)
        assert "[ ] cafe__[red]1" in text(pilot)
        await pilot.press("space", "space")
        await settle(pilot)
        assert "[x] shop__1" in text(pilot)
        assert "[ ] shop__2" in text(pilot)
        await pilot.press("slash", *"cafe")
        await settle(pilot)
        assert "shop__1" not in text(pilot)
        await pilot.press("enter", "a", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, FormScreen))
        assert pilot.app.screen.query_one("#scenarios", Input).value == "shop__1 'cafe__[red]1' gone__1"
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(pilot.app.screen, PickScreen))
        await pilot.press("a", "escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, FormScreen))
        assert pilot.app.screen.query_one("#scenarios", Input).value == "shop__1 'cafe__[red]1' gone__1"


async def test_a_list_that_cannot_be_had_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = Engines(monkeypatch)
    engines.listed = StartError("--scenario-dir: no pack")
    async with home(tmp_path) as pilot:
        await form(pilot)
        await pilot.press("f2")
        await until(pilot, lambda: "--scenario-dir: no pack" in text(pilot))


@pytest.mark.parametrize("size", SIZES)
async def test_hostile_scenarios_keep_the_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    engines = Engines(monkeypatch)
    engines.listed = Listed(tuple((f"{number}{bad}", True) for number, bad in enumerate(HOSTILE)), HOSTILE)
    async with home(tmp_path, size) as pilot:
        await form(pilot)
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(pilot.app.screen, PickScreen))
        await settle(pilot)
        assert_straight(pilot)
        await pilot.press("a", "end")
        await settle(pilot)
        assert_straight(pilot)


@pytest.mark.parametrize("size", SIZES)
async def test_of_many_findings_all_can_be_read_and_the_question_keeps_its_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    many = [Finding("agent", f"ws://bot{number}", False, "refused", "start it") for number in range(40)]
    Engines(monkeypatch, Checked((*many, Finding("disk", "/tmp", True, "has room")), False))
    async with home(tmp_path, size) as pilot:
        await form(pilot)
        await pilot.press("f5")
        await until(pilot, lambda: "ws://bot0:" in text(pilot))
        seen = text(pilot)
        for _ in range(60):
            if "has room" in seen:
                break
            await pilot.press("pagedown")
            await settle(pilot)
            seen += text(pilot)
        assert all(f"ws://bot{number}:" in seen for number in range(40))
        await pilot.press("pagedown")
        await settle(pilot)
        assert "ws://bot0:" in text(pilot)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(pilot.app.screen, Ask))
        assert "and 37 more" in text(pilot)
        assert "back to the form" in text(pilot)
