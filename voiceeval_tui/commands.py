"""The subcommands beside a run: a word to a running engine (`status`, `pause`, `resume-queue`, `stop`) and `clean`.

What is asked for goes to standard output, questions and warnings to standard error; what the engine and file names say passes `safe`. May
import the engine's `live` and `session`, and what draws nothing. Rules: running page, "Commands" and "Processes".
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from voiceeval_engine.live.commands import Command, ControlError, ControlFailed, EngineGone, Reply, Status, send_now
from voiceeval_engine.session.clean import Leftover, find_leftovers, is_session, remove
from voiceeval_engine.session.lock import Holder, SessionHeld, SessionLock, holder
from voiceeval_tui.arguments import build_clean_parser, build_control_parser
from voiceeval_tui.documents import render
from voiceeval_tui.engine import listens_at
from voiceeval_tui.errors import CommandError
from voiceeval_tui.figures import counted, duration, rate, size
from voiceeval_tui.sessions import find_session
from voiceeval_tui.text import safe


def control(argv: Sequence[str]) -> int:
    """`status`, `pause`, `resume-queue` or `stop`, as the first argument says. Raises CommandError."""
    given = build_control_parser(argv[0]).parse_args(argv[1:])
    session = find_session(given.session, given.output_dir)
    name = "stop-now" if argv[0] == "stop" and given.now else argv[0]
    reply = _ask(session, Command.model_validate({"command": name}))
    if not reply.ok:
        raise CommandError(reply.message)
    shown = reply.status if name == "status" else reply
    if shown is None:
        raise CommandError(f"the engine on {session} gave no status: {reply.message}")
    if given.json:
        print(render(shown.model_dump(mode="json")), end="")
    elif isinstance(shown, Status):
        print("\n".join(map(safe, _describe(shown))))
    else:
        print(safe(shown.message))
    return 0


def clean(argv: Sequence[str]) -> int:
    """Remove what was moved aside from a session, after asking. Raises CommandError or OSError."""
    given = build_clean_parser().parse_args(argv)
    session: Path = given.directory
    if not session.is_dir():
        raise CommandError(f"{session} is not a directory")
    if not is_session(session):
        raise CommandError(f"{session} is no session: it has neither run_args.json, evaluation_log.txt nor events.jsonl")
    try:
        lock = SessionLock(session, datetime.now().isoformat(timespec="seconds"))
    except SessionHeld as error:
        raise CommandError(f"{error}; nothing is removed meanwhile") from error
    try:
        return _clean(session, sure=given.yes)
    finally:
        lock.release()


def _ask(session: Path, command: Command) -> Reply:
    """The engine's answer; who holds the session's lock tells where it listens, and why there is none."""
    held = holder(session)
    try:
        return send_now(listens_at(session, held), command)
    except EngineGone as error:
        # It may have ended meanwhile.
        raise CommandError(_no_answer(session, holder(session), error)) from error
    except ControlFailed as error:
        raise CommandError(_no_answer(session, held, error)) from error


def _no_answer(session: Path, held: Holder | None, error: ControlError) -> str:
    if held is None:
        return f"no engine runs on {session}" if isinstance(error, EngineGone) else str(error)
    return f"process {held.pid} on {held.host} holds {session} since {held.started_at} but takes no commands here: {error}"


def _describe(status: Status) -> Iterator[str]:
    reason = f": {status.reason}" if status.reason else ""
    yield f"{status.session}  {status.state}{reason}"
    yield f"  process    {status.pid} since {status.started_at}"
    rest = [f"{count} {what}" for count, what in ((status.stalled, "stalled"), (status.not_run, "not run")) if count]
    yield "  ".join([f"  done       {status.done}/{status.total}", *rest])
    yield f"  success    {rate(status.success_k, status.success_n, interval=True)}"
    yield f"  running    {', '.join(status.running) or '-'}"
    yield f"  pairs      {status.pairs - len(status.pairs_out)} of {status.pairs}"
    for sentence in status.pairs_out:
        yield f"  pair out   {sentence}"
    eta = f", ETA {duration(status.eta)}" if status.eta is not None else ""
    yield f"  elapsed    {duration(status.elapsed)}{eta}"


def _clean(session: Path, *, sure: bool) -> int:
    found = find_leftovers(session)
    if not found:
        print(f"{safe(str(session))}: nothing to remove")
        return 0
    for each in found:
        print(f"  {safe(str(each.path.relative_to(session)))}  {size(each.size)}")
    if not sure and not _confirmed(found):
        return 0
    failures: list[OSError] = []
    gone = remove(found, failures.append)
    print(f"removed {_amount(gone)}")
    for failure in failures:
        print(f"ERROR: not removed: {safe(str(failure))}", file=sys.stderr)
    return 1 if failures else 0


def _confirmed(found: Sequence[Leftover]) -> bool:
    if not sys.stdin.isatty():
        raise CommandError("clean asks before it removes anything; without a terminal give --yes", 2)
    sys.stdout.flush()
    print(f"Remove {_amount(found)}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _amount(leftovers: Sequence[Leftover]) -> str:
    folders = sum(each.is_attempt for each in leftovers)
    files = len(leftovers) - folders
    parts = [counted(folders, "folder")] * bool(folders or not files) + [counted(files, "temporary file")] * bool(files)
    return f"{' and '.join(parts)}, {size(sum(each.size for each in leftovers))}"
