import json
import os
import time
from enum import Enum
from functools import cached_property


class Signal(Enum):
    ACTIONS = "is_action_match"
    DATABASE = "db_state_match"
    ASSERTIONS = "db_state_assertion"
    CLEAN = "clean_exit"


class Noise:
    def to_dict(self):
        return {
            "noise_files": [],
            "gain_db": -3.0,
            "max_noise_duration": 600.0,
            "random_offset": True,
            "random_white_noise": True,
            "white_noise_db": -80.0,
        }


def script(*steps, name="s"):
    lines = "\n".join(f"  - {json.dumps(step)}" for step in steps)
    return f"Play.\n\n```script\nname: {name}\nsteps:\n{lines}\n```\n"


class Base:
    name = ""
    domain = "greeting"
    description = "A scenario of the stand-in."
    max_duration = 30
    noise_config = None
    ignore_capitalization = True
    ignore_punctuation = False
    clean_text = False
    disallow_extra_items = False
    reference_answer = None
    reference_file = "reference_answer.json"
    nl_assertions = None
    db_state_assertions = ()
    initialization_actions = ()
    expected_scenario_db = None
    expected_user_db = None

    @property
    def success_signals(self):
        return [Signal.CLEAN]

    def get_user_prompt(self):
        return script({"say": "Hello there."})

    def get_agent_prompt(self):
        return script({"say": "Hello."}, {"say": "Goodbye.", "exit": "done"})

    def get_user_tools(self):
        return "{}"

    def get_agent_tools(self):
        return json.dumps({"EndConversation": {}})

    def setup_shared_state(self, state, side):
        state["db_path"] = f"/data/{side}.json"

    def sync_state(self, agent_db, user_db):
        return {"agent": {}, "user": {}}


class Good(Base):
    noise_config = Noise()

    def __init__(self):
        print("building a scenario")


class Big(Base):
    """A database of 7 MB, made on first access."""

    @cached_property
    def expected_scenario_db(self):
        return {"rows": [{"id": number, "text": "x" * 40, "price": 1.0} for number in range(80_000)]}


class Tool:
    def __init__(self, state, function):
        self.state = state
        self.function = function

    def invoke(self, **arguments):
        result = self.function(self.state, **arguments)
        self.state["actions"].append(result)
        return json.dumps(result)


def switch(state, on):
    state["db"]["lamp"] = "on" if on else "off"
    return state["db"]["lamp"]


def hang(state):
    time.sleep(60)


def die(state):
    os._exit(9)


class Dual(Base):
    """The user sees the lamp that the agent switches."""

    domain = "lamps"
    success_signals = (Signal.ACTIONS, Signal.DATABASE, Signal.ASSERTIONS, Signal.CLEAN)
    db_state_assertions = (
        {"side": "agent", "func_name": "lamp", "arguments": {}, "assert_value": "off"},
        {"side": "user", "func_name": "seen", "arguments": {}, "assert_value": "off", "message": "the user sees it"},
    )
    initialization_actions = ()

    @cached_property
    def db(self):
        return {"lamp": "off"}

    @cached_property
    def user_db(self):
        return {"seen": "unknown"}

    @cached_property
    def expected_scenario_db(self):
        return {"lamp": "off"}

    def setup_shared_state(self, state, side):
        state["db"] = self.db if side == "agent" else self.user_db

    def sync_state(self, agent_db, user_db):
        print("syncing")
        agent_db["scribbled"] = True
        changed = user_db["seen"] != agent_db["lamp"]
        return {"agent": {}, "user": {"seen": agent_db["lamp"]} if changed else {}}

    def _build_tool_map(self, state):
        return {"switch": Tool(state, switch), "hang": Tool(state, hang), "die": Tool(state, die)}


NUMBER = "555-1"


def enable_roaming(state, number):
    state["db"]["lines"][number]["roaming"] = True
    return state["db"]["lines"][number]


class Roaming(Dual):
    """For the embedded bots, which have the tools of `phone_support`: a phone abroad works once the operator allows it."""

    domain = "phone_support"
    db_state_assertions = (
        {"side": "agent", "func_name": "line_roaming", "arguments": {"number": NUMBER}, "assert_value": True},
        {"side": "user", "func_name": "service", "arguments": {}, "assert_value": "connected", "message": "the phone works"},
    )

    @property
    def reference_answer(self):
        return {"actions": [{"side": "agent", "name": "enable_roaming", "arguments": {"number": NUMBER}}]}

    @cached_property
    def db(self):
        return {"lines": {NUMBER: {"status": "active", "roaming": False, "data_gb": 1}}, "tickets": []}

    @cached_property
    def user_db(self):
        return {
            "phone": {"number": NUMBER, "airplane_mode": False, "sim": "ready", "roaming": True},
            "network": {"abroad": True, "roaming_allowed": False, "service": "none"},
        }

    @cached_property
    def expected_scenario_db(self):
        return {"lines": {NUMBER: {"status": "active", "roaming": True, "data_gb": 1.0}}, "tickets": []}

    def get_agent_tools(self):
        return json.dumps({"enable_roaming": {}, "EndConversation": {}})

    def get_agent_prompt(self):
        call = {"name": "enable_roaming", "arguments": {"number": NUMBER}}
        return script({"say": "Hello.", "tools": [call]}, {"say": "Goodbye.", "exit": "done"})

    def sync_state(self, agent_db, user_db):
        allowed = agent_db["lines"][NUMBER]["roaming"]
        if user_db["network"]["roaming_allowed"] == allowed:
            return {"agent": {}, "user": {}}
        return {"agent": {}, "user": {"network.roaming_allowed": allowed, "network.service": "connected" if allowed else "none"}}

    def _build_tool_map(self, state):
        return {"enable_roaming": Tool(state, enable_roaming)}


class Initialized(Dual):
    initialization_actions = (
        {"side": "agent", "func_name": "set_lamp", "arguments": {"value": "broken"}},
        {"side": "user", "func_name": "no_such", "arguments": {}},
    )


class NoToolMap(Dual):
    def _build_tool_map(self, state):
        raise NotADirectoryError("the tool folder")


class RaisesInPrompt(Base):
    def get_agent_prompt(self):
        print("looking for the prompt")
        raise ValueError("no prompt in the library")


class RaisesInProperty(Base):
    @cached_property
    def expected_scenario_db(self):
        raise AttributeError("'NoneType' object has no attribute 'tools'")


class Hangs(Base):
    def setup_shared_state(self, state, side):
        time.sleep(60)


class Exits(Base):
    def setup_shared_state(self, state, side):
        print("the last thing that it says")
        os._exit(7)


class SystemExits(Base):
    def get_user_tools(self):
        raise SystemExit(3)


class NoJson(Base):
    @property
    def reference_answer(self):
        return {("a", "tuple"): 1}


class BadSignal(Base):
    success_signals = ("is_lucky",)


_KEPT = []


class Keeps(Base):
    """The package keeps what it makes."""

    def get_user_prompt(self):
        _KEPT.append(bytearray(os.urandom(1) * 60_000_000))
        return super().get_user_prompt()


LONG = "long__" + "n" * 232
_ALL = {
    "greeting__good": Good,
    "greeting__big": Big,
    "lamps__dual": Dual,
    "phone_support__nemo_roaming": Roaming,
    "lamps__initialized": Initialized,
    "lamps__no_tool_map": NoToolMap,
    "bad__prompt": RaisesInPrompt,
    "bad__property": RaisesInProperty,
    "bad__hangs": Hangs,
    "bad__exits": Exits,
    "bad__system_exit": SystemExits,
    "bad__no_json": NoJson,
    "bad__signal": BadSignal,
    "keeps": Keeps,
    LONG: Good,
    "bad/name": Good,
    "too_long__" + "n" * 232: Good,
}


def list_eval_scenarios():
    print("listing")
    return list(_ALL)


def get_eval_scenario(name):
    kind = _ALL.get(name)
    if kind is None:
        return None
    scenario = kind()
    scenario.name = name
    return scenario
