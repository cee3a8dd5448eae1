"""The home screen: sessions in every state at every size, and every key of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hostile_text import HOSTILE
from outputs import put_record, put_session
from screens import assert_straight, home, lines, settle, text, until
from sessions import all_kinds, write_session

from voiceeval_engine.run.options import DEMO_DEFAULTS, RunOptions
from voiceeval_engine.session import layout
from voiceeval_engine.session.lock import SessionLock
from voiceeval_tui.app import ConsoleApp
from voiceeval_tui.screens import home as home_screen
from voiceeval_tui.screens.dialog import Help
from voiceeval_tui.screens.form import FormScreen
from voiceeval_tui.screens.home import HomeScreen
from voiceeval_tui.screens.resume import ResumeScreen
from voiceeval_tui.screens.run import RunScreen
from voiceeval_tui.source import open_source
from voiceeval_tui.starting import StartError
from voiceeval_tui.widgets.sessions import SessionsPane

SIZES = [(50, 15), (80, 24), (200, 50)]
NAMES = [f"retail__{number}" for number in range(6)]
REFERENCE = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"


@pytest.mark.parametrize("size", SIZES)
async def test_without_a_session_it_says_what_to_do(tmp_path: Path, size: tuple[int, int]) -> None:
    async with home(tmp_path / "results", size) as pilot:
        await until(pilot, lambda: "no session here yet" in text(pilot))
        assert "D  the demo" in text(pilot)
        assert "n  a new run" in text(pilot)
        assert_straight(pilot)
        for key in ("enter", "r"):
            await pilot.press(key)
            await settle(pilot)
            assert isinstance(pilot.app.screen, HomeScreen)


@pytest.mark.parametrize("size", SIZES)
async def test_sessions_in_every_state(tmp_path: Path, size: tuple[int, int]) -> None:
    put_session(tmp_path, 60, NAMES, 6, finished=True, domain="retail")
    put_session(tmp_path, 120, NAMES, 2)
    running = put_session(tmp_path, 180, NAMES, 3, demo=True)
    (tmp_path / "eval_20260618_000400").mkdir()
    shutil.copytree(REFERENCE, tmp_path / REFERENCE.name)
    lock = SessionLock(running, "2026-06-18T07:23:25")
    async with home(tmp_path, size) as pilot:
        await until(pilot, lambda: "4/6 66.7%" in text(pilot))
        assert_straight(pilot)
        rows = {line[2:21]: line for line in lines(pilot)}
        assert "5 sessions  1 running" in text(pilot)
        if size[0] >= 80:
            heads, row = lines(pilot)[1], rows["2026-06-18 00:01:00"]
            assert heads.index("done") + len("done") == row.index("6/6") + len("6/6")
            assert heads.index("success") == row.index("4/6 66.7%")
            assert heads.index("state") == row.index("finished")
            assert str(tmp_path) in lines(pilot)[0] or size[0] < 100
            assert "6/6" in rows["2026-06-18 00:01:00"]
            assert "finished" in rows["2026-06-18 00:01:00"]
            assert "stopped" in rows["2026-06-18 00:02:00"]
            assert "running demo" in rows["2026-06-18 00:03:00"]
            assert "no record" in rows["2026-06-18 00:04:00"]
            assert "finished, by" in rows["2026-01-01 00:00:00"]
        assert ("[30-90]" in text(pilot)) is (size[0] >= 100)
    lock.release()


async def test_sessions_of_one_minute_are_told_apart(tmp_path: Path) -> None:
    for second in (60, 61, 62):
        put_session(tmp_path, second, NAMES, 2)
    async with home(tmp_path) as pilot:
        await until(pilot, lambda: "3 sessions" in text(pilot))
        assert [line[2:21] for line in lines(pilot)[3:6]] == [f"2026-06-18 00:01:0{second}" for second in (2, 1, 0)]


async def test_300_sessions_scroll_and_open(tmp_path: Path) -> None:
    for number in range(300):
        put_session(tmp_path, number * 60, NAMES[:1], 1, finished=True)
    async with home(tmp_path) as pilot:
        await until(pilot, lambda: "300 sessions" in text(pilot))
        await pilot.press("end")
        await until(pilot, lambda: "2026-06-18 00:00" in text(pilot))
        await pilot.press("enter")
        await settle(pilot)
        assert isinstance(pilot.app.screen, RunScreen)
        assert "eval_20260618_000000" in lines(pilot)[0]
        await pilot.press("h")
        await settle(pilot)
        assert pilot.app.query_one(SessionsPane).cursor == "eval_20260618_000000"


async def test_hostile_records_keep_the_columns(tmp_path: Path) -> None:
    for number, bad in enumerate(HOSTILE):
        clean = bad.encode("utf-8", "replace").decode()
        session = tmp_path / f"eval_20260618_0000{number:02d}"
        put_record(session, [f"{clean[:60]}__x"])
        record = json.loads((session / layout.RUN_ARGS).read_text())
        record["invocations"][0]["parsed_args"]["domain"] = clean
        (session / layout.RUN_ARGS).write_text(json.dumps(record))
    async with home(tmp_path) as pilot:
        await until(pilot, lambda: f"{len(HOSTILE)} sessions" in text(pilot))
        assert_straight(pilot)
        assert "[red]" in text(pilot)


async def test_a_folder_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with home(tmp_path / "file") as pilot:
        await until(pilot, lambda: "cannot be read" in text(pilot))


async def test_sessions_that_come_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_screen, "LOOK_SECONDS", 0.1)
    async with home(tmp_path) as pilot:
        await until(pilot, lambda: "no session here yet" in text(pilot))
        put_session(tmp_path, 60, NAMES, 1)
        await until(pilot, lambda: "1 session" in text(pilot))


async def test_a_session_is_watched_and_left_again(tmp_path: Path) -> None:
    write_session(tmp_path / "eval_20260618_072325", all_kinds(NAMES))
    async with home(tmp_path) as pilot:
        await until(pilot, lambda: "1 session" in text(pilot))
        await pilot.press("enter")
        await settle(pilot)
        assert "retail__3" in text(pilot)
        await pilot.press("h")
        await settle(pilot)
        assert isinstance(pilot.app.screen, HomeScreen)
        await pilot.press("q")
        assert pilot.app._exit
    assert pilot.app.return_code == 0


async def test_a_session_that_went_away_is_told(tmp_path: Path) -> None:
    session = put_session(tmp_path, 60, NAMES, 1)
    async with home(tmp_path) as pilot:
        await until(pilot, lambda: "1 session" in text(pilot))
        shutil.rmtree(session)
        await pilot.press("enter")
        await settle(pilot)
        assert isinstance(pilot.app.screen, HomeScreen)


async def test_keys_lead_to_the_other_screens(tmp_path: Path) -> None:
    put_session(tmp_path, 60, NAMES, 1, demo=True)
    async with home(tmp_path) as pilot:
        await until(pilot, lambda: "1 session" in text(pilot))
        for key, screen, back in (("n", FormScreen, "escape"), ("r", ResumeScreen, "escape"), ("question_mark", Help, "escape"),
                                  ("n", FormScreen, "ctrl+c"), ("r", ResumeScreen, "ctrl+c")):  # fmt: skip
            await pilot.press(key)
            await settle(pilot)
            assert isinstance(pilot.app.screen, screen)
            await pilot.press(back)
            await settle(pilot)
            assert isinstance(pilot.app.screen, HomeScreen)
        theme = pilot.app.theme
        await pilot.press("t")
        await settle(pilot)
        assert pilot.app.theme != theme
        await pilot.click("Footer", offset=(lines(pilot)[-1].index("new run"), 0))
        await settle(pilot)
        assert isinstance(pilot.app.screen, FormScreen)


async def test_the_palette_offers_its_actions(tmp_path: Path) -> None:
    async with home(tmp_path) as pilot:
        offered = [command.title for command in pilot.app.get_system_commands(pilot.app.screen)]
        assert any(title.startswith("demo") for title in offered)


async def test_control_c_leaves(tmp_path: Path) -> None:
    async with home(tmp_path) as pilot:
        await pilot.press("ctrl+c")
        assert pilot.app._exit


async def test_a_running_session_is_not_resumed(tmp_path: Path) -> None:
    session = put_session(tmp_path, 60, NAMES, 1)
    lock = SessionLock(session, "2026-06-18T07:23:25")
    async with home(tmp_path) as pilot:
        await until(pilot, lambda: "running" in text(pilot))
        await pilot.press("r")
        await settle(pilot)
        assert isinstance(pilot.app.screen, HomeScreen)
    lock.release()


async def test_the_demo_is_started_once_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    session = write_session(tmp_path / "eval_20260618_072325", all_kinds(NAMES))

    def start(options: RunOptions, argv: list[str], key: str | None = None) -> Path:
        told.append((options, argv, key))
        return session

    monkeypatch.setattr(home_screen, "start_engine", start)
    async with home(tmp_path, judge_api_key="secret", inactivity_timeout=5.0, scenarios=("x",)) as pilot:
        await pilot.press("D", "D")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
    ((options, argv, _),) = told
    assert options.demo
    assert options.scenarios == ()
    assert options.inactivity_timeout == 5.0
    assert options.conversation_end_policy == DEMO_DEFAULTS["conversation_end_policy"]
    assert argv[0] == "--demo"
    assert "secret" not in argv


@pytest.mark.parametrize(
    "given",
    [
        {"pairs_from": Path("pairs")}, {"pair": (("ws://a:1", "ws://b:2"),)}, {"agent_url": "ws://a:1"},
        {"scenarios": ("x",)}, {"domain": "x"}, {"scenarios_from": Path("eval_20260618_072325")}, {"resume": "20260618_072325"},
        {"scenario_dir": (Path("packs"),), "source": "nemo"},
    ],
)  # fmt: skip
async def test_a_demo_brings_its_own_whatever_the_command_line_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    told: list[RunOptions] = []

    def start(options: RunOptions, *_: Any) -> Path:
        told.append(options)
        raise StartError("seen")

    monkeypatch.setattr(home_screen, "start_engine", start)
    async with home(tmp_path, **given) as pilot:
        await pilot.press("D")
        await until(pilot, lambda: bool(told))
    assert told == [RunOptions(demo=True, output_dir=tmp_path, **DEMO_DEFAULTS)]


async def test_a_demo_that_cannot_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Path:
        raise StartError("[red]no luck")

    monkeypatch.setattr(home_screen, "start_engine", refuse)
    async with home(tmp_path) as pilot:
        await pilot.press("D")
        await settle(pilot, 0.5)
        assert "[red]no luck" in [toast.message for toast in pilot.app._notifications]
        assert isinstance(pilot.app.screen, HomeScreen)


async def test_from_a_session_that_was_watched_to_the_others_and_back(tmp_path: Path) -> None:
    session = write_session(tmp_path / "eval_20260618_072325", all_kinds(NAMES))
    app = ConsoleApp(open_source(session), fps=50, environ={})
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for _ in range(3):
            await pilot.press("h")
            await until(pilot, lambda: "1 session" in text(pilot))
            assert isinstance(app.screen, HomeScreen)
            await pilot.press("enter")
            await until(pilot, lambda: "retail__3" in text(pilot))
            assert isinstance(app.screen, RunScreen)
            assert len(app.screen_stack) == 3
    assert not app.crash
