"""What may be asked of the engine without a run: which scenarios there are. (`preflight` tells whether a run could start.)

So a console finds out by the same code and from the same process as a run would, and knows no packs itself. May import everything below.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from voiceeval_engine.run.options import RunOptions
from voiceeval_engine.scenarios.catalog import Catalog


def list_scenarios(options: RunOptions) -> Mapping[str, Any]:
    """`scenarios`: [name, whether it is embedded] of all, `problems`: sentences about packs. Raises ScenarioError."""
    catalog = Catalog.open(options.scenario_dir, options.source, options.scenarios_from)
    try:
        return {
            "scenarios": [[name, catalog.is_embedded(name)] for name in catalog.names()],
            "problems": [str(error) for error in catalog.errors],
        }
    finally:
        catalog.close()
