"""One scenario in full: how it stands, its figures, what it was judged by and why, hashes, tokens, retries, files.

What the fold knows stands first and is there for scenarios that wait or run too; the rest was read from the scenario's files. Rule:
console page, "Panes" (details).
"""

from __future__ import annotations

from collections.abc import Sequence

from voiceeval_engine.live.state import SCORED, ScenarioState
from voiceeval_tui.cells import wrap
from voiceeval_tui.details import Check, Details, Judged, LatencyFigures, Measured, Signal
from voiceeval_tui.figures import counted, duration, milliseconds, size, time_of_day
from voiceeval_tui.themes import StyleName
from voiceeval_tui.view import RUNNING, View
from voiceeval_tui.widgets.pane import Pane, Row
from voiceeval_tui.widgets.queue import standing

_LABEL_CELLS = 13
_LEAST_TEXT_CELLS = 8
_MOST_LINES = 200
"""Lines that one text may take."""


class DetailsPane(Pane):
    """Follows the shown scenario; another one begins at its top."""

    NAME = "details"
    TITLE = "details"
    AREAS = frozenset({"queue", "trouble", "selection", "details", "link"})

    def __init__(self) -> None:
        super().__init__()
        self._of: str | None = None
        self._read: tuple[Details, int] | None = None
        self._read_rows: list[Row] = []

    def heading(self, view: View) -> str:
        return self.TITLE if view.shown is None else f"{self.TITLE}  {view.shown}"

    def collect(self) -> int:
        if self.view.shown != self._of:
            self._of = self.view.shown
            self.scroll_to(y=0, animate=False, immediate=True)
        return super().collect()

    def rows(self, view: View, width: int) -> Sequence[Row]:
        scenario, details = view.scenario(), view.details()
        if scenario is None:
            return [(("no scenario yet", "dim"),)]
        told = _Sheet(width)
        _tell_state(told, view, scenario)
        if details is None:
            return [*told.rows, (), (("reading its files", "dim"),)]
        if self._read is None or self._read[0] is not details or self._read[1] != width:
            self._read, self._read_rows = (details, width), _tell_files(details, width)
        if scenario.status in SCORED and details.measured is None and not details.problems:
            told.fact("cannot read", "metrics.json: no such file", "bad")
        return [*told.rows, *self._read_rows]


class _Sheet:
    """Rows with labels, texts wrapped beside them."""

    def __init__(self, width: int) -> None:
        self.rows: list[Row] = []
        self._width = width
        self._labels = min(_LABEL_CELLS, max(0, width - _LEAST_TEXT_CELLS))

    def head(self, text: str) -> None:
        """A section begins."""
        self.rows += [(), ((text, "title"),)]

    def fact(self, label: str, text: str, style: StyleName = "text") -> None:
        """A label and what stands beside it, on as many lines as it takes."""
        self._wrapped(label[: max(0, self._labels - 1)].ljust(self._labels), "dim", text, style)

    def item(self, mark: str, style: StyleName, text: str, note: str = "") -> None:
        """A marked text, and under it why."""
        self._wrapped(f"{mark} ", style, text, "text")
        if note:
            self._wrapped("  ", "dim", note, "dim")

    def _wrapped(self, lead: str, lead_style: StyleName, text: str, style: StyleName) -> None:
        """A lead, then the text with a hanging indent; breaks of its own are kept."""
        cells = max(1, self._width - len(lead))
        parts = [part.replace("\t", " ") for part in text.splitlines() if part.strip()] or [""]
        lines = [line for part in parts[:_MOST_LINES] for line in wrap(part, cells, _MOST_LINES)][:_MOST_LINES]
        for number, line in enumerate(lines):
            self.rows.append(((lead if number == 0 else " " * len(lead), lead_style), (line, style)))


def _tell_state(sheet: _Sheet, view: View, scenario: ScenarioState) -> None:
    """What the fold knows."""
    mark, word, style = standing(view, scenario)
    sheet.fact("state", f"{mark} {word}".strip(), style)
    if scenario.reason:
        sheet.fact("reason", scenario.reason, "warn")
    where = f", pair {scenario.pair + 1} of {len(view.run.pairs)}" if scenario.pair is not None and len(view.run.pairs) > 1 else ""
    attempt = (
        f"{scenario.attempt}{where}" if scenario.attempt else "from an earlier start of the run" if scenario.loaded else "none yet"
    )
    sheet.fact("attempt", attempt + (", run again by hand" if scenario.by_hand else ""))
    for each in scenario.discarded:
        tokens = f" ({each.tokens:,} tokens)" if each.tokens else ""
        sheet.fact(f"discarded {each.attempt}", f"{each.reason}{tokens}", "warn")
    if scenario.status in RUNNING:
        sheet.fact("since", time_of_day(scenario.since))
        sheet.fact("turns", str(scenario.turns))
        if scenario.stop_reason:
            sheet.fact("stop reason", scenario.stop_reason)


def _tell_files(details: Details, width: int) -> list[Row]:
    """What was read."""
    sheet = _Sheet(width)
    for problem in details.problems:
        sheet.fact("cannot read", problem, "bad")
    if details.measured is not None:
        _tell_result(sheet, details.measured, details.floor)
    if details.judged is not None or (details.measured is not None and details.measured.judge_score is not None):
        _tell_judge(sheet, details)
    if details.measured is not None:
        _tell_database(sheet, details.measured)
        _tell_costs(sheet, details.measured)
    if details.description:
        sheet.head("scenario")
        sheet.fact("description", details.description)
    _tell_folder(sheet, details)
    return sheet.rows


def _tell_result(sheet: _Sheet, measured: Measured, floor: int | None) -> None:
    sheet.head("result")
    sheet.fact("verdict", *_verdict(measured.verdict))
    if measured.task_verdict is not None:
        sheet.fact("task", *_verdict(measured.task_verdict))
    for signal in measured.signals:
        sheet.item(*_signal(signal))
    sheet.head("conversation")
    sheet.fact("stop reason", measured.stop_reason or "-")
    sheet.fact("ended by", measured.end_reason or "-")
    if measured.end_policy:
        sheet.fact("end policy", measured.end_policy)
    called = {True: "called the end tool", False: "did not call the end tool", None: ""}[measured.end_tool_called]
    reported = {True: "reported the end", False: "did not report the end", None: ""}[measured.simulator_ended]
    if called or reported:
        sheet.fact("", "; ".join(each for each in (called and f"agent {called}", reported and f"user {reported}") if each))
    if measured.last_speaker:
        sheet.fact("last speaker", measured.last_speaker)
    sheet.fact("duration", _durations(measured))
    sheet.fact("turns", "-" if measured.turns is None else str(measured.turns))
    sheet.fact("responses", _responses(measured, floor), "warn" if measured.stalled else "text")
    sheet.fact("latency", _latency(measured.latency))


def _tell_judge(sheet: _Sheet, details: Details) -> None:
    judged, measured = details.judged, details.measured
    sheet.head("judge")
    score = measured.judge_score if measured is not None and measured.judge_score is not None else judged.score if judged else None
    passed = measured.judge_passed if measured is not None else None
    limit = "" if details.threshold is None else f", {details.threshold:g} needed"
    if judged is not None and judged.pending:
        sheet.fact("score", "the verdict is still out", "info")
        return
    text = "-" if score is None else f"{score:g}{limit}"
    word, style = _verdict(passed) if passed is not None else ("", "text")
    sheet.fact("score", f"{text}  {word}".rstrip(), style)
    if judged is not None:
        _tell_reasons(sheet, judged)


def _tell_reasons(sheet: _Sheet, judged: Judged) -> None:
    if judged.failed:
        sheet.fact("", "the call failed: this says nothing about the agent", "warn")
    sheet.fact("reason", judged.reason or "-", "bad" if judged.failed else "text")
    if judged.assertions:
        sheet.head(f"assertions  {_of(judged.assertions)}")
        for check in judged.assertions:
            sheet.item(*_check(check))


def _tell_database(sheet: _Sheet, measured: Measured) -> None:
    if measured.predicates:
        sheet.head(f"database assertions  {_of(measured.predicates)}")
        for check in measured.predicates:
            sheet.item(*_check(check))
    if measured.hash_match is None and not measured.hash_expected:
        return
    sheet.head("database hash")
    match: tuple[str, StyleName] = ("they match", "ok") if measured.hash_match else ("they do not match", "bad")
    sheet.fact("expected", measured.hash_expected or "-")
    sheet.fact("actual", measured.hash_actual or "the bot returned none")
    sheet.fact("", *(match if measured.hash_match is not None else ("not compared", "dim")))


def _tell_costs(sheet: _Sheet, measured: Measured) -> None:
    if measured.tokens:
        sheet.head("tokens")
        for side, count in measured.tokens:
            calls = counted(count.n_calls, "call")
            sheet.fact(side, f"{calls}, prompt {count.prompt:,}, completion {count.completion:,}, total {count.total:,}")
    if measured.retries:
        sheet.head("automatic retries")
        sheet.fact("count", str(measured.retries), "warn")
        for reason in measured.retry_reasons:
            sheet.item("o", "warn", reason)


def _tell_folder(sheet: _Sheet, details: Details) -> None:
    sheet.head("files")
    sheet.fact("folder", str(details.folder))
    if not details.files:
        sheet.fact("", "nothing in it yet", "dim")
    for name, count in details.files:
        sheet.fact(f"{size(count):>{_LABEL_CELLS - 4}}", name)
    if details.left_off:
        sheet.fact("", f"and {details.left_off} more", "dim")
    for name in details.aside:
        sheet.fact("moved aside", name, "warn")


def _verdict(value: bool | str | None) -> tuple[str, StyleName]:
    if isinstance(value, bool):
        return ("pass", "ok") if value else ("fail", "bad")
    return (value or "-", "info")


def _signal(signal: Signal) -> tuple[str, StyleName, str]:
    marks: dict[bool | None, tuple[str, StyleName, str]] = {
        True: ("✓", "ok", "pass"), False: ("✗", "bad", "fail"), None: ("-", "dim", "not applicable"),
    }  # fmt: skip
    mark, style, word = marks[signal.passed]
    if signal.excluded:
        return (mark, "dim", f"{signal.name}: {'not told' if signal.passed is None else word}, not part of the verdict")
    return (mark, style, f"{signal.name}: {word}")


def _check(check: Check) -> tuple[str, StyleName, str, str]:
    return ("✓", "ok", check.text or "-", check.note) if check.passed else ("✗", "bad", check.text or "-", check.note)


def _of(checks: Sequence[Check]) -> str:
    return f"{sum(check.passed for check in checks)}/{len(checks)}"


def _durations(measured: Measured) -> str:
    talk = "-" if measured.conversation is None else f"{duration(measured.conversation)} of talk"
    return talk if measured.scenario is None else f"{talk}, {duration(measured.scenario)} with set-up and scoring"


def _responses(measured: Measured, floor: int | None) -> str:
    """The agent's answers against what counts as a stall."""
    count = "not known" if measured.responses is None else str(measured.responses)
    at_least = f", at least {floor} wanted" if floor else ""
    return f"{count} of the agent{at_least}{': stalled' if measured.stalled else ''}"


def _latency(figures: LatencyFigures | None) -> str:
    if figures is None:
        return "no measurement"
    parts = (("mean", figures.mean), ("p50", figures.p50), ("p95", figures.p95), ("min", figures.least), ("max", figures.most))
    return f"{', '.join(f'{name} {milliseconds(value)}' for name, value in parts)}, n {figures.count}"
