"""The scenarios of an installed `nemo_voice_agent`, by way of a helper process that imports it.

Never imported here: it takes seconds and 220 MB, prints, and runs foreign code. The helper is started when the names are first asked
for or a scenario is first loaded. What goes wrong with a scenario is that scenario's alone, and says what raised. Nothing of a scenario
is kept: whoever loads it has all of it, and its functions (tools and sync of a dual-side one, assertions) are reached through
`Scenario.elsewhere`, which asks the one helper of the engine's process; scoring in a worker process gets the verdicts, not the functions.

May import its own folder and domains. Rule: scenarios page, "An installed nemo_voice_agent".
"""

from __future__ import annotations

import importlib.util
import itertools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from voiceeval_engine.domains.registry import Db, Side
from voiceeval_engine.scenarios.described import described
from voiceeval_engine.scenarios.model import JsonDict, Scenario, ScenarioError, usable_names
from voiceeval_engine.scenarios.nemo_process import HelperError, HelperProcess

PACKAGE = "nemo_voice_agent"


def is_installed() -> bool:
    """Whether the package can be imported by this Python, without doing so."""
    try:
        return importlib.util.find_spec(PACKAGE) is not None
    except (ImportError, ValueError):
        return False


class NemoSource:
    """A source of the catalogue. `close` ends the helper; a scenario's functions are gone then."""

    embedded = False

    def __init__(self, helper: HelperProcess | None = None) -> None:
        self._helper = helper or HelperProcess()
        self._listing = threading.Lock()
        self._names: tuple[str, ...] | None = None
        self.errors: list[Exception] = []
        """Empty before the names were asked for."""

    @property
    def names(self) -> tuple[str, ...]:
        """Sorted; none where the package cannot be used, `errors` says why. Asked for once."""
        with self._listing:
            if self._names is None:
                self._names = self._list()
            return self._names

    def load(self, name: str) -> Scenario:
        """Build one scenario; raises ScenarioError, which says what raised."""
        try:
            found, printed = self._helper.ask("scenario", name=name)
        except HelperError as error:
            raise _blame(name, error) from error
        try:
            built = described(name, found)
        except ScenarioError as error:
            error.printed = printed
            raise _blame(name, error) from error
        functions = _Functions(name, built.domain, built.initialization_actions, self._helper)
        return replace(built, elsewhere=functions, printed=printed)

    def close(self) -> None:
        """End the helper."""
        self._helper.close()

    def _list(self) -> tuple[str, ...]:
        try:
            found, _ = self._helper.ask("names")
        except HelperError as error:
            self.errors.append(ScenarioError(f"the scenarios of {PACKAGE} cannot be listed: {error}"))
            return ()
        return usable_names(found, PACKAGE, self.errors)


@dataclass(frozen=True)
class _Functions:
    """`Scenario.elsewhere` of one scenario."""

    name: str
    domain: str
    initialization: tuple[JsonDict, ...]
    helper: HelperProcess

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process gets None in its place: the helper is this one's."""
        return type(None), ()

    def open_twins(self) -> _RemoteTwins:
        return _RemoteTwins(self)

    def verdict(self, assertion: Mapping[str, Any], agent_db: str | None, user_db: str | None) -> Mapping[str, Any]:
        raw = {"db": agent_db or "null", "user_db": user_db or "null"}
        try:
            found, _ = self.helper.ask("assertion", raw, domain=self.domain, assertion=dict(assertion))
        except HelperError as error:
            raise _blame(self.name, error) from error
        verdict: Mapping[str, Any] = found
        return verdict


_keys = itertools.count(1)


class _RemoteTwins:
    """Twins in the helper. What was done is kept, so that a helper that takes the place of one that ended gets to the same databases."""

    def __init__(self, functions: _Functions) -> None:
        self._functions = functions
        self._helper = functions.helper
        self._key = f"twins{next(_keys)}"
        self._done: list[tuple[str, JsonDict]] = []
        try:
            self._errors = self._open()
        except HelperError as error:
            raise _blame(functions.name, error) from error

    def __del__(self) -> None:
        """Whoever wanted them may have been cancelled before it had them."""
        self.close()

    def initialize(self) -> list[str]:
        return self._errors

    def act(self, side: Side, name: str, arguments: Mapping[str, Any]) -> None:  # noqa: ARG002 - one tool map serves both sides
        self._do("act", name=name, arguments=arguments)

    def sync(self) -> Any:
        return self._ask("sync", {})

    def apply(self, side: Side, delta: Db) -> list[str]:
        errors: list[str] = self._do("apply", side=side, delta=delta)
        return errors

    def close(self) -> None:
        self._helper.drop(self._key)

    def _do(self, what: str, **fields: Any) -> Any:
        answer = self._ask(what, fields)
        self._done.append((what, fields))
        return answer

    def _ask(self, what: str, fields: JsonDict) -> Any:
        try:
            return self._helper.ask(what, key=self._key, **fields)[0]
        except HelperError as error:
            if not error.lost:
                raise
        self._open()
        for earlier, its_fields in self._done:
            self._helper.ask(earlier, key=self._key, **its_fields)
        return self._helper.ask(what, key=self._key, **fields)[0]

    def _open(self) -> list[str]:
        functions = self._functions
        errors: list[str] = self._helper.ask(
            "open", key=self._key, name=functions.name, domain=functions.domain, actions=list(functions.initialization)
        )[0]
        return errors


def _blame(name: str, error: HelperError | ScenarioError) -> ScenarioError:
    failed = ScenarioError(f"{name} (of {PACKAGE}): {error}")
    failed.printed = error.printed
    return failed
