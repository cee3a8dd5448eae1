"""The base of panes: what is drawn, which lines are asked for again, what a pane that raises does to the others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hostile_text import HOSTILE
from pilots import Host
from rich.cells import cell_len
from textual.geometry import Region

from voiceeval_tui.view import View
from voiceeval_tui.widgets.list_pane import ListPane
from voiceeval_tui.widgets.pane import Pane, Row


class Words(Pane):
    NAME = "words"
    TITLE = "words"
    AREAS = frozenset({"log"})
    FOLLOWS = True

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.asked: list[Region] = []

    def rows(self, view: View, width: int) -> Sequence[Row]:
        return [((word, "text"),) for word in self.words]

    def refresh(self, *regions: Region, **options: bool) -> Words:  # type: ignore[override]
        self.asked += regions
        return super().refresh(*regions, **options)


class Things(ListPane):
    NAME = "things"
    TITLE = "things"
    AREAS = frozenset({"queue"})

    def __init__(self) -> None:
        super().__init__()
        self.things: list[str] = []
        self.made = 0

    def items(self, view: View) -> Sequence[str]:
        return self.things

    def item_row(self, view: View, key: str, width: int) -> Row:
        self.made += 1
        return ((key, "text"),)


async def test_only_lines_that_changed_are_asked_for() -> None:
    pane = Words()
    pane.words = ["one", "two", "three"]
    async with Host(pane).run_test(size=(30, 10)) as pilot:
        pane.show(View(), {"log"})
        await pilot.pause()
        pane.asked.clear()
        pane.words[1] = "TWO"
        pane.show(View(), {"run"})
        assert pane.asked == []
        pane.show(View(), {"log"})
        assert [region.y for region in pane.asked] == [1]
        await pilot.pause()
        pane.asked.clear()
        pane.show(View(), {"log"})
        assert pane.asked == []


async def test_a_pane_that_follows_stays_at_its_end_until_it_is_scrolled_back() -> None:
    pane = Words()
    host = Host(pane)
    async with host.run_test(size=(30, 10)) as pilot:
        pane.words = [str(number) for number in range(50)]
        pane.show(View(), {"log"})
        await pilot.pause()
        assert "49" in host.shown()[-1]
        pane.scroll_to(y=3, animate=False)
        pane.words.append("50")
        pane.show(View(), {"log"})
        await pilot.pause()
        assert "3" in host.shown()[1]
        pane.scroll_to(y=pane.max_scroll_y, animate=False)
        pane.words.append("51")
        pane.show(View(), {"log"})
        await pilot.pause()
        assert "51" in host.shown()[-1]


async def test_a_pane_that_does_not_show_catches_up() -> None:
    pane = Words()
    host = Host(pane)
    async with host.run_test(size=(30, 10)) as pilot:
        pane.display = False
        await pilot.pause()
        pane.words = ["later"]
        pane.show(View(), {"log"})
        pane.display = True
        await pilot.pause()
        assert "later" in host.shown()[1]


async def test_a_pane_that_raises_says_so_once_and_the_others_go_on() -> None:
    class Broken(Words):
        NAME = "broken"

        def rows(self, view: View, width: int) -> Sequence[Row]:
            raise ZeroDivisionError("[red]oh")

    broken, sound = Broken(), Words()
    sound.words = ["fine"]
    host = Host(broken, sound)
    async with host.run_test(size=(80, 20)) as pilot:
        for _ in range(3):
            for pane in (broken, sound):
                pane.show(View(), {"log"})
        await pilot.pause()
        assert host.failed == ["the pane broken cannot be drawn: ZeroDivisionError: [red]oh"]
        assert "the pane broken cannot be" in host.shown()[1]
        assert "fine" in host.shown()[11]


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_text_stays_in_its_line_and_is_no_markup(text: str) -> None:
    pane = Words()
    pane.words = [text, "below"]
    host = Host(pane)
    async with host.run_test(size=(30, 10)) as pilot:
        pane.show(View(), {"log"})
        await pilot.pause()
        lines = host.shown()
        assert all(cell_len(line) == 30 for line in lines)
        assert not any(ord(each) < 32 or 0x7F <= ord(each) < 0xA0 or each in "\u202e\u2066" for line in lines for each in line)
        assert lines[2].startswith("below")
        assert not any("\\u200e" in line for line in lines)
        if text.startswith("["):
            assert lines[1].startswith("[red]not markup[/red]")


async def test_a_list_makes_rows_for_what_shows_only() -> None:
    pane = Things()
    pane.things = [f"thing {number}" for number in range(10_000)]
    async with Host(pane).run_test(size=(30, 10)) as pilot:
        pane.show(View(), {"queue"})
        await pilot.pause()
        assert pane.made < 200


async def test_the_cursor_stays_on_its_thing_and_answers_to_keys_and_mouse() -> None:
    pane = Things()
    pane.things = ["a", "b", "c", *map(str, range(30))]
    host = Host(pane)
    async with host.run_test(size=(30, 10)) as pilot:
        pane.show(View(), {"queue"})
        pane.focus()
        await pilot.press("down", "down", "enter")
        assert host.chosen == [("b", False), ("c", False), ("c", True)]
        pane.things = ["new", *pane.things]
        pane.show(View(), {"queue"})
        assert pane.cursor == "c"
        await pilot.press("end")
        assert pane.cursor == "29"
        assert pane.scroll_offset.y > 0
        await pilot.press("home", "pagedown", "pageup")
        assert pane.cursor == "new"
        await pilot.click(pane, offset=(3, 3))
        assert host.chosen[-1] == ("b", False)
        pane.things = ["only"]
        pane.show(View(), {"queue"})
        assert pane.cursor == "only"


async def test_an_empty_list_answers_to_nothing() -> None:
    pane = Things()
    host = Host(pane)
    async with host.run_test(size=(30, 10)) as pilot:
        pane.show(View(), {"queue"})
        pane.focus()
        await pilot.press("down", "end", "enter", "pageup")
        await pilot.click(pane, offset=(3, 3))
        assert (host.chosen, pane.cursor) == ([], None)


class Wrapped(Words):
    """Each word takes a row of the whole width."""

    def rows(self, view: View, width: int) -> Sequence[Row]:
        return [(("x" * (width - 1) + "|", "text"),) for _ in self.words]


async def test_rows_are_made_for_the_width_beside_the_scroll_bar_whenever_it_comes_or_goes() -> None:
    pane = Wrapped()
    async with (host := Host(pane, size=(20, 6))).run_test(size=(30, 10)) as pilot:
        for count in (2, 20, 3, 30):
            pane.words = ["word"] * count
            pane.show(View(), {"log"})
            await pilot.pause(0.05)
            rows = [line[: pane.row_width] for line in host.shown()[1 : 1 + min(count, 5)]]
            assert rows == ["x" * (pane.row_width - 1) + "|"] * len(rows), count
