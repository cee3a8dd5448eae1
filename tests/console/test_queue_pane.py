"""The queue: what it tells of each scenario, filter, orders, the way to the next problem."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pilots import SIZES, console, lines, screen, settle, text
from rich.cells import cell_len
from sessions import all_kinds, attempt, scored, started, write_session

from voiceeval_engine.live import events
from voiceeval_tui.widgets.queue import QueuePane

NAMES = [f"retail__{number}" for number in range(36, 46)]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return write_session(tmp_path / "eval_20260618_072325", all_kinds(NAMES))


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


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_what_was_not_run_tells_why_where_there_is_room(tmp_path: Path, size: tuple[int, int]) -> None:
    stream = [started(NAMES[:1]), events.ScenarioNotRun(scenario=NAMES[0], attempt=0, reason="skipped by the operator")]
    async with console(write_session(tmp_path / "s", stream), size, alive=True) as pilot:
        row = next(line for line in lines(pilot) if line.startswith("! retail__36"))
        assert "…" not in row[:44]
        assert "! not run  skipped by the op" in text(pilot)


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
