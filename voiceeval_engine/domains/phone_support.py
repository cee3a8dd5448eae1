"""The embedded domain `phone_support`: dual-side, a caller's phone and an operator's account that follow each other.

The agent's database holds `lines` (number to status, roaming, data) and `tickets`; the user's holds one `phone` and the `network`
as that phone sees it. `sync_state` keeps them consistent: what the operator changes is seen on the phone, and a phone that cannot
be reached is seen on the account. May import the standard library and `registry` only.
"""

from __future__ import annotations

from typing import Any

from voiceeval_engine.domains.registry import Db, Domain, Tool, ToolRefused

# The operator's tools, on the account.


def get_line(db: Db, number: str) -> Any:
    """What the account says of a line."""
    return dict(_line(db, number))


def enable_roaming(db: Db, number: str) -> Any:
    """Allow a line to be used abroad."""
    return _change(db, number, "roaming", True)


def disable_roaming(db: Db, number: str) -> Any:
    """Keep a line to the home network."""
    return _change(db, number, "roaming", False)


def resume_line(db: Db, number: str) -> Any:
    """Lift a suspension."""
    if _line(db, number)["status"] != "suspended":
        raise ToolRefused(f"line {number} is not suspended")
    return _change(db, number, "status", "active")


def add_data(db: Db, number: str, gigabytes: int) -> Any:
    """Add to a line's data."""
    if gigabytes < 1:
        raise ToolRefused(f"{gigabytes} GB is nothing to add")
    return _change(db, number, "data_gb", _line(db, number)["data_gb"] + gigabytes)


def open_ticket(db: Db, number: str, subject: str) -> Any:
    """Leave a note for the engineers."""
    _line(db, number)
    db["tickets"].append({"number": number, "subject": subject})
    return {"ticket": len(db["tickets"])}


# The caller's tools, on the phone.


def check_phone(db: Db) -> Any:
    """What the phone's screen shows."""
    return {**db["phone"], "service": db["network"]["service"]}


def set_airplane_mode(db: Db, on: bool) -> Any:
    """Switch airplane mode."""
    return _set_phone(db, "airplane_mode", on)


def set_roaming(db: Db, on: bool) -> Any:
    """Switch roaming in the phone's own settings."""
    return _set_phone(db, "roaming", on)


def reseat_sim(db: Db) -> Any:
    """Take the SIM out and put it in again."""
    return _set_phone(db, "sim", "ready")


# Predicates.


def line_status(db: Db, number: str) -> Any:
    """Agent's side: active, offline or suspended."""
    return _line(db, number)["status"]


def line_roaming(db: Db, number: str) -> Any:
    """Agent's side: whether the line may be used abroad."""
    return _line(db, number)["roaming"]


def line_data(db: Db, number: str) -> Any:
    """Agent's side: the line's data in GB."""
    return _line(db, number)["data_gb"]


def ticket_count(db: Db, number: str) -> Any:
    """Agent's side: how many tickets a line has."""
    return sum(ticket["number"] == number for ticket in db["tickets"])


def service(db: Db) -> Any:
    """User's side: connected or none."""
    return db["network"]["service"]


def airplane_mode(db: Db) -> Any:
    """User's side: whether airplane mode is on."""
    return db["phone"]["airplane_mode"]


# Initialization functions.


def suspend_line(db: Db, number: str) -> None:
    """Agent's side: suspend a line."""
    _line(db, number)["status"] = "suspended"


def turn_on_airplane_mode(db: Db) -> None:
    """User's side: airplane mode is on."""
    db["phone"]["airplane_mode"] = True


def loosen_sim(db: Db) -> None:
    """User's side: the SIM makes no contact."""
    db["phone"]["sim"] = "missing"


def go_abroad(db: Db) -> None:
    """User's side: the phone is in a foreign network."""
    db["network"]["abroad"] = True


def sync_state(agent_db: Db, user_db: Db) -> dict[str, Db]:
    """What must change on each side for both to agree; nothing where the account does not know the phone's number."""
    phone, network = user_db["phone"], user_db["network"]
    number = phone["number"]
    line = agent_db["lines"].get(number)
    if line is None:
        return {"agent": {}, "user": {}}
    reachable = not phone["airplane_mode"] and phone["sim"] == "ready"
    status = line["status"] if line["status"] == "suspended" else "active" if reachable else "offline"
    usable = not network["abroad"] or (line["roaming"] and phone["roaming"])
    wanted = {"roaming_allowed": line["roaming"], "service": "connected" if status == "active" and usable else "none"}
    return {
        "agent": {} if line["status"] == status else {f"lines.{number}.status": status},
        "user": {f"network.{key}": value for key, value in wanted.items() if network[key] != value},
    }


def _line(db: Db, number: str) -> Db:
    if number not in db["lines"]:
        raise ToolRefused(f"there is no line {number!r}")
    line: Db = db["lines"][number]
    return line


def _change(db: Db, number: str, key: str, value: Any) -> Any:
    line = _line(db, number)
    line[key] = value
    return dict(line)


def _set_phone(db: Db, key: str, value: Any) -> Any:
    db["phone"][key] = value
    return dict(db["phone"])


_AGENT_TOOLS = (
    Tool("get_line", get_line, writes=False),
    Tool("enable_roaming", enable_roaming),
    Tool("disable_roaming", disable_roaming),
    Tool("resume_line", resume_line),
    Tool("add_data", add_data),
    Tool("open_ticket", open_ticket),
)
_USER_TOOLS = (
    Tool("check_phone", check_phone, writes=False),
    Tool("set_airplane_mode", set_airplane_mode),
    Tool("set_roaming", set_roaming),
    Tool("reseat_sim", reseat_sim),
)

DOMAIN = Domain(
    name="phone_support",
    agent_tools={tool.name: tool for tool in _AGENT_TOOLS},
    user_tools={tool.name: tool for tool in _USER_TOOLS},
    predicates={
        function.__name__: function for function in (line_status, line_roaming, line_data, ticket_count, service, airplane_mode)
    },
    initialization={function.__name__: function for function in (suspend_line, turn_on_airplane_mode, loosen_sim, go_abroad)},
    sync_state=sync_state,
)
