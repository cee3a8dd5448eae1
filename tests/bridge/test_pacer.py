from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest

from voiceeval_engine.bridge.pacer import BEAT_MEMBERS, Pacer

PERIOD = 0.016


class ManualLoop:
    """Enough of an event loop for the pacer, with a clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, what: Callable[[], None]) -> object:
        self.timers.append((when, what))
        return object()

    def advance(self, until: float, late: float = 0.0) -> None:
        """Let time pass; every timer fires `late` s after its moment."""
        while self.timers and min(self.timers)[0] + late <= until + 1e-9:
            self.timers.sort(key=lambda timer: timer[0])
            when, what = self.timers.pop(0)
            self.now = max(self.now, when + late)
            what()
        self.now = until


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> ManualLoop:
    made = ManualLoop()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: made)
    return made


def test_ticks_lie_on_absolute_targets_however_late_each_one_is(loop: ManualLoop) -> None:
    ticks: list[tuple[float, float]] = []
    Pacer(PERIOD).join(lambda target: ticks.append((loop.now, target)))
    loop.advance(1060.003, late=0.003)
    assert len(ticks) == int(60 / PERIOD)
    assert [target for _, target in ticks] == pytest.approx([1000 + PERIOD * (n + 1) for n in range(len(ticks))])
    assert all(now - target == pytest.approx(0.003) for now, target in ticks)


def test_targets_are_never_later_than_the_tick(loop: ManualLoop) -> None:
    ticks: list[tuple[float, float]] = []
    Pacer(PERIOD).join(lambda target: ticks.append((loop.now, target)))
    for late in (0.0, 0.001, 0.015, 0.017, 0.1, 0.0):
        loop.advance(loop.now + 1.0, late=late)
    assert all(target <= now for now, target in ticks)
    targets = [target for _, target in ticks]
    assert targets == sorted(set(targets))


def test_a_loop_that_fires_a_little_early_still_gives_every_target_once(loop: ManualLoop) -> None:
    targets: list[float] = []
    Pacer(PERIOD).join(targets.append)
    for _ in range(100):
        when, what = loop.timers.pop(0)
        loop.now = when - 0.0005
        what()
    assert targets == pytest.approx([1000 + PERIOD * (n + 1) for n in range(100)])


def test_after_a_stall_the_missed_ticks_are_left_out_and_the_grid_is_kept(loop: ManualLoop) -> None:
    targets: list[float] = []
    Pacer(PERIOD).join(lambda target: targets.append(target))
    loop.advance(1000.1)
    loop.now = 1000.5
    loop.advance(1001.0)
    assert all(round((target - 1000) / PERIOD, 6).is_integer() for target in targets)
    assert len(targets) == int(0.1 / PERIOD) + 1 + int(1.0 / PERIOD) - int(0.5 / PERIOD)


def test_one_timer_serves_a_handful_of_members(loop: ManualLoop) -> None:
    pacer, counts = Pacer(PERIOD), [0, 0, 0]

    def member(index: int) -> Callable[[float], None]:
        def tick(target: float) -> None:
            counts[index] += 1

        return tick

    members = [member(index) for index in range(3)]
    for each in members:
        pacer.join(each)
    assert len(loop.timers) == 1
    loop.advance(1001.0)
    assert len(loop.timers) == 1
    assert counts == [62, 62, 62]
    pacer.leave(members[1])
    loop.advance(1002.0)
    assert counts == [125, 62, 125]


def test_the_timer_ends_with_the_last_member_and_begins_with_the_next(loop: ManualLoop) -> None:
    pacer, ticks = Pacer(PERIOD), []

    def member(target: float) -> None:
        ticks.append(target)

    pacer.join(member)
    loop.advance(1000.1)
    pacer.leave(member)
    pacer.leave(member)
    loop.advance(1000.2)
    assert loop.timers == []
    before = len(ticks)
    loop.advance(1007.0001)
    pacer.join(member)
    loop.advance(1007.1)
    assert 1007.0001 < ticks[before] <= 1007.0001 + PERIOD
    assert round((ticks[before] - 1000) / PERIOD, 6).is_integer()


def test_many_members_are_spread_over_the_period_and_each_ticks_once_in_it(loop: ManualLoop) -> None:
    pacer, moments = Pacer(PERIOD), [[] for _ in range(100)]
    for ticks in moments:
        pacer.join(lambda target, ticks=ticks: ticks.append((loop.now, target)))
    loop.advance(1001.0)
    assert all(target == pytest.approx(now) for ticks in moments for now, target in ticks)
    assert all(len(ticks) in (61, 62, 63) for ticks in moments)
    assert all(later - now == pytest.approx(PERIOD) for ticks in moments for (now, _), (later, _) in pairwise(ticks))
    together = Counter(round(ticks[30][0] % PERIOD, 5) for ticks in moments)
    assert max(together.values()) == BEAT_MEMBERS
    places = sorted(together)
    assert max(later - place for place, later in pairwise(places)) <= PERIOD / 4 + 1e-5


def test_places_that_became_free_are_taken_before_a_new_beat_begins(loop: ManualLoop) -> None:
    pacer = Pacer(PERIOD)
    members = [lambda target, number=number: None for number in range(BEAT_MEMBERS)]
    for _ in range(5):
        for member in members:
            pacer.join(member)
        loop.advance(loop.now + 0.1)
        assert len(loop.timers) == 1
        for member in members[::2]:
            pacer.leave(member)
        for member in members[::2]:
            pacer.join(member)
        for member in members:
            pacer.leave(member)
        loop.advance(loop.now + 0.1)
        assert loop.timers == []


def test_a_member_may_leave_inside_its_tick(loop: ManualLoop) -> None:
    pacer, seen = Pacer(PERIOD), []

    def once(target: float) -> None:
        seen.append("once")
        pacer.leave(once)

    pacer.join(once)
    pacer.join(lambda target: seen.append("other"))
    loop.advance(1000.033)
    assert seen == ["once", "other", "other"]


def test_leaving_and_joining_between_two_ticks_makes_no_second_timer(loop: ManualLoop) -> None:
    pacer, ticks = Pacer(PERIOD), []

    def member(target: float) -> None:
        ticks.append(target)

    for _ in range(5):
        pacer.join(member)
        pacer.leave(member)
    pacer.join(member)
    assert len(loop.timers) == 1
    loop.advance(1001.0)
    assert len(ticks) == len(set(ticks)) == 62
