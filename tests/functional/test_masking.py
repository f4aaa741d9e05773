"""Views that show each role what it may see, of a table and of its history."""

import pytest
import yaml

from tests.project import Project

pytestmark = pytest.mark.functional

TAGS = {
    "email": {"personal": "partial", "shown_to": ["support"]},
    "phone": {"personal": "hash"},
    "born_on": {"personal": "null"},
}
TABLES = ("stg_msk__people", "cur_msk__people", "hist_msk__people", "people")


def view_of(project: Project, role: str, table: str) -> None:
    project.write(
        f"models/masked/{role}/{table}_for_{role}.sql",
        f"{{{{ config(materialized='view', schema='{role}') }}}}\n"
        f"{{{{ tidemark.masked(ref('{table}'), role='{role}') }}}}\n",
    )


def tag(project: Project) -> None:
    """Tag the columns of the source, and the one that a mart gives another name."""
    (file,) = project.folder.glob("models/staging/msk/*__sources.yml")
    declared = yaml.safe_load(file.read_text())
    for column in declared["sources"][0]["tables"][0]["columns"]:
        if column["name"] in TAGS:
            column["config"] = {"meta": TAGS[column["name"]]}
    file.write_text(yaml.safe_dump(declared, sort_keys=False))
    project.write(
        "models/marts/msk/people.sql",
        "select id, email, concat('+', phone) as called from {{ ref('cur_msk__people') }}",
    )
    called = {"name": "called", "config": {"meta": TAGS["phone"]}}
    mart = {"name": "people", "config": {"materialized": "table"}, "columns": [called]}
    project.write("models/marts/msk/_msk__marts.yml", yaml.safe_dump({"models": [mart]}))


def test_no_view_shows_what_its_role_must_not_see(project: Project) -> None:
    columns = {"id": "int", "email": "string", "phone": "string", "born_on": "date"}
    project.add("msk.people", columns, ["email", "id"])
    tag(project)
    for role in ("support", "analyst"):
        for table in TABLES:
            view_of(project, role, table)
    project.land(
        "msk/people/20240101-100000000.csv",
        "I,1,ann@x.example,555-1,1990-01-01\nI,3,bob@x.example,,\nI,4,cyd@x.example,,\n",
    )
    project.land(
        "msk/people/20240102-100000000.csv",
        "U,1,ann@x.example,555-3,1990-01-02\nD,3,bob@x.example,,\n",
    )
    project.build()
    assert project.rows(
        "analyst.cur_msk__people_for_analyst", ["id", "email", "born_on"], "id"
    ) == [
        (1, "a***", None),
        (4, "c***", None),
    ]
    assert project.rows("support.people_for_support", ["id", "email"], "id") == [
        (1, "ann@x.example"),
        (4, "cyd@x.example"),
    ]
    secret = ("ann@", "bob@", "cyd@", "555-", "1990")
    for table in TABLES:
        for role, hidden in (("analyst", secret), ("support", secret[3:])):
            rows = project.spark.sql(f"select * from {role}.{table}_for_{role}").toJSON().collect()
            assert rows
            assert not [row for row in rows for value in hidden if value in row]
    # The hash of the key is no way around its mask, and hashes of equal values are equal.
    versions = "analyst.hist_msk__people_for_analyst"
    assert project.rows(versions, ["count(*)", "count(version_key)"]) == [(4, 0)]
    same = f"{versions} as a join analyst.stg_msk__people_for_analyst as b using (phone)"
    assert project.rows(same, ["count(distinct phone)"]) == [(2,)]
    assert project.rows("support.hist_msk__people_for_support", ["count(version_key)"]) == [(4,)]
