"""`python -m tests.bench BENCH`: the product's figures beside their bounds, run by hand on a quiet machine; `--help` names the benches.

Nothing here is collected by pytest. Exit code 1 where a bound was missed, 2 where a bench could not be carried out.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench import (
    bench_console,
    bench_cost,
    bench_crash,
    bench_data,
    bench_pacing,
    bench_recording,
    bench_resume,
    bench_scale,
    bench_soak,
    bench_startup,
    bench_truth,
    truth_cases,
)
from tests.bench.processes import BenchError
from tests.bench.table import Figure, print_figures

SECTIONS = ("startup", "console", "data", "resume", "truth", "recording", "cost", "pacing", "scale", "crash")
"""Of `all`, in this order."""
QUIET_LOAD = 0.5
"""Load average above which the figures are not to be trusted."""


def main() -> int:
    """Run what the command line asks for; returns the exit code."""
    options = _parser().parse_args()
    if missing := truth_cases.uncovered():
        print(f"tests/bench: no row of the truth bench brings together {missing}", file=sys.stderr)
        return 2
    load = os.getloadavg()[0]
    busy = " (BUSY: figures do not count)" if load > QUIET_LOAD else ""
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.2f}{busy}")
    try:
        with _folder(options.keep) as folder:
            figures = _measure(options, folder)
    except BenchError as error:
        print(f"tests/bench: {error}", file=sys.stderr)
        return 2
    if options.bench == "all":
        print_figures("All figures", figures)
    return 1 if any(figure.missed for figure in figures) else 0


def _measure(options: argparse.Namespace, folder: Path) -> list[Figure]:
    """Run the bench or, for `all`, its sections, each with its defaults."""
    match options.bench:
        case "startup":
            return bench_startup.run(options.times)
        case "truth":
            return bench_truth.run(folder, options.pairs, options.handoffs, options.only)
        case "recording":
            return bench_recording.run(folder, options.seconds)
        case "cost":
            return bench_cost.run(folder, options.pairs, options.seconds, options.lengths, options.times)
        case "pacing":
            return bench_pacing.run(folder, options.pairs, options.seconds, options.times)
        case "scale":
            return bench_scale.run(folder, options.pairs, options.seconds, options.times)
        case "resume":
            return bench_resume.run(folder, options.scenarios, options.times)
        case "data":
            return bench_data.run(folder, options.times, options.scenarios, options.events)
        case "crash":
            return bench_crash.run(folder, options.rounds, options.seed, options.kills)
        case "soak":
            return bench_soak.run(folder, options.minutes, options.seed)
        case "console":
            return bench_console.run(folder, options.seconds, options.times)
    parser, figures = _parser(), []
    for section in options.sections:
        figures += _measure(parser.parse_args([section]), folder)
    return figures


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep packs and sessions in this new folder")
    benches = parser.add_subparsers(dest="bench", required=True)
    truth = benches.add_parser("truth", help="latency_ms against what the bots know (about 15 min)")
    truth.add_argument("--pairs", type=int, default=4, help="conversations at a time (4)")
    truth.add_argument("--handoffs", type=int, default=8, help="answers a conversation (8)")
    truth.add_argument(
        "--only", nargs="+", default=[""], metavar="TEXT", help="only manners whose name in the table holds one of these"
    )
    recording = benches.add_parser("recording", help="the recording's channels against the log (about 10 min)")
    recording.add_argument("--seconds", type=float, default=600.0, help="of conversation (600)")
    cost = benches.add_parser("cost", help="CPU and memory of the engine (about 26 min)")
    cost.add_argument("--pairs", type=int, nargs="*", default=[1, 8], help="a run for each of these numbers (1 8)")
    cost.add_argument("--seconds", type=float, default=60.0, help="of conversation in each of those (60)")
    cost.add_argument("--lengths", type=float, nargs="*", default=[20, 120, 600], help="s of conversation of one pair (20 120 600)")
    cost.add_argument("--times", type=int, default=5, help="runs of which the median is taken (5)")
    pacing = benches.add_parser("pacing", help="lateness of frames (about 11 min)")
    pacing.add_argument("--pairs", type=int, nargs="+", default=[1, 8], help="pairs that talk at once (1 8)")
    pacing.add_argument("--seconds", type=float, default=60.0, help="of conversation (60)")
    pacing.add_argument("--times", type=int, default=5, help="runs of which the median is taken (5)")
    scale = benches.add_parser("scale", help="many pairs on one core (about 30 min)")
    scale.add_argument("--pairs", type=int, nargs="+", default=[1, 8, 32, 64, 100], help="a run for each (1 8 32 64 100)")
    scale.add_argument("--seconds", type=float, default=60.0, help="of conversation a run, at least 30 (60)")
    scale.add_argument("--times", type=int, default=5, help="runs of which the median is taken (5)")
    startup = benches.add_parser("startup", help="wall time of the short commands (10 s)")
    startup.add_argument("--times", type=int, default=5, help="runs of which the median is taken (5)")
    console = benches.add_parser("console", help="what the console shows, writes and costs (about 3.5 min)")
    console.add_argument("--seconds", type=float, default=10.0, help="that each one is watched (10)")
    console.add_argument("--times", type=int, default=5, help="that one is opened, of which the median is taken (5)")
    resume = benches.add_parser("resume", help="a session of many scenarios, previewed and taken up (about 2 min)")
    resume.add_argument(
        "--scenarios", type=int, nargs="+", default=[1_000, 10_000], help="complete ones in the session (1000 10000)"
    )
    resume.add_argument("--times", type=int, default=5, help="runs of which the median is taken (5)")
    data = benches.add_parser("data", help="aggregating scenarios, folding a journal (about 2 min)")
    data.add_argument("--scenarios", type=int, nargs="+", default=list(bench_data.SCENARIOS), help="to aggregate (477 5000)")
    data.add_argument("--events", type=int, default=bench_data.EVENTS, help="to fold (1000000)")
    data.add_argument("--times", type=int, default=5, help="runs of which the median is taken (5)")
    crash = benches.add_parser("crash", help="kill -9 and resume until the run ends (about 40 s a round)")
    crash.add_argument("--rounds", type=int, default=3, help="runs (3)")
    crash.add_argument("--kills", type=int, default=12, help="kills a run, at most (12)")
    crash.add_argument("--seed", type=int, default=0, help="of the first run; the next ones count on (0)")
    soak = benches.add_parser("soak", help="eight pairs and faults, nothing grows and nothing is lost; not one of `all`")
    soak.add_argument("--minutes", type=float, default=10.0, help="about so long (10)")
    soak.add_argument("--seed", type=int, default=0, help="of the faults (0)")
    every = benches.add_parser("all", help="all of them, or some, with their defaults, and one table at the end (about 100 min)")
    every.add_argument("sections", nargs="*", type=_section, default=SECTIONS, metavar="SECTION", help=f"of {', '.join(SECTIONS)}")
    return parser


def _section(text: str) -> str:
    if text not in SECTIONS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(SECTIONS)}")
    return text


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """A folder for packs and sessions: `keep`, or one that is gone afterwards."""
    if keep is not None:
        keep.mkdir(parents=True)
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="voiceeval_bench_") as folder:
        yield Path(folder)


if __name__ == "__main__":
    sys.exit(main())
