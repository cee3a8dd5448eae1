"""`voiceeval-tui watch [SESSION]`: the console on a session, or plain lines where there is no terminal.

Imports of the console happen when it is opened. May import everything. Rule: running page, "Commands".
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from voiceeval_tui.arguments import build_watch_parser
from voiceeval_tui.errors import CommandError
from voiceeval_tui.sessions import find_session
from voiceeval_tui.source import Source, open_source

POLL_SECONDS = 0.5


def watch(argv: Sequence[str]) -> int:
    """Returns the exit code; raises CommandError. Leaving is no failure, whatever the run does."""
    given = build_watch_parser().parse_args(argv)
    source = open_source(find_session(given.session, given.output_dir))
    if given.no_ui or not (sys.stdout.isatty() and sys.stdin.isatty()):
        return follow_plainly(source)
    from voiceeval_tui.opening import Look, show

    return show(source, Look.of(vars(given)))


def follow_plainly(source: Source) -> int:
    """Plain lines until the run has ended: 0 where it is complete, 1 where it is not or its engine is gone. Ctrl+C leaves, 0."""
    from voiceeval_tui.plain import PlainOutput

    plain = PlainOutput(sys.stdout)
    try:
        while True:
            batch = source.poll()
            for event in batch.events:
                plain(event)
            if batch.behind:
                continue
            ended = plain.state.ended
            if ended is not None:
                return 0 if ended.complete else 1
            if source.link(ended=False).state == "gone":
                raise CommandError(f"no engine runs on {source.session}, and its run has not ended")
            plain.tick(time.time())
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        print("left; the run goes on", file=sys.stderr)
        return 0
