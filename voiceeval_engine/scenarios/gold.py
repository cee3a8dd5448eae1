"""The gold replay: what the databases look like when everything was done as the reference says.

The reference actions run through the domain's own tools on copies of the initial databases, with initialization and, for dual-side
domains, cross-side sync exactly as a run does them. May import domains only.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from voiceeval_engine.domains.registry import Db, Domain, Side, ToolRefused
from voiceeval_engine.domains.state import apply_delta, apply_initialization


class ReplayFailed(Exception):
    """The reference cannot be carried out; the message names the action and says why."""


def replay(
    domain: Domain,
    databases: Mapping[Side, Db | None],
    initialization: Sequence[Mapping[str, Any]],
    actions: Sequence[Mapping[str, Any]],
) -> dict[Side, Db | None]:
    """Both databases after `actions` (`{"side","name","arguments"}`); None stays None. Nothing given is changed."""
    result: dict[Side, Db | None] = {side: copy.deepcopy(db) for side, db in databases.items()}
    for side, db in result.items():
        if db is not None:
            errors = apply_initialization(domain, initialization, side, db)
            if errors:
                raise ReplayFailed(f"initialization of the {side}'s database: {'; '.join(errors)}")
        elif any(action.get("side", "agent") == side for action in initialization):
            raise ReplayFailed(f"there is no database on the {side}'s side to initialize")
    _sync(domain, result)
    for action in actions:
        _act(domain, result, action)
        _sync(domain, result)
    return result


def _act(domain: Domain, databases: Mapping[Side, Db | None], action: Mapping[str, Any]) -> None:
    side: Side = action["side"]
    tool, db = domain.tools(side).get(action["name"]), databases[side]
    if tool is None:
        raise ReplayFailed(f"reference action {action['name']}: the {side} has no such tool")
    if db is None:
        raise ReplayFailed(f"reference action {action['name']}: there is no database on the {side}'s side")
    try:
        tool.call(db, **action["arguments"])
    except ToolRefused as error:
        raise ReplayFailed(f"reference action {action['name']}: {error}") from error
    except Exception as error:
        raise ReplayFailed(f"reference action {action['name']} raised {type(error).__name__}: {error}") from error


def _sync(domain: Domain, databases: Mapping[Side, Db | None]) -> None:
    agent, user = databases["agent"], databases["user"]
    if domain.sync_state is None or agent is None or user is None:
        return
    deltas = domain.sync_state(agent, user)
    errors = apply_delta(agent, deltas.get("agent", {})) + apply_delta(user, deltas.get("user", {}))
    if errors:
        raise ReplayFailed(f"cross-side sync: {'; '.join(errors)}")
