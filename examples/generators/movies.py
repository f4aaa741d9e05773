"""A catalogue of films, captured by Debezium, flattened, and written by a sink connector (S5)."""

from typing import Any

from generators import Days, as_json_lines

FILMS = [
    ("The Lighthouse Keeper", 1951, "7.4"), ("Night Ferry", 1958, "6.9"),
    ("A Map of Salt", 1963, "8.1"), ("Harbour Lights", 1964, "7.0"),
    ("The Last Tram", 1969, "7.7"), ("Cold Orchard", 1972, "6.2"),
    ("Seven Bridges", 1975, "8.4"), ("Paper Kites", 1977, "7.1"),
    ("The Glass Mountain", 1979, "5.8"), ("Northbound", 1983, "6.6"),
    ("Signal Hill", 1985, "7.9"), ("Rust and Honey", 1988, "8.0"),
    ("Ebb", 1990, "7.3"), ("The Cartographer", 1994, "8.7"),
    ("Slack Water", 1996, "6.4"), ("A Quiet Engine", 1999, "7.2"),
    ("Tidal", 2003, "7.5"), ("The Long Pier", 2006, "6.8"),
    ("Undertow", 2010, "8.2"), ("Neap", 2014, "5.9"),
    ("Spring Tide", 2018, "7.8"), ("Breakwater", 2021, "8.3"),
]  # fmt: skip
START = 1_690_000_000_000


def event(number: int, op: str, at: int, **row: Any) -> dict[str, Any]:
    """A flattened event; deletes are rewritten, so that they keep their row."""
    deleted = "true" if op == "d" else "false"
    meta = {"__op": op, "__source_ts_ms": START + at * 60_000, "__deleted": deleted}
    return {"movie_id": number, **row, **meta}


def days() -> Days:
    """A snapshot; then changes, while the column `country` is added; two of them are bad."""
    snapshot = [
        event(number, "r", 0, title=title, released=released, rating=rating)
        for number, (title, released, rating) in enumerate(FILMS, 1)
    ]
    before = [
        event(2, "u", 10, title="The Night Ferry", released=1958, rating="7.0"),
        event(23, "c", 11, title="Moorings", released=2023, rating="6.5"),
    ]
    # Now: alter table movies add column country text
    after = [
        event(
            14, "u", 20, title="The Cartographer", released=1994, rating="8.8", country="Portugal"
        ),
        event(24, "c", 21, title="Kelp", released=2023, rating="7.7", country="Norway"),
        event(20, "d", 22, title="Neap", released=2014, rating="5.9", country=None),
        event(25, "c", 23, title="Windfall", released="soon", rating="7.1", country="Chile"),
        event(19, "u", 24, title="Undertow", released=2010, rating="very good", country="Japan"),
    ]
    topic = "catalogue.public.movies+0+"
    return {
        1: {f"movies/movies/{topic}0000000000.json": as_json_lines(snapshot)},
        2: {
            f"movies/movies/{topic}0000000022.json": as_json_lines(before),
            f"movies/movies/{topic}0000000024.json": as_json_lines(after),
        },
    }
