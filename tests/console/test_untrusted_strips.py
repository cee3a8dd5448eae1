"""Whatever bots, judges, files and engines say, no strip that is drawn has anything in it that a terminal would obey."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from outputs import metrics, put_result, put_session
from pilots import Engine, Host, assert_harmless, console, lines, screen, settle
from screens import home, until
from sessions import START, attempt, scored, started, turn, write_session
from textual.pilot import Pilot

from voiceeval_engine.live import events
from voiceeval_engine.live.commands import Reply
from voiceeval_tui.actions import ACTIONS
from voiceeval_tui.details import read_details
from voiceeval_tui.resuming import ResumePlan
from voiceeval_tui.screens.pick import PickScreen
from voiceeval_tui.screens.run import PANES
from voiceeval_tui.starting import Checked, Finding, Listed
from voiceeval_tui.view import ALL_AREAS, Link, View
from voiceeval_tui.widgets.footer import Footer
from voiceeval_tui.widgets.header import Header
from voiceeval_tui.widgets.pane import Pane
from voiceeval_tui.widgets.plan import FactsPane
from voiceeval_tui.widgets.queue import QueuePane

_HARM = [
    *map(
        chr,
        (
            *range(32),
            *range(0x7F, 0xA0),
            0x61C,
            *range(0x200B, 0x200E),
            0x200F,
            *range(0x2028, 0x202F),
            *range(0x2060, 0x206A),
            0xFEFF,
        ),
    )
]
_WORDS = [
    "\x1b[31m",
    "\x1b]0;t\x07",
    "\x9b2J",
    "[red]",
    "[/",
    "$x",
    "a",
    "b c",
    "é",
    "多",
    "שלום",
    "👨‍👩‍👧",
    "e\u0301\u0301\u0301\u0301\u0301",
]
texts = st.lists(st.sampled_from(_HARM) | st.sampled_from(_WORDS), min_size=1, max_size=12).map("".join)
"""Control characters, marks of direction and sequences between harmless letters. None is a lone surrogate: no journal has one."""
ALL = "".join(_HARM) + "".join(_WORDS)


def told(bad: str) -> list[events.Event]:
    """A run of which every text is this one: scenarios that talk, that are retried, that end in every way."""
    names = [f"d__{number}{bad}" for number in range(7)]
    talks, retried, failed, stalled, dead, judged, waits = names
    by = {"scenario": talks, "attempt": 1}
    return [
        started(names).model_copy(update={"session": bad, "pairs": [(bad, bad)]}),
        *attempt(talks), turn(talks, bad, 1.0, "user"), turn(talks, bad, 3.0),
        events.ToolCalled(**by, side="agent", name=bad, applied=True, at=4.0, time=START + 4),
        events.Speaking(**by, side="user", on=True, at=5.0, time=START + 5),
        events.Words(**by, side="user", text=bad, at=5.5, time=START + 5),
        *attempt(retried), events.AttemptDiscarded(scenario=retried, attempt=1, reason=bad, retry_in=3.0),
        *attempt(failed), scored(failed, verdict=False, failed_signals=[bad], signals={bad: False}, stop_reason=bad),
        *attempt(stalled), scored(stalled, stalled=True, verdict=False, stop_reason=bad),
        events.ScenarioNotRun(scenario=dead, attempt=0, reason=bad),
        *attempt(judged), scored(judged, verdict=False, judge_failed=True, failed_signals=["judge_passed"], stop_reason=bad),
        events.Requeued(scenario=waits, attempt=0, reason=bad, by_hand=True),
        events.PairOut(pair=0, reason=bad, since=START), events.Paused(reason=bad),
        *(events.Logged(level=level, message=bad, time=START) for level in ("INFO", "WARNING", "ERROR")),
    ]  # fmt: skip


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts)
def test_no_pane_draws_what_a_terminal_obeys(bad: str) -> None:
    asyncio.run(_draw_every_pane(bad))


async def _draw_every_pane(bad: str) -> None:
    view, queue = View(), QueuePane()
    facts = FactsPane()
    panes: list[Pane] = [Header(), Footer(ACTIONS), queue, *(kind() for kind in PANES), facts]
    host = Host(*panes, size=(90, 14))
    async with host.run_test(size=(90, 14 * len(panes))) as pilot:
        view.apply_all(told(bad))
        view.tick(START + 60)
        view.set_link(Link("alive"))
        facts.put(
            ResumePlan(Path(bad.replace("\0", "")), 2, obstacle=bad),
            Checked((Finding("agent", bad, False, bad, bad), Finding("judge", bad, True, bad)), False),
        )
        with TemporaryDirectory() as folder:
            session = put_session(Path(folder), 60, ["x"], 1)
            put_result(session, "x", {**metrics(), "stop_reason": bad, "auto_retry_reasons": [bad]}, judge=bad)
            found = read_details(session, "x")
        for name in view.run.scenarios:
            view.select(name)
            view.put_details(found)
            for pane in panes:
                if pane is not facts:
                    pane.show(view, ALL_AREAS)
            await pilot.pause()
            assert_harmless(host.shown(), 90)
    assert host.failed == []


async def _look(pilot: Pilot[Any], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await settle(pilot)
        assert_harmless(lines(pilot), pilot.app.size.width)


async def test_no_screen_and_no_dialog_of_a_run_draws_what_a_terminal_obeys(tmp_path: Path) -> None:
    session = write_session(tmp_path / "eval_20260618_072325", told(ALL))
    engine = Engine(Reply(ok=False, message=ALL))
    async with console(session, engine=engine, alive=True) as pilot:
        for name, key in zip(screen(pilot).view.run.scenarios, ("x", "y", "r", "r", "s", "p", "question_mark"), strict=True):
            pilot.app.query_one(QueuePane).choose(name)
            await _look(pilot, key, "y", "escape")
        await _look(pilot, "1", "slash", *"d__", "escape", "ctrl+p", "escape", "q", "escape")
    assert engine.told


async def test_no_screen_before_a_run_draws_what_a_terminal_obeys(tmp_path: Path) -> None:
    names = [f"d__{number}{ALL[:50]}".replace("/", "").replace("\0", "") for number in range(3)]
    session = put_session(tmp_path, 60, names, 1, domain=ALL)
    put_result(session, names[1], metrics(responses=1, stop_reason=ALL))
    write_session(session, [events.Logged(level="INFO", message="x", time=1.0)])
    (session / "engine.log").write_text(json.dumps(ALL))
    listed = Listed(tuple((f"{number}{ALL}", True) for number in range(3)), (ALL, ALL))
    async with home(tmp_path) as pilot:
        await until(pilot, lambda: "1 session" in "".join(lines(pilot)))
        await _look(pilot, "down", "r", "down", "end", "enter", "escape", "escape", "escape")
        pilot.app.push_screen(PickScreen(listed, [ALL]))
        await _look(pilot, "space", "a", "slash", "a", "enter", "end", "question_mark", "escape")
