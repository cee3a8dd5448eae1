"""`voiceeval-tui report DIR`: a session, finished or not, as a page for people, JUnit XML for CI, JSON for scripts, or text.

Reads the session and writes nothing into it. Each file is written whole or not at all and replaces what had its name. May import the
engine's `session`, `live` and what makes reports. Rule: running page, "Commands".
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from voiceeval_engine.live import events
from voiceeval_engine.session import layout
from voiceeval_engine.session.clean import is_session
from voiceeval_engine.session.files import write_atomic
from voiceeval_engine.session.lock import holder
from voiceeval_engine.session.report import SessionReport, read_report
from voiceeval_engine.session.summary import render_summary
from voiceeval_tui import documents
from voiceeval_tui.arguments import build_report_parser
from voiceeval_tui.errors import CommandError
from voiceeval_tui.report_html import render_html
from voiceeval_tui.report_junit import render_junit
from voiceeval_tui.session_files import journal_events
from voiceeval_tui.text import safe

_MARKS = (b'"type":"scenario_not_run"', b'"type":"attempt_started"', b'"type":"scenario_scored"')


def report(argv: Sequence[str]) -> int:
    """Write what was asked for, the summary as text without any; returns the exit code. Raises CommandError, OSError for a disk's."""
    given = build_report_parser().parse_args(argv)
    session: Path = given.directory
    formats: tuple[tuple[str | None, Callable[[SessionReport], str]], ...] = (
        (given.html, render_html),
        (given.junit, render_junit),
        (given.json, lambda found: documents.render(documents.whole_report(session, found))),
    )
    wanted = [(target, render) for target, render in formats if target is not None]
    if [target for target, _ in wanted].count("-") > 1:
        raise CommandError("standard output (-) takes one of --html, --junit and --json", 2)
    if not session.is_dir():
        raise CommandError(f"{session} is not a directory")
    for target, _ in wanted:
        _check_target(target, session)
    found = read_report(session, did_not_run=why_not_run(session))
    if not found.scenarios and not is_session(session):
        raise CommandError(f"{session} is no session: no scenario's folder is in it")
    if holder(session) is not None:
        print(f"WARNING: an engine works on {safe(str(session))}: the report shows what is finished by now", file=sys.stderr)
    for target, render in wanted:
        _write(target, render(found))
    if not wanted:
        text = render_summary(found.run, queued=len(found.scenarios), timestamp=found.timestamp, notes=found.notes)
        print("\n".join(map(safe, text.split("\n"))), end="")
    return 0


def why_not_run(session: Path) -> dict[str, str]:
    """Why scenarios have no result, as the journal tells: the last word on each that did not run. Empty without a journal."""
    reasons: dict[str, str] = {}
    for event in journal_events(session / layout.JOURNAL, *_MARKS):
        if isinstance(event, events.ScenarioNotRun):
            reasons[event.scenario] = event.reason
        elif isinstance(event, events.AttemptEvent):
            reasons.pop(event.scenario, None)
    return reasons


def _check_target(target: str, session: Path) -> None:
    if target == "-":
        return
    path = Path(target).resolve()
    if session.resolve() in (path, *path.parents):
        raise CommandError(f"{target} lies in the session, which a report leaves alone: name a file elsewhere")
    if path.is_dir():
        raise CommandError(f"{target} is a directory: name a file")
    if not path.parent.is_dir():
        raise CommandError(f"{target} cannot be written: there is no folder {path.parent}")


def _write(target: str, text: str) -> None:
    if target == "-":
        # As character references HTML and XML survive whatever encoding the output has; JSON has nothing to replace.
        sys.stdout.write(text.encode("ascii", "xmlcharrefreplace").decode())
        return
    path = Path(target).resolve()
    try:
        if path.exists() and not path.is_file():  # a pipe or a device
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
        else:
            write_atomic(path, text)
    except OSError as error:
        raise CommandError(f"{target} cannot be written: {error.strerror or error}") from error
    print(f"written: {safe(target)}", file=sys.stderr)
