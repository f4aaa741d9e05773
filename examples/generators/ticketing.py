"""A sports club's ticketing database, as one AWS DMS task writes all of it to Parquet files (S4).

The full load's files have no operation, the change files have.
"""

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from generators import Days, as_parquet

PRICE = pa.decimal128(8, 2)
TIME = pa.timestamp("us")
LOADED_AT = datetime(2023, 4, 1, 6, 0)
TABLES: dict[str, dict[str, pa.DataType]] = {
    "sport_location": {
        "id": pa.int32(),
        "name": pa.string(),
        "city": pa.string(),
        "seating_capacity": pa.int32(),
    },
    "seat": {
        "sport_location_id": pa.int32(),
        "seat_level": pa.int32(),
        "seat_section": pa.string(),
        "seat_row": pa.string(),
        "seat": pa.string(),
        "seat_type": pa.string(),
    },
    "sport_team": {"id": pa.int32(), "name": pa.string(), "home_field_id": pa.int32()},
    "player": {
        "id": pa.int32(),
        "sport_team_id": pa.int32(),
        "last_name": pa.string(),
        "first_name": pa.string(),
        "full_name": pa.string(),
    },
    "person": {
        "id": pa.int32(),
        "full_name": pa.string(),
        "last_name": pa.string(),
        "first_name": pa.string(),
    },
    "sporting_event": {
        "id": pa.int64(),
        "sport_type_name": pa.string(),
        "home_team_id": pa.int32(),
        "away_team_id": pa.int32(),
        "location_id": pa.int32(),
        "start_date_time": TIME,
        "sold_out": pa.bool_(),
    },
    "sporting_event_ticket": {
        "id": pa.int64(),
        "sporting_event_id": pa.int64(),
        "sport_location_id": pa.int32(),
        "seat_level": pa.int32(),
        "seat_section": pa.string(),
        "seat_row": pa.string(),
        "seat": pa.string(),
        "ticketholder_id": pa.int32(),
        "ticket_price": PRICE,
    },
    "ticket_purchase_hist": {
        "sporting_event_ticket_id": pa.int64(),
        "purchased_by_id": pa.int32(),
        "transaction_date_time": TIME,
        "transferred_from_id": pa.int32(),
        "purchase_price": PRICE,
    },
    "mlb_data": {
        "mlb_id": pa.int32(),
        "mlb_name": pa.string(),
        "mlb_pos": pa.string(),
        "mlb_team": pa.string(),
        "bats": pa.string(),
    },
}
VENUES = [
    (1, "Harborview Park", "Baltimore", 24),
    (2, "Copperfield", "Phoenix", 24),
    (3, "Lakeshore Grounds", "Chicago", 24),
    (4, "Bayline Stadium", "San Francisco", 24),
]
TEAMS = [(1, "Herons", 1), (2, "Scorpions", 2), (3, "Mariners of the Lake", 3), (4, "Gulls", 4)]
FIRST = ["Ana", "Ben", "Cal", "Dee", "Eli", "Fay", "Gus", "Hal", "Ivy", "Jim"]
LAST = ["Ames", "Boyd", "Cruz", "Dunn", "Ekeh", "Frye", "Gill", "Hart"]

Rows = dict[str, list[tuple[Any, ...]]]


def full_load() -> Rows:
    """Every table as the load finds it."""
    made_up = random.Random(44)
    names = [(first, last) for last in LAST for first in FIRST]
    rows: Rows = {"sport_location": list(VENUES), "sport_team": list(TEAMS)}
    rows["seat"] = [
        (venue, level, section, row, str(seat), "luxury" if level == 2 else "standard")
        for venue, *_ in VENUES
        for level in (1, 2)
        for section in ("A", "B")
        for row in ("1", "2")
        for seat in (1, 2, 3)
    ]
    rows["player"] = [
        (number, number % 4 + 1, last, first, f"{first} {last}")
        for number, (first, last) in enumerate(names[:24], 1)
    ]
    rows["person"] = [
        (number, f"{first} {last}", last, first)
        for number, (first, last) in enumerate(reversed(names[-40:]), 1)
    ]
    rows["mlb_data"] = [
        (
            500000 + number,
            f"{first} {last}",
            made_up.choice(["P", "C", "1B", "SS", "CF"]),
            "HER",
            bats,
        )
        for number, (first, last) in enumerate(names[:24], 1)
        for bats in [made_up.choice("RLB")]
    ]
    rows["sporting_event"] = [
        (
            number,
            "baseball",
            home,
            away,
            home,
            datetime(2023, 4, 8, 18, 30) + timedelta(days=number),
            False,
        )
        for number, (home, away) in enumerate(
            [(home, away) for home in range(1, 5) for away in range(1, 5) if home != away], 1
        )
    ]
    tickets, purchases = [], []
    for event, _, _, _, venue, *_ in rows["sporting_event"]:
        for seat in (seat for seat in rows["seat"] if seat[0] == venue):
            number = len(tickets) + 1
            price = Decimal(made_up.randint(20, 60) * (3 if seat[5] == "luxury" else 1))
            holder = made_up.randint(1, 40) if made_up.random() < 0.4 else None
            tickets.append((number, event, *seat[:5], holder, price))
            if holder:
                at = datetime(2023, 3, 1) + timedelta(minutes=made_up.randint(0, 40000))
                purchases.append((number, holder, at, None, price))
    rows["sporting_event_ticket"], rows["ticket_purchase_hist"] = tickets, purchases
    return rows


def second_day(loaded: Rows) -> Rows:
    """A day of changes: sales, a ticket sold on, a price cut, a cancelled event, a new player."""
    tickets = {row[0]: row for row in loaded["sporting_event_ticket"]}
    free = [row for row in tickets.values() if row[7] is None]
    at = datetime(2023, 4, 2, 9, 0)
    changes: Rows = {table: [] for table in TABLES}
    for minute, ticket in enumerate(free[:30]):
        buyer, sold_at = minute % 40 + 1, at + timedelta(minutes=minute)
        changes["sporting_event_ticket"].append(("U", *ticket[:7], buyer, ticket[8], sold_at))
        changes["ticket_purchase_hist"].append(
            ("I", ticket[0], buyer, sold_at, None, ticket[8], sold_at)
        )
    # The first of them is sold on, dearer, within the hour.
    first, again = free[0], at + timedelta(minutes=50)
    changes["sporting_event_ticket"].append(("U", *first[:7], 40, first[8] + 5, again))
    changes["ticket_purchase_hist"].append(("I", first[0], 40, again, 1, first[8] + 5, again))
    for ticket in free[-5:]:
        changes["sporting_event_ticket"].append(("U", *ticket[:8], Decimal("9.50"), again))
    # The last event is off: it goes, and so do its tickets that nobody has.
    last = loaded["sporting_event"][-1]
    changes["sporting_event"].append(("D", *last, again))
    for ticket in free:
        if ticket[1] == last[0] and ticket not in free[-5:]:
            changes["sporting_event_ticket"].append(("D", *ticket, again))
    changes["player"].append(("I", 25, 2, "Okafor", "Chidi", "Chidi Okafor", again))
    changes["person"].append(("U", 7, "Ivy Hart-Boyd", "Hart-Boyd", "Ivy", again))
    return {table: rows for table, rows in changes.items() if rows}


def days() -> Days:
    """Nine tables; a day later the changes of five of them."""
    loaded = full_load()
    day_1, day_2 = {}, {}
    for table, rows in loaded.items():
        columns = {**TABLES[table], "dms_commit_at": TIME}
        stamped = [(*row, LOADED_AT) for row in rows]
        day_1[f"dms/ticketing/{table}/LOAD00000001.parquet"] = as_parquet(columns, stamped)
    for table, rows in second_day(loaded).items():
        columns = {"Op": pa.string(), **TABLES[table], "dms_commit_at": TIME}
        name = f"{datetime(2023, 4, 2, 10, 0, tzinfo=UTC):%Y%m%d-%H%M%S}000.parquet"
        day_2[f"dms/ticketing/{table}/{name}"] = as_parquet(columns, rows)
    return {1: day_1, 2: day_2}
