"""A session as JUnit XML, for CI: a suite a domain, a case a scenario.

Failed and stalled scenarios are failures. Those without a result, and those that failed because the judge's call did and nothing else,
are errors: they say nothing about the agent. Without an applicable signal a scenario is skipped. May import the engine's `session` and
`markup`.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from datetime import datetime

from voiceeval_engine.session.layout import TIMESTAMP_FORMAT
from voiceeval_engine.session.report import ReportedScenario, SessionReport
from voiceeval_tui.markup import xml_text

_MESSAGE_CHARS = 300


def render_junit(report: SessionReport) -> str:
    """The document as text, with a declaration; any parser of XML 1.0 reads it whatever the session's texts hold."""
    by_domain: dict[str, list[ReportedScenario]] = {}
    for scenario in report.scenarios:
        by_domain.setdefault(scenario.domain, []).append(scenario)
    root = _element("testsuites", name=report.session, **_counts(report.scenarios))
    for number, domain in enumerate(sorted(by_domain)):
        root.append(_suite(number, domain, by_domain[domain], _started(report)))
    ET.indent(root)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ET.tostring(root, encoding='unicode')}\n"


def _suite(number: int, domain: str, scenarios: list[ReportedScenario], started: str | None) -> ET.Element:
    """With all that the strictest schema in use, Ant's, wants of a suite."""
    suite = _element("testsuite", name=domain, id=str(number), package=domain, hostname="localhost", **_counts(scenarios))
    suite.set("skipped", str(sum(_kind(each) == "skipped" for each in scenarios)))
    if started is not None:
        suite.set("timestamp", started)
    ET.SubElement(suite, "properties")
    suite.extend(map(_case, scenarios))
    for name in ("system-out", "system-err"):
        ET.SubElement(suite, name)
    return suite


def _started(report: SessionReport) -> str | None:
    """When the first invocation began, else what the session's name says; local ISO 8601 to the second."""
    first = report.invocations[0].started_at if report.invocations else ""
    for text, form in ((first[:19], "%Y-%m-%dT%H:%M:%S"), (report.timestamp, TIMESTAMP_FORMAT)):
        try:
            return datetime.strptime(text, form).isoformat(timespec="seconds")
        except ValueError:
            continue
    return None


def _case(scenario: ReportedScenario) -> ET.Element:
    case = _element("testcase", classname=scenario.domain, name=scenario.name, time=f"{_seconds(scenario):.3f}")
    properties = ET.SubElement(case, "properties")
    for name, value in _properties(scenario):
        ET.SubElement(properties, "property", _texts(name=name, value=value))
    kind = _kind(scenario)
    if kind is None:
        return case
    message = _message(scenario)
    outcome = ET.SubElement(case, kind, _texts(message=_one_line(message)))
    if kind != "skipped":
        outcome.set("type", "judge failed" if scenario.failed_by_judge_alone else scenario.outcome)
        outcome.text = xml_text("\n".join([message, *_details(scenario)]))
    return case


def _kind(scenario: ReportedScenario) -> str | None:
    if scenario.outcome in ("not run", "unreadable", "pending") or scenario.failed_by_judge_alone:
        return "error"
    if scenario.outcome in ("failed", "stalled"):
        return "failure"
    return "skipped" if scenario.outcome == "no verdict" else None


def _message(scenario: ReportedScenario) -> str:
    if scenario.failed_by_judge_alone:
        return f"the judge's call failed: {scenario.judge_reason}"
    if scenario.outcome == "no verdict":
        return "no signal was applicable"
    if scenario.outcome == "stalled":
        return f"too few agent turns, counted as a failure ({_stop(scenario)})"
    if scenario.outcome == "failed":
        return f"failed signals: {', '.join(scenario.failed_signals)}"
    return f"{scenario.outcome}: {scenario.reason}"


def _details(scenario: ReportedScenario) -> Iterator[str]:
    if scenario.metrics is None:
        return
    yield f"stop reason: {_stop(scenario)} {scenario.end_reason}".rstrip()
    if scenario.judge_reason and not scenario.failed_by_judge_alone:
        yield f"judge: {scenario.judge_reason}"
    for what, checks in (("assertion", scenario.assertions), ("predicate", scenario.predicates)):
        yield from (f"{what} failed: {check.what} ({check.reason})" for check in checks if not check.passed)


def _properties(scenario: ReportedScenario) -> Iterator[tuple[str, str]]:
    metrics = scenario.metrics
    yield "outcome", scenario.outcome
    if metrics is None or scenario.latency is None:
        return
    if scenario.latency["count"]:
        yield "latency_p50_ms", f"{scenario.latency['p50_ms']:.1f}"
        yield "latency_p95_ms", f"{scenario.latency['p95_ms']:.1f}"
    yield "turns", str(metrics.total_turns)
    yield "tokens", str(metrics.agent_tokens.total + metrics.user_tokens.total)
    yield "stop_reason", _stop(scenario)
    yield "auto_retry_count", str(scenario.retries)
    if metrics.judge_score is not None:
        yield "judge_score", f"{metrics.judge_score:g}"


def _counts(scenarios: Iterable[ReportedScenario]) -> dict[str, str]:
    cases = list(scenarios)
    kinds = [_kind(each) for each in cases]
    return {
        "tests": str(len(cases)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "time": f"{sum(map(_seconds, cases)):.3f}",
    }


def _seconds(scenario: ReportedScenario) -> float:
    return max(0.0, scenario.metrics.scenario_duration) if scenario.metrics is not None else 0.0


def _stop(scenario: ReportedScenario) -> str:
    return (scenario.metrics.stop_reason if scenario.metrics is not None else None) or "-"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MESSAGE_CHARS else f"{line[: _MESSAGE_CHARS - 1]}…"


def _element(name: str, /, **attributes: str) -> ET.Element:
    return ET.Element(name, _texts(**attributes))


def _texts(**attributes: str) -> dict[str, str]:
    return {key: xml_text(value) for key, value in attributes.items()}
