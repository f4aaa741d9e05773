"""A shop's customers, sites and orders, replicated every hour to CSV files by AWS DMS (S8, S10)."""

import random
from datetime import datetime, timedelta
from typing import Any

from generators import Days, as_csv

COLUMNS = {
    "customers": ["customer_id", "customer_name", "segment"],
    "customer_sites": ["site_id", "customer_id", "city", "country"],
    "sales_orders": ["order_id", "site_id", "ordered_at", "amount", "status"],
}
NAMES = ["Alder & Sons", "Birch Supplies", "Cedar Home", "Dogwood Studio", "Elm Street Cafe"]
CITIES = [("Porto", "PT"), ("Ghent", "BE"), ("Lyon", "FR"), ("Graz", "AT"), ("Turku", "FI")]
START = datetime(2023, 9, 1, 8, 0)

Row = tuple[Any, ...]


def full_load() -> dict[str, list[Row]]:
    """Twenty customers, thirty sites, a hundred and twenty orders."""
    made_up = random.Random(8)
    customers: list[Row] = [
        (number, f"{NAMES[number % 5]} {number}", made_up.choice(["private", "business"]))
        for number in range(1, 21)
    ]
    sites: list[Row] = [
        (100 + number, number % 20 + 1, *CITIES[made_up.randrange(5)]) for number in range(30)
    ]
    orders: list[Row] = [
        (
            5000 + number,
            # The last site has no order yet.
            100 + made_up.randrange(29),
            START - timedelta(hours=made_up.randint(1, 2000)),
            f"{made_up.randint(500, 90000) / 100:.2f}",
            made_up.choice(["open", "shipped", "shipped"]),
        )
        for number in range(120)
    ]
    return {"customers": customers, "customer_sites": sites, "sales_orders": orders}


def days() -> Days:
    """A full load, then two hours of changes that reach the summary from every side."""
    loaded = full_load()
    by_key = {table: {row[0]: row for row in rows} for table, rows in loaded.items()}

    def files(day: int, at: datetime, changes: dict[str, list[Row]]) -> dict[str, bytes]:
        return {
            f"shop/{table}/{at:%Y%m%d-%H%M%S}000.csv": as_csv(
                [["Op", *COLUMNS[table], "commit_at"], *((*row, at) for row in rows)]
            )
            for table, rows in changes.items()
        }

    load = {
        f"shop/{table}/LOAD00000001.csv": as_csv(
            [[*COLUMNS[table], "commit_at"], *((*row, START) for row in rows)]
        )
        for table, rows in loaded.items()
    }
    orders, sites, customers = (
        by_key[table] for table in ("sales_orders", "customer_sites", "customers")
    )
    first = START + timedelta(hours=1)
    second = START + timedelta(hours=2)
    hour_1: dict[str, list[Row]] = {
        "sales_orders": [
            ("I", 5120, 102, first - timedelta(minutes=30), "1250.00", "open"),
            ("U", *orders[5001][:4], "cancelled"),
            ("D", *orders[5002]),
            ("U", 5003, orders[5003][1], orders[5003][2], "99.90", "shipped"),
        ],
        # Customer 3 becomes a reseller, half an hour after its order.
        "customers": [
            ("U", 3, customers[3][1], "reseller"),
            ("I", 21, "Fir & Daughters", "business"),
        ],
    }
    hour_2: dict[str, list[Row]] = {
        # A site is sold, with its orders; a customer leaves, its orders stay.
        "customer_sites": [("U", 102, 21, *sites[102][2:])],
        "customers": [("D", *customers[20])],
        "sales_orders": [("I", 5121, 102, second, "310.00", "open")],
    }
    return {1: load, 2: files(2, first, hour_1), 3: files(3, second, hour_2)}
