"""The two lines above: which session, how far, how well.

Rule: console page, "Panes" (header).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from voiceeval_tui.cells import drawable, fit, width
from voiceeval_tui.figures import counted, duration, milliseconds, rate
from voiceeval_tui.themes import StyleName
from voiceeval_tui.view import View
from voiceeval_tui.widgets.pane import Band, Row, Span


class Header(Band):
    """Always there. Parts that find no room are left out, the least important first."""

    DEFAULT_CSS = "Header { dock: top; height: 2; }"

    NAME = "header"
    AREAS = frozenset({"run", "queue", "latency", "clock", "link"})

    def rows(self, view: View, width: int) -> Sequence[Row]:
        return (_first_line(view, width), _second_line(view, width))


def _first_line(view: View, cells: int) -> Row:
    run = view.run
    state, style = _state(view)
    last = run.ended.time if run.ended is not None else run.now if view.link.state == "gone" else max(view.now, run.now)
    elapsed = duration(last - run.started) if run.started else "-"
    eta = run.eta(view.now) if run.ended is None and view.link.state == "alive" else None
    parts: list[Span] = [(state, style), (f"{run.done}/{len(run.scenarios)}", "strong"), (elapsed, "text")]
    if eta is not None and run.paused is None and run.done < len(run.scenarios):
        parts.append((f"ETA {duration(eta)}", "text"))
    taken = sum(width(drawable(text)) + 2 for text, _ in parts)
    name = PurePath(run.session).name or "no session yet"
    domains = {each.partition("__")[0] for each in run.scenarios if "__" in each}
    where = f" {name}  {domains.pop()}" if len(domains) == 1 else f" {name}"
    return ((fit(where, max(10, cells - taken - 1)), "title"), *_spaced(parts))


def _second_line(view: View, cells: int) -> Row:
    run = view.run
    success, task = run.success, run.task_success
    stalled, missing = run.count("stalled"), run.count("not run")
    p50, p95 = view.measured.percentile(0.5), view.measured.percentile(0.95)
    parts: list[tuple[int, Span]] = [
        (0, (f" success {' '.join(rate(success.k, success.n, interval=True).split())}", "strong")),
        (1, (f"task {task.k}/{task.n}", "text")),
        (2, (f"stalled {stalled}", "warn" if stalled else "dim")),
        (2 if missing else 4, (f"not run {missing}", "warn" if missing else "dim")),
        (3, (f"p50 {milliseconds(p50)} p95 {milliseconds(p95)}", "text")),
        (5, (f"tokens {run.tokens:,}", "dim")),
    ]
    if unjudged := sum(each.failed_by_judge_alone for each in run.scenarios.values()):
        parts.insert(4, (2, (f"judge out {unjudged}", "warn")))
    if view.link.bad_lines:
        parts.append((1, (f"{counted(view.link.bad_lines, 'bad line')} in the journal", "warn")))
    while len(parts) > 1 and sum(width(text) + 2 for _, (text, _) in parts) > cells:
        parts.remove(max(parts, key=lambda part: part[0]))
    return _spaced([span for _, span in parts])[1:]


def _spaced(parts: Sequence[Span]) -> Row:
    return tuple(span for part in parts for span in (("  ", "text"), part))


def _state(view: View) -> Span:
    """What the run does, in a word or a sentence."""
    run, link = view.run, view.link.state
    if run.ended is not None:
        return ("FINISHED", "ok") if run.ended.complete else (f"ENDED: {run.ended.reason}", "warn")
    if link == "opening":
        return ("READING", "dim")
    if link == "gone":
        return ("ENGINE GONE", "bad")
    if link == "files":
        return ("WATCHING FILES", "info")
    if run.stopping is not None:
        return ("STOPPING", "warn")
    if run.paused is not None:
        return (f"PAUSED: {run.paused}" if run.paused else "PAUSED", "warn")
    style: StyleName = "bad" if run.outages or (run.pairs_from and not run.pairs_there) else "ok"
    where = f" on {counted(run.pairs_there, 'pair')}" if run.pairs_from else ""
    return (f"RUNNING{where}, {counted(len(run.outages), 'pair')} out" if run.outages else f"RUNNING{where}", style)
