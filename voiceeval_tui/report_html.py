"""A session as one HTML page that needs nothing else: rates with intervals, latency, every scenario with its conversation and verdicts.

For people who were not there: it opens from a mail, offline, on a phone. No network, no script but sorting, and the page's policy forbids
all others. Everything foreign goes through `markup`. May import the engine's `session` and what draws a report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from voiceeval_engine import __version__
from voiceeval_engine.session.report import RATES, Check, MeasuredRate, ReportedScenario, SessionReport, Started
from voiceeval_tui.figures import counted, duration, milliseconds
from voiceeval_tui.markup import Html, joined, tag
from voiceeval_tui.report_charts import latency_histogram, rate_bar
from voiceeval_tui.report_look import SCRIPT, STYLE, policy

_COLUMNS = (
    ("Scenario", False), ("Verdict", False), ("Failed signals", False), ("Turns", True), ("Duration", True), ("P50", True), ("P95", True),
    ("Judge", True), ("Retries", True), ("Tokens", True), ("Ended by", False),
)  # fmt: skip


def render_html(report: SessionReport) -> str:
    title = f"Evaluation {report.session}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        Html(f"<style>{STYLE}</style>"),
    )
    body = tag("body", tag("h1", title), *_overview(report), *_rates(report), *_latency(report), *_table(report.scenarios),
               *_scenarios(report), *_invocations(report), Html(f"<script>{SCRIPT}</script>"))  # fmt: skip
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _overview(report: SessionReport) -> Iterator[Html]:
    run = report.run
    if report.invocations:
        first, last = report.invocations[0].started_at, report.invocations[-1].started_at
        again = f", last resumed or judged again {last}" if len(report.invocations) > 1 else ""
        yield tag("p", f"Started {first}{again}", class_="dim")
    tokens = run.agent_tokens.total + run.user_tokens.total
    tiles = [
        (f"{len(report.scenarios)}", "scenarios"),
        (f"{report.count('passed')}", "passed"),
        (f"{report.count('failed')}", "failed"),
        (f"{report.count('stalled')}", "stalled, count as failed"),
        (f"{report.count('not run', 'pending', 'unreadable')}", "without a result"),
        *([(f"{report.count('no verdict')}", "without a verdict")] if report.count("no verdict") else []),
        (f"{run.total_turns}", "turns"),
        (duration(run.duration), "of conversation"),
        (f"{tokens:,}" if tokens else "-", "tokens"),
    ]
    yield _tiles(tiles)
    if report.warnings:
        yield tag("div", *(tag("p", line, class_="foreign") for line in report.warnings), class_="warnings", role="note")


def _rates(report: SessionReport) -> Iterator[Html]:
    yield tag("h2", "Rates")
    if not report.rates:
        yield tag("p", "No scenario had a signal that could be counted.")
        return
    yield tag("p", "The line on each bar is the 95 % Wilson interval. Stalled scenarios count as failed in both success rates and are in "
                   "no other; rates of assertions and predicates count these, not scenarios.", class_="dim")  # fmt: skip
    yield _bars(report.rates)
    if report.run.judge_score_mean is not None:
        yield tag(
            "p", f"Judge score: mean {report.run.judge_score_mean:.3f} of {counted(report.run.judge_score_count, 'scenario')}."
        )
    for key, rates in report.domains:
        if len(rates) > 1:
            yield tag("h3", f"{RATES[key][0]} by domain")
            yield _bars(rates)


def _bars(rates: Sequence[MeasuredRate]) -> Html:
    cells: list[Html] = []
    for rate in rates:
        figure = f"{rate.k}/{rate.n} {rate.unit}, {100 * rate.k / rate.n:.1f} % [{100 * rate.low:.0f}–{100 * rate.high:.0f}]"
        cells += [tag("div", tag("bdi", rate.label)), rate_bar(rate), tag("div", figure, class_="figure")]
    return tag("div", *cells, class_="rates")


def _latency(report: SessionReport) -> Iterator[Html]:
    yield tag("h2", "Response latency")
    values, stats = report.latencies, report.run.latency
    if not values:
        yield tag("p", "Nothing was measured.")
        return
    figures = [(f"{len(values)}", "measurements")]
    figures += [(f"{stats[f'{key}_ms']:.0f} ms", key) for key in ("mean", "p50", "p95", "min", "max")]
    yield _tiles(figures)
    yield tag("div", latency_histogram(values, stats["p50_ms"], stats["p95_ms"]), class_="scroll")


def _tiles(figures: Iterable[tuple[str, str]]) -> Html:
    return tag("div", *(tag("div", tag("b", figure), tag("span", what), class_="tile") for figure, what in figures), class_="tiles")


def _table(scenarios: Sequence[ReportedScenario]) -> Iterator[Html]:
    yield tag("h2", "Scenarios")
    heads = (tag("th", title, class_="num" if number else None, scope="col") for title, number in _COLUMNS)
    rows = (_row(place, scenario) for place, scenario in enumerate(scenarios))
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="sortable")
    yield tag("div", table, class_="scroll")


def _row(place: int, scenario: ReportedScenario) -> Html:
    metrics, latency = scenario.metrics, scenario.latency
    cells = [tag("td", tag("a", tag("bdi", scenario.name), href=f"#s{place}")), tag("td", _verdict(scenario))]
    if metrics is None or latency is None:
        cells += [tag("td", tag("bdi", scenario.reason)), *(_number("-", -1) for _ in range(7)), tag("td", "-")]
        return tag("tr", *cells)
    tokens, score = metrics.agent_tokens.total + metrics.user_tokens.total, metrics.judge_score
    cells += [
        tag("td", tag("bdi", ", ".join(scenario.failed_signals))),
        _number(f"{metrics.total_turns}", metrics.total_turns),
        _number(duration(metrics.scenario_duration), metrics.scenario_duration),
        *(
            _number(milliseconds(latency[key]), latency[key]) if latency["count"] else _number("-", -1)
            for key in ("p50_ms", "p95_ms")
        ),
        _number("-", -1) if score is None else _number("failed" if scenario.judge_failed else f"{score:.2f}", score),
        _number(f"{scenario.retries}", scenario.retries),
        _number(f"{tokens:,}" if tokens else "-", tokens),
        tag("td", tag("bdi", metrics.stop_reason or "-")),
    ]
    return tag("tr", *cells)


def _number(text: str, value: float) -> Html:
    return tag("td", text, class_="num", data_v=f"{value:g}")


def _verdict(scenario: ReportedScenario) -> Html:
    return tag("span", scenario.outcome, class_=f"verdict {scenario.outcome.replace(' ', '-')}")


def _scenarios(report: SessionReport) -> Iterator[Html]:
    yield tag("h2", "Conversations and verdicts")
    for place, scenario in enumerate(report.scenarios):
        yield tag(
            "details",
            tag("summary", _verdict(scenario), tag("bdi", scenario.name)),
            tag("div", *_told(scenario), id=f"s{place}"),
        )


def _told(scenario: ReportedScenario) -> Iterator[Html]:
    yield _list(_facts(scenario))
    for title, checks in (("Assertions", scenario.assertions), ("Database predicates", scenario.predicates)):
        if checks:
            yield tag("h3", title)
            yield tag("ul", *map(_check, checks))
    if scenario.turns:
        yield tag("h3", "Conversation")
        for turn in scenario.turns:
            latency = f", answered after {turn.latency_ms:.0f} ms" if turn.latency_ms is not None else ""
            about = tag("span", f"{turn.role} {turn.start:.1f} s{latency}", class_="dim")
            yield tag("div", about, turn.text, class_="say agent" if turn.role == "agent" else "say")


def _facts(scenario: ReportedScenario) -> Iterator[tuple[str, str]]:
    metrics = scenario.metrics
    if scenario.reason:
        yield "Why", scenario.reason
    if scenario.failed_by_judge_alone:
        yield "Note", "Only the judge's call failed: this says nothing about the agent."
    for title, signals in (
        ("Failed signals", scenario.failed_signals),
        ("Passed signals", scenario.passed_signals),
        ("Not applicable", scenario.not_applicable),
    ):
        if signals:
            yield title, ", ".join(signals)
    if metrics is not None and scenario.latency is not None:
        if metrics.stalled:
            yield "Stalled", "Too few agent turns: counted as a failure, in no signal's rate."
        yield "Ended by", f"{metrics.stop_reason or '-'} {scenario.end_reason}".rstrip()
        if metrics.judge_score is not None and not scenario.judge_failed:
            yield "Judge score", f"{metrics.judge_score:g}"
        if scenario.latency["count"]:
            keys = ("mean", "p50", "p95", "min", "max")
            yield "Latency", ", ".join(f"{key} {scenario.latency[f'{key}_ms']:.0f} ms" for key in keys)
    if scenario.judge_reason:
        yield "Judge", scenario.judge_reason
    if scenario.retries or scenario.retry_reasons:
        yield "Automatic retries", "\n".join([f"{scenario.retries}", *scenario.retry_reasons])
    if scenario.moved_aside:
        yield "Attempts moved aside", "\n".join(scenario.moved_aside)


def _check(check: Check) -> Html:
    verdict = tag("span", "passed" if check.passed else "failed", class_=f"verdict {'passed' if check.passed else 'failed'}")
    reason = tag("div", check.reason, class_="foreign dim") if check.reason else Html("")
    return tag("li", verdict, " ", tag("span", check.what, class_="foreign"), reason)


def _list(facts: Iterable[tuple[str, str]]) -> Html:
    return tag("dl", *(joined(tag("dt", title), tag("dd", text, class_="foreign")) for title, text in facts))


def _invocations(report: SessionReport) -> Iterator[Html]:
    yield tag("h2", "How it was run")
    if not report.invocations:
        yield tag("p", "The session does not tell.")
    for number, started in enumerate(report.invocations, start=1):
        yield tag(
            "details",
            tag("summary", f"{number}. {started.started_at}, {counted(started.scenarios, 'scenario')}"),
            *_options(started),
        )
    yield tag("p", f"Written by voiceeval-tui {__version__}.", class_="dim")


def _options(started: Started) -> Iterator[Html]:
    if started.argv:
        yield tag("p", " ".join(started.argv), class_="foreign")
    yield _list(started.options)
