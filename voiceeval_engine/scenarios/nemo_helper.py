"""The helper process: imports an installed `nemo_voice_agent` and answers questions about its scenarios in JSON lines.

Run as `python -m voiceeval_engine.scenarios.nemo_helper`; the only file that imports that package. What it and its scenarios print goes
to standard error: the protocol has the real standard output to itself. The first line is `{"ok": {}}` once the package is imported, or
`{"error"}`. Then one line a request, `{"ask", ...}`, and one a reply: `{"ok": ..., "memory": bytes}` or `{"error": sentence}`; an `error`
with `"lost": true` means that databases asked for by their key are not here (an earlier helper had them). With each reply END_MARK and a
line break go to standard error, so that what was printed can be told from what the next request prints.

No scenario is kept: one is fetched, asked and let go, but for the databases of a conversation that goes on. The helper ends with its
standard input, whatever it is doing. May import the standard library and domains.
"""

from __future__ import annotations

import copy
import dataclasses
import gc
import importlib
import inspect
import json
import os
import queue
import resource
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO

from voiceeval_engine.domains.state import apply_delta, db_hash

END_MARK = "\x1eanswered"
_PACKAGE = "nemo_voice_agent.evaluation"
_PLAIN = (
    "domain", "description", "max_duration", "ignore_capitalization", "ignore_punctuation", "clean_text", "disallow_extra_items",
    "reference_answer", "nl_assertions", "db_state_assertions", "initialization_actions",
)  # fmt: skip
"""Attributes that are handed on as they are; one that a scenario does not have, or that is None, is left out."""

Json = dict[str, Any]


class Failed(Exception):
    """A request cannot be answered; the message is a sentence without the scenario's name."""


class Lost(Failed):
    """Databases are asked for that are not here."""


class Helper:
    """Answers requests; `answers` has one method a kind of request."""

    def __init__(self) -> None:
        self._scenarios = importlib.import_module(f"{_PACKAGE}.scenarios")
        self._twins: dict[str, _Twins] = {}
        self.answers: Mapping[str, Callable[[Json], Any]] = {
            "names": self._names,
            "scenario": self._scenario,
            "assertion": self._assertion,
            "open": self._open,
            "act": lambda request: self._of(request).act(request["name"], request["arguments"]),
            "sync": lambda request: self._of(request).sync(),
            "apply": lambda request: self._of(request).apply(request["side"], request["delta"]),
        }

    def drop(self, keys: list[str]) -> None:
        """Let go of the databases of conversations that are over."""
        for key in keys:
            self._twins.pop(key, None)

    def _names(self, _: Json) -> list[str]:
        with _blaming("list_eval_scenarios()"):
            return [str(name) for name in self._scenarios.list_eval_scenarios()]

    def _scenario(self, request: Json) -> Json:
        scenario = self._get(request["name"])
        found: Json = {name: value for name in _PLAIN if (value := _attribute(scenario, name)) is not None}
        with _blaming("success_signals"):
            found["success_signals"] = [_text(signal) for signal in _attribute(scenario, "success_signals") or ()]
        with _blaming("noise_config"):
            noise = _attribute(scenario, "noise_config")
            found["noise"] = None if noise is None else noise.to_dict()
        for side in ("agent", "user"):
            with _blaming(f"get_{side}_prompt()"):
                found[f"{side}_prompt"] = getattr(scenario, f"get_{side}_prompt")()
            with _blaming(f"get_{side}_tools()"):
                tools = getattr(scenario, f"get_{side}_tools")()
                found[f"{side}_tools"] = json.loads(tools) if isinstance(tools, str) else tools
            state: Json = {}
            with _blaming(f"setup_shared_state() for the {side}"):
                scenario.setup_shared_state(state, side)
            found[f"{side}_state"] = state
        for name, key in (("expected_scenario_db", "expected_db_hash"), ("expected_user_db", "expected_user_db_hash")):
            database = _attribute(scenario, name)
            with _blaming(name):
                found[key] = None if database is None else db_hash(database)
        found["sync"] = _overrides(scenario, "sync_state")
        return found

    def _assertion(self, request: Json) -> Json:
        predicates = importlib.import_module(f"{_PACKAGE}.db_state_predicates")
        with _blaming("evaluate_db_state_assertion()"):
            verdict = predicates.evaluate_db_state_assertion(
                request["domain"], request["assertion"], request["db"], request["user_db"]
            )
            found = verdict if isinstance(verdict, Mapping) else _plain(verdict)
            if not isinstance(found, Mapping):
                found = {key: getattr(verdict, key, None) for key in ("passed", "actual", "message", "error")}
            return dict(found)

    def _open(self, request: Json) -> list[str]:
        """The databases of a conversation that begins, under its `key`; returns what of the initialization failed."""
        twins = _Twins(self._get(request["name"]))
        errors = twins.initialize(request["domain"], request["actions"])
        self._twins[request["key"]] = twins
        return errors

    def _get(self, name: str) -> Any:
        with _blaming("get_eval_scenario()"):
            scenario = self._scenarios.get_eval_scenario(name)
        if scenario is None:
            raise Failed("the package has no scenario of that name")
        return scenario

    def _of(self, request: Json) -> _Twins:
        twins = self._twins.get(request["key"])
        if twins is None:
            raise Lost("its databases are not in this helper")
        return twins


class _Twins:
    """Copies of both databases of a dual-side scenario, and its tools on them."""

    def __init__(self, scenario: Any) -> None:
        self._scenario = scenario
        self._tools: Mapping[str, Any] = {}
        with _blaming("db"):
            agent = copy.deepcopy(_attribute(scenario, "db") or {})
        with _blaming("user_db"):
            user = copy.deepcopy(_attribute(scenario, "user_db") or {})
        self._state: Json = {"db": agent, "user_db": user, "actions": []}

    def initialize(self, domain: str, actions: list[Json]) -> list[str]:
        errors: list[str] = []
        for side, key in (("agent", "db"), ("user", "user_db")):
            mine = [action for action in actions if action.get("side", "agent") == side]
            if mine:
                functions = importlib.import_module(f"{_PACKAGE}.initialization_functions")
                with _blaming(f"apply_initialization_actions() for the {side}"):
                    result = functions.apply_initialization_actions(domain, mine, self._state[key])
                    errors += map(str, result.get("errors") or ([] if result.get("success") else [f"{side}: no success"]))
        with _blaming("_build_tool_map()"):
            self._tools = dict(self._scenario._build_tool_map(self._state))
        return errors

    def act(self, name: str, arguments: Json) -> None:
        tool = self._tools.get(name)
        if tool is None:
            raise Failed(f"its tool map has no {name!r}")
        with _blaming(f"{name}.invoke()"):
            tool.invoke(**arguments)
        self._state["actions"].clear()

    def sync(self) -> Any:
        with _blaming("sync_state()"):
            return self._scenario.sync_state(copy.deepcopy(self._state["db"]), copy.deepcopy(self._state["user_db"]))

    def apply(self, side: str, delta: Json) -> list[str]:
        return apply_delta(self._state["db" if side == "agent" else "user_db"], delta)


@contextmanager
def _blaming(what: str) -> Iterator[None]:
    """Whatever foreign code raises, an exit too, becomes a sentence that says what raised it."""
    try:
        yield
    except Failed:
        raise
    except BaseException as error:
        raise Failed(f"{what} raised {type(error).__name__}: {str(error)[:500]}") from error


def _attribute(scenario: Any, name: str) -> Any:
    """None where there is none of that name. `getattr` with a default would hide an AttributeError from inside a property."""
    if name not in getattr(scenario, "__dict__", {}) and inspect.getattr_static(scenario, name, None) is None:
        return None
    with _blaming(name):
        return getattr(scenario, name)


def _overrides(scenario: Any, method: str) -> bool:
    """Whether some class of it replaces what its base class has."""
    return sum(method in each.__dict__ for each in type(scenario).__mro__) > 1


def _text(signal: Any) -> str:
    return str(signal.value if isinstance(signal, Enum) else signal)


def _plain(value: Any) -> Any:
    """What JSON does not know, as it is meant."""
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    for method in ("to_dict", "model_dump"):
        if callable(getattr(value, method, None)):
            return getattr(value, method)()
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, set | frozenset) else str(value)


def _reply(helper: Helper, line: bytes) -> str:
    try:
        request = json.loads(line)
        helper.drop(request.get("drop") or [])
        return json.dumps({"ok": helper.answers[request["ask"]](request), "memory": _memory()}, default=_plain)
    except Failed as error:
        return json.dumps({"error": str(error), "lost": isinstance(error, Lost), "memory": _memory()})
    except BaseException as error:  # noqa: BLE001 - a reply that JSON cannot hold, or a slip of ours: the next request is not its business
        return json.dumps({"error": f"it cannot be handed on: {type(error).__name__}: {str(error)[:500]}", "memory": _memory()})


def _memory() -> int:
    """What this process holds, in bytes; where the system does not tell, the most that it ever held.

    On Linux that most would begin with what the engine held when it started this process.
    """
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Serve until standard input ends."""
    replies = os.fdopen(os.dup(1), "wb")
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout = sys.stderr
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests, lines), daemon=True).start()
    helper: Helper | None = None
    try:
        with _blaming("importing nemo_voice_agent"):
            helper = Helper()
        _send(replies, json.dumps({"ok": {}, "memory": _memory()}))
    except Failed as error:
        _send(replies, json.dumps({"error": str(error)}))
    while helper is not None:
        _send(replies, _reply(helper, lines.get()))
        gc.collect()  # scenarios hold themselves in circles: a database of 20 MB would wait for a collection by chance


def _read(requests: BinaryIO, lines: queue.SimpleQueue[bytes]) -> None:
    for line in iter(requests.readline, b""):
        lines.put(line)
    os._exit(0)


def _send(replies: BinaryIO, line: str) -> None:
    sys.stderr.flush()
    sys.stderr.write(END_MARK + "\n")
    sys.stderr.flush()
    replies.write(line.encode() + b"\n")
    replies.flush()


if __name__ == "__main__":
    main()
