"""The journal on disk: whole lines in order, whatever happened to the file or the disk before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from voiceeval_engine.live.events import Event, Logged, to_line
from voiceeval_engine.live.journal import Journal, JournalReading, read_events


def _said(text: str) -> Logged:
    return Logged(level="INFO", message=text)


async def _write(path: Path, texts: Sequence[str]) -> Journal:
    with ThreadPoolExecutor(1) as executor:
        journal = Journal(path, executor)
        for text in texts:
            journal.emit(_said(text))
        await journal.close()
    return journal


def _read(path: Path) -> tuple[list[Event], JournalReading]:
    reading = JournalReading()
    return list(read_events(path, reading)), reading


def _messages(path: Path) -> list[str]:
    return [event.message for event in _read(path)[0] if isinstance(event, Logged)]


async def test_events_are_numbered_and_stamped(tmp_path: Path) -> None:
    await _write(tmp_path / "j", ["a", "b", "c"])
    found, reading = _read(tmp_path / "j")
    assert [event.seq for event in found] == [1, 2, 3]
    assert all(event.time > 0 for event in found)
    assert reading.bad_lines == 0
    assert (tmp_path / "j").read_bytes().endswith(b"}\n")


async def test_numbers_go_on_over_a_resume(tmp_path: Path) -> None:
    await _write(tmp_path / "j", ["a", "b"])
    await _write(tmp_path / "j", ["c"])
    assert [event.seq for event in _read(tmp_path / "j")[0]] == [1, 2, 3]


@pytest.mark.parametrize(
    "after",
    [b"", b"\n", b"{}\n", b"x" * 200_000, b'{"type": "gone_on"}\n', b'{"type": "gone_on", "seq": -4}\n', b"\xff\n" * 100_000],
    ids=len,
)
async def test_numbers_go_on_over_a_resume_however_much_that_is_no_event_of_ours_stands_last(tmp_path: Path, after: bytes) -> None:
    await _write(tmp_path / "j", ["a", "b" * 70_000])
    with (tmp_path / "j").open("ab") as file:
        file.write(after)
    await _write(tmp_path / "j", ["c"])
    assert [event.seq for event in _read(tmp_path / "j")[0] if isinstance(event, Logged)] == [1, 2, 3]


async def test_a_line_that_a_crash_cut_is_ended_first(tmp_path: Path) -> None:
    path = tmp_path / "j"
    await _write(path, ["a", "b"])
    path.write_bytes(path.read_bytes()[:-9])
    await _write(path, ["c", "d"])
    assert _messages(path) == ["a", "c", "d"]
    assert _read(path)[1].bad_lines == 1
    assert [event.seq for event in _read(path)[0]] == [1, 2, 3]


async def test_a_whole_line_without_its_newline_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "j"
    await _write(path, ["a"])
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    await _write(path, ["b"])
    assert _messages(path) == ["a", "b"]


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"null",
        b"7",
        b'{"type":"logged"}',
        b'{"type":"from_the_future","seq":3}',
        b"\xff\xfe\x00",
        b"[" * 5000,
        b'{"seq":"x"}',
        b"x" * 100_000,
        b'{"type":"logged","level":"LOUD","message":"x"}',
        b'{"type":"logged","level":"INFO","message":"x","seq":1e400}',
    ],
    ids=lambda line: repr(line[:24]),
)
async def test_a_bad_line_anywhere_is_skipped_and_counted(tmp_path: Path, line: bytes) -> None:
    good = to_line(_said("good")).encode()
    (tmp_path / "j").write_bytes(b"\n".join([line, good, b"", line, good, line]))
    found, reading = _read(tmp_path / "j")
    assert len(found) == 2
    assert reading.bad_lines == 3


async def test_a_key_of_a_later_version_is_no_bad_line(tmp_path: Path) -> None:
    event = {**json.loads(to_line(_said("a"))), "mood": "fine"}
    (tmp_path / "j").write_text(json.dumps(event) + "\n")
    assert _messages(tmp_path / "j") == ["a"]


def test_a_journal_that_is_not_there_has_no_events(tmp_path: Path) -> None:
    assert _read(tmp_path / "j") == ([], JournalReading())


async def test_listeners_get_what_is_written(tmp_path: Path) -> None:
    heard: list[Event] = []
    with ThreadPoolExecutor(1) as executor:
        journal = Journal(tmp_path / "j", executor)
        journal.listen(heard.append)
        journal.emit(_said("a"))
        assert [event.seq for event in heard] == [1], "a listener is told at once"
        await journal.close()
    assert _read(tmp_path / "j")[0] == heard


async def test_a_listener_that_raises_is_told_no_more_and_others_are(tmp_path: Path) -> None:
    heard: list[Event] = []

    def broken(event: Event) -> None:
        raise ValueError("a view's bug")

    with ThreadPoolExecutor(1) as executor:
        journal = Journal(tmp_path / "j", executor)
        journal.listen(broken)
        journal.listen(heard.append)
        for text in ("a", "b"):
            journal.emit(_said(text))
        await journal.close()
    assert len(heard) == 2
    assert [str(error) for error in journal.failures] == ["a view's bug"]
    assert _messages(tmp_path / "j") == ["a", "b"]


async def test_a_disk_that_refuses_is_kept_as_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    journal = await _write(tmp_path / "folder" / "j", ["a"])
    assert journal.error is None
    journal = await _write(tmp_path / "nowhere" / "j", ["a"])
    assert isinstance(journal.error, FileNotFoundError)


async def test_what_a_full_disk_did_not_take_is_written_when_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "j"
    open_file = Path.open

    class Full:
        def __init__(self, file: Any) -> None:
            self._file = file

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: Any) -> None:
            self._file.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def write(self, data: bytes) -> int:
            if len(data) < 10:
                raise OSError(28, "No space left on device")
            written: int = self._file.write(data[: len(data) // 2])
            return written

    with ThreadPoolExecutor(1) as executor:
        journal = Journal(path, executor)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", lambda self, *given, **named: Full(open_file(self, *given, **named)))
            journal.emit(_said("waits"))
            await asyncio.sleep(0)
            await journal.close()
        assert isinstance(journal.error, OSError)
        assert path.read_bytes() == b""
        journal._timer = None
        journal.emit(_said("comes after it"))
        await journal.close()
    assert journal.error is None
    assert _messages(path) == ["waits", "comes after it"]
    assert _read(path)[1].bad_lines == 0


async def test_lines_are_on_disk_while_the_run_goes_on(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as executor:
        journal = Journal(tmp_path / "j", executor)
        journal.emit(_said("a"))
        async with asyncio.timeout(20):
            while _messages_or_none(tmp_path / "j") != ["a"]:
                await asyncio.sleep(0.01)
        journal.emit(_said("b"))
        await journal.close()
    assert _messages(tmp_path / "j") == ["a", "b"]


async def test_many_events_keep_their_order(tmp_path: Path) -> None:
    texts = [str(number) for number in range(5000)]
    await _write(tmp_path / "j", texts)
    assert _messages(tmp_path / "j") == texts


def _messages_or_none(path: Path) -> list[str] | None:
    return _messages(path) if path.exists() else None
