"""The command `voiceeval-tui`: reads the command line, lists, runs headless or opens the console, owns exit codes and standard error.

Lists go to standard output, messages to standard error. Heavy imports happen where they are needed, so that `--help`, `--version` and
`--list` start at once. May import everything. Rule: running page, "Commands".
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sys
import time
from collections.abc import Coroutine, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voiceeval_tui import documents
from voiceeval_tui.arguments import CONTROL_COMMANDS, build_check_resume_parser, build_parser, build_rejudge_parser
from voiceeval_tui.errors import CommandError, let_go_of_output
from voiceeval_tui.text import safe, shortened

if TYPE_CHECKING:
    from voiceeval_engine.live.state import RunState
    from voiceeval_engine.run.judging import Judged
    from voiceeval_engine.run.launch import Plan
    from voiceeval_engine.run.options import RunOptions
    from voiceeval_engine.scenarios.catalog import Catalog

_FIXED_PAIRS = {"pair", "agent_url", "user_url"}


def main(arguments: Sequence[str] | None = None) -> int:
    """The console script; returns the exit code."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    _have_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _dispatch(argv)
        with contextlib.suppress(BrokenPipeError):  # whoever read went away: that changes nothing of what was done
            sys.stdout.flush()  # what cannot be written must be told, not found out by the interpreter when it ends
        return code
    except CommandError as error:
        print(f"ERROR: {safe(str(error))}", file=sys.stderr)
        return error.code
    except BrokenPipeError:
        return 1
    except OSError as error:
        print(f"ERROR: {safe(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 1
    finally:
        let_go_of_output()


def _have_streams() -> None:
    """A stream that was closed before we began (`2>&-`) is none at all in Python; it becomes one that says and takes nothing."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - it lasts as long as we do


def _dispatch(argv: list[str]) -> int:
    if argv[:1] == ["bots"]:
        from voiceeval_engine.bots.serve import main as serve_bots

        return serve_bots(argv[1:])
    if argv[:1] == ["check-resume"]:
        return _check_resume(argv[1:])
    if argv[:1] == ["report"]:
        from voiceeval_tui.report import report

        return report(argv[1:])
    if argv[:1] == ["rejudge"]:
        return _run_fast(_rejudge(argv))
    if argv[:1] == ["watch"]:
        from voiceeval_tui.watch import watch

        return watch(argv[1:])
    if argv and argv[0] in {*CONTROL_COMMANDS, "clean"}:
        from voiceeval_tui import commands

        return commands.clean(argv[1:]) if argv[0] == "clean" else commands.control(argv)
    return _run_command(argv)


def _run_command(argv: list[str]) -> int:
    given = vars(build_parser().parse_args(argv))
    if given.get("list_domains") or given.get("list"):
        catalog = _open_catalog(given)
        try:
            domains = bool(given.get("list_domains"))
            listed = documents.domain_list(catalog) if domains else documents.scenario_list(catalog)
            if given.get("json"):
                _print_json(listed)
            else:
                for line in _domain_lines(listed) if domains else _scenario_lines(listed):
                    print(line)
            for problem in catalog.errors:
                print(f"WARNING: {safe(str(problem))}", file=sys.stderr)
        finally:
            catalog.close()
        return 0
    options, as_json = _options(given), bool(given.get("json"))
    if given.get("preflight"):
        return _preflight(options, as_json=as_json)
    plain = as_json or bool(given.get("no_ui")) or not sys.stdout.isatty()
    if not plain and sys.stdin.isatty():
        from voiceeval_tui.opening import Look, open_run

        return open_run(options, argv, Look.of(given))
    from voiceeval_engine.run.launch import LaunchError, make_plan

    try:
        plan = make_plan(options, all_wanted=plain)
        return _run_fast(_run_headless(plan, argv, as_json=as_json))
    except LaunchError as error:
        raise CommandError(str(error), 2 if error.usage else 1) from error


def _preflight(options: RunOptions, *, as_json: bool) -> int:
    from voiceeval_tui.preflight import lines, preflight

    checked = preflight(options)
    if as_json:
        _print_json(documents.preflight(checked.findings))
    else:
        print("\n".join(map(safe, lines(checked.findings))))
    return 0 if checked.good else 1


def _check_resume(arguments: list[str]) -> int:
    from voiceeval_engine.session.resume import Classified, preview, render_preview

    given = build_check_resume_parser().parse_args(arguments)
    if given.min_agent_turns < 0:
        raise CommandError(f"--min-agent-turns {given.min_agent_turns}: must be a finite number of at least 0", 2)
    if not Path(given.directory).is_dir():
        raise CommandError(f"{given.directory} is not a directory")
    found = preview(Path(given.directory), given.min_agent_turns)
    if given.json:
        _print_json(documents.resume_preview(given.directory, given.min_agent_turns, found))
        return 0
    shown = [Classified(safe(each.name), each.state, safe(each.reason), each.auto_retry_count) for each in found]
    print(render_preview(safe(given.directory), given.min_agent_turns, shown), end="")
    return 0


def _run_fast(work: Coroutine[Any, Any, int]) -> int:
    """On libuv's event loop: with many small frames it costs a fifth less than asyncio's own."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def _options(given: dict[str, Any]) -> RunOptions:
    from voiceeval_engine.run.options import DEMO_DEFAULTS, OptionError, RunOptions
    from voiceeval_tui.sessions import NoSession, find_session

    fields = {name: value for name, value in given.items() if name in RunOptions.__dataclass_fields__}
    if "scenarios_from" in fields:
        try:
            fields["scenarios_from"] = find_session(given["scenarios_from"], given.get("output_dir", RunOptions.output_dir))
        except NoSession as error:
            raise CommandError(f"--scenarios-from: {error}") from error
    if given.get("demo"):
        fields = {**DEMO_DEFAULTS, **fields}
        if given.keys() & {*_FIXED_PAIRS, "pairs_from"}:
            raise CommandError("--demo brings its own bots: leave out --pair, --pairs-from, --agent-url and --user-url", 2)
    if "pairs_from" in given and given.keys() & _FIXED_PAIRS:
        raise CommandError("--pairs-from names all pairs: leave out --pair, --agent-url and --user-url", 2)
    for name in ("scenarios", "pair", "scenario_dir"):
        if name in fields:
            fields[name] = tuple(fields[name])
    try:
        return RunOptions(**fields)
    except OptionError as error:
        raise CommandError(str(error), 2) from error


def _open_catalog(given: dict[str, Any]) -> Catalog:
    from voiceeval_engine.scenarios.catalog import Catalog
    from voiceeval_engine.scenarios.model import ScenarioError

    options = _options(given)
    try:
        return Catalog.open(options.scenario_dir, options.source, options.scenarios_from)
    except ScenarioError as error:
        raise CommandError(str(error)) from error


def _domain_lines(listed: documents.Document) -> Iterator[str]:
    yield "Available domains:"
    for each in listed["domains"]:
        yield f"  - {each['name']} ({each['scenarios']} scenarios){_mark(each)}"
    yield f"\nLegacy scenarios (no domain): {', '.join(listed['legacy_scenarios'])}"


def _scenario_lines(listed: documents.Document) -> Iterator[str]:
    in_order = sorted(listed["scenarios"], key=lambda each: each["domain"] is None)
    for domain, scenarios in groupby(in_order, key=lambda each: each["domain"]):
        yield f"{domain or 'no domain'}:"
        yield from (f"  {each['name']}{_mark(each)}" for each in scenarios)


def _mark(each: documents.Document) -> str:
    return " (embedded)" if each["embedded"] else ""


async def _run_headless(plan: Plan, argv: list[str], *, as_json: bool) -> int:
    """Plain lines to standard output; with `as_json` to standard error, and the summary alone to standard output."""
    from voiceeval_engine.run.launch import run_plan
    from voiceeval_tui.plain import PlainOutput

    plain = PlainOutput(sys.stderr if as_json else sys.stdout)
    sessions: list[Path] = []
    ticking = asyncio.create_task(_tick(plain), name="progress")
    try:
        complete = await run_plan(plan, argv, [plain], lambda runner: sessions.append(runner.session))
        if as_json and sessions:
            _print_run_summary(sessions[0], plain.state)
        return 0 if complete else 1
    except OSError as error:
        raise CommandError(f"the session cannot be written: {error}") from error
    finally:
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)


def _print_run_summary(session: Path, state: RunState) -> None:
    from voiceeval_engine.session.report import read_report

    ended = state.ended
    if ended is None:
        return
    reasons = {each.name: each.reason for each in state.scenarios.values() if each.status == "not run" and each.reason}
    report = read_report(session, queue=tuple(state.scenarios), did_not_run=reasons)
    _print_json(
        documents.run_summary(
            session, report, complete=ended.complete, reason=ended.reason, resume_command=ended.resume_command, files=ended.files
        )
    )


def _print_json(document: documents.Document) -> None:
    sys.stdout.write(documents.render(document))


async def _rejudge(argv: list[str]) -> int:
    from voiceeval_engine.run.judging import KeyTrouble
    from voiceeval_engine.run.rejudge import RejudgeError, rejudge

    given = vars(build_rejudge_parser().parse_args(argv[1:]))
    options = _options(given)

    def say(judged: Judged) -> None:
        what = f"kept {judged.metrics.get('judge_score')}," if judged.kept else f"{judged.verdict.score:.2f}"
        print(f"judged {safe(judged.name)}: {what} {shortened(judged.verdict.reason, 100)}", flush=True)

    try:
        result = await rejudge(given["session"], options, argv, only_failed=given.get("only_failed", False), on_judged=say)
    except (RejudgeError, KeyTrouble) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"the session cannot be written: {error}") from error
    for name in result.left_out:
        print(f"ERROR: {safe(name)} could not be judged; evaluation_log.txt says why", file=sys.stderr)
    print(
        f"{len(result.judged)} judged, {len(result.failed)} of these calls failed; summary in {given['session'] / 'all_summary.txt'}"
    )
    return 1 if result.failed or result.left_out else 0


async def _tick(plain: Any) -> None:
    while True:
        await asyncio.sleep(1.0)
        plain.tick(time.time())
