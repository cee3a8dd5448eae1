"""Events from a journal that grows, is cut, is replaced or bad, and from the files of a session that has none."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from voiceeval_engine.live import events
from voiceeval_engine.live.events import to_line
from voiceeval_engine.session import layout
from voiceeval_tui import files_source
from voiceeval_tui.files_source import FilesSource
from voiceeval_tui.session_files import read_transcript
from voiceeval_tui.source import JournalSource, SourceError, open_source
from voiceeval_tui.view import View

REFERENCE = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"


def _logged(number: int) -> str:
    return to_line(events.Logged(level="INFO", message=str(number), seq=number)) + "\n"


def _messages(source: JournalSource) -> list[str]:
    return [event.message for event in source.poll().events if isinstance(event, events.Logged)]


def test_a_growing_journal_gives_each_event_once(tmp_path: Path) -> None:
    source = JournalSource(tmp_path)
    assert source.poll().events == []
    path = tmp_path / layout.JOURNAL
    with path.open("a") as file:
        file.write(_logged(1) + _logged(2)[:20])
        file.flush()
        assert _messages(source) == ["1"]
        file.write(_logged(2)[20:] + _logged(3))
        file.flush()
        assert _messages(source) == ["2", "3"]
    assert _messages(source) == []


def test_bad_lines_are_counted_and_passed_over(tmp_path: Path) -> None:
    (tmp_path / layout.JOURNAL).write_bytes(_logged(1).encode() + b'{"type":"??"}\n\xff\xfe\n\n' + _logged(2).encode())
    source = JournalSource(tmp_path)
    assert _messages(source) == ["1", "2"]
    assert source.link(ended=False).bad_lines == 2


def test_a_line_without_end_does_not_grow_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voiceeval_tui.source.MAX_LINE_BYTES", 300_000)
    path = tmp_path / layout.JOURNAL
    path.write_bytes(b"x" * 1_000_000)
    source = JournalSource(tmp_path)
    assert _messages(source) == []
    with path.open("ab") as file:
        file.write(b"\n" + _logged(1).encode())
    assert _messages(source) == ["1"]
    assert source.bad_lines == 1


@pytest.mark.parametrize("how", ["cut", "replaced", "removed"])
def test_another_file_at_the_path_begins_anew(tmp_path: Path, how: str) -> None:
    path = tmp_path / layout.JOURNAL
    path.write_text(_logged(1) + _logged(2))
    source = JournalSource(tmp_path)
    assert source.poll().restarted is False
    if how == "cut":
        path.write_text(_logged(7))
    else:
        path.unlink()
        if how == "removed":
            assert source.poll().restarted is True
        (tmp_path / "new").write_text(_logged(7) + _logged(8) + _logged(9))
        (tmp_path / "new").rename(path)
    batch = source.poll()
    assert batch.restarted is (how != "removed")
    assert isinstance(batch.events[0], events.Logged)
    assert batch.events[0].message == "7"


def test_a_long_journal_is_read_in_parts(tmp_path: Path) -> None:
    (tmp_path / layout.JOURNAL).write_text("".join(map(_logged, range(20_000))))
    source = JournalSource(tmp_path)
    first = source.poll(budget=0.0)
    assert first.behind
    assert source.link(ended=False).state == "opening"
    count = len(first.events)
    while (batch := source.poll(budget=0.0)).behind:
        count += len(batch.events)
    assert count + len(batch.events) == 20_000
    assert source.link(ended=False).state == "gone"
    assert source.link(ended=True).state == "finished"


def test_the_reference_harness_session_is_told_as_events() -> None:
    source = open_source(REFERENCE)
    assert isinstance(source, FilesSource)
    view = View()
    batch = source.poll()
    assert batch.restarted
    view.apply_all(batch.events)
    found = {each.name: (each.status, each.attempt, each.turns, len(each.discarded)) for each in view.run.scenarios.values()}
    assert found == {
        "domA__1": ("passed", 2, 3, 1),
        "domA__2": ("stalled", 2, 0, 1),
        "domB__1": ("failed", 1, 2, 0),
        "domB__2": ("stalled", 1, 2, 0),
        "simple": ("no verdict", 1, 2, 0),
    }
    assert view.run.scenarios["domA__1"].discarded[0].reason == "0 conversation turns (bots never exchanged audio)"
    assert view.run.ended is not None
    assert view.run.ended.complete
    assert any("domA__1" in line.message for line in view.log)
    assert source.link(ended=True).state == "finished"


def test_a_session_of_files_is_followed_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_source, "POLL_SECONDS", 0.0)
    session = tmp_path / "eval_1"
    session.mkdir()
    record = {
        "started_at": "2026-01-01T00:00:00", "parsed_args": {"agent_url": "ws://a", "user_url": "ws://u", "inactivity_timeout": 60},
        "resolved_scenario_names": ["d__1", "d__2", "../evil"],
    }  # fmt: skip
    (session / layout.RUN_ARGS).write_text(json.dumps({"invocations": [record]}))
    source, view = FilesSource(session), View()

    def statuses() -> dict[str, tuple[str, int]]:
        view.apply_all(source.poll().events)
        return {each.name: (each.status, each.attempt) for each in view.run.scenarios.values()}

    assert statuses() == {"d__1": ("queued", 0), "d__2": ("queued", 0)}
    assert (view.run.pairs, view.run.inactivity_timeout) == ((("ws://a", "ws://u"),), 60)
    one = session / "d__1"
    (one / layout.SCENARIO_CONFIG).mkdir(parents=True)
    assert statuses()["d__1"] == ("setting up", 1)
    one.rename(session / "d__1.killed.autoretry1.20260101_000000")
    assert statuses()["d__1"] == ("retrying", 1)
    (one / layout.SCENARIO_CONFIG).mkdir(parents=True)
    (one / layout.BRIDGE_LOG).touch()
    assert statuses()["d__1"] == ("talking", 2)
    (one / layout.METRICS).write_text('{"total_turns": 1')
    assert statuses()["d__1"] == ("talking", 2)
    (one / layout.METRICS).write_text('{"total_turns": 3, "is_successful": false, "success_breakdown": {"failed": ["clean_exit"]}}')
    os.utime(one / layout.METRICS, (2_000_000_000, 2_000_000_000))
    assert statuses()["d__1"] == ("failed", 2)
    assert view.run.scenarios["d__1"].failed_signals == ("clean_exit",)
    one.rename(session / "d__1.killed.20260102_000000")
    assert statuses()["d__1"][0] == "queued"


def test_a_session_of_files_goes_over_to_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_source, "POLL_SECONDS", 0.0)
    session = tmp_path / "eval_1"
    shutil.copytree(REFERENCE, session)
    source = FilesSource(session)
    assert source.poll().restarted
    (session / layout.JOURNAL).write_text(_logged(1))
    batch = source.poll()
    assert batch.restarted
    assert len(batch.events) == 1
    assert source.poll().restarted is False


def test_a_saved_conversation_is_read_back(tmp_path: Path) -> None:
    folder = tmp_path / "d__1"
    folder.mkdir()
    text = (
        "RTVI Evaluation Bridge - Conversation Log\n====\n[  0.500s -   1.500s] (1.000s) USER: Hello [red] \x1b[31m there\n"
        "[  2.300s -   4.000s] (1.700s) AGENT: Hi.\n  → Response latency: 800.0ms\n\n====\nStop reason: [EXIT]\n"
    )
    (folder / layout.CONVERSATION_LOG).write_text(text)
    found = read_transcript(tmp_path, "d__1")
    assert found is not None
    assert [(line.side, line.at, line.latency_ms) for line in found.lines] == [("user", 0.5, None), ("agent", 2.3, 800.0)]
    assert found.lines[0].text == "Hello [red] \x1b[31m there"
    assert [(each.side, each.start, each.end) for each in found.speech] == [("user", 0.5, 1.5), ("agent", 2.3, 4.0)]


def test_without_a_log_the_turns_of_the_metrics_are_read() -> None:
    found = read_transcript(REFERENCE, "domA__1")
    assert found is not None
    assert [(line.side, line.text) for line in found.lines] == [
        ("agent", "agent text"),
        ("user", "user text"),
        ("agent", "agent text"),
    ]


@pytest.mark.parametrize("name", ["../evil", "", "nothing", "a/b"])
def test_no_text_is_read_from_where_no_scenario_is(name: str) -> None:
    assert read_transcript(REFERENCE, name) is None


def test_there_is_no_source_where_there_is_no_session(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no session at"):
        open_source(tmp_path / "nowhere")
