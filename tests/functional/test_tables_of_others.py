"""A table that somebody else appends to becomes a change log: `changes_from_table`."""

import pytest

from tests.project import Project
from tidemark.runs import run
from tidemark.scaffold import add

pytestmark = pytest.mark.functional

DECLARED = """
sources:
  - name: bronze
    schema: bronze
    tables:
      - name: orders
        config:
          meta:
            feed:
              format: table
              key: id
              sequence: seq
              batch: ingested_at
              changed_at: at
              delete_when: op = 'd'
              initial_when: op = 'r'
        columns:
          - {name: id, data_type: int}
          - {name: name, data_type: string}
          - {name: amount, data_type: 'decimal(9, 2)'}
          - {name: seq, data_type: bigint}
"""
COLUMNS = "op string, id bigint, name string, amount string, seq bigint, at timestamp"


@pytest.fixture
def bronze(project: Project) -> Project:
    project.spark.sql("create schema if not exists bronze")
    project.spark.sql("drop table if exists bronze.orders")
    project.spark.sql(
        f"create table bronze.orders ({COLUMNS}, ingested_at timestamp, noise string) using delta"
    )
    project.write("models/staging/bronze/_bronze__sources.yml", DECLARED)
    add.write_models(project.folder, ["bronze"])
    return project


def append(project: Project, batch: str, *rows: str) -> None:
    """Rows such as `u 1 one 1.00 5 01`: operation, id, name, amount, sequence, day of January."""
    values = []
    for row in rows:
        op, key, name, amount, seq, day = row.split()
        values.append(
            f"('{op}', {key}, '{name}', '{amount}', {seq}, timestamp'2024-01-{day}', "
            f"timestamp'{batch}', 'x')"
        )
    project.spark.sql(f"insert into bronze.orders values {', '.join(values)}")


def test_current_and_history_follow_the_table_until_a_row_does_not_fit(bronze: Project) -> None:
    append(bronze, "2024-02-01", "r 1 one 1.00 0 01", "r 2 two 2.00 0 01", "r 3 three 3.00 0 01")
    with bronze.here():
        run()
    append(
        bronze,
        "2024-02-02",
        *("u 1 uno 1.00 5 05", "u 1 eins 1.50 6 06", "d 2 - 0 7 07", "i 4 four 4.00 8 08"),
    )
    with bronze.here():
        run()
    # A late change, a copy of a known one, a change of a key that is gone.
    append(bronze, "2024-02-03", "u 3 trois 3.00 3 03", "u 1 uno 1.00 5 05", "i 2 zwei 2.00 9 09")
    with bronze.here():
        run()
    columns = ["id", "name", "cast(amount as string)"]
    expected = [
        (1, "eins", "1.50"),
        (2, "zwei", "2.00"),
        (3, "trois", "3.00"),
        (4, "four", "4.00"),
    ]
    assert bronze.rows("current.cur_bronze__orders", columns) == expected
    history = ["id", "version_number", "name", "day(valid_from)", "day(valid_to)"]
    found = bronze.rows("history.hist_bronze__orders", history, "1, 2")
    assert found == [
        (1, 1, "one", 1, 5),
        (1, 2, "uno", 5, 6),
        (1, 3, "eins", 6, None),
        (2, 1, "two", 1, 7),
        (2, 2, "zwei", 9, None),
        (3, 1, "three", 1, 3),
        (3, 2, "trois", 3, None),
        (4, 1, "four", 8, None),
    ]
    # From nothing, the same.
    bronze.build("--full-refresh", "--select", "path:models/current", "path:models/history")
    assert bronze.rows("current.cur_bronze__orders", columns) == expected
    assert bronze.rows("history.hist_bronze__orders", history, "1, 2") == found
    # An error, which writes nothing. The other table is built.
    append(bronze, "2024-02-04", "u 4 vier much 21 21")
    add_what_fits_where_it_is_read(bronze)
    with pytest.raises(AssertionError, match="the column amount has the value much"):
        bronze.build()
    assert bronze.rows("current.cur_bronze__orders", columns) == expected
    assert bronze.rows("history.hist_bronze__orders", history, "1, 2") == found

    assert bronze.rows("current.cur_bronze__partial_orders", columns) == [(1, "uno", "1.00")]
    history_of_others = "history.hist_bronze__partial_orders"
    assert bronze.rows(history_of_others, columns, "1, 2") == [
        (1, "one", "1.00"),
        (1, "uno", "1.00"),
        (2, "two", "2.00"),
    ]


def add_what_fits_where_it_is_read(bronze: Project) -> None:
    """A table with values that would not fit, in changes that do not have them."""
    partial = DECLARED.replace(
        "sequence: seq", "sequence: seq\n              unavailable_value: '?'"
    )
    partial = partial.replace("orders", "partial_orders").partition("    tables:\n")[2]
    bronze.write("models/staging/bronze/_bronze__sources.yml", DECLARED + partial)
    bronze.spark.sql("create table bronze.partial_orders like bronze.orders using delta")
    # Such names are Tidemark's in a log; in this table they are somebody else's.
    bronze.spark.sql("alter table bronze.partial_orders add columns (_op string, _load_id string)")
    bronze.spark.sql(
        "insert into bronze.partial_orders select v.*, 'x', 'y', 'z' from values "
        "('i', 1, 'one', '1.00', 1, timestamp'2024-01-01', timestamp'2024-02-01'), "
        "('i', 2, 'two', '2.00', 2, timestamp'2024-01-02', timestamp'2024-02-01'), "
        "('u', 1, 'uno', '?', 3, timestamp'2024-01-03', timestamp'2024-02-01'), "
        "('d', 2, '-', 'none', 4, timestamp'2024-01-04', timestamp'2024-02-01') as v"
    )
    add.write_models(bronze.folder, ["bronze"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("instead", "said"),
    [
        (("batch: ingested_at", "batch: loaded"), "has no column loaded. It has op, id, name"),
        (("              batch: ingested_at\n", ""), "has no batch. Name the column that grows"),
        (("              sequence: seq\n", ""), "has no sequence. Name the column or columns"),
        (("changed_at: at", "timestamp_column: at"), "'timestamp_column' is unknown for format"),
        (("format: table", "format: dms"), "the feed's setting 'batch' is unknown"),
    ],
)
def test_a_wrong_declaration_is_a_sentence(
    bronze: Project, instead: tuple[str, str], said: str
) -> None:
    bronze.write("models/staging/bronze/_bronze__sources.yml", DECLARED.replace(*instead))
    result = bronze.dbt("run", "--select", "stg_bronze__orders")
    messages = [str(result.exception)]
    messages += [str(each.message) for each in getattr(result.result, "results", [])]
    assert any(said in message for message in messages), messages
