"""`report` as a command, its page and its XML: what is written where, what hostile texts become, and that it only reads."""

from __future__ import annotations

import json
import os
import re
import threading
import time
import xml.etree.ElementTree as ET
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hostile_text import HOSTILE
from outputs import metrics, put_record, put_result
from sessions import scored, started

from voiceeval_engine.live import events
from voiceeval_engine.session.evidence import ConversationLog, LogSegment, write_conversation_log
from voiceeval_engine.session.report import read_report
from voiceeval_tui.cli import main
from voiceeval_tui.report import why_not_run
from voiceeval_tui.report_html import render_html
from voiceeval_tui.report_junit import render_junit
from voiceeval_tui.report_look import SCRIPT, STYLE, policy

REFERENCE = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"
ATTACKS = ("<script>alert(1)</script>", '"><img src=x onerror="alert(1)">', "</style></script><svg onload=alert(1)>", *HOSTILE)
OURS = {"html", "head", "meta", "title", "style", "script", "body", "h1", "h2", "h3", "p", "div", "b", "bdi", "span", "svg", "rect",
        "line", "text", "table", "thead", "tbody", "tr", "th", "td", "a", "details", "summary", "dl", "dt", "dd", "ul", "li"}  # fmt: skip


class Page(HTMLParser):
    """The elements and the visible text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, "elements close in the order in which they open"

    def handle_data(self, data: str) -> None:
        self.text += data


def tree(folder: Path) -> list[tuple[str, int, int]]:
    return [(str(path), path.lstat().st_mtime_ns, path.lstat().st_ino) for path in sorted([folder, *folder.rglob("*")])]


def hostile_session(folder: Path) -> Path:
    """Every foreign text of a session is an attack somewhere."""
    session = folder / "eval_20260618_072325"
    put_record(session, ["d__a", "d__none"], judge_model=ATTACKS[0], judge_url=f"http://h/{ATTACKS[0]}")
    text = "\n".join(ATTACKS)
    put_result(session, "d__a", metrics(
        verdict=False, failed=list(ATTACKS), stop_reason=text, conversation_end_reason=text, auto_retry_count=1,
        auto_retry_reasons=list(ATTACKS), latencies=[{"latency_ms": 500.0, "user_transcript": text, "agent_transcript": text}],
        db_state_assertion_verdicts=[{"func_name": each, "side": each, "expected": each, "actual": each, "message": each, "passed": 1}
                                     for each in ATTACKS],
    ))  # fmt: skip
    verdicts = [{"assertion": each, "reason": each, "passed": False} for each in ATTACKS]
    (session / "d__a" / "judge_result.json").write_text(json.dumps({"reason": text, "nl_assertion_verdicts": verdicts}))
    for number, attack in enumerate(ATTACKS[:3]):
        put_result(session, f"{attack.replace('/', '')}__{number}")
    turns = tuple(LogSegment(float(number), number + 0.5, "agent", each, 100.0) for number, each in enumerate(ATTACKS))
    write_conversation_log(session / "d__a", ConversationLog("2026-06-18T07:23:25", "2026-06-18T07:24:25", text, turns))
    return session


def test_hostile_texts_add_no_element_no_attribute_and_no_script(tmp_path: Path) -> None:
    text = render_html(read_report(hostile_session(tmp_path), did_not_run={"d__none": "\n".join(ATTACKS)}))
    text.encode()
    page = Page(text)
    assert set(page.elements) <= OURS
    assert (page.elements["script"], page.elements["style"]) == (1, 1)
    assert f"<script>{SCRIPT}</script>" in text
    assert f"<style>{STYLE}</style>" in text
    names = {name for name, _ in page.attributes}
    assert not [name for name in names if name.startswith("on") or name in ("src", "style", "srcset", "action")]
    assert all(re.fullmatch(r"#s\d+", value or "") for name, value in page.attributes if name == "href")
    for attack in ATTACKS[:3]:
        assert attack in page.text, "shown as it was said"
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)


def test_the_policy_lets_only_the_pages_own_style_and_script_in() -> None:
    page = Page(render_html(read_report(REFERENCE)))
    assert ("content", policy()) in page.attributes
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-\S+'; script-src 'sha256-\S+'; base-uri 'none'; form-action 'none'", policy()
    )
    assert "http" not in render_html(read_report(REFERENCE)).replace("http-equiv", "")


def test_the_page_of_a_session_of_the_reference() -> None:
    text = Page(render_html(read_report(REFERENCE))).text
    for said in (
        "Evaluation eval_20260101_000000", "1/4 scenarios, 25.0 % [5–70]", "Success by domain", "domA__1", "812 ms",
        "Stalled scenarios: domA__2, domB__2", "0 conversation turns (bots never exchanged audio)", "expected true, actual null",
        "The session does not tell.",
    ):  # fmt: skip
        assert said in text


def test_a_session_without_any_result_has_a_page_and_xml(tmp_path: Path) -> None:
    put_record(tmp_path, ["d__a"])
    report = read_report(tmp_path)
    assert "Nothing was measured." in render_html(report)
    (suite,) = ET.fromstring(render_junit(report).encode())
    assert (suite.get("tests"), suite.get("errors"), suite.find("testcase/error") is not None) == ("1", "1", True)


def test_the_junit_of_a_session_of_the_reference() -> None:
    root = ET.fromstring(render_junit(read_report(REFERENCE)).encode())
    assert {
        suite.get("name"): (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) for suite in root
    } == {
        "domA": ("2", "1", "0", "0"),
        "domB": ("2", "2", "0", "0"),
        "simple": ("1", "0", "0", "1"),
    }
    assert {suite.get("timestamp") for suite in root} == {"2026-01-01T00:00:00"}
    assert [[each.tag for each in suite if each.tag != "testcase"] for suite in root] == [
        ["properties", "system-out", "system-err"]
    ] * 3
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert [each.tag for each in cases["domA__1"]] == ["properties"]
    properties = {each.get("name"): each.get("value") for each in cases["domA__1"].iter("property")}
    assert properties["latency_p50_ms"] == "812.3"
    assert (properties["turns"], properties["stop_reason"], properties["auto_retry_count"]) == ("3", "[EXIT]", "1")
    failure = cases["domB__1"].find("failure")
    assert failure is not None
    assert failure.get("message") == "failed signals: db_state_assertion"
    assert "predicate failed: user assert_x" in (failure.text or "")
    assert cases["simple"].find("skipped") is not None


def test_a_failed_judge_and_a_missing_result_are_errors(tmp_path: Path) -> None:
    put_record(tmp_path, ["d__judge", "d__fresh", "d__pending"])
    put_result(tmp_path, "d__judge", metrics(verdict=False, failed=["judge_passed"]), judge="Error: 503")
    put_result(tmp_path, "d__pending", metrics(verdict=False), judge="Error: verdict pending")
    root = ET.fromstring(render_junit(read_report(tmp_path)).encode())
    messages = {case.get("name"): [(each.tag, each.get("message")) for each in case[1:]] for case in root.iter("testcase")}
    assert messages == {
        "d__judge": [("error", "the judge's call failed: Error: 503")],
        "d__fresh": [("error", "not run: no subdir")],
        "d__pending": [("error", "pending: the judge has not answered")],
    }
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "0", "3")


def test_xml_of_hostile_texts_parses(tmp_path: Path) -> None:
    root = ET.fromstring(render_junit(read_report(hostile_session(tmp_path))).encode())
    assert any("<script>alert(1)" in (case.get("name") or "") for case in root.iter("testcase"))


def test_all_formats_are_written_and_the_session_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = tree(REFERENCE)
    targets = {option: tmp_path / name for option, name in (("--html", "a.html"), ("--junit", "b.xml"), ("--json", "c.json"))}
    (tmp_path / "a.html").write_text("what was there before")
    assert main(["report", str(REFERENCE), *(str(word) for pair in targets.items() for word in pair)]) == 0
    assert tree(REFERENCE) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "b.xml", "c.json"]
    assert (tmp_path / "a.html").read_text().startswith("<!DOCTYPE html>")
    ET.parse(tmp_path / "b.xml")
    json.loads((tmp_path / "c.json").read_text())
    assert capsys.readouterr().out == ""


def test_the_shape_of_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(REFERENCE), "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["counts"] == {"scenarios": 5, "passed": 1, "failed": 1, "stalled": 2, "no_verdict": 1, "without_result": 0}
    assert {key: document["rates"]["success"][key] for key in ("k", "n", "rate", "unit")} == {
        "k": 1, "n": 4, "rate": 0.25, "unit": "scenarios",
    }  # fmt: skip
    assert document["rates_by_domain"]["success"]["domB"]["n"] == 2
    assert set(document["latency_ms"]) == {"n", "mean", "p50", "p95", "min", "max"}
    assert document["tokens"]["total"] == document["tokens"]["agent"]["total"] + document["tokens"]["user"]["total"]
    assert [each["name"] for each in document["stalled"]] == ["domA__2", "domB__2"]
    assert document["failed"] == [
        {"name": "domB__1", "failed_signals": ["db_state_assertion"], "stop_reason": "[EXIT]", "judge_failed": False}
    ]
    first, silent = document["scenarios"][0], document["scenarios"][1]
    assert (first["outcome"], first["auto_retry_count"], first["judge"]["score"]) == ("passed", 1, 0.95)
    assert silent["latency_ms"] is None
    assert set(first["conversation"][0]) == {"role", "start_s", "end_s", "text", "latency_ms"}


def test_without_a_format_the_summary_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(REFERENCE)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("EVALUATION SUMMARY\n")
    assert "Overall Success Rate: 25.00% (1/4 scenarios" in out


@pytest.mark.parametrize("words", [["nowhere"], ["empty"], ["file"], ["session", "--html", "session/page.html"], ["session", "--html", "."],
                                   ["session", "--html", "no/such/folder.html"], ["session", "--json", "session"]])  # fmt: skip
def test_what_cannot_be_done_is_a_sentence(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    put_result(tmp_path / "session", "d__a")
    before = tree(tmp_path)
    assert main(["report", *words]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ERROR: ")
    assert err.count("\n") == 1
    assert tree(tmp_path) == before


def test_two_formats_on_standard_output_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(REFERENCE), "--json", "-", "--html", "-"]) == 2
    assert capsys.readouterr().out == ""


def test_standard_output_needs_no_encoding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = hostile_session(tmp_path)
    for option in ("--html", "--junit"):
        assert main(["report", str(session), option, "-"]) == 0
        out = capsys.readouterr().out
        assert out.isascii()
        if option == "--html":
            assert "한국어" in Page(out).text
        else:
            assert any("한국어" in (element.text or "") for element in ET.fromstring(out).iter("failure"))


def test_a_pipe_and_a_link_are_written_to(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    assert main(["report", str(REFERENCE), "--json", str(tmp_path / "link.json")]) == 0
    assert (tmp_path / "link.json").is_symlink()
    json.loads((tmp_path / "real.json").read_text())
    os.mkfifo(tmp_path / "pipe")
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_text()))
    reader.start()
    assert main(["report", str(REFERENCE), "--junit", str(tmp_path / "pipe")]) == 0
    reader.join(10)
    ET.fromstring(got[0].encode())


def test_the_journal_tells_why_a_scenario_did_not_run(tmp_path: Path) -> None:
    told: list[Any] = [
        started(["a", "b", "c"]),
        events.ScenarioNotRun(scenario="a", attempt=1, reason="set-up: refused"),
        events.ScenarioNotRun(scenario="b", attempt=1, reason="set-up: refused"),
        scored("b", attempt=2),
    ]
    lines = [event.model_dump_json() for event in told]
    (tmp_path / "events.jsonl").write_text("\n".join([*lines, '{"type":"scenario_not_run"', ""]))
    assert why_not_run(tmp_path) == {"a": "set-up: refused"}
    assert why_not_run(tmp_path / "nowhere") == {}


def test_a_large_session_is_a_page_of_sane_size_within_seconds(tmp_path: Path) -> None:
    turns = [
        {"timestamp": "2026-06-18T07:23:25", "role": role, "text": "What may I bring you today? " * 8} for role in ("user", "agent")
    ]
    value = metrics(turns=20) | {"turns": turns * 10, "total_turns": 20}
    for number in range(477):
        put_result(tmp_path, f"d{number % 7}__{number}", value)
    began = time.monotonic()
    text = render_html(read_report(tmp_path))
    assert time.monotonic() - began < 20, "about half a second on a quiet machine"
    assert len(text) < 15_000_000
