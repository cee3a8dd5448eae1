from __future__ import annotations

import copy

import pytest

from voiceeval_engine.domains.cafe import DOMAIN
from voiceeval_engine.domains.registry import Db, ToolRefused, load_domain


@pytest.fixture
def db() -> Db:
    return {
        "menu": {"tea": {"price": 3.0, "stock": 2}, "cake": {"price": 4.55, "stock": 0}},
        "orders": {},
        "cards": {"blue 7": {"owner": "Ana", "points": 5}},
    }


def run(db: Db, name: str, **arguments: object) -> object:
    return DOMAIN.agent_tools[name].call(db, **arguments)


def test_an_order_goes_from_open_to_placed_and_takes_from_the_stock(db: Db) -> None:
    assert run(db, "create_order", customer="Ana") == {"order_id": "1"}
    assert run(db, "add_item", order_id="1", item="tea", quantity=2) == {"items": {"tea": 2}, "total": 6.0}
    assert run(db, "place_order", order_id="1") == {"order_id": "1", "total": 6.0}
    assert run(db, "collect_points", card="blue 7", order_id="1") == {"owner": "Ana", "points": 65}
    assert DOMAIN.predicates["order_status"](db, order_id="1") == "placed"
    assert DOMAIN.predicates["order_quantity"](db, order_id="1", item="tea") == 2
    assert DOMAIN.predicates["stock"](db, item="tea") == 0


def test_items_can_be_taken_off_and_orders_called_off(db: Db) -> None:
    run(db, "create_order", customer="Ana")
    run(db, "add_item", order_id="1", item="tea")
    assert run(db, "remove_item", order_id="1", item="tea") == {"items": {}, "total": 0}
    assert run(db, "cancel_order", order_id="1") == {"order_id": "1", "status": "cancelled"}
    assert run(db, "create_order", customer="Tom") == {"order_id": "2"}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("add_item", {"order_id": "1", "item": "cake"}),
        ("add_item", {"order_id": "1", "item": "soup"}),
        ("add_item", {"order_id": "1", "item": "tea", "quantity": 0}),
        ("add_item", {"order_id": "9", "item": "tea"}),
        ("remove_item", {"order_id": "1", "item": "tea"}),
        ("place_order", {"order_id": "1"}),
        ("collect_points", {"card": "blue 7", "order_id": "1"}),
        ("collect_points", {"card": "green", "order_id": "1"}),
        ("check_item", {"item": "soup"}),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(db: Db, name: str, arguments: dict[str, object]) -> None:
    run(db, "create_order", customer="Ana")
    before = copy.deepcopy(db)
    with pytest.raises(ToolRefused):
        run(db, name, **arguments)
    assert db == before


def test_reading_writes_nothing(db: Db) -> None:
    before = copy.deepcopy(db)
    assert run(db, "get_menu") == {"tea": 3.0}
    assert run(db, "check_item", item="tea") == {"price": 3.0, "stock": 2}
    assert db == before
    assert [tool.name for tool in DOMAIN.agent_tools.values() if not tool.writes] == ["get_menu", "check_item"]


def test_stock_can_be_set_before_a_conversation(db: Db) -> None:
    DOMAIN.initialization["set_stock"](db, item="cake", count=3)
    assert DOMAIN.predicates["stock"](db, item="cake") == 3


def test_the_registry_knows_it() -> None:
    assert load_domain("cafe") is DOMAIN
