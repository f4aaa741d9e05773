"""What the lake must show of a MariaDB source, by the source itself: truth.py for MariaDB."""

from typing import Any

from tests.e2e import truth
from tests.e2e.mariadb import MariaDB
from tests.e2e.truth import Key, Row, Table, Version, rows

# The value of a column as Tidemark should show it. What is missing is the text of the value.
_TOLD = {
    "bit(1)": "if({0}, 'true', 'false')",
    "blob": "replace(to_base64({0}), '\n', '')",
    "date": "date_format({0}, '%Y-%m-%d')",
    "datetime": "date_format({0}, '%Y-%m-%d %H:%i:%s.%f')",
    "timestamp": (
        "date_format(convert_tz({0}, @@session.time_zone, '+00:00'), '%Y-%m-%d %H:%i:%s.%f')"
    ),
    # The text of a float has six digits.
    "float": "cast({0} as double)",
    "year": "{0} + 0",
}
_TOLD |= dict.fromkeys(("binary", "varbinary", "longblob"), _TOLD["blob"])
# Types whose values have the same form as those of a type of PostgreSQL. See truth.py.
_SAME_FORM = {
    "decimal": "scaled",
    "double": "double precision",
    "time": "time without time zone",
}


def tables(source: MariaDB) -> dict[str, Table]:
    """The tables whose truth the source keeps."""
    found: dict[str, Table] = {}
    for name, types, key in _columns(source):
        forms = {column: _SAME_FORM.get(each[0], each[0]) for column, each in types.items()}
        found[name] = Table(name, key, forms)
    return found


def watch(source: MariaDB) -> None:
    """Create the triggers that write the truth. Again after a change of columns."""
    statements = []
    for name, types, key in _columns(source):

        def write(
            row: str, image: bool, name: str = name, types: Any = types, key: Any = key
        ) -> str:
            keys = ", ".join(_told(f"{row}.`{column}`", types[column]) for column in key)
            told = _image(types, row) if image else "null"
            return (
                "insert into audit.change (of_table, changed_at, row_key, image) values "
                f"('{name}', utc_timestamp(), json_array({keys}), {told});"
            )

        changed = " or ".join(
            f"not binary old.`{column}` <=> binary new.`{column}`" for column in key
        )
        bodies = {
            "insert": write("new", True),
            "update": f"if {changed} then {write('old', False)} end if; {write('new', True)}",
            "delete": write("old", False),
        }
        statements += [
            f"create or replace trigger ticketing.{name}_{when} after {when} on ticketing.{name} "
            f"for each row begin {body} end//"
            for when, body in bodies.items()
        ]
    source.sql("delimiter //\n" + "\n".join(statements))


def content(source: MariaDB, table: Table) -> dict[Key, Row]:
    """The rows that the table has now."""
    types = next(types for name, types, _ in _columns(source) if name == table.name)
    there = rows(source, f"select {_image(types, 'it')} from ticketing.{table.name} as it")
    return {tuple(row[name] for name in table.key): table.row(row) for row in there}


def versions(source: MariaDB, table: Table, start: int) -> dict[Key, list[Version]]:
    """Each key's distinct states, at the ends of seconds, since the change number `start`."""
    changes = rows(
        source,
        "select json_object('id', change_id, 'at', concat(changed_at, '.000000'), "
        "'key', json_query(row_key, '$'), 'image', json_query(image, '$')) "
        f"from audit.change where of_table = '{table.name}' order by change_id",
    )
    return truth.states(changes, table, start)


def _columns(source: MariaDB) -> list[tuple[str, dict[str, tuple[str, str]], tuple[str, ...]]]:
    """The columns of each table, by name: the type, and the type with its length; and the key."""
    listed = rows(
        source,
        "select json_array(table_name, column_name, data_type, column_type, column_key = 'PRI') "
        "from information_schema.columns where table_schema = 'ticketing' and table_name <> 'mark' "
        "order by table_name, ordinal_position",
    )
    found: dict[str, dict[str, tuple[str, str]]] = {}
    keys: dict[str, tuple[str, ...]] = {}
    for table, column, kind, full, is_key in listed:
        found.setdefault(table, {})[column] = (kind, full)
        if is_key:
            keys[table] = (*keys.get(table, ()), column)
    return [(table, columns, keys[table]) for table, columns in found.items()]


def _image(types: dict[str, tuple[str, str]], row: str) -> str:
    told = [f"'{name}', {_told(f'{row}.`{name}`', each)}" for name, each in types.items()]
    return f"json_object({', '.join(told)})"


def _told(column: str, types: tuple[str, str]) -> str:
    kind, full = types
    text = _TOLD.get(full) or _TOLD.get(kind) or "{0}"
    if kind == "bit" and full != "bit(1)":
        # The lowest byte first.
        digits = (int(full[4:-1]) + 7) // 8 * 2
        text = f"to_base64(reverse(unhex(lpad(hex({{0}} + 0), {digits}, '0'))))"
    # A cast: JSON would be written as JSON, and numbers as numbers.
    return f"if({column} is null, null, cast({text.format(column)} as char))"
