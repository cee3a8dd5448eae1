"""Makes `tests/helpers` importable: `bot_farm`, `hostile_bots`, `hostile_text`, `pilots`, `sessions`, `terminal`, `engine_run`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "helpers"))

for _number in (signal.SIGINT, signal.SIGHUP):
    # Started in the background or under nohup, both are ignored, and so they would be in every engine that a test stops by them.
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)
