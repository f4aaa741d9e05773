"""What the lake must show, by the source itself, and what it shows. Values are compared as texts.

PostgreSQL writes the text of a value (audit.told_as in ticketing.sql) and Spark writes one
(`_TOLD`). Most are equal letter for letter. These are not:

| type in PostgreSQL | type in the lake | equal means |
|---|---|---|
| real, double precision | float, double | the same number |
| numeric(p, s) | decimal(p, s) | the same digits; Spark writes small ones as 1E-10 |
| numeric without a scale | string | the same number: Debezium drops zeros at the end |
| interval | string | the same seconds, to the microsecond; all other fields are equal as text |
| time | string | the same time; Tidemark leaves out a fraction that is 0 |
| arrays | string | the same JSON |
"""

import json
import re
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from pyspark.sql import SparkSession

from tests.e2e.mariadb import MariaDB
from tests.e2e.postgres import Postgres

Key = tuple[str | None, ...]
# The columns that are not NULL, as texts. A column that is added is NULL before.
Row = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Version:
    """What a row was from a time on. `since` is None for what was there at the start."""

    since: str | None
    row: Row | None


@dataclass(frozen=True)
class Table:
    """A table of the source."""

    name: str
    key: tuple[str, ...]
    types: Mapping[str, str]

    def row(self, texts: Mapping[str, str | None]) -> Row:
        """A row, with each value in the one form in which values are compared."""
        return frozenset(
            (name, _FORMS.get(self.types[name], str)(text))
            for name, text in texts.items()
            if text is not None and name in self.types
        )


def _seconds(text: str) -> str:
    # Debezium calculates seconds as a double: now and then a nanosecond is missing.
    return re.sub(r"([0-9.-]+)S$", lambda found: f"{Decimal(found[1]):.6f}S", text)


def _json(text: str) -> str:
    return json.dumps(json.loads(text))


def _list(text: str) -> str:
    """A list in JSON, or in PostgreSQL's form: {1,NULL,"a b"}."""
    if text.startswith("["):
        return json.dumps([each if each is None else str(each) for each in json.loads(text)])
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|([^,{}"]+)', text, re.DOTALL)
    return json.dumps(
        [
            None if plain == "NULL" else plain or re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
            for quoted, plain in found
        ]
    )


def _six_decimals(text: str) -> str:
    # As PostgreSQL rounds; + 0 makes -0 to 0.
    return f"{(Decimal(text).quantize(Decimal('1e-6'), ROUND_HALF_UP) + 0).normalize():f}"


def _milliseconds(text: str) -> str:
    seconds, _, fraction = text.partition(".")
    return f"{seconds}.{fraction[:3].ljust(3, '0')}"


_FORMS: dict[str, Callable[[str], str]] = {
    "real": lambda text: str(float(text)),
    "double precision": lambda text: str(float(text)),
    # Of 32 bits. In a snapshot, MariaDB's have six digits.
    "float": lambda text: f"{struct.unpack('f', struct.pack('f', float(text)))[0]:.6g}",
    "scaled": lambda text: f"{Decimal(text):f}",
    "numeric": lambda text: f"{Decimal(text).normalize():f}",
    "interval": _seconds,
    "time without time zone": lambda text: text if "." in text else f"{text}.000000",
    "ARRAY": _json,
    # As AWS DMS writes them: see dms.py.
    "rounded": _six_decimals,
    "clock": _milliseconds,
    "list": _list,
    "float4": lambda text: str(struct.unpack("f", struct.pack("f", float(text)))[0]),
}


# --- what triggers wrote --------------------------------------------------------------------------


def states(changes: Iterable[Any], table: Table, start: int) -> dict[Key, list[Version]]:
    """Each key's distinct states in these changes, in their order, since the number `start`.

    The first one is what was there at the start, if the key was. A state None: the row is gone.
    Of several states with the same time, the last one counts: in PostgreSQL those of a transaction,
    in MariaDB those of a second.
    """
    found: dict[Key, list[Version]] = defaultdict(list)
    for change in changes:
        since = None if change["id"] <= start else change["at"]
        row = change["image"] and table.row(change["image"])
        # A truncate deletes every row that is there.
        keys = (
            [tuple(change["key"])]
            if change["key"]
            else [key for key, of_key in found.items() if of_key[-1].row is not None]
        )
        for key in keys:
            found[key].append(Version(since, row))
    distinct = {key: _distinct(_in_effect(of_key)) for key, of_key in found.items()}
    # A key that came and went at one time was never there for others.
    return {key: of_key for key, of_key in distinct.items() if of_key}


def _in_effect(states: list[Version]) -> list[Version]:
    """The last state of each time. A state is in effect no later than the one that follows it."""
    kept: list[Version] = []
    for state in reversed(states):
        follower = kept[-1].since if kept else None
        since = state.since and min(state.since, follower or state.since)
        if not kept or since != follower:
            kept.append(Version(since, state.row))
    return kept[::-1]


def _distinct(states: list[Version]) -> list[Version]:
    kept: list[Version] = []
    for state in states:
        if state.row != (kept[-1].row if kept else None):
            kept.append(state)
    return kept


# --- the source -----------------------------------------------------------------------------------


def tables(source: Postgres) -> dict[str, Table]:
    """The tables whose truth the source keeps."""
    found = {}
    listed = rows(
        source,
        """
        select json_build_object('table', table_name, 'types', json_object_agg(
            -- Only a numeric without a scale loses zeros.
            column_name, case when numeric_scale is not null and data_type = 'numeric'
                then 'scaled' else data_type end), 'key', (
            select json_agg(attname order by attnum)
            from pg_index join pg_attribute on attrelid = indrelid and attnum = any(indkey)
            where indisprimary and indrelid = format('ticketing.%I', table_name)::regclass))
        from information_schema.columns
        where table_schema = 'ticketing' and table_name <> 'mark'
        group by table_name order by table_name
        """,
    )
    for row in listed:
        found[row["table"]] = Table(row["table"], tuple(row["key"]), row["types"])
    return found


def content(source: Postgres, table: Table) -> dict[Key, Row]:
    """The rows that the table has now."""
    there = rows(source, f"select audit.told(it) from ticketing.{table.name} as it")
    return {tuple(row[name] for name in table.key): table.row(row) for row in there}


def last_change(source: Postgres | MariaDB) -> int:
    """The number of the last change that the triggers wrote."""
    return int(source.sql("select coalesce(max(change_id), 0) from audit.change"))


def versions(source: Postgres, table: Table, start: int) -> dict[Key, list[Version]]:
    """Each key's distinct states, at the ends of transactions, since the change number `start`."""
    changes = rows(
        source,
        f"""
        select json_build_object('id', change_id, 'key', key, 'image', image, 'at', to_char(
            pg_xact_commit_timestamp(xid), 'YYYY-MM-DD HH24:MI:SS.US'))
        from audit.change where of_table = '{table.name}' order by change_id
        """,
    )
    return states(changes, table, start)


def rows(source: Postgres | MariaDB, query: str) -> list[Any]:
    """The values of a query that gives JSON."""
    # JSON has no line ends, so each row is a line. (str.splitlines also splits at others.)
    return [json.loads(line) for line in source.sql(f"{query};").split("\n") if line]


# --- the lake -------------------------------------------------------------------------------------

_TOLD = {
    "timestamp": "date_format(`{0}`, 'yyyy-MM-dd HH:mm:ss.SSSSSS')",
    "timestamp_ntz": "date_format(`{0}`, 'yyyy-MM-dd HH:mm:ss.SSSSSS')",
    "binary": "base64(`{0}`)",
}


def _selected(spark: SparkSession, relation: str, table: Table) -> str:
    types = dict(spark.table(relation).dtypes)
    return ", ".join(
        f"{_TOLD.get(types[name], 'cast(`{0}` as string)').format(name)} as `{name}`"
        for name in table.types
        if name in types
    )


def shown_content(spark: SparkSession, relation: str, table: Table) -> dict[Key, Row]:
    """The rows of a current table."""
    query = f"select {_selected(spark, relation, table)} from {relation}"
    rows = [row.asDict() for row in spark.sql(query).collect()]
    found = {tuple(row[name] for name in table.key): table.row(row) for row in rows}
    assert len(found) == len(rows), f"{relation} has a key twice"
    return found


def shown_versions(spark: SparkSession, relation: str, table: Table) -> dict[Key, list[Version]]:
    """The versions of a history table, in the form of `versions`: a gap is a state None."""
    times = ", ".join(
        f"date_format({name}, 'yyyy-MM-dd HH:mm:ss.SSSSSS') as {name}"
        for name in ("valid_from", "valid_to")
    )
    query = (
        f"select {_selected(spark, relation, table)}, {times}, is_current, version_number "
        f"from {relation} order by version_number"
    )
    found: dict[Key, list[Version]] = defaultdict(list)
    ends: dict[Key, str | None] = {}
    for each in spark.sql(query).collect():
        row = each.asDict()
        since, end, is_current, number = (
            row.pop(name) for name in ("valid_from", "valid_to", "is_current", "version_number")
        )
        key = tuple(row[name] for name in table.key)
        states = found[key]
        about = f"{relation} {key}: version {number}"
        assert is_current == (end is None), f"{about} is current, or is not, against valid_to"
        assert end is None or since < end, f"{about} ends at {end}, before it starts at {since}"
        if states:
            before = ends[key]
            assert before is not None and before <= since, f"{about} overlaps the one before"
            if before < since:
                states.append(Version(before, None))
        states.append(Version(since, table.row(row)))
        ends[key] = end
    for key, end in ends.items():
        if end is not None:
            found[key].append(Version(end, None))
    return dict(found)


# --- differences ----------------------------------------------------------------------------------


def difference(expected: Row | None, found: Row | None) -> str:
    """The columns of two rows that differ, or which row is missing."""
    if expected is None or found is None:
        return "no row" if found is None else "a row that the source does not have"
    source, lake = dict(expected), dict(found)
    return "; ".join(
        f"{name}: {_short(source.get(name))} in the source, {_short(lake.get(name))} in the lake"
        for name in sorted(source.keys() | lake.keys())
        if source.get(name) != lake.get(name)
    )


def _short(text: str | None) -> str:
    return "NULL" if text is None else ascii(text if len(text) < 80 else f"{text[:77]}...")


def of_contents(expected: Mapping[Key, Row], found: Mapping[Key, Row]) -> list[str]:
    """Every row that differs, as a line."""
    return [
        f"{key}: {difference(expected.get(key), found.get(key))}"
        for key in sorted(expected.keys() | found.keys(), key=str)
        if expected.get(key) != found.get(key)
    ]


def of_versions(
    expected: Mapping[Key, list[Version]],
    found: Mapping[Key, list[Version]],
    snapshot: tuple[str, str],
) -> list[str]:
    """Every key whose versions differ, as lines. `snapshot`: when the source was read at first.

    A snapshot's rows have the time at which they were read, which only the producer knows: any time
    in `snapshot` is right. A row that changed before it was read starts with that change.
    """
    lines = []
    for key in sorted(expected.keys() | found.keys(), key=str):
        wanted, shown = list(expected.get(key, [])), list(found.get(key, []))
        if wanted and wanted[0].since is None:
            first = wanted.pop(0)
            is_read = shown and snapshot[0] <= str(shown[0].since) <= snapshot[1]
            if is_read and shown[0].row == first.row and shown[0] not in wanted:
                shown.pop(0)
            elif not wanted or str(wanted[0].since) > snapshot[1]:
                lines.append(f"{key}: the version of the snapshot is missing")
                continue
            elif wanted[0].row is None:
                # Deleted before it was read: never seen.
                wanted.pop(0)
        if wanted == shown:
            continue
        at = next(
            (
                at
                for at, (one, other) in enumerate(zip(wanted, shown, strict=False))
                if one != other
            ),
            min(len(wanted), len(shown)),
        )
        one = wanted[at] if at < len(wanted) else Version(None, None)
        other = shown[at] if at < len(shown) else Version(None, None)
        lines.append(
            f"{key}, version {at + 1} of {len(wanted)} (the lake has {len(shown)}): "
            f"since {one.since} in the source, {other.since} in the lake: "
            f"{difference(one.row, other.row)}"
        )
    return lines
