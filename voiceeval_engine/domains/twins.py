"""Copies of both databases of a dual-side scenario, on which a conversation's actions are replayed with the scenario's own functions.

`bridge/sync` holds the rules and knows only `Twins`: a domain's functions are called here in this process, those of an installed package
in its helper process. May import the standard library and this folder.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from voiceeval_engine.domains.registry import Db, Domain, Side
from voiceeval_engine.domains.state import apply_delta, apply_initialization


class NoSuchTool(Exception):
    """The message is a sentence."""


class Twins(Protocol):
    """All of it is foreign code: any method may raise anything, and may take long."""

    def initialize(self) -> list[str]:
        """Run the initialization actions; returns a sentence for each that failed."""

    def act(self, side: Side, name: str, arguments: Mapping[str, Any]) -> None:
        """Do what a bot did. Raises NoSuchTool."""

    def sync(self) -> Any:
        """What `sync_state` returns; changes neither database."""

    def apply(self, side: Side, delta: Db) -> list[str]:
        """Set the dotted paths of `delta`; returns a sentence for each that has no place."""

    def close(self) -> None:
        """Let the databases go. Never waits."""


class LocalTwins:
    """With a domain's functions, in this process."""

    def __init__(self, domain: Domain, databases: Mapping[Side, Db | None], initialization: Sequence[Mapping[str, Any]]) -> None:
        self._domain = domain
        self._dbs: dict[Side, Db] = {side: copy.deepcopy(db or {}) for side, db in databases.items()}
        self._initialization = initialization

    def initialize(self) -> list[str]:
        return [
            error for side, db in self._dbs.items() for error in apply_initialization(self._domain, self._initialization, side, db)
        ]

    def act(self, side: Side, name: str, arguments: Mapping[str, Any]) -> None:
        tool = self._domain.tools(side).get(name)
        if tool is None:
            raise NoSuchTool(f"the {side} applied {name}, which is no tool of {self._domain.name}")
        tool.call(self._dbs[side], **arguments)

    def sync(self) -> Any:
        if self._domain.sync_state is None:
            return {}
        return self._domain.sync_state(copy.deepcopy(self._dbs["agent"]), copy.deepcopy(self._dbs["user"]))

    def apply(self, side: Side, delta: Db) -> list[str]:
        return apply_delta(self._dbs[side], copy.deepcopy(delta))

    def close(self) -> None:
        self._dbs = {side: {} for side in self._dbs}
