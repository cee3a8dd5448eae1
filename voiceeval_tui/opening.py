"""Opening the console: on a run that is started for it, on a session, or on the home screen.

The imports of the console happen here, so that commands which draw nothing stay light. May import everything. Rules: running page,
"Commands"; console page, "Manners" (the exit code).
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from voiceeval_engine.run.options import RunOptions
from voiceeval_tui.errors import CommandError, let_go_of_output
from voiceeval_tui.source import Source, open_source
from voiceeval_tui.starting import start_engine

_GC_THRESHOLDS = (20_000, 20, 20)
"""A long journal makes many short-lived events, and no cycle: looking for cycles took a tenth of the time until it stood there."""


@dataclass(frozen=True)
class Look:
    """The options of the console itself: looks a second (None: as fits the line), the mouse, bell and notifications."""

    fps: float | None = None
    mouse: bool = True
    notify: bool = True

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Look:
        """From a command line."""
        return cls(given.get("fps"), not given.get("no_mouse"), given.get("notify") is not False)


def open_run(options: RunOptions, argv: Sequence[str], look: Look) -> int:
    """Start what the options select and show it; with nothing selected show the home screen. Raises CommandError.

    What could not be started is told before the screen is taken, with the exit code that a headless run would have.
    """
    selected = options.demo or options.scenarios or options.domain is not None or options.scenarios_from is not None
    if not selected and options.resume is None:
        return show(None, look, options)
    return show(open_source(start_engine(options, argv)), look, options)


def show(source: Source | None, look: Look, defaults: RunOptions | None = None) -> int:
    """The console on a session, or on the home screen. Returns the exit code: 0 when it was left. Raises CommandError for a crash."""
    from voiceeval_tui.app import ConsoleApp

    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    app = ConsoleApp(source, defaults=defaults, fps=look.fps, notify=look.notify)
    app.run(mouse=look.mouse)
    let_go_of_output()
    if app.crash:
        raise CommandError(app.crash)
    return app.return_code or 0
