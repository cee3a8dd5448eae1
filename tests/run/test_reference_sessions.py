"""Sessions of the reference harness, of its older versions too: read, watched, previewed, resumed, judged again and reported."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bot_farm import serving
from driven_run import passes
from hostile_bots import HostileBot
from judges import WatchedJudge

from voiceeval_engine.session.files import read_json, write_json
from voiceeval_engine.session.report import read_report
from voiceeval_engine.session.resume import preview
from voiceeval_tui.cli import main
from voiceeval_tui.details import read_details
from voiceeval_tui.listing import Listing
from voiceeval_tui.resuming import plan_resume

REFERENCE = Path(__file__).parents[1] / "data" / "reference_session" / "eval_20260101_000000"
NAMES = ["domA__1", "domA__2", "domB__1", "domB__2", "simple"]
RETRIES = ("auto_retry_count", "auto_retry_reasons")
ENDING = (
    "conversation_end_policy", "inactivity_timeout_seconds", "end_conversation_tool_called", "simulator_end_reported", "last_speaker",
    "conversation_end_reason",
)  # fmt: skip
TOKENS = ("token_usage",)
VERSIONS = {
    "newest": (),
    "without retries": RETRIES,
    "without a policy": ENDING,
    "without tokens": TOKENS,
    "oldest": (*RETRIES, *ENDING, *TOKENS),
}
RECORDED = {
    "user_url": "ws://localhost:8766", "agent_url": "ws://localhost:8765", "output_dir": "eval_results", "scenarios": None, "list": False,
    "domain": None, "list_domains": False, "duration": None, "pause": 0.5, "judge_model": "old-judge", "judge_api_key": "<redacted>",
    "judge_threshold": 0.9, "strict_match": False, "resume": None, "min_agent_turns": 2,
}  # fmt: skip
"""Of a version that knew no retries and no policy."""

Make = Callable[[str], Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A session as that version wrote it: keys that it did not know are in none of its files."""

    def of(version: str) -> Path:
        unknown = VERSIONS[version]
        session = tmp_path / version / REFERENCE.name
        shutil.copytree(REFERENCE, session)
        for folder in (session / name for name in NAMES):
            metrics = read_json(folder / "metrics.json")
            write_json(folder / "metrics.json", _without(metrics, unknown))
            spoken = [{"role": "assistant", "content": "Yes."}] * metrics["token_usage"]["agent"]["n_calls"]
            (folder / "bot_logs_agent").mkdir()
            write_json(folder / "bot_logs_agent" / "llm_context.json", [{"role": "system", "content": "You sell tea."}, *spoken])
        whole = read_json(session / "all_metrics.json")
        write_json(session / "all_metrics.json", [_without(each, unknown) for each in whole])
        return session

    return of


def _without(metrics: dict[str, Any], unknown: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in metrics.items() if key not in unknown}


def _words(summary: str) -> list[str]:
    return sorted(summary.replace("20260101_000000", "<TIMESTAMP>").replace(",", " ").split())


@pytest.fixture
def bots() -> Iterator[list[str]]:
    """Options for a run on bots whose conversations end as they should."""
    agent, user = HostileBot(passes), HostileBot()
    with serving(agent, user):
        yield [
            "--no-ui",
            "--agent-url",
            agent.url,
            "--user-url",
            user.url,
            "--duration",
            "20",
            "--pause",
            "0",
            "--inactivity-timeout",
            "9",
        ]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_previewed_alike(make: Make, version: str, capfd: pytest.CaptureFixture[str]) -> None:
    session = make(version)
    found = preview(session, 2)
    assert [(each.name, each.state, each.reason) for each in found] == [
        ("domA__1", "completed", ""),
        ("domA__2", "in-flight", "0 turns (bot crashed before audio)"),
        ("domB__1", "completed", ""),
        ("domB__2", "in-flight", "1 agent LLM response(s) < 2 ([TIMEOUT])"),
        ("simple", "completed", ""),
    ]
    assert [each.auto_retry_count for each in found] == ([0] * 5 if set(RETRIES) <= set(VERSIONS[version]) else [1, 1, 0, 0, 0])
    assert main(["check-resume", str(session)]) == 0
    assert "(3 completed, 2 would re-run, 0 fresh)" in capfd.readouterr().out


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_watched_and_reported_alike(
    make: Make, version: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    session = make(version)
    before = {path: path.read_bytes() for path in session.rglob("*") if path.is_file()}
    assert main(["watch", str(session)]) == 0
    out, _ = capfd.readouterr()
    for said in (r"passed   domA__1 ", r"stalled  domB__2 ", r"success +1/4 25\.0%", r"clean exit +2/3", r"p50 100ms  p95 812ms"):
        assert re.search(said, out), said
    tokens = re.findall(r"tokens  +(.+)\n", out)
    assert tokens == ["none told" if "token_usage" in VERSIONS[version] else "23,028"]
    assert main(["report", str(session)]) == 0
    summary, written = capfd.readouterr().out, (REFERENCE / "all_summary.txt").read_text()
    if "token_usage" in VERSIONS[version]:
        written = re.sub(r"\n\nToken Usage:.*?tokens\n", "", written, flags=re.DOTALL)
    assert _words(summary) == _words(written), "but for the order of scenarios"
    outputs = {kind: tmp_path / f"report.{kind}" for kind in ("html", "junit", "json")}
    assert main(["report", str(session), *(word for kind, file in outputs.items() for word in (f"--{kind}", str(file)))]) == 0
    assert all(file.stat().st_size for file in outputs.values())
    outcomes = {each.name: each.outcome for each in read_report(session).scenarios}
    assert list(outcomes.values()) == ["passed", "stalled", "failed", "stalled", "no verdict"]
    assert all(read_details(session, name).problems == () for name in NAMES)
    assert {path: path.read_bytes() for path in session.rglob("*") if path.is_file()} == before


def test_links_that_lead_in_a_circle_are_passed_over(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    session = make("newest")
    (session / "loop").symlink_to("loop")
    (session.parent / "eval_20260101_000001").symlink_to("eval_20260101_000001")
    for command in ("check-resume", "watch", "report"):
        assert main([command, str(session)]) == 0
        out, err = capfd.readouterr()
        assert ("domA__1" in out, "loop" in out, err) == (True, False, "")
    assert [each.path for each in Listing(session.parent).look()] == [session]


@pytest.mark.parametrize("version", ["newest", "oldest"])
def test_it_is_resumed_from_itself_and_aggregated_over_old_and_new(
    make: Make, version: str, bots: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    session = make(version)
    old = {name: (session / name / "metrics.json").read_bytes() for name in ("domA__1", "domB__1", "simple")}
    again = ["--output-dir", str(session.parent), "--judge-url", "", "--resume", "20260101_000000"]
    assert main([*bots, *again, "--scenarios-from", "20260101_000000"]) == 1
    out, _ = capfd.readouterr()
    assert re.search(r"passed   domA__2 ", out)
    assert "did not run    domB__2: domB__2 of eval_20260101_000000: its metadata shows an expected database" in out
    assert {name: (session / name / "metrics.json").read_bytes() for name in old} == old
    assert not (session / "domB__2").exists()
    assert len(list(session.glob("domB__2.killed.*/__KILLED__"))) == 1
    summary = (session / "all_summary.txt").read_text()
    assert "Overall Success Rate: 66.67% (2/3 scenarios" in summary
    assert "WARNING: 1 scenario(s) did not run: domB__2 (" in summary
    assert ("agent: 14 call(s)" in summary) == (version == "newest")
    assert [each["scenario_name"] for each in read_json(session / "all_metrics.json")] == [
        "domA__1",
        "domA__2",
        "domB__1",
        "simple",
    ]
    assert len((session / "all_latencies.csv").read_text().splitlines()) == 4
    log = (session / "evaluation_log.txt").read_text()
    assert "=== RESUMING run eval_20260101_000000 ===" in log
    assert "[SKIP] domA__1: already complete, loaded metrics.json from disk." in log
    assert main(["check-resume", str(session)]) == 0
    assert "Total scenarios: 4  (4 completed, 0 would re-run, 0 fresh)" in capfd.readouterr().out


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_judged_again(make: Make, version: str, capfd: pytest.CaptureFixture[str]) -> None:
    session = make(version)
    with WatchedJudge() as judge:
        assert main(["rejudge", str(session), "--judge-url", judge.url]) == 0
        assert judge.asked == len(NAMES)
    assert "5 judged, 0 of these calls failed" in capfd.readouterr().out
    for name in NAMES:
        metrics, earlier = read_json(session / name / "metrics.json"), read_json(REFERENCE / name / "metrics.json")
        changed = {"judge_score", "judge_passed", "is_successful", "is_task_successful", "success_breakdown"}
        assert _without(metrics, tuple(changed)) == _without(earlier, (*VERSIONS[version], *changed))
        assert metrics["is_successful"] == earlier["is_successful"], "none of them counts the judge"
    assert "Overall Success Rate: 25.00% (1/4 scenarios" in (session / "all_summary.txt").read_text()


@pytest.mark.parametrize("shape", ["none", "one record", "invocations"])
def test_what_an_old_version_recorded_of_its_options_is_enough_to_go_on(
    make: Make, bots: list[str], shape: str, capfd: pytest.CaptureFixture[str]
) -> None:
    session = make("oldest")
    record = {
        "started_at": "2026-01-01T00:00:00", "argv": ["run_evaluation.py", "--judge-api-key", "sk-leaked"], "parsed_args": RECORDED,
        "resolved_scenario_count": 3, "resolved_scenario_names": ["domA__1", "simple", "domA__2"],
    }  # fmt: skip
    if shape != "none":
        write_json(session / "run_args.json", {"invocations": [record]} if shape == "invocations" else RECORDED)
    plan = plan_resume(session)
    queue = record["resolved_scenario_names"] if shape == "invocations" else NAMES
    assert (plan.obstacle, [each.name for each in plan.scenarios]) == ("", queue)
    assert plan.options is not None
    assert plan.options.judge_model == ("old-judge" if shape == "invocations" else type(plan.options).judge_model)
    again = [
        "--output-dir",
        str(session.parent),
        "--judge-url",
        "",
        "--resume",
        "20260101_000000",
        "--scenarios-from",
        "20260101_000000",
    ]
    assert main([*bots, *again]) == (0 if shape == "invocations" else 1)
    assert "passed   domA__2 " in capfd.readouterr().out
    records = json.loads((session / "run_args.json").read_text())["invocations"]
    assert records[-1]["resolved_scenario_names"] == queue
    assert len(records) == (1 if shape == "none" else 2)
    log = (session / "evaluation_log.txt").read_text()
    assert ("judge_model: original='old-judge'" in log) == (shape == "invocations")
    assert "conversation_end_policy: original" not in log
    assert ("domB__1" in (session / "all_summary.txt").read_text()) == (shape != "invocations") or "not in this run" in log
