"""A full disk at every stage: the run pauses and says so, loses nothing, and goes on when there is room."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from driven_run import Operator, casts, drive, fails, files_of, named, pairs_of, stalls, until
from engine_run import Ran
from judges import WatchedJudge

from voiceeval_engine.audio.recorder import Recorder
from voiceeval_engine.live import events
from voiceeval_engine.live.journal import JournalReading, read_events
from voiceeval_engine.offload import Offload
from voiceeval_engine.run import disk as disk_module
from voiceeval_engine.run import ledger as ledger_module
from voiceeval_engine.run.backlog import Backlog
from voiceeval_engine.run.logs import RunLogs
from voiceeval_engine.session import files as files_module
from voiceeval_engine.session import layout

NAMES = ("s__a", "s__b")
JUDGED = {"success_signals": ("judge_passed", "clean_exit")}
MB = 2**20


@pytest.fixture(autouse=True)
def _quick_and_short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(disk_module, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(ledger_module, "AGGREGATE_SECONDS", 0.05)
    short = tempfile.mkdtemp(dir="/tmp")
    monkeypatch.setenv("TMPDIR", short)
    yield
    shutil.rmtree(short)


class Disk:
    """A disk that fills up at the first write of a kind, and has room again when told. `met` counts writes that found none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int = errno.ENOSPC) -> None:
        self.full, self.met = False, 0
        self._number = number
        self._filled = False
        self._lock = threading.Lock()
        has_room = disk_module.DiskWatch._has_room
        monkeypatch.setattr(disk_module.DiskWatch, "_has_room", lambda watch: not self.full and has_room(watch))

    def write(self, wanted: bool) -> None:
        """Something is about to be written; `wanted` is the kind at which the disk fills up."""
        with self._lock:
            if wanted and not self._filled:
                self.full = self._filled = True
            if wanted and self.full:
                self.met += 1
                raise OSError(self._number, os.strerror(self._number))


def at_file(name: str) -> Callable[[pytest.MonkeyPatch, Disk], None]:
    def set_up(monkeypatch: pytest.MonkeyPatch, disk: Disk) -> None:
        write = files_module.write_atomic

        def guarded(path: Path, data: bytes | str) -> None:
            disk.write(path.name == name)
            write(path, data)

        for module in ("files", "evidence", "summary", "run_args"):
            target = f"voiceeval_engine.session.{module}.write_atomic"
            monkeypatch.setattr(target, guarded, raising=False)

    return set_up


def at_recording(monkeypatch: pytest.MonkeyPatch, disk: Disk) -> None:
    write = Recorder._write

    def guarded(self: Recorder, left: list[bytes], right: list[bytes]) -> None:
        try:
            disk.write(True)
        except OSError as error:
            self._error = self._error or error
        write(self, left, right)

    monkeypatch.setattr(Recorder, "_write", guarded)


def at_folder(monkeypatch: pytest.MonkeyPatch, disk: Disk) -> None:
    mkdir = Path.mkdir

    def guarded(self: Path, *arguments: Any, **more: Any) -> None:
        disk.write(self.name in NAMES)
        mkdir(self, *arguments, **more)

    monkeypatch.setattr(Path, "mkdir", guarded)


def at_attempts_log(monkeypatch: pytest.MonkeyPatch, disk: Disk) -> None:
    attempt = RunLogs.attempt

    def guarded(self: RunLogs, *arguments: Any) -> Any:
        disk.write(True)
        return attempt(self, *arguments)

    monkeypatch.setattr(RunLogs, "attempt", guarded)


def at_move(monkeypatch: pytest.MonkeyPatch, disk: Disk) -> None:
    """The recording finds no room, and then not even a new name does."""
    at_recording(monkeypatch, disk)
    move = layout.move_aside

    def guarded(attempt: Path, tag: str) -> Path:
        disk.write(True)
        return move(attempt, tag)

    monkeypatch.setattr(layout, "move_aside", guarded)


def whole_session(session: Path) -> None:
    """Every JSON parses, the journal has every number once and in order, nothing temporary is left."""
    for path in session.rglob("*.json"):
        json.loads(path.read_text())
    reading = JournalReading()
    sequence = [each.seq for each in read_events(session / layout.JOURNAL, reading)]
    assert sequence == list(range(1, len(sequence) + 1))
    assert reading.bad_lines == 0
    assert not list(session.rglob("*.tmp"))


def everything_has_one_result(ran: Ran, names: tuple[str, ...] = NAMES) -> None:
    assert ran.complete
    assert ran.tasks_left == []
    for name in names:
        assert ran.metrics(name)["auto_retry_count"] == 0
        assert len([each for each in ran.of(name, events.ScenarioScored) if not each.pending]) == 1
        assert ran.of(name, events.ScenarioNotRun) == []
    assert [each["scenario_name"] for each in json.loads((ran.session / "all_metrics.json").read_text())] == list(names)
    assert "did not run" not in (ran.session / "all_summary.txt").read_text()
    whole_session(ran.session)


STAGES: dict[str, tuple[Callable[[pytest.MonkeyPatch, Disk], None], bool]] = {
    "recording": (at_recording, True),
    "set-up": (at_file("metadata.json"), True),
    "evidence": (at_file("conversation_log.txt"), True),
    "metrics.json": (at_file("metrics.json"), True),
    "the pending verdict": (at_file("judge_result.json"), True),
    "folder": (at_folder, True),
    "the attempt's log": (at_attempts_log, True),
    "moving aside": (at_move, True),
    "aggregates": (at_file("all_metrics.json"), False),
    "the summary": (at_file("all_summary.txt"), False),
}


@pytest.mark.parametrize(
    ("stage", "number"), [*((stage, errno.ENOSPC) for stage in STAGES), ("recording", errno.EDQUOT), ("the summary", errno.EDQUOT)]
)
def test_a_full_disk_pauses_the_run_and_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, number: int
) -> None:
    set_up, discards = STAGES[stage]
    disk = Disk(monkeypatch, number)
    shown: list[tuple[str, str]] = []

    async def play(operator: Operator) -> None:
        await operator.until(lambda: operator.state.paused)
        status = await operator.status()
        shown.append((status.state, status.reason))
        begun = operator.count(events.AttemptStarted)
        await asyncio.sleep(0.15)
        assert operator.count(events.AttemptStarted) == begun
        assert disk.met
        disk.full = False

    set_up(monkeypatch, disk)
    with casts(s__a=fails, s__b=fails) as agents, WatchedJudge() as judge:
        ran = drive(tmp_path, pairs_of(agents), named(*NAMES, **JUDGED), play, judge_url=judge.url, judge_threshold=0.5)
    everything_has_one_result(ran)
    state, reason = shown[0]
    assert state == "paused"
    assert f"the disk is full ({os.strerror(number)})" in reason
    assert reason in [each.reason for each in ran.events if isinstance(each, events.Paused)]
    assert isinstance([each for each in ran.events if isinstance(each, events.Paused | events.GoneOn)][-1], events.GoneOn)
    discarded = [each for each in ran.events if isinstance(each, events.AttemptDiscarded)]
    assert bool(discarded) is discards
    assert all("no room on the disk" in each.reason for each in discarded)
    kept = [path for path in ran.session.iterdir() if ".killed." in path.name]
    assert len(kept) == len([each for each in discarded if each.moved_to])
    assert judge.asked == len(NAMES)


def test_a_verdict_that_finds_no_room_is_written_when_there_is_and_not_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    write = files_module.write_json

    def guarded(path: Path, value: Any, indent: int | None = 2) -> None:
        disk.write(path.name == "judge_result.json")
        write(path, value, indent)

    monkeypatch.setattr("voiceeval_engine.run.judging.write_json", guarded)

    async def play(operator: Operator) -> None:
        await operator.until(lambda: operator.state.paused)
        await asyncio.sleep(0.3)
        disk.full = False

    with casts(s__a=fails, s__b=fails) as agents, WatchedJudge() as judge:
        ran = drive(tmp_path, pairs_of(agents), named(*NAMES, **JUDGED), play, judge_url=judge.url, judge_threshold=0.5)
        assert judge.asked == len(NAMES)
    everything_has_one_result(ran)
    assert [each for each in ran.events if isinstance(each, events.AttemptDiscarded)] == []


def test_a_journal_that_finds_no_room_has_no_gap_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    opened = Path.open

    class Half:
        """Takes half of what it is given, then nothing."""

        def __init__(self, file: Any) -> None:
            self._file = file

        def __enter__(self) -> Half:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()

        def write(self, data: memoryview) -> int:
            if disk.met % 2:
                disk.write(True)
            disk.met += 1
            return int(self._file.write(data[: len(data) // 2 + 1]))

        def seek(self, *arguments: int) -> int:
            return int(self._file.seek(*arguments))

        def truncate(self, size: int) -> None:
            if disk.met > 6:
                raise OSError(errno.EIO, "not even that")
            self._file.truncate(size)

    def guarded(self: Path, mode: str = "r", *arguments: Any, **more: Any) -> Any:
        file = opened(self, mode, *arguments, **more)
        return Half(file) if disk.full and self.name == layout.JOURNAL and mode == "ab" else file

    monkeypatch.setattr(Path, "open", guarded)

    async def play(operator: Operator) -> None:
        await operator.until_is("s__a", "talking")
        disk.full = disk._filled = True
        disk.met = 1
        await operator.until_is("s__b", "talking")
        await asyncio.sleep(0.6)
        disk.full = False

    with casts() as agents:
        ran = drive(tmp_path, pairs_of(agents), named(*NAMES), play)
    assert ran.complete
    whole_session(ran.session)


@pytest.mark.parametrize("stage", ["recording", "moving aside", "the summary"])
@pytest.mark.parametrize("command", ["signal", "stop-now"])
def test_a_run_that_waits_for_room_ends_within_seconds_when_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, command: str
) -> None:
    disk = Disk(monkeypatch)
    STAGES[stage][0](monkeypatch, disk)
    told: list[float] = []

    async def play(operator: Operator) -> None:
        await operator.until(lambda: operator.state.paused)
        await asyncio.sleep(0.2)
        told.append(time.monotonic())
        if command == "signal":
            operator.runner.stop()
        else:
            await operator.do("stop-now")

    with casts(s__a=fails, s__b=fails) as agents:
        ran = drive(tmp_path, pairs_of(agents), named(*NAMES), play)
        assert time.monotonic() - told[0] < 8
        disk.full = False
        assert not ran.complete
        assert ran.tasks_left == []
        monkeypatch.undo()
        resumed = drive(tmp_path, pairs_of(agents), named(*NAMES), resume=ran.session.name.removeprefix("eval_"))
    assert resumed.complete
    whole_session(resumed.session)


@pytest.mark.parametrize("what", ["the old result cannot be moved", "the new folder cannot be made"])
def test_a_result_that_is_to_be_replaced_by_hand_is_not_lost_to_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    disk, gate = Disk(monkeypatch), threading.Event()
    before: dict[str, bytes] = {}

    async def play(operator: Operator) -> None:
        await operator.until_is("s__holds", "talking")
        await operator.until_is("s__stalls", "stalled")
        before.update(files_of(operator.session / "s__stalls"))
        moves = layout.move_aside

        def guarded(attempt: Path, tag: str) -> Path:
            disk.write(what.startswith("the old"))
            return moves(attempt, tag)

        mkdir = Path.mkdir

        def making(self: Path, *arguments: Any, **more: Any) -> None:
            disk.write(what.startswith("the new") and self.name == "s__stalls")
            mkdir(self, *arguments, **more)

        monkeypatch.setattr(layout, "move_aside", guarded)
        monkeypatch.setattr(Path, "mkdir", making)
        await operator.do("run-again", "s__stalls")
        await operator.until(lambda: operator.state.paused)
        for agent in agents:
            agent.down = "out of order"
        disk.full = False
        await operator.until(lambda: operator.count(events.ScenarioScored, scenario="s__stalls", restored=True))
        for agent in agents:
            agent.down = ""
        gate.set()

    with casts(2, s__stalls=stalls, s__holds=until(gate)) as agents:
        ran = drive(tmp_path, pairs_of(agents), named("s__stalls", "s__holds"), play, min_agent_turns=2)
    assert ran.complete
    assert files_of(ran.session / "s__stalls") == before
    whole_session(ran.session)


def test_a_room_of_a_megabyte_that_is_not_enough_makes_no_busy_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe finds room, what is to be written does not: it is tried again at each look, not at once."""
    disk = Disk(monkeypatch)
    at_file("all_summary.txt")(monkeypatch, disk)
    monkeypatch.setattr(disk_module.DiskWatch, "_has_room", lambda _: True)
    monkeypatch.setattr(disk_module, "LOOK_SECONDS", 0.2)

    async def play(operator: Operator) -> None:
        await operator.until(lambda: operator.state.paused)
        await asyncio.sleep(1.0)
        disk.full = False

    with casts(s__a=fails, s__b=fails) as agents:
        ran = drive(tmp_path, pairs_of(agents), named("s__a"), play)
    assert ran.complete
    assert 3 <= disk.met <= 8


async def test_a_look_that_cannot_remove_its_file_is_not_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offload, unlink, calls = Offload(), Path.unlink, [0]

    def refusing(self: Path, missing_ok: bool = False) -> None:
        calls[0] += 1
        if calls[0] < 3:
            raise OSError(errno.ENOSPC, "no room to remove a file")
        unlink(self, missing_ok=missing_ok)

    def always_full(self: Path, *_: Any, **__: Any) -> Any:
        if calls[0] < 3:
            raise OSError(errno.ENOSPC, "full")
        return opened(self, *_, **__)

    opened = Path.open
    monkeypatch.setattr(Path, "unlink", refusing)
    monkeypatch.setattr(Path, "open", always_full)
    backlog = Backlog((), range(1))
    log = logging.LoggerAdapter(logging.getLogger("tests.disk"), {})
    watch = disk_module.DiskWatch(tmp_path, backlog, offload, log)
    try:
        watch.report(OSError(errno.ENOSPC, "full"))
        assert backlog.held
        async with asyncio.timeout(10):
            await watch.room()
        assert not backlog.held
    finally:
        await watch.close()
        offload.close()


# -- the logs


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
async def test_an_attempts_log_that_finds_no_room_ends_no_logging(tmp_path: Path) -> None:
    logs = RunLogs(tmp_path, lambda _: None)
    (tmp_path / "s__a").mkdir()
    (tmp_path / "s__a" / layout.BRIDGE_LOG).symlink_to("/dev/full")
    log = logs.attempt("s__a", 1, tmp_path / "s__a")
    log.info("this finds no room")
    async with asyncio.timeout(10):
        await logs.end_attempt(log)
    logs.run.info("this does")
    logs.close()
    assert "this does" in (tmp_path / layout.EVALUATION_LOG).read_text()


async def test_an_attempt_that_is_cut_off_while_its_log_is_closed_ends_no_logging(tmp_path: Path) -> None:
    logs = RunLogs(tmp_path, lambda _: None)
    for number in range(20):
        folder = tmp_path / f"s__{number}"
        folder.mkdir()
        log = logs.attempt(folder.name, 1, folder)
        for _ in range(50):
            log.info("a line")
        ending = asyncio.create_task(logs.end_attempt(log))
        await asyncio.sleep(0)
        ending.cancel()
    logs.run.info("still here")
    logs.close()
    assert "still here" in (tmp_path / layout.EVALUATION_LOG).read_text()


# -- a real one


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    where = tmp_path / "tiny"
    where.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "voiceeval-test", str(where)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    yield where
    subprocess.run(["umount", str(where)], check=True)


def test_a_disk_that_is_really_full(tmp_path: Path, tiny_disk: Path) -> None:
    gate = threading.Event()

    def fill() -> None:
        with (tiny_disk / "ballast").open("wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(4096))
            except OSError:
                return

    async def play(operator: Operator) -> None:
        await operator.until_is("s__b", "talking")
        await asyncio.to_thread(fill)
        gate.set()
        await operator.until(lambda: operator.state.paused)
        assert "the disk is full" in (await operator.status()).reason
        await asyncio.sleep(0.5)
        await asyncio.to_thread((tiny_disk / "ballast").unlink)

    with casts(s__b=until(gate)) as agents, WatchedJudge() as judge:
        ran = drive(tiny_disk / "out", pairs_of(agents), named(*NAMES, **JUDGED), play, judge_url=judge.url, judge_threshold=0.5)
    everything_has_one_result(ran)
    assert "PAUSED" in ran.log or "there is room on the disk again" in ran.log
