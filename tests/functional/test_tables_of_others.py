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


ODD = """
  - name: odd
    schema: bronze
    tables:
      - name: docs
        config:
          meta:
            feed:
              format: table
              key: [doc_id, version]
              sequence: seq
              batch: n
              changed_at: at
              unavailable_value: '?'
        columns:
          - {name: doc_id, data_type: int}
          - {name: version, data_type: int}
          - {name: qty, data_type: int}
          - {name: is_deleted, data_type: boolean}
          - {name: seq, data_type: int}
"""
SHOWN = "show_deletes=true, column_names={'is_deleted': 'was_deleted'})"


def test_what_a_table_of_others_may_contain(project: Project) -> None:
    spark = project.spark
    spark.sql("create schema if not exists bronze")
    columns = "doc_id int, version int, qty int, is_deleted boolean, seq int, at timestamp, n int"
    spark.sql(f"create or replace table bronze.docs ({columns}) using delta")
    project.write("models/staging/odd/_odd__sources.yml", f"sources:{ODD}")
    add.write_models(project.folder, ["odd"])
    model = project.folder / "models/history/odd/hist_odd__docs.sql"
    with_deletes = model.read_text().replace("'docs'),\n)", f"'docs'), {SHOWN}")
    assert SHOWN in with_deletes
    model.write_text(with_deletes)

    def append(*rows: str) -> None:
        spark.sql(f"insert into bronze.docs values {', '.join(rows)}")

    def refused() -> str:
        results = project.dbt("build").result.results
        return " ".join(each.message or "" for each in results)

    # The first batch is 0, and a build was there before it. A NULL is a value: only texts are '?'.
    project.build("--empty")
    append("(1, 1, 5, false, 1, timestamp'2024-01-01', 0)")
    project.build()
    append("(1, 1, null, true, 2, timestamp'2024-01-02', 1)")
    project.build()
    rows = project.rows("current.cur_odd__docs", ["doc_id", "version", "qty", "is_deleted"])
    assert rows == [(1, 1, None, True)]
    history = ["version", "qty", "is_deleted", "was_deleted", "version_number"]
    expected = [(1, 5, False, False, 1), (1, None, True, False, 2)]
    assert project.rows("history.hist_odd__docs", history, "version_number") == expected

    # What would be lost without a word stops the build, also after the first one.
    for row, lacks in {
        "(null, 1, 1, false, 3, timestamp'2024-01-03', 2)": "a key: its column doc_id or version",
        "(1, 1, 1, false, null, timestamp'2024-01-03', 2)": "a sequence: its column seq",
        "(1, 1, 1, false, 3, null, 2)": "a time: its column at",
    }.items():
        append(row)
        assert f"bronze.docs has a row without {lacks} is NULL." in refused()
        spark.sql("delete from bronze.docs where n = 2")
    project.build()
    sources = project.folder / "models/staging/odd/_odd__sources.yml"
    sources.write_text(sources.read_text().replace("              changed_at: at\n", ""))
    append("(1, 1, 1, false, 3, null, 3)")
    assert "A history needs the time of each change. Give the feed odd.docs changed_at" in refused()
    assert project.rows("history.hist_odd__docs", history, "version_number") == expected
    assert project.rows("current.cur_odd__docs", ["qty"]) == [(1,)]
