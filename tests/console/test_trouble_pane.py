"""The trouble pane: which rows there are and in what order, the strip, choosing by a row, and what a clock costs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hostile_text import HOSTILE
from pilots import Host
from rich.cells import cell_len
from sessions import START, attempt, scored, started
from textual.geometry import Region
from textual.pilot import Pilot

from voiceeval_engine.live import events
from voiceeval_tui.troubles import idle_seconds, troubles
from voiceeval_tui.view import ALL_AREAS, Link, View
from voiceeval_tui.widgets.trouble import TroublePane, gauge

NAMES = tuple(f"retail__{number}" for number in range(36, 46))
A, B, C, D, E, F = NAMES[:6]


class Watched(TroublePane):
    """`asked` are the lines that it wanted drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Region] = []

    def refresh(self, *regions: Region, **options: bool) -> Watched:  # type: ignore[override]
        self.asked += regions
        return super().refresh(*regions, **options)


@asynccontextmanager
async def drawn(view: View, size: tuple[int, int], *, focus: bool = False) -> AsyncIterator[tuple[Host, Watched, Pilot[None]]]:
    """The pane alone on a screen of that size."""
    pane = Watched()
    host = Host(pane, size=size)
    async with host.run_test(size=size) as pilot:
        host.screen.set_focus(pane if focus else None)
        pane.show(view, ALL_AREAS)
        await pilot.pause(0.1)
        yield host, pane, pilot
        assert host.failed == []


def view_of(*stream: events.Event, names: tuple[str, ...] = NAMES, now: float = START + 100) -> View:
    view = View()
    view.apply_all([started(names), *stream])
    view.set_link(Link("alive"))
    view.tick(now)
    return view


def words(name: str, time: float, number: int = 1) -> events.Words:
    return events.Words(scenario=name, attempt=number, side="agent", text="well", at=1.0, time=time)


def speaking(name: str, on: bool, time: float) -> events.Speaking:
    return events.Speaking(scenario=name, attempt=1, side="agent", on=on, at=2.0, time=time)


def discarded(name: str, number: int, reason: str, time: float) -> events.AttemptDiscarded:
    return events.AttemptDiscarded(scenario=name, attempt=number, reason=reason, retry_in=3.0, time=time)


def everything() -> View:
    return view_of(
        events.PairOut(pair=0, reason="connection refused", since=START + 40),
        events.Paused(reason="by the operator"),
        *attempt(A), words(A, START + 40),
        *attempt(B), words(B, START + 70),
        events.ScenarioNotRun(scenario=C, attempt=0, reason="skipped"),
        *attempt(D), scored(D, stalled=True, verdict=False, stop_reason="[TIMEOUT]"),
        *attempt(E), scored(E, verdict=False, judge_failed=True, failed_signals=["judge_passed"]),
        *attempt(F), discarded(F, 1, "0 conversation turns", START + 5), *attempt(F, 2), discarded(F, 2, "hung up", START + 20),
        *attempt(NAMES[6]), discarded(NAMES[6], 1, "moved", START + 30),
    )  # fmt: skip


def test_each_thing_that_goes_wrong_is_told_the_most_pressing_first() -> None:
    assert [(each.scenario, each.words) for each in troubles(everything())] == [
        (None, "pair 1 out for 1m00s: connection refused (ws://a, ws://u)"),
        (A, "silent 60 of 120 s"),
        (B, "silent 30 of 120 s"),
        (None, "paused: by the operator"),
        (C, "not run: skipped"),
        (D, "stalled: < 2 agent responses ([TIMEOUT])"),
        (E, "the judge's call failed"),
        (NAMES[6], "retried after: moved"),
        (F, "retried 2 times after: hung up"),
    ]


def test_what_is_over_goes() -> None:
    view = everything()
    view.apply_all([events.PairBack(pair=0), events.GoneOn(), scored(A), scored(B), scored(NAMES[6], attempt=1, restored=True)])
    kinds = [each.kind for each in troubles(view)]
    assert kinds == ["not run", "stalled", "judge", "discarded", "discarded"]
    view.apply(events.Requeued(scenario=C, attempt=0, reason="by hand", by_hand=True))
    assert "not run" not in [each.kind for each in troubles(view)]


def test_a_run_that_has_ended_waits_for_nothing() -> None:
    view = everything()
    view.apply(events.RunEnded(complete=False, reason="stopped", files=[], time=START + 100))
    view.set_link(Link("finished"))
    assert [each.kind for each in troubles(view)] == ["not run", "stalled", "judge", "discarded", "discarded"]


@pytest.mark.parametrize(
    ("timeout", "idle", "told"),
    [(120, 11, False), (120, 12, True), (20, 4, False), (20, 5, True), (4, 1, False), (4, 2, True), (0, 99, False)],
)
def test_silence_is_worth_a_row_after_a_tenth_of_the_timeout_and_some_seconds(timeout: float, idle: float, told: bool) -> None:
    view = View()
    start = started(NAMES).model_copy(update={"inactivity_timeout": timeout})
    view.apply_all([start, *attempt(A), words(A, START + 100)])
    view.set_link(Link("alive"))
    view.tick(START + 100 + idle)
    assert [each.kind for each in troubles(view)] == (["silence"] if told else [])


def test_who_speaks_is_not_silent_for_as_long_as_that_can_be_believed() -> None:
    view = view_of(*attempt(A), speaking(A, True, START + 80))
    scenario = view.run.scenarios[A]
    assert idle_seconds(view, scenario) == 0.0
    view.tick(START + 120)
    assert idle_seconds(view, scenario) == 40.0
    view.apply(speaking(A, False, START + 119))
    assert idle_seconds(view, scenario) == 1.0
    view.set_link(Link("gone"))
    assert idle_seconds(view, scenario) is None


@pytest.mark.parametrize(("share", "shown"), [(0.0, "░" * 10), (0.55, "█████░░░░░"), (1.0, "█" * 10), (9.0, "█" * 10)])
def test_the_gauge(share: float, shown: str) -> None:
    assert gauge(share) == shown


async def test_an_empty_one_says_so() -> None:
    for names in ((), NAMES[:1], NAMES):
        async with drawn(view_of(names=names), (80, 5), focus=True) as (host, _, pilot):
            await pilot.press("down", "enter", "end")
            assert "no trouble so far" in host.shown()[1]
            assert host.chosen == []


@pytest.mark.parametrize("size", [(50, 3), (80, 3), (80, 4), (120, 5)])
async def test_a_strip_tells_the_first_and_how_many_there_are_more(size: tuple[int, int]) -> None:
    async with drawn(everything(), size) as (host, _, _):
        lines = host.shown()
        assert all(cell_len(line) == size[0] for line in lines)
        assert "pair 1 out" in lines[1]
        assert lines[-1].rstrip().endswith(f"... {9 - (size[1] - 1)} more")


async def test_a_high_one_shows_all_and_the_clock_as_a_gauge() -> None:
    async with drawn(everything(), (80, 20)) as (host, _, _):
        lines = host.shown()
        assert lines[2].startswith(f"… {A}  silent 60 of 120 s  █████░░░░░")
        assert lines[9].startswith(f"o {F}  retried 2 times")
        assert "more" not in "".join(lines)


async def test_a_long_reason_can_be_read_whole_while_its_row_is_chosen() -> None:
    reason = "connection refused " * 8 + "by the last of them"
    view = view_of(
        *attempt(A),
        discarded(A, 1, "hung up", START),
        *(events.PairOut(pair=pair, reason=reason, since=START) for pair in range(20)),
    )
    for size in ((80, 12), (80, 60)):
        async with drawn(view, size, focus=True) as (host, pane, pilot):
            assert "by the last of them" in "".join(line.strip() + " " for line in host.shown()[-3:])
            await pilot.press("end")
            assert ("hung up" in host.shown()[-3], pane.scenario_of(str(pane.cursor))) == (True, A)
            assert any(line.startswith("o ") and "hung up" in line for line in host.shown()[:-3])
            chosen = len(host.chosen)
            await pilot.click(pane, offset=(4, size[1] - 1))
            assert len(host.chosen) == chosen
            await pilot.press("home", "down")
            assert "connection refused" in host.shown()[-3]
        async with drawn(view, size) as (host, _, _):
            assert "by the last of them" not in "".join(host.shown()[-3:])


async def test_every_key_goes_through_the_list_and_tells_the_scenario() -> None:
    async with drawn(everything(), (80, 3), focus=True) as (host, pane, pilot):
        for key, row in (("down", 1), ("j", 2), ("k", 1), ("up", 0), ("end", 8), ("home", 0), ("pagedown", 1), ("pageup", 0)):
            await pilot.press(key)
            assert pane.cursor == pane.keys[row]
            assert host.chosen[-1] == (pane.keys[row], False)
        await pilot.press("end", "enter")
        assert host.chosen[-1] == (pane.keys[8], True)
        assert pane.scenario_of(pane.keys[8]) == F
        assert pane.scenario_of(pane.keys[0]) is pane.scenario_of("nothing") is None
        assert "retried 2 times" in host.shown()[-1]
        host.screen.set_focus(None)
        await pilot.pause()
        assert "pair 1 out" in host.shown()[1]
        assert "more" in host.shown()[2]


async def test_a_click_chooses_the_row_under_it() -> None:
    async with drawn(everything(), (80, 3)) as (host, pane, pilot):
        await pilot.click(pane, offset=(4, 2))
        assert [pane.scenario_of(key) for key, _ in host.chosen] == [A]


@pytest.mark.parametrize("bad", HOSTILE)
async def test_hostile_reasons_and_names_stay_in_their_row(bad: str) -> None:
    bad = bad.encode("utf-8", "replace").decode()[:4000]
    name = f"d__{bad[:100]}"
    view = view_of(
        events.PairOut(pair=9, reason=bad, since=0.0), events.Paused(reason=bad),
        *attempt(name), discarded(name, 1, bad, START), events.ScenarioNotRun(scenario=name, attempt=1, reason=bad),
        names=(name,),
    )  # fmt: skip
    for focus in (False, True):
        for size in ((50, 3), (80, 12)):
            async with drawn(view, size, focus=focus) as (host, _, _):
                lines = host.shown()
                assert all(cell_len(line) == size[0] for line in lines)
                assert not any(ord(each) < 32 or 0x7F <= ord(each) < 0xA0 or each in "\u202e\u2066" for each in "".join(lines))
                assert "pair 10 out" in lines[1]


async def test_a_thousand_rows_and_a_clock_that_ticks_cost_little_and_draw_one_line() -> None:
    names = tuple(f"retail__{number}" for number in range(1001))
    stream = [event for name in names[1:] for event in (*attempt(name), discarded(name, 1, "0 turns", START))]
    view = view_of(*stream, *attempt(names[0]), words(names[0], START + 60), names=names)
    async with drawn(view, (80, 24)) as (_, pane, _):
        pane.asked.clear()
        for _ in range(20):
            pane.show(view, {"queue", "transcript", "latency", "log"})
        pane.show(view, view.tick(START + 100.5))
        assert pane.asked == []
        pane.show(view, view.tick(START + 101))
        assert [region.y for region in pane.asked] == [0]
        began = time.perf_counter()
        for second in range(20):
            pane.show(view, view.tick(START + 102 + second))
        assert (time.perf_counter() - began) / 20 < 0.05
