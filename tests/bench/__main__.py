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

from tests.bench import bench_console, bench_cost, bench_crash, bench_pacing, bench_resume, bench_startup, bench_truth
from tests.bench.processes import BenchError
from tests.bench.table import Figure, print_figures

QUIET_LOAD = 0.5
"""Load average above which the figures are not to be trusted."""


def main() -> int:
    """Run what the command line asks for; returns the exit code."""
    options = _parser().parse_args()
    if missing := bench_truth.uncovered():
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
        print_figures("All bounds", [figure for figure in figures if figure.bound is not None])
    return 1 if any(figure.missed for figure in figures) else 0


def _measure(options: argparse.Namespace, folder: Path) -> list[Figure]:
    """Run the bench or, for `all`, every bench with its defaults."""
    if options.bench == "startup":
        return bench_startup.run(options.times)
    if options.bench == "truth":
        return bench_truth.run(folder, options.pairs, options.handoffs, bench_truth.ROWS[: options.rows])
    if options.bench == "cost":
        return bench_cost.run(folder, options.pairs, options.seconds)
    if options.bench == "pacing":
        return bench_pacing.run(folder, options.pairs, options.seconds)
    if options.bench == "resume":
        return bench_resume.run(folder, options.scenarios, options.times)
    if options.bench == "crash":
        return bench_crash.run(folder, options.rounds, options.seed, options.kills)
    if options.bench == "console":
        return bench_console.run(folder, options.seconds, options.times)
    parser, figures = _parser(), []
    for bench in ("startup", "console", "resume", "truth", "cost", "pacing", "crash"):
        figures += _measure(parser.parse_args([bench]), folder)
    return figures


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep packs and sessions in this new folder")
    benches = parser.add_subparsers(dest="bench", required=True)
    truth = benches.add_parser("truth", help="latency_ms against what the bots know (about 4 min)")
    truth.add_argument("--pairs", type=int, default=4, help="conversations at a time (4)")
    truth.add_argument("--handoffs", type=int, default=8, help="answers a conversation (8)")
    truth.add_argument("--rows", type=int, default=len(bench_truth.ROWS), help="only the first so many rows of manners")
    cost = benches.add_parser("cost", help="CPU and memory of the engine (about 2.5 min)")
    cost.add_argument("--pairs", type=int, nargs="+", default=[1, 8], help="a run for each of these numbers (1 8)")
    cost.add_argument("--seconds", type=float, default=60.0, help="of conversation a run, at least 30 (60)")
    pacing = benches.add_parser("pacing", help="lateness of frames (about 1 min)")
    pacing.add_argument("--pairs", type=int, default=8, help="pairs that talk at once (8)")
    pacing.add_argument("--seconds", type=float, default=60.0, help="of conversation (60)")
    startup = benches.add_parser("startup", help="wall time of the short commands (10 s)")
    startup.add_argument("--times", type=int, default=5, help="runs of which the median is taken (5)")
    console = benches.add_parser("console", help="what the console shows, writes and costs (about 3.5 min)")
    console.add_argument("--seconds", type=float, default=10.0, help="that each one is watched (10)")
    console.add_argument("--times", type=int, default=5, help="that one is opened, of which the median is taken (5)")
    resume = benches.add_parser("resume", help="the preview of a resume (10 s)")
    resume.add_argument("--scenarios", type=int, default=bench_resume.BOUND_FOR, help="complete scenarios in the session (10000)")
    resume.add_argument("--times", type=int, default=5, help="previews of which the median is taken (5)")
    crash = benches.add_parser("crash", help="kill -9 and resume until the run ends (about 40 s a round)")
    crash.add_argument("--rounds", type=int, default=3, help="runs (3)")
    crash.add_argument("--kills", type=int, default=12, help="kills a run, at most (12)")
    crash.add_argument("--seed", type=int, default=0, help="of the first run; the next ones count on (0)")
    benches.add_parser("all", help="all of them with their defaults (about 13 min)")
    return parser


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
