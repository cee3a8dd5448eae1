"""What the console offers: keys, help, palette, footer, themes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pilots import console, lines, settle, text
from sessions import all_kinds, write_session

from voiceeval_tui.actions import ACTIONS
from voiceeval_tui.screens.dialog import Help
from voiceeval_tui.screens.form import FormScreen
from voiceeval_tui.screens.home import HomeScreen
from voiceeval_tui.screens.keyed import KeyedScreen
from voiceeval_tui.screens.pick import PickScreen
from voiceeval_tui.screens.resume import ResumeScreen
from voiceeval_tui.screens.run import PANES, RunScreen
from voiceeval_tui.widgets.footer import fitting
from voiceeval_tui.widgets.pane import Pane
from voiceeval_tui.widgets.queue import QueuePane

NAMES = [f"retail__{number}" for number in range(36, 46)]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return write_session(tmp_path / "eval_20260618_072325", all_kinds(NAMES))


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


@pytest.mark.parametrize("screen", [HomeScreen, FormScreen, PickScreen, ResumeScreen, RunScreen])
@pytest.mark.parametrize("cells", [20, 40, 60, 80])
def test_the_way_out_is_told_however_narrow_the_screen_is(screen: type[KeyedScreen[Any]], cells: int) -> None:
    _, places = fitting(screen.ACTIONS, cells)
    assert {"quit", "leave"} & {action for _, _, action in places}


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


@pytest.mark.parametrize("actions", [ACTIONS, HomeScreen.ACTIONS, FormScreen.ACTIONS, ResumeScreen.ACTIONS])
def test_every_help_fits_into_its_box_at_eighty_columns(actions: Any) -> None:
    assert not [action.help for action in actions if len(action.help) > 64]


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
