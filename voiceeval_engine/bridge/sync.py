"""Cross-side sync: shadow copies of both databases, on which what the bots report is replayed to find what the other must be told.

The rules, not the doing: copies and functions are the twins', the sending is `conversation`'s. May import domains and scenarios. Rule:
wire page, "Cross-side sync".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from voiceeval_engine.domains.registry import Db, Domain, Side, load_domain
from voiceeval_engine.domains.twins import LocalTwins, NoSuchTool, Twins
from voiceeval_engine.scenarios.model import Scenario

Deltas = dict[Side, Db]
SIDES: tuple[Side, Side] = ("agent", "user")


def open_shadow(scenario: Scenario) -> Shadow:
    """The shadow of a scenario, with its functions wherever they are; call it in a thread. Raises DomainError and ScenarioError."""
    if scenario.elsewhere is not None:
        return Shadow(scenario, scenario.elsewhere.open_twins())
    return Shadow(scenario, load_domain(scenario.domain, scenario.tool_module))


class Shadow:
    """The engine's own copies of both databases. `troubles` collects sentences for the log; none of them stops a conversation.

    Where the twins are in another process every method waits for it: call them in a thread.
    """

    def __init__(self, scenario: Scenario, functions: Domain | Twins) -> None:
        self._seen: set[tuple[Side, str]] = set()
        if isinstance(functions, Domain):
            databases: dict[Side, Db | None] = {
                "agent": scenario.agent_state.get("db"),
                "user": scenario.user_state.get("db"),
            }
            functions = LocalTwins(functions, databases, scenario.initialization_actions)
        self._twins = functions
        self.troubles: list[str] = self._twins.initialize()

    def sync(self) -> Deltas:
        """What each side must be told now; the shadows already have it. Sides with nothing to be told are left out."""
        try:
            found = self._twins.sync()
        except Exception as error:  # noqa: BLE001 - a domain's function is foreign code
            self.troubles.append(f"sync_state raised {error!r}")
            return {}
        if not isinstance(found, dict):
            self.troubles.append(f"sync_state returned {type(found).__name__}, no object")
            return {}
        deltas: Deltas = {}
        for side in SIDES:
            delta = found.get(side)
            if delta and not _is_delta(delta):
                self.troubles.append(f"delta for the {side}: not an object of dotted paths with JSON values")
            elif delta:
                self.troubles += self._apply(side, delta)
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
        try:
            self._twins.act(side, name, action.get("arguments") or {})
        except NoSuchTool as error:
            self.troubles.append(str(error))
            return {}
        except Exception as error:  # noqa: BLE001 - a domain's tool is foreign code
            self.troubles.append(f"replaying {name} of the {side} raised {error!r}")
            return {}
        return self.sync()

    def close(self) -> None:
        """The conversation is over. Never waits."""
        self._twins.close()

    def _apply(self, side: Side, delta: Db) -> list[str]:
        try:
            return [f"delta for the {side}: {error}" for error in self._twins.apply(side, delta)]
        except Exception as error:  # noqa: BLE001 - it may be in another process, and that may end
            return [f"delta for the {side}: {error!r}"]


def _is_delta(value: Any) -> bool:
    """Whether a domain's `sync_state` gave something that can be applied and sent."""
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return isinstance(value, dict) and all(isinstance(path, str) for path in value)
