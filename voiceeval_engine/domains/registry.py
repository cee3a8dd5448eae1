"""What a domain offers: tools that change a database, predicates over it, initialization functions, cross-side sync.

All of them are Python functions on plain JSON-like dicts, supplied by a module that a pack names or by an installed package's
entry point in the group `voiceeval.domains`. May import the standard library only.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, Literal

Side = Literal["agent", "user"]
Db = dict[str, Any]
ENTRY_POINT_GROUP = "voiceeval.domains"


class DomainError(Exception):
    """A domain, tool or function is not there, or a domain module cannot be loaded; the message says which."""


class ToolRefused(Exception):
    """A tool will not do what it was asked for; the message is what its caller is told."""


@dataclass(frozen=True)
class Tool:
    """`call(db, **arguments)` returns a JSON-able result and may change `db` in place.

    A tool that `writes` is recorded as an action and reported as `action-applied`; one that only reads is neither.
    """

    name: str
    call: Callable[..., Any]
    writes: bool = True


@dataclass(frozen=True)
class Domain:
    """A domain's functions. Predicates are `f(db, **arguments) -> value`, initialization functions `f(db, **arguments)`.

    `sync_state(agent_db, user_db)` returns `{"agent": {dotted path: value}, "user": {...}}` without changing either; None for
    one-sided domains.
    """

    name: str
    agent_tools: Mapping[str, Tool]
    user_tools: Mapping[str, Tool] = field(default_factory=dict)
    predicates: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    initialization: Mapping[str, Callable[..., None]] = field(default_factory=dict)
    sync_state: Callable[[Db, Db], dict[str, Db]] | None = None

    def tools(self, side: Side) -> Mapping[str, Tool]:
        """The tools of one side by name."""
        return self.agent_tools if side == "agent" else self.user_tools


_EMBEDDED = {
    "cafe": "voiceeval_engine.domains.cafe",
    "phone_support": "voiceeval_engine.domains.phone_support",
}
_loaded: dict[tuple[str, str | None], Domain] = {}


def load_domain(name: str, module: str | None = None) -> Domain:
    """Return the domain `name`: the attribute `DOMAIN` of `module` (a dotted name, or the path of a `.py` file), of the embedded module,
    or an entry point.

    Raises DomainError when there is none of that name or its module fails to import.
    """
    known = _loaded.get((name, module))
    if known is not None:
        return known
    target = module or _EMBEDDED.get(name)
    try:
        if target is not None:
            module_found = _load_file(target) if target.endswith(".py") else importlib.import_module(target)
            domain = getattr(module_found, "DOMAIN", None)
        else:
            points = [point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name == name]
            if not points:
                raise DomainError(f"domain {name!r} has no tools: no module named in its pack and no entry point of that name")
            domain = points[0].load()
    except DomainError:
        raise
    except (Exception, SystemExit) as error:
        raise DomainError(f"domain {name!r}: its module cannot be loaded: {error!r}") from error
    if not isinstance(domain, Domain):
        raise DomainError(f"domain {name!r}: its module's DOMAIN is not a voiceeval_engine Domain")
    _loaded[name, module] = domain
    return domain


def _load_file(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"voiceeval_domain_{abs(hash(path))}", path)
    if spec is None or spec.loader is None:
        raise DomainError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
