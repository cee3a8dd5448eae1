"""The headless lines: what is printed for each event, on a terminal and in a log file."""

from __future__ import annotations

import io
import re
import time
from typing import Any

import pytest
from hypothesis import given
from random_events import a_run

from voiceeval_engine.live import events
from voiceeval_tui.plain import PROGRESS_SECONDS, PlainOutput

A, B, C = "cafe__a", "cafe__b", "phone__c"
EVIL = "\x1b[31mred\r\n2020-01-01 forged\u202e\x9b\u2028"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _start(pairs: int = 1) -> events.RunStarted:
    return events.RunStarted(
        session="/results/eval_1", scenarios=[A, B, C], pairs=[("ws://a", "ws://u")] * pairs, inactivity_timeout=8, min_agent_turns=2,
        time=1000.0,
    )  # fmt: skip


def _attempt(scenario: str, attempt: int = 1, number: int = 1, pair: int = 0) -> events.AttemptStarted:
    return events.AttemptStarted(scenario=scenario, attempt=attempt, pair=pair, number=number, max_duration=60, time=1001.0)


def _scored(scenario: str, **values: Any) -> events.ScenarioScored:
    given: dict[str, Any] = {
        "attempt": 1, "verdict": True, "task_verdict": True, "failed_signals": [], "signals": {"clean_exit": True}, "stalled": False,
        "stop_reason": "[EXIT]", "turns": 5, "latencies": [610.4, 598.2], "tokens": 1234, "retries": 0, "duration": 12.0, "time": 1010.0,
    }  # fmt: skip
    return events.ScenarioScored(scenario=scenario, **{**given, **values})


def _print(*stream: events.Event, out: io.StringIO | None = None, tick: float | None = None) -> list[str]:
    out = out or io.StringIO()
    plain = PlainOutput(out)
    for event in stream:
        plain(event)
    if tick is not None:
        plain.tick(tick)
    return out.getvalue().splitlines()


def _line(*stream: events.Event) -> str:
    """The last line, without its time."""
    line = _print(*stream)[-1]
    assert re.match(r"\d\d:\d\d:\d\d ", line)
    return line[9:]


def test_a_run_begins_with_the_session_and_what_is_to_come() -> None:
    assert _line(_start()) == "session /results/eval_1: 3 scenarios on 1 pair"
    one = events.RunStarted(session="/s", scenarios=[A], pairs=[("ws://a", "ws://u")], inactivity_timeout=8, min_agent_turns=2)
    assert _line(one) == "session /s: 1 scenario on 1 pair"
    assert _line(_start(2)) == "session /results/eval_1: 3 scenarios on 2 pairs"


def test_a_scenario_starts_with_its_number_and_its_pair_where_there_are_several() -> None:
    assert _line(_start(), _attempt(B, number=2)) == "start    2/3 cafe__b"
    assert _line(_start(2), _attempt(B, number=2, pair=1)) == "start    2/3 cafe__b on pair 2"
    assert _line(_start(), _attempt(B, 2, 2)) == "start    2/3 cafe__b, attempt 2"


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({}, "passed   cafe__a  [EXIT]  5 turns  p50 610ms  [1/3]"),
        ({"latencies": []}, "passed   cafe__a  [EXIT]  5 turns  no latency  [1/3]"),
        ({"retries": 1}, "passed   cafe__a  [EXIT]  5 turns  p50 610ms  retried 1x  [1/3]"),
        (
            {"verdict": False, "failed_signals": ["db_state_match", "clean_exit"], "stop_reason": "[TIMEOUT]"},
            "failed   cafe__a  [TIMEOUT]  5 turns  p50 610ms  failed: db_state_match, clean_exit  [1/3]",
        ),
        ({"verdict": False, "stalled": True, "turns": 0, "latencies": []}, "stalled  cafe__a  [EXIT]  0 turns  no latency  [1/3]"),
        ({"verdict": None}, "no verdict cafe__a  [EXIT]  5 turns  p50 610ms  [1/3]"),
    ],
)
def test_a_scenario_ends_with_verdict_stop_reason_turns_and_p50(values: dict[str, Any], line: str) -> None:
    assert _line(_start(), _attempt(A), _scored(A, **values)) == line


def test_a_retry_and_a_scenario_that_did_not_run_give_their_reasons() -> None:
    retry = events.AttemptDiscarded(scenario=A, attempt=1, reason="0 conversation turns", retry_in=5.0)
    assert _line(_start(), _attempt(A), retry) == "retry    cafe__a in 5s: 0 conversation turns"
    gone = events.ScenarioNotRun(scenario=A, attempt=1, reason="set-up: the agent bot refused reset")
    assert _line(_start(), _attempt(A), gone) == "not run  cafe__a: set-up: the agent bot refused reset  [1/3]"


def test_warnings_are_shown_and_what_the_log_merely_tells_is_not() -> None:
    assert _line(_start(), events.Logged(level="WARNING", message="[a] agent bot: lost")) == "warning  [a] agent bot: lost"
    assert _line(_start(), events.Logged(level="ERROR", message="disk")) == "error    disk"
    assert len(_print(_start(), events.Logged(level="INFO", message="hello"))) == 1


@pytest.mark.parametrize(
    "event",
    [
        events.ConversationStarted(scenario=A, attempt=1),
        events.Speaking(scenario=A, attempt=1, side="agent", on=True, at=1.0),
        events.Words(scenario=A, attempt=1, side="agent", text="hi", at=1.0),
        events.ToolCalled(scenario=A, attempt=1, side="agent", name="x", applied=True, at=1.0),
        events.Interrupted(scenario=A, attempt=1, side="user", at=1.0),
        events.TurnEnded(scenario=A, attempt=1, side="user", text="hi", start=0.0, end=1.0),
        events.ConversationEnded(scenario=A, attempt=1, stop_reason="[EXIT]", duration=1.0, turns=1),
        events.AttemptDiscarded(scenario=A, attempt=1, reason="given up", tokens=3),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_happens_inside_a_conversation_prints_nothing(event: events.Event) -> None:
    assert len(_print(_start(), _attempt(A), event)) == 2


def test_progress_comes_when_a_minute_has_passed_without_it() -> None:
    out = io.StringIO()
    plain = PlainOutput(out)
    plain(_start())
    lines: list[float] = []
    for second in range(301):
        before = out.tell()
        plain.tick(1000.0 + second)
        if out.tell() != before:
            lines.append(second)
    assert lines == [60, 120, 180, 240, 300]
    assert PROGRESS_SECONDS == 60


def test_progress_tells_done_rate_and_what_is_left() -> None:
    assert _print(_start(), tick=1060.0)[-1][9:] == "progress 0/3 done, success -, elapsed 1m00s"
    assert (
        _print(_start(), _attempt(A), _scored(A), tick=1090.0)[-1][9:]
        == "progress 1/3 done, success 1/1 100.0%, elapsed 1m30s, 0.7 a minute, ETA 3m00s"
    )


def test_no_progress_before_the_start_and_after_the_end() -> None:
    assert _print(tick=5000.0) == []
    ended = events.RunEnded(complete=True, reason="finished", files=[], time=1100.0)
    assert len(_print(_start(), ended, tick=9000.0)) == len(_print(_start(), ended))


def _whole_run(out: io.StringIO | None = None) -> list[str]:
    return _print(
        _start(), _attempt(A), _scored(A), _attempt(B),
        _scored(B, verdict=False, task_verdict=True, failed_signals=["clean_exit"], signals={"clean_exit": False}, stop_reason="[TIMEOUT]"),
        events.ScenarioNotRun(scenario=C, attempt=2, reason="no bot"),
        events.RunEnded(complete=False, reason="finished", files=["/results/eval_1/all_summary.txt"], time=1100.0),
        out=out,
    )  # fmt: skip


def test_the_summary_has_rates_with_their_intervals_and_names_what_failed() -> None:
    lines = _whole_run()
    summary = lines[lines.index("") + 1 :]
    assert summary[0] == "Evaluation finished: 2 of 3 scenarios have a result, 1m40s in all"
    text = "\n".join(summary)
    assert re.search(r"^  success +1/2 50\.0% +\[9-91\]$", text, re.MULTILINE)
    assert re.search(r"^  task success +2/2 100\.0% +\[34-100\]", text, re.MULTILINE)
    assert re.search(r"^  clean exit +1/2 50\.0%", text, re.MULTILINE)
    assert "  latency        p50 610ms  p95 610ms  max 610ms  n 4" in summary
    assert "  tokens         2,468" in summary
    assert "  failed         cafe__b: clean_exit ([TIMEOUT])" in summary
    assert "  did not run    phone__c: no bot" in summary
    assert summary[-1] == "  /results/eval_1/all_summary.txt"


def test_an_interrupted_run_names_what_was_not_finished() -> None:
    lines = _print(_start(), _attempt(A), events.RunEnded(complete=False, reason="interrupted", files=[], time=1003.0))
    assert "Evaluation interrupted: 0 of 3 scenarios have a result, 3s in all" in lines
    assert f"  interrupted    1: {A}" in lines
    (waiting,) = [line for line in lines if line.startswith("  not started")]
    assert B in waiting
    assert C in waiting
    assert any(re.match(r"  success +-$", line) for line in lines)


def test_a_log_file_gets_no_colour_and_no_carriage_return() -> None:
    text = "\n".join(_whole_run())
    assert "\x1b" not in text
    assert "\r" not in text


def test_a_terminal_gets_colours_and_no_carriage_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = "\n".join(_whole_run(Terminal()))
    assert "\x1b[32mpassed  \x1b[0m cafe__a" in text
    assert "\x1b[31mfailed  \x1b[0m cafe__b" in text
    assert "\r" not in text
    assert re.sub(r"\x1b\[\d*m", "", text) == "\n".join(_whole_run())


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert _whole_run(Terminal()) == _whole_run()


def test_coloured_warnings_line_up_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    warning = events.Logged(level="ERROR", message="disk")
    coloured = _print(_start(), warning, out=Terminal())[-1]
    assert re.sub(r"\x1b\[\d*m", "", coloured) == _print(_start(), warning)[-1]


def test_what_others_wrote_is_shown_as_escapes() -> None:
    lines = _print(
        _start().model_copy(update={"session": f"/{EVIL}"}),
        events.Logged(level="WARNING", message=EVIL),
        _attempt(A),
        events.AttemptDiscarded(scenario=A, attempt=1, reason=EVIL, retry_in=1.0),
        events.ScenarioNotRun(scenario=A, attempt=1, reason=EVIL),
        _scored(B, verdict=False, failed_signals=[EVIL], stop_reason=EVIL),
        events.RunEnded(complete=False, reason=EVIL, files=[EVIL]),
    )
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("2020") for line in lines)


@given(a_run())
def test_any_sequence_of_events_can_be_printed(stream: list[events.Event]) -> None:
    assert all(line.isprintable() for line in "".join(f"{line}\n" for line in _print(*stream, tick=1e9)).split("\n"))


def test_a_reason_of_any_length_stays_one_readable_line() -> None:
    line = _line(_start(), _attempt(A), events.ScenarioNotRun(scenario=A, attempt=1, reason="x" * 4000))
    assert len(line) < 350
    assert "…" in line


def test_pauses_outages_and_returns_to_the_queue_are_told() -> None:
    told = _print(
        _start(2),
        events.PairOut(pair=1, reason="agent bot: refused\x1b[2J", since=1_750_000_000.0),
        events.Requeued(scenario="cafe__a", attempt=1, reason="its pair of bots had died"),
        events.Paused(reason="the disk is full"),
        events.GoneOn(),
        events.PairBack(pair=1),
        events.Stopping(after_current=True),
    )[1:]
    assert [line.split(" ", 1)[1] for line in told] == [
        f"pair out pair 2 since {time.strftime('%H:%M:%S', time.localtime(1_750_000_000.0))}: agent bot: refused\\x1b[2J",
        "queued   cafe__a again: its pair of bots had died",
        "paused   the disk is full",
        "goes on",
        "pair in  pair 2 answers again",
        "stopping after the attempts that run",
    ]


def test_the_summary_names_what_was_run_again_by_hand_and_why_the_run_ended() -> None:
    told = _print(
        _start(),
        _attempt("cafe__a"),
        _scored("cafe__a", verdict=False),
        events.Requeued(scenario="cafe__a", attempt=1, reason="by hand", by_hand=True),
        _attempt("cafe__a", 2),
        _scored("cafe__a", attempt=2),
        events.RunEnded(complete=False, reason="no pair of bots has answered for 600 s", files=[]),
    )
    assert any(line.startswith("Evaluation ended early, no pair of bots has answered for 600 s: 1 of ") for line in told)
    assert "  re-run by hand 1: cafe__a" in told


@given(stream=a_run())
def test_the_lines_count_what_has_ended_as_the_fold_does(stream: list[events.Event]) -> None:
    out = io.StringIO()
    plain = PlainOutput(out)
    for event in stream:
        plain(event)
        if isinstance(event, events.ScenarioNotRun) and event.scenario in plain.state.scenarios:
            assert out.getvalue().splitlines()[-1].endswith(f"[{plain.state.done}/{len(plain.state.scenarios)}]")
