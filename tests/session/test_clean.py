"""What `clean` may remove: attempts that were moved aside and temporary files, and never anything else or elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceeval_engine.session import clean as clean_module
from voiceeval_engine.session import layout
from voiceeval_engine.session.clean import Leftover, find_leftovers, is_session, remove
from voiceeval_engine.session.files import write_atomic

REFERENCE = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"


def fail(error: OSError) -> None:
    raise error


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def make(session: Path, *names: str) -> None:
    """Files of 10 bytes; a name that ends in a slash is an empty folder."""
    for name in names:
        path = session / name
        if name.endswith("/"):
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"0123456789")


def test_moved_attempts_and_temporary_files_are_found_with_their_sizes(tmp_path: Path) -> None:
    make(
        tmp_path, "run_args.json", "b/metrics.json", "b.killed.20260101_000000/__KILLED__", "b.killed.20260101_000000/logs/x",
        "a.killed.autoretry1.20260101_000000/", "b/.metrics.json.0a1b2c3d.tmp", ".all_metrics.json.ffffffff.tmp",
        "b/bot_logs_agent/.llm_context.json.00000000.tmp",
    )  # fmt: skip
    assert find_leftovers(tmp_path) == [
        Leftover(tmp_path / "a.killed.autoretry1.20260101_000000", 0, is_attempt=True),
        Leftover(tmp_path / "b.killed.20260101_000000", 20, is_attempt=True),
        Leftover(tmp_path / ".all_metrics.json.ffffffff.tmp", 10, is_attempt=False),
        Leftover(tmp_path / "b" / ".metrics.json.0a1b2c3d.tmp", 10, is_attempt=False),
        Leftover(tmp_path / "b" / "bot_logs_agent" / ".llm_context.json.00000000.tmp", 10, is_attempt=False),
    ]


def test_what_moves_aside_and_what_writes_name_things_as_they_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ("x" * 250)).mkdir()
    moved = layout.move_aside(tmp_path / ("x" * 250), layout.retry_tag(1, "20260101_000000"))
    left: list[Path] = []

    def killed(self: Path, _: Path) -> None:
        left.append(self)
        shutil.copy(self, self.with_name("copy"))  # what a kill -9 leaves; write_atomic itself cleans up after errors
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            write_atomic(tmp_path / "metrics.json", b"{}")
    (tmp_path / "copy").rename(left[0])
    assert [each.path for each in find_leftovers(tmp_path)] == [moved, left[0]]


@pytest.mark.parametrize(
    "name",
    [
        "metrics.json.0a1b2c3d.tmp",
        ".metrics.json.0a1b2c3.tmp",
        ".metrics.json.0A1B2C3D.tmp",
        ".metrics.json.0a1b2c3d.tmp.old",
        ".0a1b2c3d.tmp",
        "notes.tmp",
        "notes.killed.txt",
        "killed/x",
        "a.killed/x",
        "a.killedx.1/x",
        "scenario/x.killed.20260101_000000/x",
        "run_args.json.unreadable",
        "session.lock",
    ],
)
def test_what_only_looks_like_it_is_left_alone(tmp_path: Path, name: str) -> None:
    make(tmp_path, name)
    assert find_leftovers(tmp_path) == []


def test_exactly_what_was_found_is_removed(tmp_path: Path) -> None:
    kept = ["run_args.json", "b/metrics.json", "b/.hidden", "events.jsonl"]
    make(tmp_path, *kept)
    before = tree(tmp_path)
    make(tmp_path, "b.killed.1/deep/er/x", "b/.metrics.json.0a1b2c3d.tmp", "c.killed.2/")
    found = find_leftovers(tmp_path)
    assert remove(found, fail) == found
    assert tree(tmp_path) == before
    assert find_leftovers(tmp_path) == []


def test_no_symbolic_link_leads_out_of_the_session(tmp_path: Path) -> None:
    session, outside = tmp_path / "eval_x", tmp_path / "outside"
    make(outside, "precious", ".metrics.json.0a1b2c3d.tmp", "sub/x")
    make(session, "run_args.json", "a.killed.1/own")
    (session / "b.killed.1").symlink_to(outside)
    (session / "c.killed.1").symlink_to(outside / "precious")
    (session / "d.killed.1").symlink_to(tmp_path / "nowhere")
    (session / "a.killed.1" / "link").symlink_to(outside)
    (session / "scenario").symlink_to(outside)
    (session / ".x.0a1b2c3d.tmp").symlink_to(outside / "precious")
    before = tree(outside)
    found = find_leftovers(session)
    assert [(each.path.name, each.size) for each in found] == [
        ("a.killed.1", 10), ("b.killed.1", 0), ("c.killed.1", 0), ("d.killed.1", 0),
    ]  # fmt: skip
    assert remove(found, fail) == found
    assert tree(outside) == before
    assert sorted(each.name for each in session.iterdir()) == [".x.0a1b2c3d.tmp", "run_args.json", "scenario"]


def test_a_folder_that_became_a_link_since_is_unlinked_not_followed(tmp_path: Path) -> None:
    make(tmp_path, "outside/precious", "s/a.killed.1/x")
    found = find_leftovers(tmp_path / "s")
    shutil.rmtree(tmp_path / "s" / "a.killed.1")
    (tmp_path / "s" / "a.killed.1").symlink_to(tmp_path / "outside")
    assert remove(found, fail) == found
    assert (tmp_path / "outside" / "precious").exists()
    assert list((tmp_path / "s").iterdir()) == []


def test_what_cannot_be_removed_is_told_and_the_rest_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "a.killed.1/x", "b.killed.1/x", ".m.0a1b2c3d.tmp")
    found = find_leftovers(tmp_path)
    really = shutil.rmtree

    def guarded(path: Path) -> None:
        if path.name == "a.killed.1":
            raise PermissionError(13, "Permission denied", str(path / "x"))
        really(path)

    (tmp_path / ".m.0a1b2c3d.tmp").unlink()
    told: list[OSError] = []
    with monkeypatch.context() as patch:
        patch.setattr(clean_module.shutil, "rmtree", guarded)
        assert remove(found, told.append) == [found[1]]
    assert [type(each) for each in told] == [PermissionError, FileNotFoundError]
    assert str(tmp_path / "a.killed.1" / "x") in str(told[0])
    assert (tmp_path / "a.killed.1" / "x").exists()


def test_what_is_no_folder_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        find_leftovers(tmp_path / "nowhere")


def test_a_session_is_told_from_other_folders(tmp_path: Path) -> None:
    assert is_session(REFERENCE)
    assert not is_session(REFERENCE.parent)
    assert not is_session(tmp_path)
    assert not is_session(tmp_path / "nowhere")
    make(tmp_path, "events.jsonl/")
    assert not is_session(tmp_path)
    for number, name in enumerate(("run_args.json", "evaluation_log.txt", "events.jsonl")):
        make(tmp_path / str(number), name)
        assert is_session(tmp_path / str(number))


@given(name=st.text(min_size=1, max_size=60), tag=st.sampled_from(["20260101_000000", layout.retry_tag(2, "20260101_000000")]))
def test_every_killed_name_counts_and_no_scenarios_name_does(name: str, tag: str) -> None:
    if layout.is_folder_name(name):
        assert layout.is_killed(layout.killed_name(name, tag))
        assert not layout.is_killed(name)


def test_results_that_were_replaced_by_hand_stay(tmp_path: Path) -> None:
    make(tmp_path, "a/metrics.json")
    kept = layout.move_aside(tmp_path / "a", layout.by_hand_tag(2, "20260101_000000"))
    assert find_leftovers(tmp_path) == []
    assert list(layout.replaced_results(tmp_path, ["b", "a"])) == ["a"]
    layout.bring_back(kept, tmp_path / "a")
    assert tree(tmp_path) == {"a", "a/metrics.json"}
    assert layout.replaced_results(tmp_path, ["b", "a"]) == {}


@given(st.text("ab~é🙂", min_size=50, max_size=120))
def test_whatever_the_length_of_its_name_a_scenario_that_was_run_again_is_known(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    session = tmp_path_factory.mktemp("s")
    if len(name.encode()) <= layout.MAX_NAME_BYTES:
        (session / name).mkdir()
        layout.move_aside(session / name, layout.by_hand_tag(1, "20260101_000000"))
        assert list(layout.replaced_results(session, [name, f"{name[:-1]}x"])) == [name]
