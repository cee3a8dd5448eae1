"""Headless output: plain lines, a fold of the engine's events, readable on a terminal and in a log file alike.

Colours only where the output is a terminal, never a carriage return. May import `text`, `figures` and the engine's `live`.
Rule: running page, "Commands".
"""

from __future__ import annotations

import os
from typing import TextIO

from voiceeval_engine.live import events
from voiceeval_engine.live.state import ENDED, SCORED, RunState, ScenarioState, percentile
from voiceeval_tui.figures import counted, duration, rate, time_of_day
from voiceeval_tui.text import safe, shortened

PROGRESS_SECONDS = 60.0
_COLOURS = {"passed": "32", "failed": "31", "stalled": "33", "not run": "33", "no verdict": "36", "retry": "33", "warning": "33",
            "judge failed": "33"}  # fmt: skip
_SIGNALS = {
    "is_action_match": "action list",
    "db_state_match": "database",
    "db_state_assertion": "predicates",
    "nl_assertion": "assertions",
    "judge_passed": "judge",
    "clean_exit": "clean exit",
}


class PlainOutput:
    """Prints a run. Give it every event in order; `tick` now and then prints progress when a minute has passed without a line of it."""

    def __init__(self, out: TextIO) -> None:
        self.state = RunState()
        self._out = out
        self._colour = out.isatty() and not os.environ.get("NO_COLOR")
        self._last_progress = 0.0
        self._done = 0
        """`state.done`, kept up: to count ten thousand at each of ten thousand results takes half a minute."""

    def __call__(self, event: events.Event) -> None:
        was_done = self._is_done(event)
        self.state.apply(event)
        self._done = self.state.done if isinstance(event, events.RunStarted) else self._done + self._is_done(event) - was_done
        match event:
            case events.RunStarted():
                self._last_progress = event.time
                what = f"{counted(len(event.scenarios), 'scenario')} on {counted(len(event.pairs), 'pair')}"
                self._line(event.time, f"session {safe(event.session)}: {what}")
                if event.pairs_from and not event.pairs:
                    self._line(event.time, f"{self._paint('warning', 'no pairs')} {safe(event.pairs_from)} names none yet")
            case events.AttemptStarted():
                where = f" on pair {event.pair + 1}" if len(self.state.pairs) > 1 or self.state.pairs_from else ""
                again = f", attempt {event.attempt}" if event.attempt > 1 else ""
                self._line(event.time, f"start    {event.number}/{len(self.state.scenarios)} {safe(event.scenario)}{where}{again}")
            case events.AttemptDiscarded() if event.retry_in is not None:
                what = self._paint("retry", "retry   ")
                self._line(event.time, f"{what} {safe(event.scenario)} in {event.retry_in:g}s: {shortened(event.reason, 300)}")
            case events.ScenarioScored() if event.pending:
                pass
            case events.ScenarioNotRun() | events.ScenarioScored():
                scenario = self.state.scenarios.get(event.scenario)
                if scenario is not None:
                    done = f"[{self._done}/{len(self.state.scenarios)}]"
                    self._line(event.time, f"{_describe(scenario, self._paint(scenario.status, f'{scenario.status:<8}'))}  {done}")
            case events.Logged() if event.level != "INFO":
                what = self._paint("warning", f"{event.level.lower():<8}")
                self._line(event.time, f"{what} {shortened(event.message.removeprefix('WARNING: '), 300)}")
            case events.Requeued():
                self._line(event.time, f"queued   {safe(event.scenario)} again: {shortened(event.reason, 300)}")
            case events.PairOut():
                what = self._paint("warning", "pair out")
                self._line(
                    event.time, f"{what} pair {event.pair + 1} since {time_of_day(event.since)}: {shortened(event.reason, 300)}"
                )
            case events.PairBack():
                self._line(event.time, f"pair in  pair {event.pair + 1} answers again")
            case events.PairCame():
                self._line(event.time, f"pair in  pair {event.pair + 1} comes: {', '.join(map(safe, event.urls))}")
            case events.PairLeft():
                waits = "" if self.state.pairs_there else "; none is left, the run waits for one"
                self._line(event.time, f"pair off pair {event.pair + 1} has left{waits}")
            case events.Paused():
                self._line(event.time, f"{self._paint('warning', 'paused  ')} {shortened(event.reason, 300)}")
            case events.GoneOn():
                self._line(event.time, "goes on")
            case events.Stopping():
                self._line(event.time, f"stopping {'after the attempts that run' if event.after_current else 'now'}")
            case events.RunEnded():
                self._summary(event)
            case _:
                pass

    def _is_done(self, event: events.Event) -> bool:
        """Whether the scenario of the event has ended."""
        scenario = self.state.scenarios.get(event.scenario) if isinstance(event, events.AttemptEvent) else None
        return scenario is not None and scenario.status in ENDED

    def tick(self, now: float) -> None:
        """`now` is the wall clock; prints a progress line when none was printed for a minute."""
        if self.state.scenarios and self.state.ended is None and now - self._last_progress >= PROGRESS_SECONDS:
            self._progress(now)

    def _progress(self, now: float) -> None:
        state = self.state
        self._last_progress = now
        elapsed = now - state.started
        eta = state.eta(now)
        parts = [
            f"progress {state.done}/{len(state.scenarios)} done",
            f"success {rate(state.success.k, state.success.n)}",
            f"elapsed {duration(elapsed)}",
        ]
        if pace := state.rate(now):
            parts.append(f"{pace * 60:.1f} a minute")
        if eta is not None and state.done < len(state.scenarios):
            parts.append(f"ETA {duration(eta)}")
        self._line(now, ", ".join(parts))

    def _summary(self, event: events.RunEnded) -> None:
        state, out = self.state, self._out
        print(file=out)
        how = safe(event.reason) if event.reason in ("finished", "interrupted") else f"ended early, {safe(event.reason)}"
        print(f"Evaluation {how}: "
              f"{state.count(*SCORED)} of {len(state.scenarios)} scenarios have a result, "
              f"{duration(event.time - state.started)} in all", file=out)  # fmt: skip
        print(f"  success        {rate(state.success.k, state.success.n, interval=True)}", file=out)
        print(f"  task success   {rate(state.task_success.k, state.task_success.n, interval=True)}   (clean exit aside)", file=out)
        for signal, label in _SIGNALS.items():
            count = state.signal(signal)
            if count.n:
                print(f"  {label:<14} {rate(count.k, count.n, interval=True)}", file=out)
        if state.judge_scores:
            mean = sum(state.judge_scores) / len(state.judge_scores)
            print(f"  judge score    mean {mean:.3f} of {len(state.judge_scores)}", file=out)
        print(f"  latency        {_latency(state.latencies)}", file=out)
        print(f"  tokens         {f'{state.tokens:,}' if state.tokens else 'none told'}", file=out)
        for status, label in (("failed", "failed"), ("stalled", "stalled"), ("not run", "did not run")):
            for scenario in state.scenarios.values():
                if scenario.status == status and not scenario.failed_by_judge_alone:
                    print(f"  {self._paint(status, f'{label:<14}')} {_why(scenario)}", file=out)
        everyone = state.scenarios.values()
        for label, named, note in (
            ("judge failed", [each.name for each in everyone if each.judge_failed], ": scored 0.0, not the agent's failure"),
            ("re-run by hand", [each.name for each in everyone if each.by_hand], ""),
            ("verdict out", [each.name for each in everyone if each.status == "judging"], ""),
            ("not started", [each.name for each in everyone if each.status == "queued"], ""),
            ("interrupted", [each.name for each in everyone if each.status not in {*ENDED, "judging", "queued"}], ""),
        ):
            if named:
                print(f"  {self._paint(label, f'{label:<14}')} {_names(named)}{note}", file=out)
        if not event.complete and event.resume_command:
            print(f"  {'to go on':<14} {safe(event.resume_command)}", file=out)
        for file in event.files:
            print(f"  {safe(file)}", file=out)
        out.flush()

    def _line(self, at: float, text: str) -> None:
        print(f"{time_of_day(at)} {text}", file=self._out, flush=True)

    def _paint(self, what: str, text: str) -> str:
        return f"\x1b[{_COLOURS[what]}m{text}\x1b[0m" if self._colour and what in _COLOURS else text


def _describe(scenario: ScenarioState, status: str) -> str:
    name = safe(scenario.name)
    if scenario.status == "not run":
        return f"{status} {name}: {shortened(scenario.reason or '', 300)}"
    p50 = percentile(scenario.latencies, 0.5)
    parts = [f"{status} {name}", safe(scenario.stop_reason or ""), counted(scenario.turns, "turn")]
    parts.append("no latency" if p50 is None else f"p50 {p50:.0f}ms")
    if scenario.failed_signals:
        parts.append(f"failed: {safe(', '.join(scenario.failed_signals))}")
    if scenario.retries:
        parts.append(f"retried {scenario.retries}x")
    return "  ".join(parts)


def _why(scenario: ScenarioState) -> str:
    if scenario.status == "not run":
        return f"{safe(scenario.name)}: {shortened(scenario.reason or '', 300)}"
    why = "too few agent turns" if scenario.status == "stalled" else ", ".join(map(safe, scenario.failed_signals))
    return f"{safe(scenario.name)}: {why} ({safe(scenario.stop_reason or '')})"


def _names(names: list[str]) -> str:
    """How many, and the first few."""
    shown = ", ".join(safe(name) for name in names[:5])
    return f"{len(names)}: {shown}{', ...' if len(names) > 5 else ''}"


def _latency(values: list[float]) -> str:
    if not values:
        return "no measurement"
    p50, p95 = percentile(values, 0.5), percentile(values, 0.95)
    return f"p50 {p50:.0f}ms  p95 {p95:.0f}ms  max {max(values):.0f}ms  n {len(values)}"
