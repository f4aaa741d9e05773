"""A restaurant's ordering app: its MongoDB collection, exported every evening (S17)."""

import random
from typing import Any

from generators import Days, as_json_lines

DISHES = {"Cod cakes": 850, "Green soup": 450, "Grilled squid": 1390, "Custard tart": 210}
GUESTS = [("Alma", "Porto"), ("Bento", None), ("Clara", "Braga"), ("Duarte", "Aveiro")]


def order(number: int, made_up: random.Random, hour: int) -> dict[str, Any]:
    """A document as mongoexport writes it."""
    name, city = GUESTS[number % 4]
    chosen = made_up.sample(sorted(DISHES), made_up.randint(1, 3))
    lines = [
        {"dish": dish, "quantity": made_up.randint(1, 3), "price": DISHES[dish] / 100}
        for dish in chosen
    ]
    total = sum(round(line["quantity"] * line["price"] * 100) for line in lines)
    customer = {"name": name} | ({"city": city} if city else {})
    return {
        "_id": {"$oid": f"64f1{number:020x}"},
        "ordered_at": {"$date": f"2023-09-01T{hour:02}:{number % 60:02}:00Z"},
        "customer": customer,
        "lines": lines,
        "total": {"$numberDecimal": f"{total / 100:.2f}"},
    }


def days() -> Days:
    """An evening's orders; the next day one is corrected, one is gone, and two are new."""
    made_up = random.Random(17)
    orders = [order(number, made_up, 18 + number // 12) for number in range(36)]
    later = [dict(document) for document in orders if document is not orders[5]]
    later[0] = later[0] | {
        "lines": [{"dish": "Cod cakes", "quantity": 2, "price": 8.5}],
        "total": {"$numberDecimal": "17.00"},
    }
    later += [order(number, made_up, 21) for number in (36, 37)]
    return {
        1: {"bistro/orders/2023-09-01.json": as_json_lines(orders)},
        2: {"bistro/orders/2023-09-02.json": as_json_lines(later)},
    }
