"""Makes `tests/helpers` importable: `bot_farm`, `hostile_bots`, `engine_run`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "helpers"))
