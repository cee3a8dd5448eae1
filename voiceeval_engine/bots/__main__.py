"""`python -m voiceeval_engine.bots`: see `serve`."""

from __future__ import annotations

import sys

from voiceeval_engine.bots.serve import main

sys.exit(main())
