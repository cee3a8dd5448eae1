"""The latency pane: what it has room for from one line on, and that drawing with nothing new costs nothing."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest
from hostile_text import HOSTILE
from pilots import Host
from rich.cells import cell_len
from sessions import attempt, scored, started
from textual.geometry import Region
from textual.pilot import Pilot

from voiceeval_engine.live import events
from voiceeval_engine.live.state import percentile
from voiceeval_tui.view import ALL_AREAS, View
from voiceeval_tui.widgets import latency
from voiceeval_tui.widgets.latency import LatencyPane, figures, one_line, sparkline, table
from voiceeval_tui.widgets.pane import Row

A, B = "retail__41", "retail__42"


class Watched(LatencyPane):
    """`asked` are the lines that it wanted drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Region] = []

    def refresh(self, *regions: Region, **options: bool) -> Watched:  # type: ignore[override]
        self.asked += regions
        return super().refresh(*regions, **options)


@asynccontextmanager
async def drawn(view: View, size: tuple[int, int]) -> AsyncIterator[tuple[Host, Watched, Pilot[None]]]:
    """The pane alone on a screen of that size."""
    pane = Watched()
    host = Host(pane, size=size)
    async with host.run_test(size=size) as pilot:
        pane.show(view, ALL_AREAS)
        await pilot.pause(0.1)
        yield host, pane, pilot
        assert host.failed == []


def answers(name: str, values: Iterable[float], number: int = 1) -> list[events.Event]:
    return [
        events.TurnEnded(scenario=name, attempt=number, side="agent", text="x", start=1, end=2, latency_ms=value)
        for value in values
    ]


def view_of(*stream: events.Event, names: tuple[str, ...] = (A, B)) -> View:
    view = View()
    view.apply_all([started(names), *stream])
    return view


def many(count: int) -> View:
    rng = random.Random(7)
    names = tuple(f"retail__{number}" for number in range(max(1, count // 10)))
    values = [scored(name, latencies=[rng.lognormvariate(6.7, 0.4) for _ in range(min(10, count))]) for name in names]
    return view_of(*values, names=names)


def text(row: Row) -> str:
    return "".join(part for part, _ in row)


def test_the_figures_are_the_engine_s() -> None:
    view = many(1000)
    p50, p95 = percentile(view.run.latencies, 0.5), percentile(view.run.latencies, 0.95)
    last = list(view.run.scenarios.values())[-1].latencies[-1]
    assert text(figures(view)) == f"last {last:.0f}  p50 {p50:.0f}  p95 {p95:.0f}  n 1000"


def test_bars_grow_with_the_latency_and_mark_what_is_over_twice_the_median() -> None:
    row = sparkline([0.0, 250.0, 500.0, 1000.0, 1001.0, 9999.0], 500.0)
    assert text(row) == "▁▃▅█!!"
    assert [style for _, style in row] == ["agent", "warn"]


@pytest.mark.parametrize("values", [[0.0, 0.0], [-1.0], [float("nan"), float("inf"), 3.0], []])
def test_bars_of_odd_values(values: list[float]) -> None:
    assert len(text(sparkline(values, 0.0))) == len(text(sparkline(values, float("nan")))) == len(values)


@pytest.mark.parametrize("width", [10, 36, 80, 200])
def test_one_line_gives_up_bars_before_figures(width: int) -> None:
    row = text(one_line(many(1000), width))
    assert row.endswith("n 1000")
    assert width < 50 or len(row) == width


def test_the_scenario_that_is_shown_stands_beside_the_run() -> None:
    view = view_of(*attempt(A), *attempt(B), *answers(A, [100, 200, 300]), *answers(B, [900]))
    view.select(B)
    assert [text(row).split() for row in table(view, 60)] == [
        ["n", "p50", "p95", "max"],
        ["run", "4", "300", "900", "900"],
        [B, "1", "900", "900", "900"],
    ]
    view.select(A)
    assert text(table(view, 60)[2]).split() == [A, "3", "200", "300", "300"]


@pytest.mark.parametrize("count", [1, 10_000])
@pytest.mark.parametrize("size", [(50, 2), (80, 2), (80, 3), (36, 15), (48, 7), (60, 20), (200, 50)])
async def test_it_fills_what_it_has_and_no_more(size: tuple[int, int], count: int) -> None:
    async with drawn(many(count), size) as (host, pane, _):
        lines, inner = host.shown(), size[1] - 1
        assert all(cell_len(line) == size[0] and line.isprintable() for line in lines)
        assert "p50" in "".join(lines[1:])
        assert pane.virtual_size.height <= inner
        assert ("ms a bar" in "".join(lines)) is (inner >= 8)


async def test_without_measurements_it_says_so() -> None:
    async with drawn(view_of(), (80, 20)) as (host, _, _):
        assert "nothing measured yet" in host.shown()[1]


async def test_what_a_discarded_attempt_measured_vanishes() -> None:
    view = view_of(*attempt(A), *attempt(B), *answers(A, [500, 600, 700]), *answers(B, [123]))
    async with drawn(view, (80, 2)) as (host, pane, pilot):
        assert "n 4" in host.shown()[1]
        pane.show(view, view.apply(events.AttemptDiscarded(scenario=A, attempt=1, reason="x", retry_in=1.0)))
        await pilot.pause()
        assert "last 123  p50 123  p95 123  n 1" in host.shown()[1]
        assert len(host.shown()[1].split()[0]) == 1


async def test_the_histogram_is_drawn_once_for_many_changes_and_not_at_all_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    histogram = latency.histogram

    def counting(ordered: list[float], *size: int) -> object:
        counts.append(len(ordered))
        return histogram(ordered, *size)

    monkeypatch.setattr(latency, "histogram", counting)
    monkeypatch.setattr(latency, "_PAUSE", 0.3)
    view = many(100)
    async with drawn(view, (80, 30)) as (host, pane, pilot):
        for _ in range(5):
            pane.show(view, ALL_AREAS)
        await pilot.pause(0.4)
        assert counts == [100], "nothing new"
        view.apply_all(attempt("retail__1", 2))
        for value in range(20):
            pane.show(view, view.apply_all(answers("retail__1", [700.0 + value], 2)))
        await pilot.pause(0.5)
        assert "110" in host.shown()[3]
        assert counts[-1] == 110
        assert len(counts) <= 3


async def test_one_that_was_hidden_draws_its_histogram_when_it_shows() -> None:
    pane, view = Watched(), many(10)
    host = Host(pane, size=(80, 30))
    async with host.run_test(size=(80, 30)) as pilot:
        pane.show(view, ALL_AREAS)
        pane.display = False
        await pilot.pause(0.1)
        pane.display = True
        await pilot.pause(0.2)
        assert "ms a bar" in "\n".join(host.shown())


async def test_drawing_with_nothing_new_asks_for_no_line_and_takes_no_time() -> None:
    view = many(10_000)
    async with drawn(view, (200, 50)) as (_, pane, pilot):
        await pilot.pause(0.2)
        pane.asked.clear()
        began = time.perf_counter()
        for _ in range(100):
            pane.show(view, {"clock", "queue", "transcript", "log"})
        assert time.perf_counter() - began < 0.01
        began = time.perf_counter()
        for _ in range(100):
            pane.show(view, {"latency"})
        assert time.perf_counter() - began < 0.5
        assert pane.asked == []


@pytest.mark.parametrize("bad", HOSTILE)
async def test_hostile_names_stay_in_their_column(bad: str) -> None:
    name = "d__" + bad.encode("utf-8", "replace").decode()
    async with drawn(view_of(*attempt(name), *answers(name, [1, 2, 3]), names=(name,)), (60, 20)) as (host, _, _):
        shown = "".join(host.shown())
        assert all(cell_len(line) == 60 for line in host.shown())
        assert not any(ord(each) < 32 or 0x7F <= ord(each) < 0xA0 or each in "\u202e\u2066" for each in shown)
        assert host.shown()[4].rstrip().endswith("3      2      3      3")


async def test_another_size_has_its_histogram_at_once() -> None:
    async with drawn(many(100), (60, 20)) as (host, pane, pilot):
        pane.styles.height = 14
        await pilot.pause(0.3)
        assert "0┤" in host.shown()[11]
        assert "└" in host.shown()[12]
        assert host.shown()[14].strip() == ""
