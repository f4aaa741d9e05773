"""The main job, small: files in, tables out, and what a batch writes."""

import json
from pathlib import Path

import pytest
import yaml

from tests.functional.test_table_formats import use_iceberg
from tests.project import Project

pytestmark = pytest.mark.functional

COLUMNS = {"id": "int", "name": "string", "amount": "decimal(9, 2)"}


def test_changes_become_tables(project: Project) -> None:
    project.add("first.orders", COLUMNS, "id", loaded_at="2024-01-01")
    _is_large(project, rows=3)
    project.land("first/orders/LOAD00000001.csv", "1,one,1.00\n2,two,2.00\n3,three,3.00\n")
    project.build()
    project.land(
        "first/orders/20240102-100000000.csv",
        "U,1,uno,1.00\nU,1,eins,1.50\nD,2,,\nI,4,four,4.00\nU,3,three,a lot\nX,3,three,3\n",
    )
    jobs = _spark_jobs(project)
    project.build()
    assert _spark_jobs(project) - jobs <= 60
    assert project.rows("current.cur_first__orders", ["id", "name", "cast(amount as string)"]) == [
        (1, "eins", "1.50"),
        (3, "three", "3.00"),
        (4, "four", "4.00"),
    ]
    assert project.rows(
        "tidemark.dead_letter where source_name = 'first'",
        ["position", "column", "value", "reason"],
        "position",
    ) == [
        (5, "amount", "a lot", "not a decimal(9, 2)"),
        (6, "Op", "X", "unknown operation: expected one of I, U, D"),
    ]
    # A log is only appended to. What a model says of its own table counts.
    for table, marks in (
        ("log_first.orders", None),
        ("current.cur_first__orders", "true"),
        ("history.hist_first__orders", "false"),
    ):
        rows = project.spark.sql(f"show tblproperties {table}").collect()
        marked = [row.value for row in rows if row.key == "delta.enableDeletionVectors"]
        assert marked == ([marks] if marks else []), table


def test_changes_become_iceberg_tables(project: Project) -> None:
    """test_table_formats (slow) has all that such tables do."""
    use_iceberg(project)
    project.add("ice_first.orders", COLUMNS, "id", loaded_at="2024-01-01")
    for file, text in (
        ("LOAD00000001.csv", "1,one,1.00\n2,two,2.00\n3,three,3.00\n"),
        ("20240102-100000000.csv", "U,1,uno,1.00\nU,1,eins,1.50\nD,2,,\nI,4,four,4.00\n"),
    ):
        project.land(f"ice_first/orders/{file}", text)
        project.build()
    names = ["id", "name", "cast(amount as string)"]
    assert project.rows("iceberg.current.cur_ice_first__orders", names) == [
        (1, "eins", "1.50"),
        (3, "three", "3.00"),
        (4, "four", "4.00"),
    ]
    versions = project.rows(
        "iceberg.history.hist_ice_first__orders", ["id", "name", "is_current"], "id, version_number"
    )
    assert versions == [
        (1, "one", False),
        (1, "eins", True),
        (2, "two", False),
        (3, "three", True),
        (4, "four", True),
    ]


@pytest.mark.slow
def test_a_batch_writes_little_more_than_its_rows(project: Project, tmp_path: Path) -> None:
    columns = COLUMNS | {f"text_{nth}": "string" for nth in range(8)}
    project.add("written.orders", columns, "id", loaded_at="2024-01-01")
    _is_large(project, rows=1000)
    history = project.folder / "models/history/written/hist_written__orders.sql"
    with_vectors = "config(tblproperties={'delta.enableDeletionVectors': 'true'})"
    history.write_text(f"{{{{ {with_vectors} }}}}\n{history.read_text()}")

    def row(number: int, value: str) -> str:
        return ",".join([str(number), value, "1.00", *(f"{value} {n} {number}" for n in range(8))])

    project.land("written/orders/LOAD1.csv", "\n".join(row(n, "a") for n in range(20_000)) + "\n")
    project.build()
    changes = [f"U,{row(20 * n, 'b')}" for n in range(900)]
    changes += [f"D,{20 * n + 1},,{',' * 8}" for n in range(50)]
    changes += [f"I,{row(n, 'c')}" for n in range(30_000, 30_050)]
    project.land("written/orders/20240102-100000000.csv", "\n".join(changes) + "\n")
    project.build()
    for table, most in (("current.cur_written__orders", 1.5), ("history.hist_written__orders", 2)):
        rows = tmp_path / table
        is_new = f"_load_id = (select max(_load_id) from {table})"
        changed = project.spark.sql(f"select * from {table} where {is_new}")
        changed.coalesce(1).write.parquet(str(rows))
        of_rows = sum(file.stat().st_size for file in rows.glob("*.parquet"))
        written = _written(project, table)
        assert written <= most * of_rows, f"{table}: {written} bytes for {of_rows}"


def _written(project: Project, table: str) -> int:
    """The bytes of data and of deletion vectors that the last commit added."""
    (detail,) = project.spark.sql(f"describe detail `{table.replace('.', '`.`')}`").collect()
    log = Path(detail.location.removeprefix("file:")) / "_delta_log"
    actions = map(json.loads, max(log.glob("*.json")).read_text().splitlines())
    added = [action["add"] for action in actions if "add" in action]
    vectors = [add["deletionVector"]["sizeInBytes"] for add in added if add.get("deletionVector")]
    files = [add["size"] for add in added if not add.get("deletionVector")]
    return int(sum(files + vectors))


def _spark_jobs(project: Project) -> int:
    """How many there have been; a small build costs a tenth of a second of CPU for each."""
    return max(project.spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def _is_large(project: Project, rows: int) -> None:
    """A table counts as large from so many rows on; the history wants no deletion vectors."""
    file = project.folder / "dbt_project.yml"
    settings = yaml.safe_load(file.read_text())
    layers = settings["models"]["showcase"]
    for layer in ("current", "history"):
        layers[layer]["+deletion_vectors_from"] = rows
    layers["history"]["+tblproperties"] = {"delta.enableDeletionVectors": "false"}
    file.write_text(yaml.safe_dump(settings, sort_keys=False))
