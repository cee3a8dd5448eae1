"""What a bot remembers and how it answers requests: prompt, context, database, actions.

It outlives connections; `reset` clears it. `answer` maps one `client-message` to the result that goes back, plain values in and
out: every success and failure reply of the wire page without a socket. May import domains, scenarios and the standard library.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from voiceeval_engine.bots.script import generic_script
from voiceeval_engine.domains.registry import Db, Domain, DomainError, Side, load_domain
from voiceeval_engine.domains.state import apply_delta, apply_initialization, db_hash
from voiceeval_engine.scenarios.script import END_TOOL, BadScript, Script, ToolCall, find_script

Json = dict[str, Any]


class UnknownRequest(Exception):
    """A `client-message` whose `t` no bot knows; its text is the `t`."""


@dataclass(frozen=True)
class ToolOutcome:
    """One tool call that has run: its id and result, and the action to report where it wrote."""

    call_id: str
    result: Any
    action: Json | None


class Memory:
    """One bot's memory. `script` is what it plays: the prompt's, or small talk; `epoch` grows when that must begin anew."""

    def __init__(self, side: Side) -> None:
        self.side: Side = side
        self.script: Script = generic_script(side)
        self.epoch = 0
        self.tool_domain = ""
        self.context: list[Json] = []
        self.actions: list[Json] = []
        self.db: Db | None = None
        self._said: list[str] = []
        self._prompt = ""
        self._domain: Domain | None = None
        self._tools: Json = {}
        self._calls = 0
        self._requests: dict[str, Callable[[Json], Any]] = {
            "reset": self._reset,
            "update_system_prompt": self._update_prompt,
            "apply_initialization": self._initialize,
            "apply_sync_delta": self._sync,
            "get_context_history": lambda _: {"context": str(self.context)},
            "get_scenario_summary": self._summary,
        }

    def answer(self, t: str, d: Any) -> Any:
        """The result of request `t` with arguments `d`; raises UnknownRequest."""
        request = self._requests.get(t)
        if request is None:
            raise UnknownRequest(t)
        if not isinstance(d, dict):
            return _failure("d is no object") if t.startswith("apply_") else False
        return request(d)

    def heard(self, text: str) -> None:
        """The other side said `text`."""
        self.context.append({"role": "user", "content": text})

    def spoke(self, text: str) -> None:
        """This bot said `text` (what came through of it)."""
        self.context.append({"role": "assistant", "content": text})
        self._said.append(text)

    def take_said(self) -> str:
        """What this bot said since this was asked last, empty for nothing."""
        said, self._said = " ".join(self._said), []
        return said

    def run_tool(self, call: ToolCall) -> ToolOutcome:
        """Run one tool on the database; call and result go into the context. A failing one gives `{"error": ...}`, no action."""
        self._calls += 1
        call_id = f"call_{self.side}_{self._calls}"
        outcome = ToolOutcome(call_id, *self._invoke(call, call_id))
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        requested = {"id": call_id, "type": "function", "function": function}
        self.context.append({"role": "assistant", "content": None, "tool_calls": [requested]})
        self.context.append({"role": "tool", "tool_call_id": call_id, "content": json.dumps(outcome.result)})
        return outcome

    def prompt_tokens(self) -> int:
        """About four characters a token, over the whole context."""
        return sum(len(str(message)) for message in self.context) // 4 + 1

    def _invoke(self, call: ToolCall, call_id: str) -> tuple[Any, Json | None]:
        if call.name == END_TOOL:
            return {"status": "ended"}, None
        if call.name not in self._tools:
            return {"error": f"no tool {call.name!r} on this side"}, None
        tool = self._domain.tools(self.side).get(call.name) if self._domain else None
        if tool is None or self.db is None:
            return {"error": f"tool {call.name!r} has no domain or no database to work on"}, None
        before = copy.deepcopy(self.db)
        try:
            result = tool.call(self.db, **call.arguments)
            json.dumps(result)
        except Exception as error:  # noqa: BLE001 - a domain's tool is foreign code; a failed call changes nothing
            self.db = before
            return {"error": str(error) or repr(error)}, None
        if not tool.writes:
            return result, None
        action = {"name": call.name, "arguments": call.arguments, "id": call_id}
        self.actions.append(action)
        return result, action

    def _reset(self, _: Json) -> bool:
        self.context = [{"role": "system", "content": self._prompt}] if self._prompt else []
        self.actions = []
        self.db = None
        self._said = []
        self.epoch += 1
        return True

    def _update_prompt(self, d: Json) -> bool:
        prompt, tools, tool_domain = d.get("prompt"), _json_object(d.get("tools")), d.get("tool_domain", "")
        if not isinstance(prompt, str) or not prompt or tools is None or not isinstance(tool_domain, str):
            return False
        if not isinstance(d.get("add_suffix", False), bool):
            return False
        try:
            script = find_script(prompt)
        except BadScript:
            return False
        domain = _domain(tool_domain)
        if domain is None and script is not None and any(step.tools for step in script.steps):
            return False
        self._prompt, self._tools, self._domain, self.tool_domain = prompt, tools, domain, tool_domain
        self.script = script or generic_script(self.side)
        self.context = [message for message in self.context if message["role"] != "system"]
        self.context.insert(0, {"role": "system", "content": prompt})
        self.epoch += 1
        return True

    def _initialize(self, d: Json) -> Json:
        state, actions, name = _json_object(d.get("shared_state_init")), d.get("actions"), d.get("domain")
        if not isinstance(name, str):
            return _failure("domain is no string")
        if state is None:
            return _failure("shared_state_init is no JSON object")
        if not isinstance(actions, list) or not all(isinstance(action, dict) for action in actions):
            return _failure("actions is no list of objects")
        db = state.get("db")
        if db is not None and not isinstance(db, dict):
            return _failure("shared_state_init: db is no object")
        mine = [action for action in actions if action.get("side", "agent") == self.side]
        if mine:
            domain = _domain(name)
            if domain is None:
                return _failure(f"unknown domain: {name}")
            if db is None:
                return _failure("initialization actions, but no db in shared_state_init")
            errors = apply_initialization(domain, mine, self.side, db)
            if errors:
                return _failure(*errors)
        self.db = db
        return {"success": True, "errors": []}

    def _sync(self, d: Json) -> Json:
        delta = d.get("delta")
        if not isinstance(d.get("domain"), str):
            return _failure("domain is no string")
        if not isinstance(delta, dict):
            return _failure("delta is no object")
        if self.db is None:
            return _failure("there is no database to change")
        errors = apply_delta(self.db, delta)
        return {"success": not errors, "errors": errors}

    def _summary(self, d: Json) -> Json | bool:
        include_db = d.get("include_db", False)
        if not isinstance(include_db, bool):
            return False
        summary: Json = {"actions": self.actions, "db_hash": None if self.db is None else db_hash(self.db)}
        if include_db:
            summary["db"] = self.db
        return summary


def _failure(*errors: str) -> Json:
    return {"success": False, "errors": list(errors)}


def _json_object(text: Any) -> Json | None:
    if not isinstance(text, str):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _domain(name: str) -> Domain | None:
    try:
        return load_domain(name)
    except DomainError:
        return None
