"""The main job, small: files in, tables out."""

import pytest
import yaml

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
    tables = ["log_first.orders", "current.cur_first__orders", "history.hist_first__orders"]
    before = [project.commits(table) for table in tables]
    project.build()
    assert [project.commits(table) for table in tables] == before


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
