from __future__ import annotations

import asyncio
import io
import wave
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voiceeval_engine.audio import recorder as recorder_module
from voiceeval_engine.audio.recorder import Recorder

RATE, CHUNK = 16_000, 256
EVERY = 250
"""Ticks in four seconds."""


@pytest.fixture
def pool() -> Any:
    with ThreadPoolExecutor(1) as made:
        yield made


def chunk(value: int) -> bytes:
    return np.full(CHUNK, value, dtype="<i2").tobytes()


def read(path: Path) -> np.ndarray:
    """The file as `wave` sees it, frames by channels; any flaw of the header fails."""
    with wave.open(str(path), "rb") as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (2, 2, RATE)
        data = file.readframes(file.getnframes())
        assert len(data) == 4 * file.getnframes()
    return np.frombuffer(data, dtype="<i2").reshape(-1, 2)


async def test_left_is_what_the_agent_was_sent_and_right_what_the_user_was(tmp_path: Path, pool: Any) -> None:
    path = tmp_path / "r.wav"
    recorder = Recorder(path, RATE, 0.016, pool)
    for index in range(150):
        recorder.add(chunk(index), chunk(-index))
        await asyncio.sleep(0)
    await recorder.close()
    samples = read(path)
    assert samples.shape == (150 * CHUNK, 2)
    assert (samples[::CHUNK, 0] == np.arange(150)).all()
    assert (samples[::CHUNK, 1] == -np.arange(150)).all()
    assert path.stat().st_size == 44 + samples.nbytes


async def test_the_file_is_valid_at_any_moment_and_grows_every_four_seconds(tmp_path: Path, pool: Any) -> None:
    path = tmp_path / "r.wav"
    recorder = Recorder(path, RATE, 0.016, pool)
    assert read(path).size == 0
    lengths = []
    for index in range(EVERY * 4):
        recorder.add(chunk(index), chunk(1))
        if recorder._writing is not None:
            await recorder._writing
        lengths.append(len(read(path)) // CHUNK)
        assert len(recorder._left) < EVERY
    before, first, *later = sorted(set(lengths))
    assert before == 0
    assert 1 <= first <= EVERY
    assert later == [first + EVERY * times for times in range(1, len(later) + 1)]
    await recorder.close()
    assert len(read(path)) == EVERY * 4 * CHUNK


async def test_recordings_that_begin_together_are_not_written_at_the_same_moment(tmp_path: Path, pool: Any) -> None:
    recorders = [Recorder(tmp_path / f"{number}.wav", RATE, 0.016, pool) for number in range(50)]
    together = [0] * EVERY
    for tick in range(EVERY):
        for recorder in recorders:
            recorder.add(chunk(tick), chunk(1))
            together[tick] += not recorder._left
    for recorder in recorders:
        await recorder.close()
    assert sum(together) >= 50
    assert max(together) < 10


async def test_the_header_never_promises_more_than_is_there_while_a_thread_writes(tmp_path: Path, pool: Any) -> None:
    path = tmp_path / "r.wav"
    recorder = Recorder(path, RATE, 0.016, pool)

    def watch() -> int:
        return max(len(read(path)) for _ in range(60))

    with ThreadPoolExecutor(1) as watcher:
        watching = asyncio.get_running_loop().run_in_executor(watcher, watch)
        for index in range(6000):
            recorder.add(chunk(index), chunk(1))
            if index % 100 == 0:
                await asyncio.sleep(0)
        await watching
    await recorder.close()
    assert len(read(path)) == 6000 * CHUNK


async def test_nothing_recorded_is_an_empty_recording(tmp_path: Path, pool: Any) -> None:
    await Recorder(tmp_path / "r.wav", RATE, 0.016, pool).close()
    assert read(tmp_path / "r.wav").size == 0


class FullDisk(io.FileIO):
    """A file that takes `room` bytes and no more."""

    room = 44 + (EVERY + 20) * CHUNK * 4

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self.room:
            raise OSError(28, "No space left on device")
        return super().write(data)


async def test_an_error_of_the_disk_is_raised_at_the_end_and_what_was_written_stays_playable(
    tmp_path: Path, pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "open", lambda self, mode: FullDisk(self, "w"))
    path = tmp_path / "r.wav"
    recorder = Recorder(path, RATE, 0.016, pool)
    written = 0
    for index in range(EVERY * 4):
        recorder.add(chunk(index), chunk(1))
        if recorder._writing is not None:
            await recorder._writing
        written = max(written, len(read(path)) // CHUNK)
        assert len(recorder._left) < EVERY
    with pytest.raises(OSError, match="No space left"):
        await recorder.close()
    assert len(read(path)) == written * CHUNK
    assert 0 < written <= EVERY + 20
    assert recorder._file.closed


async def test_a_file_that_cannot_be_made_raises_at_once(tmp_path: Path, pool: Any) -> None:
    with pytest.raises(OSError):
        Recorder(tmp_path / "missing" / "r.wav", RATE, 0.016, pool)


async def test_a_disk_that_is_full_from_the_start_raises_at_once_and_leaves_no_open_file(
    tmp_path: Path, pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[FullDisk] = []

    class NoRoom(FullDisk):
        room = 0

        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            opened.append(self)

    monkeypatch.setattr(Path, "open", lambda self, mode: NoRoom(self, "w"))
    with pytest.raises(OSError, match="No space left"):
        Recorder(tmp_path / "r.wav", RATE, 0.016, pool)
    assert opened[0].closed


async def test_a_recording_stops_growing_at_what_a_header_can_say(
    tmp_path: Path, pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert recorder_module._MAX_DATA_BYTES % 4 == 0
    assert recorder_module._MAX_DATA_BYTES + 44 <= 2**32 - 1
    monkeypatch.setattr(recorder_module, "_MAX_DATA_BYTES", 100_000)
    recorder = Recorder(tmp_path / "r.wav", RATE, 0.016, pool)
    for index in range(300):
        recorder.add(chunk(index), chunk(1))
        await asyncio.sleep(0)
    await recorder.close()
    assert len(read(tmp_path / "r.wav")) == 25_000
