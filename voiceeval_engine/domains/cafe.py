"""The embedded domain `cafe`: one-sided, an agent takes orders at a counter.

Database: `menu` (item to price and stock), `orders` (id to customer, items, status, total), `cards` (loyalty card to points). Order
ids count up from 1, so a replay gives the same database. May import the standard library and `registry` only.
"""

from __future__ import annotations

from typing import Any

from voiceeval_engine.domains.registry import Db, Domain, Tool, ToolRefused

_POINTS_PER_UNIT = 10


def get_menu(db: Db) -> Any:
    """Every item that is in stock, with its price."""
    return {name: item["price"] for name, item in db["menu"].items() if item["stock"] > 0}


def check_item(db: Db, item: str) -> Any:
    """Price and stock of one item."""
    return dict(_item(db, item))


def create_order(db: Db, customer: str) -> Any:
    """Begin an order; its id is the next number."""
    order_id = str(len(db["orders"]) + 1)
    db["orders"][order_id] = {"customer": customer, "items": {}, "status": "open", "total": 0}
    return {"order_id": order_id}


def add_item(db: Db, order_id: str, item: str, quantity: int = 1) -> Any:
    """Put an item on an open order."""
    order, entry = _open_order(db, order_id), _item(db, item)
    if quantity < 1:
        raise ToolRefused(f"{quantity} is no quantity to order")
    wanted = order["items"].get(item, 0) + quantity
    if wanted > entry["stock"]:
        raise ToolRefused(f"only {entry['stock']} of {item!r} left")
    order["items"][item] = wanted
    return _total(db, order)


def remove_item(db: Db, order_id: str, item: str) -> Any:
    """Take an item off an open order, whatever its quantity."""
    order = _open_order(db, order_id)
    if item not in order["items"]:
        raise ToolRefused(f"order {order_id} has no {item!r}")
    del order["items"][item]
    return _total(db, order)


def place_order(db: Db, order_id: str) -> Any:
    """Close an order: the stock goes down."""
    order = _open_order(db, order_id)
    if not order["items"]:
        raise ToolRefused(f"order {order_id} is empty")
    for item, quantity in order["items"].items():
        db["menu"][item]["stock"] -= quantity
    order["status"] = "placed"
    return {"order_id": order_id, "total": order["total"]}


def cancel_order(db: Db, order_id: str) -> Any:
    """Call an open order off."""
    _open_order(db, order_id)["status"] = "cancelled"
    return {"order_id": order_id, "status": "cancelled"}


def collect_points(db: Db, card: str, order_id: str) -> Any:
    """Put a placed order's points on a loyalty card."""
    order = _order(db, order_id)
    if card not in db["cards"]:
        raise ToolRefused(f"there is no card {card!r}")
    if order["status"] != "placed":
        raise ToolRefused(f"order {order_id} is {order['status']}, not placed")
    db["cards"][card]["points"] += int(order["total"] * _POINTS_PER_UNIT)
    return dict(db["cards"][card])


def order_status(db: Db, order_id: str) -> Any:
    """Predicate: the status of an order."""
    return _order(db, order_id)["status"]


def order_quantity(db: Db, order_id: str, item: str) -> Any:
    """Predicate: how many of an item are on an order."""
    return _order(db, order_id)["items"].get(item, 0)


def stock(db: Db, item: str) -> Any:
    """Predicate: how many of an item are left."""
    return _item(db, item)["stock"]


def set_stock(db: Db, item: str, count: int) -> None:
    """Initialization: how many of an item there are."""
    _item(db, item)["stock"] = count


def _item(db: Db, name: str) -> Db:
    if name not in db["menu"]:
        raise ToolRefused(f"there is no {name!r} on the menu")
    entry: Db = db["menu"][name]
    return entry


def _order(db: Db, order_id: str) -> Db:
    if order_id not in db["orders"]:
        raise ToolRefused(f"there is no order {order_id!r}")
    order: Db = db["orders"][order_id]
    return order


def _open_order(db: Db, order_id: str) -> Db:
    order = _order(db, order_id)
    if order["status"] != "open":
        raise ToolRefused(f"order {order_id} is {order['status']}, not open")
    return order


def _total(db: Db, order: Db) -> Db:
    order["total"] = round(sum(db["menu"][item]["price"] * quantity for item, quantity in order["items"].items()), 2)
    return {"items": dict(order["items"]), "total": order["total"]}


_TOOLS = (
    Tool("get_menu", get_menu, writes=False),
    Tool("check_item", check_item, writes=False),
    Tool("create_order", create_order),
    Tool("add_item", add_item),
    Tool("remove_item", remove_item),
    Tool("place_order", place_order),
    Tool("cancel_order", cancel_order),
    Tool("collect_points", collect_points),
)

DOMAIN = Domain(
    name="cafe",
    agent_tools={tool.name: tool for tool in _TOOLS},
    predicates={"order_status": order_status, "order_quantity": order_quantity, "stock": stock},
    initialization={"set_stock": set_stock},
)
