"""The command line's words: options, defaults and help texts, all the reference's names kept.

Importing this is cheap on purpose. May import argparse and the engine's options. Rule: running page, "Commands".
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from voiceeval_engine import __version__

DESCRIPTION = "Runs voice-agent evaluations: two bots talk over real audio, turns and latency are measured, signals scored."
EPILOG = (
    "Other commands, each with its own --help: watch [SESSION] (the console on a session, live or finished), status, pause, resume-queue "
    "and stop [SESSION] (a running engine), check-resume DIR (what a resume would do), report DIR (a page for people, JUnit XML for CI, "
    "JSON for scripts), rejudge DIR (score a saved session again), clean DIR (remove attempts that were moved aside), bots (the embedded "
    "pairs, for any harness). "
    "In a terminal the console opens: on the run that the options select, else on a home screen; leaving it leaves the run alone. Exit "
    "code of the console: 0 when it was left, whatever the run does or did (status and watch --no-ui tell); 1 when nothing could be "
    "started or the console failed. Headless: 0 when every scenario has a result, 1 when not. 2: the command line is wrong."
)
CONTROL_COMMANDS = {
    "status": "Shows how far a running evaluation is.",
    "pause": "Lets no new attempt begin, retries included; conversations and judging go on.",
    "resume-queue": "Lets attempts begin again after a pause.",
    "stop": "Ends a run in good order after its current attempts; a resume runs the rest.",
}

_CONTROL_EPILOG = "Exit code 0: acknowledged; 1: refused, or no engine runs on the session; 2: the command line is wrong."


def build_parser() -> argparse.ArgumentParser:
    """The parser of a run; options not given are absent from its namespace, so that `--demo` can tell."""
    parser = argparse.ArgumentParser(
        prog="voiceeval-tui", description=DESCRIPTION, epilog=EPILOG, allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    parser.add_argument("--version", action="version", version=f"voiceeval-tui {__version__}")
    parser.add_argument("--demo", action="store_true", help="run the embedded scenarios on four embedded pairs")
    parser.add_argument(
        "--no-ui", action="store_true", help="plain lines instead of the console; with nothing selected, run all scenarios"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="for scripts: lists, and the summary at the end of a run, as JSON on standard output; a run's lines go to standard error, "
        "and there is no console",
    )
    parser.add_argument(
        "--preflight",
        action="store_true",
        help="start nothing, tell whether the run could: bots, judge, scenarios, room on the disk, names, and how to mend what is wrong "
        "(exit code 1)",
    )
    _add_console_options(parser)
    bots = parser.add_argument_group("bots")
    bots.add_argument("--agent-url", metavar="URL", help="the agent bot (ws://localhost:8765)")
    bots.add_argument("--user-url", metavar="URL", help="the simulated user bot (ws://localhost:8766)")
    bots.add_argument(
        "--pair", type=_pair, action="append", metavar="AGENT_URL,USER_URL", help="a pair of bots, repeatable: one scenario at a time each"
    )  # fmt: skip
    bots.add_argument(
        "--pairs-from", type=Path, metavar="FILE",
        help="a file of pairs, AGENT_URL USER_URL a line, read while the run goes on: pairs come and go with their lines",
    )  # fmt: skip
    what = parser.add_argument_group("what to run (the first one given counts)")
    what.add_argument("--list-domains", action="store_true", help="print the domains and end")
    what.add_argument("--list", action="store_true", help="print the scenarios by domain and end")
    what.add_argument("--scenarios", nargs="+", metavar="NAME", help="run these")
    what.add_argument("--domain", metavar="D", help="run all whose name starts with D__")
    what.add_argument("--scenario-dir", type=Path, action="append", metavar="DIR", help="a folder of scenario packs, repeatable")
    what.add_argument(
        "--source",
        choices=("packs", "nemo"),
        help="scenarios of packs, or of an installed nemo_voice_agent (packs first, and the package where it is installed)",
    )
    what.add_argument(
        "--scenarios-from",
        metavar="SESSION",
        help="run again what a session holds (its folder, or its timestamp under --output-dir), from its saved prompts and tools; no other "
        "source; what needs a database is not run",
    )
    what.add_argument(
        "--resume", metavar="TIMESTAMP", help="go on with the session eval_TIMESTAMP; with no selection, with its own scenarios"
    )
    how = parser.add_argument_group("how to run")
    how.add_argument("--output-dir", type=Path, metavar="DIR", help="where sessions go (./eval_results)")
    how.add_argument("--audio-chunk-in-seconds", type=float, metavar="S", help="audio frame sent to the bots (0.016)")
    how.add_argument("--output-sample-rate", type=int, metavar="HZ", help="rate of the audio sent and recorded (16000)")
    how.add_argument("--duration", type=float, metavar="S", help="longest conversation (each scenario's own)")
    how.add_argument("--inactivity-timeout", type=float, metavar="S", help="end after this long without activity (120)")
    how.add_argument("--pause", type=float, metavar="S", help="between set-up and conversation (0.5)")
    score = parser.add_argument_group("scoring and retrying")
    score.add_argument(
        "--conversation-end-policy", choices=("tool-only", "valid-terminal-state"), help="what a clean exit is (tool-only)"
    )
    score.add_argument("--min-agent-turns", type=int, metavar="N", help="fewer agent responses are a stall, 0 = off (2)")
    score.add_argument("--strict-match", action="store_true", help="extra actions are a mismatch")
    score.add_argument(
        "--no-auto-resume-on-stale", dest="auto_resume_on_stale", action="store_false", help="do not retry attempts without a turn"
    )
    score.add_argument(
        "--auto-resume-on-insufficient-turns",
        action="store_true",
        help="also retry attempts below --min-agent-turns (this biases rates)",
    )
    score.add_argument("--max-auto-retries", type=int, metavar="N", help="automatic retries per scenario (1)")
    score.add_argument("--auto-retry-backoff-secs", type=float, metavar="S", help="pause before a retry (5)")
    score.add_argument("--backend-wait", type=float, metavar="S", help="end the run when no pair of bots answers for so long (600)")
    _add_judge_options(parser)
    return parser


def build_check_resume_parser() -> argparse.ArgumentParser:
    parser = _subparser("check-resume", "Shows what a resume of a session would do; writes nothing.")
    parser.add_argument("directory", metavar="DIR", help="the session's folder")
    parser.add_argument("--min-agent-turns", type=int, default=2, metavar="N", help="the floor you will resume with (2)")
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")
    return parser


def build_report_parser() -> argparse.ArgumentParser:
    parser = _subparser(
        "report",
        "Tells what came of a session, in the formats asked for, as text without any; writes nothing into the session. "
        "FILE is replaced if it is there; - is standard output.",
        epilog="Exit code 0: written, whatever the session's scenarios came to; 1: it could not be read or written; 2: the command line "
        "is wrong.",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="the session's folder")
    parser.add_argument("--html", metavar="FILE", help="one page for people that needs nothing else, no network either")
    parser.add_argument("--junit", metavar="FILE", help="JUnit XML for CI: a suite a domain, a case a scenario")
    parser.add_argument("--json", metavar="FILE", help="everything, for scripts")
    return parser


def build_rejudge_parser() -> argparse.ArgumentParser:
    parser = _subparser(
        "rejudge",
        "Judges a saved session again from its files; conversations are not touched, old verdicts are kept.",
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("session", type=Path, metavar="DIR", help="the session's folder")
    parser.add_argument("--only-failed", action="store_true", help="only scenarios whose judge call failed or is still out")
    _add_judge_options(parser)
    return parser


def build_control_parser(command: str) -> argparse.ArgumentParser:
    """The parser of one of CONTROL_COMMANDS."""
    parser = _subparser(command, CONTROL_COMMANDS[command], epilog=_CONTROL_EPILOG)
    _add_session(parser)
    parser.add_argument("--json", action="store_true", help="the answer as JSON on standard output")
    if command == "stop":
        parser.add_argument("--now", action="store_true", help="cut the current attempts too; a resume runs them again")
    return parser


def build_watch_parser() -> argparse.ArgumentParser:
    parser = _subparser("watch", "Shows a session, live or finished; leaving never touches the run.")
    _add_session(parser)
    _add_console_options(parser)
    parser.add_argument("--no-ui", action="store_true", help="plain lines in a terminal too")
    return parser


def build_clean_parser() -> argparse.ArgumentParser:
    parser = _subparser(
        "clean",
        "Removes attempts that were moved aside (.killed. folders) and left-over temporary files from a session; asks first.",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="the session's folder")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    return parser


def _subparser(command: str, description: str, **more: Any) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(prog=f"voiceeval-tui {command}", description=description, allow_abbrev=False, **more)


def _add_session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "session", nargs="?", metavar="SESSION", help="its folder, or its timestamp under --output-dir (the newest)"
    )
    parser.add_argument(
        "--output-dir", type=Path, default=Path("eval_results"), metavar="DIR", help="where sessions are (./eval_results)"
    )


def _add_judge_options(parser: argparse.ArgumentParser) -> None:
    """The options of the judge, the same for a run and for `rejudge`."""
    judge = parser.add_argument_group("judge (an OpenAI-compatible endpoint; an empty URL or model switches it off)")
    judge.add_argument("--judge-url", metavar="URL", help="chat completions endpoint (http://localhost:8000/v1/chat/completions)")
    judge.add_argument("--judge-model", metavar="NAME", help="model to ask for (nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4)")
    judge.add_argument("--judge-api-key", metavar="KEY", help="better in the environment or in .env: see --judge-api-key-name")
    judge.add_argument("--judge-api-key-name", metavar="VARIABLE", help="the variable that holds the key (JUDGE_API_KEY)")
    judge.add_argument("--judge-threshold", type=float, metavar="X", help="a score of at least this passes (0.9)")
    judge.add_argument("--judge-timeout", type=float, metavar="S", help="per try (120)")
    judge.add_argument("--judge-max-tokens", type=int, metavar="N", help="longest answer (100000)")
    judge.add_argument("--judge-temperature", type=float, metavar="X", help="(1.0)")
    judge.add_argument("--judge-top-p", type=float, metavar="X", help="(0.95)")
    judge.add_argument("--judge-seed", type=int, metavar="N", help="(42)")
    judge.add_argument("--judge-thinking-token-budget", type=int, metavar="N", help="(the endpoint's own)")
    judge.add_argument("--judge-include-conversation", action="store_true", help="show the judge the transcript too")
    judge.add_argument("--judge-compact-context", action="store_true", help="show the judge shortened contexts")
    judge.add_argument("--judge-context-message-limit", type=int, metavar="N", help="compact: messages kept (40)")
    judge.add_argument("--judge-context-system-string-limit", type=int, metavar="N", help="compact: longest system text (2500)")
    judge.add_argument("--judge-context-string-limit", type=int, metavar="N", help="compact: longest other text (6000)")
    judge.add_argument("--judge-concurrency", type=int, metavar="N", help="calls at once (4)")


def _add_console_options(parser: argparse.ArgumentParser) -> None:
    """How the console draws; without effect on plain lines."""
    parser.add_argument("--fps", type=_fps, metavar="N", help="looks at the session a second (4; 1 over SSH)")
    parser.add_argument("--no-mouse", action="store_true", help="for terminals that mangle what the mouse sends")
    parser.add_argument(
        "--notify",
        action=argparse.BooleanOptionalAction,
        help="bell and terminal notification when the run ends, a scenario stalls or a pair is taken out (on)",
    )


def _fps(text: str) -> float:
    value = float(text)
    if not 0.1 <= value <= 60:
        raise argparse.ArgumentTypeError(f"{text} is not between 0.1 and 60")
    return value


def _pair(text: str) -> tuple[str, str]:
    urls = [url.strip() for url in text.split(",")]
    if len(urls) != 2 or not all(urls):
        raise argparse.ArgumentTypeError(f"{text!r} is not AGENT_URL,USER_URL")
    return urls[0], urls[1]
