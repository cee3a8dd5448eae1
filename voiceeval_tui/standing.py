"""How the scenario that is shown stands, in words: its clocks, and why there is nothing of it to see.

Plain values in, text out. May import the engine's `live/`, `figures`, `transcript`, `view`. Rule: console page, "Panes".
"""

from __future__ import annotations

from voiceeval_engine.live.state import ENDED, ScenarioState
from voiceeval_tui.figures import duration
from voiceeval_tui.transcript import Transcript
from voiceeval_tui.view import RUNNING, View


def clock(seconds: float) -> str:
    """A moment of a conversation, or how long it took: `2:41`, `1h40` from a hundred minutes on."""
    whole = max(0, int(seconds))
    return f"{whole // 60}:{whole % 60:02d}" if whole < 6000 else f"{whole // 3600}h{whole % 3600 // 60:02d}"


def broke_off(view: View, scenario: ScenarioState) -> bool:
    """Whether the run ended in the midst of the scenario's attempt: a resume runs it again."""
    return scenario.status in RUNNING and (view.run.ended is not None or view.link.state == "gone")


def goes_on(view: View) -> bool:
    """Whether the scenario that is shown is being run now."""
    scenario = view.scenario()
    return scenario is not None and scenario.status in RUNNING and not broke_off(view, scenario)


def elapsed(view: View) -> float | None:
    """s of conversation of the scenario that is shown; None where there was none."""
    scenario, transcript = view.scenario(), view.transcript(view.shown)
    if scenario is None:
        return None
    if scenario.status in ENDED | {"judging"}:
        return scenario.duration or None
    if transcript is None or transcript.started is None:
        return None
    if scenario.status == "talking" and goes_on(view):
        return max(transcript.last_at, view.now - transcript.started)
    return transcript.last_at


def idle(view: View, transcript: Transcript) -> int:
    """Whole s since the last sign of life of either bot."""
    return 0 if transcript.speaking else max(0, int(view.now - transcript.last_time))


def why_empty(view: View) -> str:
    """A sentence that tells why no words are there."""
    scenario = view.scenario()
    if scenario is None:
        return "No scenario yet." if not view.run.scenarios else "No scenario is chosen."
    if scenario.status == "not run":
        return f"Not run: {scenario.reason or 'no reason was given'}."
    if scenario.status == "retrying":
        why = scenario.discarded[-1].reason if scenario.discarded else "no reason was given"
        return f"The last attempt does not count: {why}. The next one is to come."
    if scenario.status == "setting up" and goes_on(view):
        return f"Setting up for {duration(max(0.0, view.now - scenario.since))}: the bots are told what to do."
    if scenario.status == "talking":
        return "No words yet." if goes_on(view) else "Nothing was said before the run broke off."
    return _WHY.get(scenario.status, "No words of it are known.")


_WHY = {"queued": "It waits in the queue.", "setting up": "It was being set up when the run broke off."}
