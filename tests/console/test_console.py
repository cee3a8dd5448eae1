"""The console on a session, driven by a pilot at the sizes that matter."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hostile_text import HOSTILE
from pilots import SIZES, Engine, console, lines, screen, settle, text
from rich.cells import cell_len
from sessions import all_kinds, attempt, scored, started, write_session
from textual.pilot import Pilot

from voiceeval_engine.live import events
from voiceeval_engine.live.commands import Command, EngineGone, Reply
from voiceeval_tui.actions import ACTIONS
from voiceeval_tui.app import ConsoleApp
from voiceeval_tui.screens.dialog import Ask, Choice, Help
from voiceeval_tui.screens.form import FormScreen
from voiceeval_tui.screens.home import HomeScreen
from voiceeval_tui.screens.resume import ResumeScreen
from voiceeval_tui.screens.run import PANES, RunScreen
from voiceeval_tui.source import open_source
from voiceeval_tui.view import Link
from voiceeval_tui.widgets.log import LogPane
from voiceeval_tui.widgets.pane import Pane
from voiceeval_tui.widgets.queue import QueuePane
from voiceeval_tui.widgets.trouble import TroublePane

NAMES = [f"retail__{number}" for number in range(36, 46)]
REFERENCE = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"


def alive(pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch) -> None:
    """As if an engine held the session."""
    found = screen(pilot)
    monkeypatch.setattr(found._source, "link", lambda *, ended: Link("alive"))
    found.draw(found.view.set_link(Link("alive")))


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return write_session(tmp_path / "eval_20260618_072325", all_kinds(NAMES))


@pytest.mark.parametrize("size", SIZES)
async def test_every_scenario_is_told_at_every_size(session: Path, size: tuple[int, int]) -> None:
    async with console(session, size, alive=True) as pilot:
        shown = lines(pilot)
        assert len(shown) == size[1]
        assert all(cell_len(line) == size[0] for line in shown)
        assert "eval_20260618_072325" in shown[0]
        assert "4/10" in shown[0]
        assert "success 1/3 33.3%" in shown[1]
        rows = {line.split()[1]: line for line in shown if re.match(r"\S retail__", line)}
        assert "✓" in rows["retail__36"]
        assert "5t" in rows["retail__36"]
        assert "590ms" in rows["retail__36"] or "610ms" in rows["retail__36"]
        assert "db_state" in rows["retail__37"]
        assert "retry: 0" in rows["retail__38"]
        assert "stalled" in rows["retail__39"]
        assert "not run" in rows["retail__40"]
        assert "▶" in rows["retail__41"]
        assert "q quit" in shown[-1]


@pytest.mark.parametrize("size", SIZES)
async def test_a_session_of_files_shows_too(size: tuple[int, int]) -> None:
    async with console(REFERENCE, size) as pilot:
        assert "FINISHED" in lines(pilot)[0]
        assert "domA__1" in text(pilot)


async def test_the_chosen_scenario_stays_chosen_when_the_size_changes(session: Path) -> None:
    async with console(session, (200, 50)) as pilot:
        await pilot.press("down", "down")
        chosen = screen(pilot).view.shown
        for size in SIZES:
            await pilot.resize_terminal(*size)
            await settle(pilot)
            assert screen(pilot).view.shown == chosen
            assert pilot.app.query_one(QueuePane).cursor == chosen


async def test_narrow_screens_show_one_pane_at_a_time(session: Path) -> None:
    async with console(session, (50, 15)) as pilot:
        queue, log = pilot.app.query_one(QueuePane), pilot.app.query_one(LogPane)
        assert (queue.display, log.display) == (True, False)
        await pilot.press(str(PANES.index(LogPane) + 2))
        await settle(pilot)
        assert (queue.display, log.display, pilot.app.focused) == (False, True, log)
        await pilot.press("1")
        await settle(pilot)
        assert (queue.display, log.display, pilot.app.focused) == (True, False, queue)


async def test_zoom_is_there_and_back(session: Path) -> None:
    async with console(session, (120, 40)) as pilot:
        queue = pilot.app.query_one(QueuePane)
        await pilot.press("z")
        await settle(pilot)
        assert queue.outer_size.width == 120
        await pilot.press("z")
        await settle(pilot)
        assert queue.outer_size.width < 120


async def test_filter_as_you_type_and_escape(session: Path) -> None:
    async with console(session) as pilot:
        queue = pilot.app.query_one(QueuePane)
        await pilot.press("slash", *"stalled")
        await settle(pilot)
        assert queue.keys == ["retail__39"]
        assert "filter: stalled" in text(pilot)
        await pilot.press("enter")
        assert pilot.app.focused is queue
        await pilot.press("escape")
        await settle(pilot)
        assert len(queue.keys) == len(NAMES)


async def test_next_and_previous_problem_go_round(session: Path) -> None:
    async with console(session, alive=True) as pilot:
        await pilot.press("home")
        found = []
        for key in ("n", "n", "n", "n", "N"):
            await pilot.press(key)
            found.append(screen(pilot).view.selected)
        assert found == ["retail__37", "retail__39", "retail__40", "retail__37", "retail__40"]


async def test_without_problems_next_goes_to_what_runs(tmp_path: Path) -> None:
    async with console(write_session(tmp_path / "s", [started(["a", "b", "c"]), *attempt("b")]), alive=True) as pilot:
        await pilot.press("home", "n")
        assert screen(pilot).view.selected == "b"


async def test_orders(session: Path) -> None:
    async with console(session, alive=True) as pilot:
        queue = pilot.app.query_one(QueuePane)
        await pilot.press("o")
        assert list(queue.keys[:5]) == ["retail__37", "retail__39", "retail__40", "retail__38", "retail__41"]
        await pilot.press("o", "o")
        assert queue.keys[0] == "retail__41"
        await pilot.press("o")
        assert list(queue.keys) == NAMES


async def test_events_that_come_are_drawn(session: Path) -> None:
    async with console(session) as pilot:
        write_session(session, [scored("retail__41", verdict=False, failed_signals=["judge_passed"])])
        await settle(pilot)
        assert "5/10" in lines(pilot)[0]
        assert re.search(r"✗ retail__41 .*judge", text(pilot))


async def test_a_journal_that_is_replaced_begins_anew(session: Path) -> None:
    async with console(session) as pilot:
        (session / "events.jsonl").unlink()
        write_session(session, [started(["other__1"])])
        await settle(pilot)
        assert "other__1" in text(pilot)
        assert "retail__" not in text(pilot)


async def test_quitting_a_run_that_nobody_runs_asks_nothing(session: Path) -> None:
    async with console(session) as pilot:
        await pilot.press("q")
        assert pilot.app._exit
    assert pilot.app.return_code == 0


@pytest.mark.parametrize(
    ("answer", "told"),
    [("d", None), ("s", None), ("escape", None), ("a", "stop"), ("n", "stop-now")],
)
async def test_quitting_a_live_run_asks(session: Path, monkeypatch: pytest.MonkeyPatch, answer: str, told: str | None) -> None:
    engine = Engine()
    async with console(session, engine=engine) as pilot:
        alive(pilot, monkeypatch)
        await pilot.press("q")
        await settle(pilot)
        assert isinstance(pilot.app.screen, Ask)
        await pilot.press(answer)
        await settle(pilot)
        assert [command.command for command in engine.told] == ([told] if told else [])
        assert pilot.app._exit is (answer == "d")


async def test_control_c_asks_and_a_second_time_leaves(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    async with console(session, engine=engine) as pilot:
        alive(pilot, monkeypatch)
        await pilot.press("ctrl+c")
        await settle(pilot)
        assert isinstance(pilot.app.screen, Ask)
        assert not pilot.app._exit
        await pilot.press("ctrl+c")
        await settle(pilot)
        assert pilot.app._exit
    assert engine.told == []


async def test_commands_go_to_the_engine_about_the_chosen_scenario(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    async with console(session, engine=engine) as pilot:
        alive(pilot, monkeypatch)
        queue = pilot.app.query_one(QueuePane)
        await pilot.press("p")
        for name, keys in (
            ("retail__42", "s"), ("retail__41", "xy"), ("retail__39", "r"), ("retail__37", "ry"), ("retail__37", "rn"),
        ):  # fmt: skip
            queue.choose(name)
            await settle(pilot)
            for key in keys:
                await pilot.press(key)
                await settle(pilot)
    assert engine.told == [
        Command(command="pause"),
        Command(command="skip", scenario="retail__42"),
        Command(command="stop-attempt", scenario="retail__41"),
        Command(command="run-again", scenario="retail__39"),
        Command(command="run-again", scenario="retail__37", confirmed=True),
    ]


async def test_the_same_key_goes_on_after_a_pause(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    write_session(session, [events.Paused(reason="by the operator")])
    async with console(session, engine=engine) as pilot:
        alive(pilot, monkeypatch)
        assert "PAUSED: by the operator" in lines(pilot)[0]
        assert "p go on" in lines(pilot)[-1]
        await pilot.press("p")
        await settle(pilot)
    assert engine.told == [Command(command="resume-queue")]


async def test_what_does_not_apply_is_not_sent(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    async with console(session, engine=engine) as pilot:
        await pilot.press("p", "s", "x")
        alive(pilot, monkeypatch)
        pilot.app.query_one(QueuePane).choose("retail__36")
        await settle(pilot)
        await pilot.press("s", "x", "r")
        await settle(pilot)
        assert isinstance(pilot.app.screen, RunScreen)
    assert engine.told == []


@pytest.mark.parametrize("answer", [Reply(ok=False, message="[red]no\x1b[31m"), EngineGone("no engine listens")])
async def test_a_refusal_is_told_and_logged(session: Path, monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    async with console(session, engine=Engine(answer)) as pilot:
        alive(pilot, monkeypatch)
        await pilot.press("p")
        await settle(pilot)
        line = screen(pilot).view.log[-1]
        assert line.by_console
        assert line.level in ("WARNING", "ERROR")
        assert "no" in line.message


async def test_help_lists_every_action_and_closes(session: Path) -> None:
    async with console(session, (120, 40)) as pilot:
        await pilot.press("question_mark")
        await settle(pilot)
        assert isinstance(pilot.app.screen, Help)
        assert all(action.help in text(pilot) for action in ACTIONS)
        await pilot.press("escape")
        await settle(pilot)
        assert isinstance(pilot.app.screen, RunScreen)


async def test_the_palette_offers_the_actions_that_apply(session: Path) -> None:
    async with console(session) as pilot:
        offered = [command.title for command in pilot.app.get_system_commands(pilot.app.screen)]
        assert any(title.startswith("detach") for title in offered)
        assert not any(title.startswith("pause") for title in offered)
        await pilot.press("ctrl+p")
        await settle(pilot)
        assert type(pilot.app.screen).__name__ == "CommandPalette"


async def test_the_footer_can_be_clicked(session: Path) -> None:
    async with console(session) as pilot:
        await pilot.click("Footer", offset=(lines(pilot)[-1].index("? help"), 0))
        await settle(pilot)
        assert isinstance(pilot.app.screen, Help)


async def test_themes_go_round_and_stay_readable(session: Path) -> None:
    async with console(session) as pilot:
        first, seen = pilot.app.theme, set()
        for _ in range(10):
            await pilot.press("t")
            await settle(pilot)
            seen.add(pilot.app.theme)
            assert "retail__36" in text(pilot)
            if pilot.app.theme == first:
                break
        assert len(seen) >= 4
        assert first in seen


async def test_an_ascii_terminal_gets_ascii(session: Path) -> None:
    async with console(session, LANG="C") as pilot:
        pane = pilot.app.query_one(QueuePane)
        strips = pilot.app.screen._compositor.render_strips()
        shown = [strip.apply_filter(pilot.app._filters[-1], pane.background_colors[1]) for strip in strips]
        assert all(segment.text.isascii() for strip in shown for segment in strip)
        assert "v retail__36" in text(pilot)


@pytest.mark.parametrize("size", SIZES)
async def test_hostile_names_reasons_and_logs_keep_the_columns(tmp_path: Path, size: tuple[int, int]) -> None:
    names = list(dict.fromkeys(f"d__{number}{name[:300]}" for number, name in enumerate(HOSTILE)))
    stream: list[events.Event] = [started([name.encode("utf-8", "replace").decode() for name in names])]
    for bad in HOSTILE:
        bad = bad.encode("utf-8", "replace").decode()[:4000]
        stream += [
            events.Logged(level="ERROR", message=bad, time=1.0),
            events.ScenarioNotRun(scenario=names[1], attempt=0, reason=bad),
            events.Paused(reason=bad),
        ]
    async with console(write_session(tmp_path / "s", stream), size) as pilot:
        for key in (*map(str, range(1, len(PANES) + 2)), "1", "end", "slash", "["):
            await pilot.press(key)
            await settle(pilot)
            shown = lines(pilot)
            assert all(cell_len(line) == size[0] for line in shown)
            assert not any("\\u200e" in line for line in shown), "a mark of our own was taken for one of a bot's"
            assert not any(ord(each) < 32 or 0x7F <= ord(each) < 0xA0 or each in "\u202e\u2066" for line in shown for each in line)


async def test_a_pane_that_raises_is_in_the_log_and_the_rest_goes_on(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("no such luck")

    monkeypatch.setattr(QueuePane, "items", broken)
    async with console(session) as pilot:
        assert any("no such luck" in line.message for line in screen(pilot).view.log)
        assert "4/10" in lines(pilot)[0]


async def test_what_a_finished_scenario_said_is_read_from_its_files(session: Path) -> None:
    (session / "retail__37").mkdir()
    (session / "retail__37" / "conversation_log.txt").write_text("[  0.500s -   1.500s] (1.000s) USER: Saved words\n")
    view = None
    async with console(session) as pilot:
        view = screen(pilot).view
        view._transcripts.clear()
        pilot.app.query_one(QueuePane).choose("retail__37")
        await settle(pilot)
        held = view.transcript("retail__37")
        assert held is not None
        assert [line.text for line in held.lines] == ["Saved words"]


@pytest.mark.parametrize(
    ("environ", "fps", "looks"), [({}, None, 4.0), ({"SSH_CONNECTION": "1 2 3 4"}, None, 1.0), ({}, 10.0, 10.0)]
)
def test_how_often_it_looks(session: Path, environ: dict[str, str], fps: float | None, looks: float) -> None:
    assert ConsoleApp(open_source(session), Engine(), fps=fps, environ=environ)._fps == looks


def test_every_action_can_be_carried_out_and_no_key_does_two_things() -> None:
    assert all(callable(getattr(RunScreen, f"do_{action.name}")) for action in ACTIONS)
    assert all(len(action.help) <= 64 for action in ACTIONS), "the help has room for 64 cells"
    by_key: dict[str, list[str]] = {}
    for action in ACTIONS:
        for key in action.keys.split(","):
            by_key.setdefault(key, []).append(action.name)
    assert {key: names for key, names in by_key.items() if len(names) > 1} == {
        "p": ["pause", "go_on"],
        "r": ["again", "resume"],
    }


def test_panes_have_names_of_their_own() -> None:
    panes: list[type[Pane]] = [QueuePane, *PANES]
    assert len({pane.NAME for pane in panes}) == len(panes) <= 9


@pytest.mark.parametrize("size", [*SIZES, (120, 16)])
async def test_a_row_of_the_trouble_pane_chooses_its_scenario(session: Path, size: tuple[int, int]) -> None:
    async with console(session, size) as pilot:
        await pilot.press(str(PANES.index(TroublePane) + 2), "home", "enter")
        await settle(pilot)
        pane = pilot.app.query_one(TroublePane)
        assert screen(pilot).focused is screen(pilot)._panes["transcript"]
        await pilot.press("escape")
        await settle(pilot)
        assert pilot.app.focused is pane
        assert screen(pilot).view.selected == pane.scenario_of(str(pane.cursor)) == "retail__40"
        await pilot.press("down")
        await settle(pilot)
        assert screen(pilot).view.selected == pilot.app.query_one(QueuePane).cursor == "retail__39"
        assert all(cell_len(line) == size[0] for line in lines(pilot))


def cut_short() -> list[events.Event]:
    ended = events.RunEnded(complete=False, reason="interrupted", files=[], time=1_800_000_100.0)
    return [*all_kinds(NAMES), ended]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("stream", [cut_short(), all_kinds(NAMES)], ids=["stopped", "engine gone"])
async def test_what_was_cut_is_interrupted_and_has_no_clock(
    tmp_path: Path, size: tuple[int, int], stream: list[events.Event]
) -> None:
    async with console(write_session(tmp_path / "s", stream), size) as pilot:
        found = screen(pilot)
        assert found.view.link.state in ("gone", "finished")
        rows = [line[:40] for line in lines(pilot) if re.match(r"\S retail__(38|41)", line)]
        assert len(rows) == 2
        assert all(line.startswith("!") and "interrupted" in line for line in rows)
        found.draw(found.view.tick(found.view.now + 500))
        await settle(pilot)
        assert rows == [line[:40] for line in lines(pilot) if re.match(r"\S retail__(38|41)", line)]
        await pilot.press("slash", *"interrupted", "enter")
        assert found._queue.keys == ["retail__38", "retail__41"]
        found.draw(found.view.select("retail__40"))
        found._queue.words = ""
        found._queue.redraw()
        await pilot.press("n")
        await settle(pilot)
        assert found.view.shown == "retail__41"


@pytest.mark.parametrize("size", SIZES)
async def test_a_verdict_that_only_lacks_the_judge_is_no_plain_failure(tmp_path: Path, size: tuple[int, int]) -> None:
    failed = {"verdict": False, "judge_failed": True}
    stream = [
        started(NAMES[:3]),
        *attempt(NAMES[0]), scored(NAMES[0], failed_signals=["judge_passed"], **failed),
        *attempt(NAMES[1]), scored(NAMES[1], failed_signals=["judge_passed", "db_state_match"], **failed),
        *attempt(NAMES[2]), scored(NAMES[2]),
    ]  # fmt: skip
    async with console(write_session(tmp_path / "s", stream), size) as pilot:
        rows = {line.split()[1]: line for line in reversed(lines(pilot)) if re.match(r"\S retail__", line)}
        assert rows[NAMES[0]].startswith("?")
        assert "judge out" in rows[NAMES[0]]
        assert rows[NAMES[1]].startswith("✗")
        assert "judge out" not in rows[NAMES[1]]
        assert "success 1/2" in lines(pilot)[1]
        if size[0] >= 80:
            assert "judge out 1" in lines(pilot)[1]


@pytest.mark.parametrize("size", SIZES)
async def test_enter_goes_to_what_was_said_and_escape_back(session: Path, size: tuple[int, int]) -> None:
    async with console(session, size) as pilot:
        found = screen(pilot)
        await pilot.press("1", "home", "down", "enter")
        await settle(pilot)
        assert (found.focused, found.view.selected) == (found._panes["transcript"], NAMES[1])
        await pilot.press("escape")
        await settle(pilot)
        assert (found.focused, found.view.selected) == (found._queue, NAMES[1])
        assert found._queue.display
        await pilot.press("escape")
        assert found.view.selected is None


async def test_enter_goes_to_the_pane_about_a_scenario_that_stands_beside(session: Path) -> None:
    async with console(session, (80, 24)) as pilot:
        found = screen(pilot)
        await pilot.press("6")
        found._queue.focus()
        await pilot.press("home", "enter")
        await settle(pilot)
        assert found.focused is found._panes["details"]
        await pilot.press("escape")
        await settle(pilot)
        assert found.focused is found._queue
        assert found._panes["details"].display


async def test_the_clock_of_a_run_stands_where_its_engine_is_gone(session: Path) -> None:
    async with console(session) as pilot:
        found = screen(pilot)
        found.draw(found.view.set_link(Link("gone")))
        await settle(pilot)
        before = lines(pilot)[0]
        found.draw(found.view.tick(found.view.now + 3600))
        await settle(pilot)
        assert lines(pilot)[0] == before


@pytest.mark.parametrize("actions", [ACTIONS, HomeScreen.ACTIONS, FormScreen.ACTIONS, ResumeScreen.ACTIONS])
def test_every_help_fits_into_its_box_at_eighty_columns(actions: Any) -> None:
    assert not [action.help for action in actions if len(action.help) > 64]


async def test_a_question_of_several_lines_has_several_lines() -> None:
    app = ConsoleApp(open_source(REFERENCE), Engine(), fps=50, environ={})
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.app.push_screen(Ask("which", "one\x1b\ntwo", (Choice("y", "yes", "yes"),)))
        await settle(pilot)
        shown = [line.strip(" │") for line in lines(pilot)]
        assert "two" in shown


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_what_was_not_run_tells_why_where_there_is_room(tmp_path: Path, size: tuple[int, int]) -> None:
    stream = [started(NAMES[:1]), events.ScenarioNotRun(scenario=NAMES[0], attempt=0, reason="skipped by the operator")]
    async with console(write_session(tmp_path / "s", stream), size, alive=True) as pilot:
        row = next(line for line in lines(pilot) if line.startswith("! retail__36"))
        assert "…" not in row[:44]
        assert "! not run  skipped by the op" in text(pilot)
