"""Databases as values: the hash that both sides of the wire must agree on, deltas, initialization actions.

Used by the embedded bots, the engine's shadow copies, packs (gold replay) and scoring. May import the standard library,
`registry` and `garbage` only. The hash's rules are the reference's: scoring page of the specification, "Database hash".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from voiceeval_engine.domains.registry import Db, Domain, Side
from voiceeval_engine.garbage import uncollected

_UNORDERED_LISTS = frozenset(
    {"standby_list", "notifications", "bookings", "system_accounts", "group_memberships", "asset_recoveries"}
)


def _dump(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)


def _normalise(value: Any, key: str | None = None) -> Any:
    kind = type(value)  # exact types first, and no call for what stays as it is: 7 MB hold half a million values
    if kind is dict or isinstance(value, Mapping):
        return {
            name if type(name) is str else str(name): item if type(item) in _AS_IS else _normalise(item, name)
            for name, item in value.items()
        }
    if kind is str:
        return None if _means_nothing(value) else value
    if kind is float:
        return int(value) if value.is_integer() else value
    if isinstance(value, list | tuple):
        items = [item if type(item) in _AS_IS else _normalise(item) for item in value]
        return sorted(items, key=_dump) if key in _UNORDERED_LISTS else items
    return value


_AS_IS = frozenset({int, bool, type(None)})


def _means_nothing(text: str) -> bool:
    """Whether a text strips and lowers to `none` or `null`; only texts of four characters or with white space at an edge can."""
    if len(text) != 4 and not (text[:1].isspace() or text[-1:].isspace()):
        return False
    return text.strip().lower() in ("none", "null")


@uncollected()
def db_hash(db: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of the normalised database, the same for any key order, whole floats or ints, and listed lists' order."""
    text = _dump(_normalise({key: value for key, value in db.items() if key != "session"}))
    return hashlib.sha256(text.encode()).hexdigest()


def apply_delta(db: Db, delta: Mapping[str, Any]) -> list[str]:
    """Set each dotted path of `delta` in `db`; list indexes are digits. Returns an error sentence per path that has no place."""
    errors: list[str] = []
    for path, value in delta.items():
        keys = path.split(".")
        spot: Any = db
        try:
            for key in keys[:-1]:
                spot = spot[int(key)] if isinstance(spot, list) else spot.setdefault(key, {})
            if isinstance(spot, list):
                spot[int(keys[-1])] = value
            elif isinstance(spot, dict):
                spot[keys[-1]] = value
            else:
                errors.append(f"{path}: leads into a value that is no object")
        except (ValueError, IndexError, AttributeError, TypeError, KeyError) as error:
            errors.append(f"{path}: {error}")
    return errors


def apply_initialization(domain: Domain, actions: Iterable[Mapping[str, Any]], side: Side, db: Db) -> list[str]:
    """Run the initialization actions of one side on `db` in order. Returns an error sentence per action that failed."""
    errors: list[str] = []
    for action in actions:
        if action.get("side", "agent") != side:
            continue
        name = action.get("func_name")
        function = domain.initialization.get(str(name))
        if function is None:
            errors.append(f"unknown initialization function: {name}")
            continue
        try:
            function(db, **(action.get("arguments") or {}))
        except Exception as error:  # noqa: BLE001 - a domain's function is foreign code
            errors.append(f"{name}: {error!r}")
    return errors
