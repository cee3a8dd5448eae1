"""One piece of work on saved data in a process of its own, so that its memory is its own: `python -m tests.bench.data_child WORK PATH N`.

WORK is `aggregate` (the `all_*` files of the N scenarios in the session PATH) or `fold` (the N events of the journal PATH into a state).
Prints the CPU time it took (s), start of the process not counted.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from voiceeval_engine.live.journal import JournalReading, read_events
from voiceeval_engine.live.state import RunState
from voiceeval_engine.run.results import rewrite_aggregates
from voiceeval_engine.session.summary import SummaryNotes


def aggregate(session: Path, count: int) -> None:
    """As the engine's worker process does it at the end of a run."""
    names = sorted(entry.name for entry in session.iterdir() if entry.is_dir())
    if len(names) != count:
        raise SystemExit(f"{session} has {len(names)} scenarios")
    rewrite_aggregates(session, names, 2, "20260618_072325", SummaryNotes(), finished=True)


def fold(journal: Path, count: int) -> None:
    """As every view does it that opens a session."""
    state, reading, seen = RunState(), JournalReading(), 0
    for event in read_events(journal, reading):
        state.apply(event)
        seen += 1
    if seen != count or reading.bad_lines:
        raise SystemExit(f"{journal} has {seen} events and {reading.bad_lines} bad lines")


if __name__ == "__main__":
    began = time.process_time()
    {"aggregate": aggregate, "fold": fold}[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
    print(time.process_time() - began)
