"""The latency pane: what it has room for from one line on, and that drawing with nothing new costs nothing."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable

import pytest
from hostile_text import HOSTILE
from rich.cells import cell_len
from sessions import attempt, scored, started
from textual.app import App, ComposeResult
from textual.geometry import Region

from voiceeval_engine.live import events
from voiceeval_engine.live.state import percentile
from voiceeval_tui.themes import Palette, load_themes, to_textual
from voiceeval_tui.view import ALL_AREAS, View
from voiceeval_tui.widgets import latency
from voiceeval_tui.widgets.latency import LatencyPane, figures, one_line, sparkline, table
from voiceeval_tui.widgets.pane import Pane, Row

THEME = load_themes().by_name["voiceeval-dark"]
A, B = "retail__41", "retail__42"


class Host(App[None]):
    """One pane as large as the screen; `asked` are the lines that it wanted drawn."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self.palette = Palette(THEME)
        self.register_theme(to_textual(THEME))
        self.theme = THEME.name
        self.view = view
        self.asked: list[Region] = []
        self.failed: list[str] = []

    def compose(self) -> ComposeResult:
        asked = self.asked

        class Watched(LatencyPane):
            def refresh(self, *regions: Region, **options: bool) -> Watched:  # type: ignore[override]
                asked.extend(regions)
                return super().refresh(*regions, **options)

        self.pane = Watched()
        self.pane.styles.width, self.pane.styles.height = "100%", "100%"
        yield self.pane

    def on_mount(self) -> None:
        self.pane.show(self.view, ALL_AREAS)

    def on_pane_failed(self, message: Pane.Failed) -> None:
        self.failed.append(message.problem)

    def shown(self) -> list[str]:
        return ["".join(segment.text for segment in strip) for strip in self.screen._compositor.render_strips()]


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
    host = Host(many(count))
    async with host.run_test(size=size) as pilot:
        await pilot.pause(0.1)
        lines, inner = host.shown(), size[1] - 1
        assert host.failed == []
        assert all(cell_len(line) == size[0] and line.isprintable() for line in lines)
        assert "p50" in "".join(lines[1:])
        assert host.pane.virtual_size.height <= inner
        assert ("ms a bar" in "".join(lines)) is (inner >= 8)


async def test_without_measurements_it_says_so() -> None:
    host = Host(view_of())
    async with host.run_test(size=(80, 20)):
        assert "nothing measured yet" in host.shown()[1]


async def test_what_a_discarded_attempt_measured_vanishes() -> None:
    view = view_of(*attempt(A), *attempt(B), *answers(A, [500, 600, 700]), *answers(B, [123]))
    host = Host(view)
    async with host.run_test(size=(80, 2)) as pilot:
        await pilot.pause()
        assert "n 4" in host.shown()[1]
        host.pane.show(view, view.apply(events.AttemptDiscarded(scenario=A, attempt=1, reason="x", retry_in=1.0)))
        await pilot.pause()
        assert "last 123  p50 123  p95 123  n 1" in host.shown()[1]
        assert len(host.shown()[1].split()[0]) == 1


async def test_the_histogram_is_drawn_once_for_many_changes_and_not_at_all_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    histogram = latency.histogram

    def counting(ordered: list[float], *size: int) -> object:
        drawn.append(len(ordered))
        return histogram(ordered, *size)

    monkeypatch.setattr(latency, "histogram", counting)
    monkeypatch.setattr(latency, "_PAUSE", 0.3)
    view = many(100)
    host = Host(view)
    async with host.run_test(size=(80, 30)) as pilot:
        await pilot.pause(0.1)
        assert drawn == [100]
        for _ in range(5):
            host.pane.show(view, ALL_AREAS)
        view.apply_all([*attempt("retail__1", 2)])
        for value in range(20):
            host.pane.show(view, view.apply_all(answers("retail__1", [700.0 + value], 2)))
        await pilot.pause(0.05)
        assert drawn == [100]
        await pilot.pause(0.5)
        assert drawn == [100, 110]
        assert "110" in host.shown()[3]


async def test_one_that_was_hidden_draws_its_histogram_when_it_shows() -> None:
    host = Host(many(10))
    async with host.run_test(size=(80, 30)) as pilot:
        host.pane.display = False
        await pilot.pause(0.1)
        host.pane.display = True
        await pilot.pause(0.2)
        assert "ms a bar" in "\n".join(host.shown())


async def test_drawing_with_nothing_new_asks_for_no_line_and_takes_no_time() -> None:
    host = Host(many(10_000))
    async with host.run_test(size=(200, 50)) as pilot:
        await pilot.pause(0.2)
        host.asked.clear()
        began = time.perf_counter()
        for _ in range(100):
            host.pane.show(host.view, {"clock", "queue", "transcript", "log"})
        assert time.perf_counter() - began < 0.01
        began = time.perf_counter()
        for _ in range(100):
            host.pane.show(host.view, {"latency"})
        assert time.perf_counter() - began < 0.5
        assert host.asked == []


@pytest.mark.parametrize("bad", HOSTILE)
async def test_hostile_names_stay_in_their_column(bad: str) -> None:
    name = "d__" + bad.encode("utf-8", "replace").decode()
    host = Host(view_of(*attempt(name), *answers(name, [1, 2, 3]), names=(name,)))
    async with host.run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        assert all(cell_len(line) == 60 for line in host.shown())
        assert not any(ord(each) < 32 or 0x7F <= ord(each) < 0xA0 or each in "\u202e\u2066" for each in "".join(host.shown()))
        assert host.shown()[4].rstrip().endswith("3      2      3      3")
