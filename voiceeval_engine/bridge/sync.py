"""Cross-side sync: shadow copies of both databases, on which what the bots report is replayed to find what the other must be told.

Plain values in, plain values out; the sending is `conversation`'s. May import domains and scenarios. Rule: wire page,
"Cross-side sync".
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from voiceeval_engine.domains.registry import Db, Domain, Side
from voiceeval_engine.domains.state import apply_delta, apply_initialization
from voiceeval_engine.scenarios.model import Scenario

Deltas = dict[Side, Db]


class Shadow:
    """The engine's own copies of both databases. `troubles` collects sentences for the log; none of them stops a conversation."""

    def __init__(self, scenario: Scenario, domain: Domain) -> None:
        self.troubles: list[str] = []
        self._domain = domain
        self._seen: set[tuple[Side, str]] = set()
        self._dbs: dict[Side, Db] = {
            "agent": copy.deepcopy(scenario.agent_state.get("db") or {}),
            "user": copy.deepcopy(scenario.user_state.get("db") or {}),
        }
        for side, db in self._dbs.items():
            self.troubles += apply_initialization(domain, scenario.initialization_actions, side, db)

    def sync(self) -> Deltas:
        """What each side must be told now; the shadows already have it. Sides with nothing to be told are left out."""
        if self._domain.sync_state is None:
            return {}
        try:
            found = self._domain.sync_state(copy.deepcopy(self._dbs["agent"]), copy.deepcopy(self._dbs["user"]))
        except Exception as error:  # noqa: BLE001 - a domain's function is foreign code
            self.troubles.append(f"sync_state raised {error!r}")
            return {}
        if not isinstance(found, dict):
            self.troubles.append(f"sync_state returned {type(found).__name__}, no object")
            return {}
        deltas: Deltas = {}
        for side, db in self._dbs.items():
            delta = found.get(side)
            if delta and not _is_delta(delta):
                self.troubles.append(f"delta for the {side}: not an object of dotted paths with JSON values")
            elif delta:
                self.troubles += [f"delta for the {side}: {error}" for error in apply_delta(db, copy.deepcopy(delta))]
                deltas[side] = delta
        return deltas

    def replay(self, side: Side, action: Mapping[str, Any]) -> Deltas:
        """One `action-applied` of a side. The same id again is a duplicate; the same name and arguments are two actions."""
        id_ = action.get("id")
        if id_ is not None:
            if (side, str(id_)) in self._seen:
                return {}
            self._seen.add((side, str(id_)))
        name = str(action.get("name"))
        tool = self._domain.tools(side).get(name)
        if tool is None:
            self.troubles.append(f"the {side} applied {name}, which is no tool of {self._domain.name}")
            return {}
        try:
            tool.call(self._dbs[side], **(action.get("arguments") or {}))
        except Exception as error:  # noqa: BLE001 - a domain's tool is foreign code
            self.troubles.append(f"replaying {name} of the {side} raised {error!r}")
            return {}
        return self.sync()


def _is_delta(value: Any) -> bool:
    """Whether a domain's `sync_state` gave something that can be applied and sent."""
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return isinstance(value, dict) and all(isinstance(path, str) for path in value)
