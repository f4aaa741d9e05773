"""A whole database that AWS DMS writes as Parquet (S4): discover, add, build."""

import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.project import Project
from tidemark import cli

pytestmark = pytest.mark.functional

LOADED, CHANGED = "2026-04-01 10:00:00.000001", "2026-04-01 13:40:19.145400"
EVENT = [
    pa.field("id", pa.int64()),
    pa.field("sport_type_name", pa.string()),
    pa.field("start_date_time", pa.timestamp("us", tz="UTC")),
    pa.field("doors_open", pa.timestamp("us")),
    pa.field("sold_out", pa.int16()),
]
TICKET = [
    pa.field("sporting_event_ticket_id", pa.int64()),
    pa.field("ticket_price", pa.decimal128(8, 2)),
]
MLB = [pa.field("mlb_id", pa.int64()), pa.field("mlb_name", pa.string())]
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def parquet(fields: Sequence[pa.Field], rows: Sequence[Mapping[str, Any]], *, op: bool) -> bytes:
    """A file as AWS DMS writes it: Op in change files alone, then the time, which is required."""
    schema = pa.schema(
        [
            *([pa.field("Op", pa.string())] if op else []),
            pa.field("dms_ts", pa.string(), nullable=False),
            *fields,
        ]
    )
    file = io.BytesIO()
    pa.parquet.write_table(pa.Table.from_pylist(list(rows), schema), file, version="1.0")
    return file.getvalue()


def test_a_whole_database_from_files_to_tables(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    def tidemark(*arguments: str) -> list[str]:
        capfd.readouterr()
        with project.here():
            assert cli.main(arguments) == 0
        return capfd.readouterr().out.splitlines()

    def land(table: str, file: str, fields: Sequence[pa.Field], *rows: dict[str, Any]) -> None:
        content = parquet(fields, rows, op="Op" in rows[0])
        project.land(f"replica/tickets/{table}/{file}", content)

    load = "LOAD00000001.parquet"
    changes = "2026/04/01/20260401-134119166.parquet"
    events = [
        {
            "dms_ts": LOADED,
            "id": number,
            "sport_type_name": sport,
            "start_date_time": NOON,
            "doors_open": NOON.replace(tzinfo=None),
            "sold_out": 0,
        }
        for number, sport in enumerate(["baseball", "football", "chess"], 1)
    ]
    land("sporting_event", load, EVENT, *events)
    land(
        "sporting_event",
        changes,
        EVENT,
        {"Op": "U", **events[0], "dms_ts": CHANGED, "sold_out": 1},
        # Of a delete PostgreSQL logs the key alone.
        {"Op": "D", "dms_ts": CHANGED, "id": 2},
    )
    ticket = {"dms_ts": LOADED, "sporting_event_ticket_id": 7, "ticket_price": Decimal("12.50")}
    land("sporting_event_tickets", load, TICKET, ticket)
    land("mlb_data", load, MLB, {"dms_ts": LOADED, "mlb_id": 1, "mlb_name": "x"})

    assert tidemark("discover") == [
        "table                           format      files    columns  key",
        "tickets.mlb_data                dms             1          2  TODO",
        "tickets.sporting_event          dms             2          5  id",
        "tickets.sporting_event_tickets  dms             1          2  sporting_event_ticket_id",
        "",
        "Wrote models/staging/tickets/_tickets__sources.yml",
        "These tables are disabled until you resolve the TODO in the YAML:",
        "  tickets.mlb_data: set the key",
        "Next: check columns and types in the YAML, then: tidemark add tickets; tidemark run",
    ]
    written = tidemark("add", "tickets")
    assert [line.rpartition("/")[2] for line in written] == [
        "stg_tickets__sporting_event.sql",
        "cur_tickets__sporting_event.sql",
        "hist_tickets__sporting_event.sql",
        "stg_tickets__sporting_event_tickets.sql",
        "cur_tickets__sporting_event_tickets.sql",
        "hist_tickets__sporting_event_tickets.sql",
        "_tickets__staging.yml",
        "_tickets__current.yml",
        "_tickets__history.yml",
        "Next: tidemark run",
    ]
    project.build("--exclude", "path:models/history")
    current = "current.cur_tickets__sporting_event"
    assert project.rows(current, ["id", "sport_type_name", "sold_out"]) == [
        (1, "baseball", 1),
        (3, "chess", 0),
    ]
    as_text = ["cast(start_date_time as string)", "cast(doors_open as string)"]
    assert project.rows(f"{current} where id = 1", [*as_text, "cast(_changed_at as string)"]) == [
        ("2026-05-01 12:00:00", "2026-05-01 12:00:00", CHANGED.rstrip("0"))
    ]
    tickets = "current.cur_tickets__sporting_event_tickets"
    assert project.rows(tickets, ["sporting_event_ticket_id", "ticket_price"]) == [
        (7, Decimal("12.50"))
    ]

    # The person names the key, and the table has models.
    file = project.folder / "models/staging/tickets/_tickets__sources.yml"
    text = file.read_text().replace("          enabled: false\n", "")
    file.write_text(text.replace("key: []\n", "key: mlb_id\n"))
    assert len(tidemark("add", "tickets")) == 7
    assert {feed.table: feed.key for feed in project.feeds()}["mlb_data"] == ("mlb_id",)
    assert tidemark("discover", "replica")[-1] == "No new tables."
