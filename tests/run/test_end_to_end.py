"""The engine against the embedded bots: one run with every kind of trouble in it, and what it leaves on disk."""

from __future__ import annotations

import csv
import json
import re
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bot_farm import patient_pair, serving
from engine_run import LOG_LINE, Ran, run_engine, scenario

from voiceeval_engine.live import events
from voiceeval_engine.live.journal import JournalReading, read_events
from voiceeval_engine.live.state import RunState
from voiceeval_engine.scenarios.catalog import Catalog
from voiceeval_engine.scenarios.model import NoiseConfig
from voiceeval_engine.scenarios.script import Step

PACK = Path(__file__).parent.parent / "data" / "short_pack"
HELLO, BYE = Step(say="Hello."), Step(say="Goodbye.", exit="done")


def _scenarios() -> dict[str, Any]:
    pack = Catalog.of_packs([PACK])
    return {
        "short__order": pack.get("short__order"),
        "short__forgotten": pack.get("short__forgotten"),
        "short__sleepy": scenario("short__sleepy", [Step(stall=1), BYE]),
        "short__mute": scenario("short__mute", [Step(stall="always")]),
        "short__agent_dies": scenario(
            "short__agent_dies", [HELLO, Step(say="I was about to say something.", die_after=0.4)], [Step(say="Go on.")]
        ),
        "short__user_dies": scenario("short__user_dies", [HELLO], [Step(say="I was about to say something.", die_after=0.2)]),
        "short__refused": scenario("short__refused", agent_prompt="```script\nnothing: [here\n```\n"),
        "short__refused_state": scenario("short__refused_state", user_state={"db": []}),
        "short__source_raises": ZeroDivisionError("a bug in a pack"),
        "short__no_domain": scenario("short__no_domain", [BYE], domain="nowhere", sync=True),
        "short__no_noise": scenario("short__no_noise", [BYE], noise=NoiseConfig(noise_files=("/nowhere/street.wav",))),
        "short__noisy": scenario("short__noisy", [BYE], noise=NoiseConfig(random_white_noise=True, white_noise_db=-50)),
    }


ORDER = "short__order"
NOT_RUN = [
    "short__user_dies",
    "short__refused",
    "short__refused_state",
    "short__source_raises",
    "short__no_domain",
    "short__no_noise",
]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    scenarios = _scenarios()
    pairs = [patient_pair() for _ in scenarios]
    with serving(*pairs):
        yield run_engine(tmp_path_factory.mktemp("results"), [(pair.agent, pair.user) for pair in pairs], scenarios)


def test_the_run_tells_that_not_every_scenario_has_a_result(ran: Ran) -> None:
    assert not ran.complete
    assert [name for name in _scenarios() if not ran.has_result(name)] == NOT_RUN
    end = ran.events[-1]
    assert isinstance(end, events.RunEnded)
    assert (end.complete, end.reason) == (False, "finished")


def test_nothing_goes_on_when_the_run_is_over(ran: Ran) -> None:
    assert ran.tasks_left == []


def test_the_session_has_every_file(ran: Ran) -> None:
    assert {file.name for file in ran.session.iterdir() if file.is_file()} == {
        "evaluation_log.txt", "run_args.json", "all_metrics.json", "all_latencies.csv", "all_summary.txt", "events.jsonl",
        "session.lock",
    }  # fmt: skip
    folder = ran.session / ORDER
    assert {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()} == {
        "metrics.json", "final_agent_response.json", "final_scenario_db_hash.txt", "conversation_log.txt",
        "conversation_log.seglst.json", "conversation_log.wav", "bridge_log.txt", "timing.json",
        "bot_logs_agent/llm_context.json", "bot_logs_user/llm_context.json", "scenario_config/user_prompt.txt",
        "scenario_config/agent_prompt.txt", "scenario_config/user_tools.json", "scenario_config/agent_tools.json",
        "scenario_config/metadata.json", "scenario_config/reference_answer.json",
    }  # fmt: skip


def test_metrics_have_their_keys_in_order(ran: Ran) -> None:
    assert list(ran.metrics(ORDER)) == [
        "total_turns", "duration_seconds", "turns", "latency_stats", "latencies", "scenario_name", "scenario_directory",
        "scenario_duration", "stop_reason", "conversation_end_policy", "inactivity_timeout_seconds", "end_conversation_tool_called",
        "simulator_end_reported", "last_speaker", "clean_exit", "conversation_end_reason", "is_action_match", "token_usage",
        "db_state_expected_hash", "db_state_match", "db_state_actual_hash", "db_state_assertion_verdicts",
        "db_state_assertion_pass_rate", "success_breakdown", "auto_retry_count", "is_successful", "is_task_successful",
    ]  # fmt: skip
    text = (ran.session / ORDER / "metrics.json").read_text()
    assert text == json.dumps(ran.metrics(ORDER), indent=2)


def test_every_signal_of_a_good_conversation_passes(ran: Ran) -> None:
    metrics = ran.metrics(ORDER)
    assert metrics["success_breakdown"] == {
        "passed": ["is_action_match", "db_state_match", "db_state_assertion", "clean_exit"],
        "failed": [],
        "not_applicable": [],
        "excluded": [],
    }
    assert (metrics["is_successful"], metrics["stop_reason"], metrics["auto_retry_count"]) == (True, "[EXIT]", 0)
    assert metrics["scenario_directory"] == str(ran.session / ORDER)
    assert metrics["token_usage"]["agent"]["n_calls"] == 3
    assert metrics["token_usage"]["user"]["n_calls"] == 1


def test_what_was_not_done_fails(ran: Ran) -> None:
    metrics = ran.metrics("short__forgotten")
    assert metrics["success_breakdown"]["failed"] == ["is_action_match", "db_state_match"]
    assert metrics["is_successful"] is False


def test_turns_carry_the_words_that_were_spoken(ran: Ran) -> None:
    turns = [(turn["role"], turn["text"]) for turn in ran.metrics(ORDER)["turns"]]
    assert turns == [("agent", "Hello."), ("user", "A tea, please."), ("agent", "One tea. Goodbye.")]
    assert [turn["timestamp"] for turn in ran.metrics(ORDER)["turns"]] == sorted(
        turn["timestamp"] for turn in ran.metrics(ORDER)["turns"]
    )
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}", turn["timestamp"]) for turn in ran.metrics(ORDER)["turns"])


def test_one_latency_for_one_handoff_and_the_same_everywhere(ran: Ran) -> None:
    (latency,) = ran.metrics(ORDER)["latencies"]
    assert latency["latency_ms"] > 0
    assert (latency["user_transcript"], latency["agent_transcript"]) == ("A tea, please.", "One tea. Goodbye.")
    log = (ran.session / ORDER / "conversation_log.txt").read_text()
    assert re.findall(r"Response latency: ([\d.]+)ms", log) == [f"{latency['latency_ms']:.1f}"]
    rows = list(csv.reader((ran.session / "all_latencies.csv").read_text().splitlines()))
    assert [ORDER, "A tea, please.", "One tea. Goodbye.", f"{latency['latency_ms']:.1f}"] in rows
    (scored,) = ran.of(ORDER, events.ScenarioScored)
    assert scored.latencies == [latency["latency_ms"]]


def test_the_conversation_log_begins_and_ends_as_others_expect(ran: Ran) -> None:
    lines = (ran.session / ORDER / "conversation_log.txt").read_text().splitlines()
    assert lines[:2] == ["RTVI Evaluation Bridge - Conversation Log", "=" * 80]
    assert lines[2].startswith("Start Time: ")
    assert lines[-3].startswith("End time: ")
    assert lines[-2:] == ["Stop reason: [EXIT]", "=" * 80]
    segments = [line for line in lines if line.startswith("[")]
    assert all(re.match(r"\[ *\d+\.\d{3}s - +\d+\.\d{3}s\] \(\d+\.\d{3}s\) (USER|AGENT): ", line) for line in segments)
    assert len(segments) == 3


def test_the_answer_holds_what_the_agent_did(ran: Ran) -> None:
    (answer,) = json.loads((ran.session / ORDER / "final_agent_response.json").read_text())
    assert [(action["side"], action["name"]) for action in answer["actions"]] == [("agent", "create_order"), ("agent", "add_item")]
    assert [next(iter(action)) for action in answer["actions"]] == ["side", "side"]
    hashes = (ran.session / ORDER / "final_scenario_db_hash.txt").read_text()
    assert re.fullmatch(r"db_hash: [0-9a-f]{64}\n", hashes)


def test_the_recording_is_stereo_and_as_long_as_the_conversation(ran: Ran) -> None:
    with wave.open(str(ran.session / ORDER / "conversation_log.wav")) as recording:
        assert (recording.getnchannels(), recording.getsampwidth(), recording.getframerate()) == (2, 2, 16000)
        seconds = recording.getnframes() / 16000
    assert seconds >= ran.metrics(ORDER)["duration_seconds"] - 0.1


def test_the_contexts_are_saved(ran: Ran) -> None:
    context = json.loads((ran.session / ORDER / "bot_logs_agent" / "llm_context.json").read_text())
    assert context[0]["role"] == "system"
    assert {"role": "assistant", "content": "Hello."} in context


def test_the_record_of_the_invocation(ran: Ran) -> None:
    (record,) = json.loads((ran.session / "run_args.json").read_text())["invocations"]
    assert list(record) == ["started_at", "argv", "parsed_args", "resolved_scenario_count", "resolved_scenario_names"]
    assert record["argv"] == ["--of", "a test"]
    assert record["resolved_scenario_names"] == list(_scenarios())
    assert record["parsed_args"]["output_dir"] == str(ran.session.parent)


def test_a_stall_on_the_first_attempt_is_tried_again(ran: Ran) -> None:
    metrics = ran.metrics("short__sleepy")
    assert (metrics["is_successful"], metrics["auto_retry_count"]) == (True, 1)
    assert metrics["auto_retry_reasons"] == ["0 conversation turns (bots never exchanged audio)"]
    (moved,) = ran.session.glob("short__sleepy.killed.*")
    assert moved.name == f"short__sleepy.killed.autoretry1.{ran.session.name.removeprefix('eval_')}"
    assert (moved / "__KILLED__").read_bytes() == b""
    assert not (moved / "metrics.json").exists()
    assert (moved / "conversation_log.txt").exists()
    assert (
        f"AUTO-RETRY 1/1: short__sleepy: {metrics['auto_retry_reasons'][0]}; attempt moved to {moved.name}/, re-running in 0.01s."
        in ran.log
    )


def test_a_stall_that_stays_is_kept_and_fails(ran: Ran) -> None:
    metrics = ran.metrics("short__mute")
    assert (metrics["total_turns"], metrics["insufficient_agent_turns"], metrics["is_successful"]) == (0, True, False)
    assert (metrics["auto_retry_count"], metrics["stop_reason"]) == (1, "[INACTIVITY_TIMEOUT]")
    assert set(metrics["latency_stats"].values()) == {0}
    assert "AUTO-RETRY EXHAUSTED: short__mute: 0 conversation turns (bots never exchanged audio) (already retried 1/1)" in ran.log
    assert "Stalled scenarios: short__mute" in (ran.session / "all_summary.txt").read_text()


def test_an_agent_that_dies_is_scored_as_it_is(ran: Ran) -> None:
    metrics = ran.metrics("short__agent_dies")
    assert (metrics["stop_reason"], metrics["clean_exit"], metrics["auto_retry_count"]) == ("[AGENT_DISCONNECTED]", False, 0)
    assert [turn["role"] for turn in metrics["turns"]] == ["agent", "user", "agent"]
    assert "short__agent_dies" in (ran.session / "all_summary.txt").read_text().split("agent disconnected")[1].splitlines()[0]
    assert "[short__agent_dies] agent bot: the connection was lost" in ran.log


def test_a_simulator_that_dies_is_never_held_against_the_agent(ran: Ran) -> None:
    assert ran.not_run("short__user_dies") == "simulator lost: the user bot's connection ended during the conversation"
    assert len(ran.of("short__user_dies", events.AttemptStarted)) == 2
    assert len(list(ran.session.glob("short__user_dies.killed.autoretry1.*"))) == 1


@pytest.mark.parametrize(
    ("name", "bot", "step"),
    [("short__refused", "agent", "update_system_prompt"), ("short__refused_state", "user", "apply_initialization")],
)
def test_a_refused_set_up_names_the_bot_and_the_step(ran: Ran, name: str, bot: str, step: str) -> None:
    reason = ran.not_run(name)
    assert reason.startswith("set-up: ")
    assert f"{bot} bot" in reason
    assert step in reason
    assert len(ran.of(name, events.AttemptStarted)) == 2
    assert reason in (ran.session / "all_summary.txt").read_text()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("short__source_raises", "a bug in a pack"),
        ("short__no_domain", "'nowhere'"),
        ("short__no_noise", "/nowhere/street.wav"),
    ],
)
def test_a_scenario_that_cannot_be_run_anywhere_says_why(ran: Ran, name: str, words: str) -> None:
    assert words in ran.not_run(name)
    assert f"{name} did not run: " in ran.log


def test_noise_is_heard_by_the_agent_alone(ran: Ran) -> None:
    assert ran.metrics("short__noisy")["is_successful"] is True
    with wave.open(str(ran.session / "short__noisy" / "conversation_log.wav")) as recording:
        frames = recording.readframes(4000)
    left, right = frames[0::4] + frames[1::4], frames[2::4] + frames[3::4]
    assert any(left)
    assert not any(right)


def test_the_aggregates_hold_the_queue_in_its_order(ran: Ran) -> None:
    with_result = [name for name in _scenarios() if name not in NOT_RUN]
    assert [each["scenario_name"] for each in json.loads((ran.session / "all_metrics.json").read_text())] == with_result
    summary = (ran.session / "all_summary.txt").read_text()
    assert f"Total Scenarios: {len(_scenarios())}" in summary
    assert re.findall(r"====== (.*) ======:", summary) == with_result
    assert f"WARNING: {len(NOT_RUN)} scenario(s) did not run: " in summary


def test_log_lines_have_the_form_that_people_search_for(ran: Ran) -> None:
    lines = ran.log.splitlines()
    starts = [line for line in lines if LOG_LINE.match(line)]
    assert starts[0].endswith(f"Queued {len(_scenarios())} scenario(s): {list(_scenarios())}")
    for text in (
        "Starting Scenario 1/12: short__order", "Scenario 'short__order' Complete", "Evaluation Complete!", "Results saved to:",
        "Latencies saved to:", "Summary saved to:", "12 scenario(s) to run, 0 already completed.",
    ):  # fmt: skip
        assert text in ran.log


def test_the_journal_holds_what_listeners_were_told(ran: Ran) -> None:
    reading = JournalReading()
    written = list(read_events(ran.session / "events.jsonl", reading))
    assert written == ran.events
    assert reading.bad_lines == 0
    assert [event.seq for event in written] == list(range(1, len(written) + 1))


def test_the_journal_folds_to_what_is_on_disk(ran: Ran) -> None:
    state = RunState()
    for event in read_events(ran.session / "events.jsonl", JournalReading()):
        state.apply(event)
    metrics = json.loads((ran.session / "all_metrics.json").read_text())
    assert state.done == len(state.scenarios)
    assert state.count("not run") == len(NOT_RUN)
    assert state.count("stalled") == 1
    assert sorted(state.latencies) == sorted(record["latency_ms"] for each in metrics for record in each["latencies"])
    assert state.success.k == sum(each["is_successful"] is True for each in metrics)
    for each in metrics:
        assert state.scenarios[each["scenario_name"]].turns == each["total_turns"]
        assert state.scenarios[each["scenario_name"]].retries == each["auto_retry_count"]


def test_the_headless_lines_tell_each_scenario_once(ran: Ran) -> None:
    lines = ran.printed.splitlines()
    for name in _scenarios():
        told = [line for line in lines if re.search(rf" {name}[: ]", line) and re.search(r"\[\d+/12\]$", line)]
        assert len(told) == 1, name
    assert "\x1b" not in ran.printed
    assert "\r" not in ran.printed
