"""Rule 27: after an erasure nothing of the subject is left, and nothing brings it back."""

import gzip
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.project import Project
from tidemark import cli, erase, paths

pytestmark = pytest.mark.functional

# Column: type, and its tags.
TABLES: dict[str, tuple[Any, dict[str, tuple[str, dict[str, str]]]]] = {
    "people": (
        "id",
        {
            "id": ("bigint", {"subject": "customer"}),
            "name": ("string", {"personal": "partial"}),
            "seq": ("bigint", {}),
        },
    ),
    "orders": (
        "order_id",
        {
            "order_id": ("int", {}),
            "customer_id": ("decimal(12,2)", {"subject": "customer"}),
            "note": ("string", {"personal": "null"}),
            # Another subject, which is never erased.
            "shop": ("int", {"subject": "shop"}),
            "seq": ("bigint", {}),
        },
    ),
    "items": (
        ["order_id", "line"],
        {
            "order_id": ("int", {"subject": "gdpr.orders.order_id"}),
            "line": ("int", {}),
            "engraving": ("string", {}),
            "seq": ("bigint", {}),
        },
    ),
    "calls": (
        "call_id",
        {
            "call_id": ("int", {}),
            "caller": ("string", {"subject": "customer", "on_erase": "mask"}),
            "phone": ("string", {"personal": "hash"}),
            "minutes": ("int", {}),
            "seq": ("bigint", {}),
        },
    ),
    "pets": (
        "pet_id",
        {
            "pet_id": ("int", {}),
            "owner": ("bigint", {"subject": "customer"}),
            "name": ("string", {}),
            "seq": ("bigint", {}),
        },
    ),
}
# One file has the changes of both.
IN_TRANSACTIONS = ("people", "pets")
# Customer 42 is erased. Order 7 goes from 42 to 43; the delete of order 9 has only its key.
FILES = {
    # A load has no column Op.
    "people/LOAD00000001": ["42,Zebulon,0", "45,Old,0"],
    "people/20240101-100000000": ["I,42,Zebulon,1", "I,43,Bob,1", "I,44,Quentin,1", "I,46,Ann,1"],
    "people/20240102-100000000": ["U,42,Zebulonia,2", "U,43,Bobby,2", "U,45,New,2"],
    "orders/20240101-100000000": [
        "I,7,42,for Zebulon,5,1",
        "I,8,42,secretnote,5,1",
        "I,9,42,secretnote9,5,1",
        "I,10,43,plain,5,1",
        "I,11,44,for Quentin,5,1",
    ],
    "orders/20240102-100000000": [
        "U,7,43,for Bob,5,2",
        "D,9,,,5,2",
        "I,12,43,x,5,2",
        "I,42,43,y,5,2",
    ],
    "items/20240101-100000000": [
        "I,7,1,Kate,1",
        "I,8,1,Zebulon forever,1",
        "I,9,1,Zebulon again,1",
        "I,10,1,Bob,1",
        "I,11,1,Quentin forever,1",
    ],
    "calls/20240101-100000000": [
        "I,1,42,555-0142,3,1",
        "I,2,43,555-0143,4,1",
        "I,3,44,555-0144,5,1",
    ],
    # An erased row that names nobody.
    "calls/20240102-100000000": ["U,1,,555-0142,9,2"],
    # The refused pet is of 43.
    "tx/CDC_TXN-20240102120000000": [
        "U,people,gdpr,42,Zebulonius,3",
        "I,pets,gdpr,x1,43,Rex,1",
        "I,pets,gdpr,2,44,Tom,1",
    ],
    # Refused: 42's and 43's.
    "orders/20240103-100000000": ["I,x13,42,Zebulon's thirteenth,5,3"],
    "orders/20240104-100000000": ["I,x14,43,Bob's fourteenth,5,3"],
}
LATE = {
    "people/20240105-100000000": ["U,42,Zebulon late,9", "U,43,Bobby,9"],
    "orders/20240105-100000000": [
        "I,8,43,the key again,5,10",
        "U,8,42,secretnote late,5,9",
        "D,9,,,5,9",
        "I,y15,42,Zebulon bad,5,9",
    ],
    "items/20240105-100000000": ["U,8,1,Zebulon late,9", "I,10,2,Bob too,9"],
    "calls/20240105-100000000": ["I,4,42,555-0142,9,9", "U,1,,555-0142,8,8"],
}
STORED = "dbt_test__audit.people_have_no_name"
# In a schema and with a name of its own, whose capitals Spark does not keep.
STORED_ELSEWHERE = "gdpr_checks.nameless_people"
SECRET = re.compile("zebulon|secretnote|555-0142", re.IGNORECASE)
CURRENT = ("cur_gdpr__people", "cur_gdpr__orders", "cur_gdpr__items", "cur_gdpr__calls")


def tidemark(project: Project, *arguments: str) -> int:
    with project.here():
        return cli.main(arguments)


def land(project: Project, files: dict[str, list[str]]) -> None:
    for path, lines in files.items():
        table = path.partition("/")[0]
        if table == "calls":
            names = ["Op", *TABLES[table][1]]
            values = [[value or None for value in line.split(",")] for line in lines]
            rows = [dict(zip(names, each, strict=True)) for each in values]
            file = project.land(f"gdpr/{path}.parquet", b"")
            pq.write_table(pa.Table.from_pylist(rows), file)
        elif table == "items":
            content = "\n".join([*lines, ""]).encode()
            project.land(f"gdpr/{path}.csv.gz", gzip.compress(content))
        else:
            project.land(f"gdpr/{path}.csv", "\n".join([*lines, ""]))


def texts(file: Path) -> Iterator[str]:
    """What can be read in a file: its bytes, unpacked, its values and its statistics."""
    content = file.read_bytes()
    yield content.decode("latin-1")
    if file.suffix == ".gz":
        yield gzip.decompress(content).decode("latin-1")
    if content[:4] == b"PAR1":
        read = pq.ParquetFile(file)
        yield str(read.metadata.metadata)
        yield str(read.read().to_pylist())
        for group in range(read.num_row_groups):
            yield str(read.metadata.row_group(group).to_dict())


def found(project: Project) -> set[str]:
    """The files of the lake and of the landing folder with a secret of the customer."""
    # What is older than the project has nothing of it.
    begin = (project.folder / "macros").lstat().st_mtime
    files = [
        Path(folder, name)
        for root in (paths.lake_dir(), project.landing)
        for folder, _, names in os.walk(root)
        for name in names
    ]
    return {
        str(file)
        for file in files
        if file.stat().st_mtime >= begin and any(SECRET.search(text) for text in texts(file))
    }


def tables(project: Project, *names: str) -> dict[str, list[tuple[Any, ...]]]:
    columns = "* except (_load_id, _order)"
    return {
        name: project.rows(
            f"{'history' if 'hist' in name else 'current'}.{name}", [columns], "1, 2, 3"
        )
        for name in names
    }


def test_an_erasure_leaves_nothing(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    """Of one table. The others here are of many, and slow."""
    project.add("forget.people", {"id": "int", "name": "string"}, "id")
    project.tag_subject("forget.people", "member")
    project.land("forget/people/20240101-100000000.csv", "I,1,Zebulon\nI,2,Zoe\n")
    assert tidemark(project, "land") == 0
    project.land("forget/people/20240102-100000000.csv", "U,1,Zebulonia\nU,2,Zora\n")
    assert tidemark(project, "run") == 0
    assert found(project)
    assert tidemark(project, "erase", "member", "--key", "1") == 0
    assert "The certificate is" in capfd.readouterr().out
    assert found(project) == set()
    assert project.rows("current.cur_forget__people", ["id", "name"]) == [(2, "Zora")]
    versions = project.rows("history.hist_forget__people", ["id", "name"], "name")
    assert versions == [(2, "Zoe"), (2, "Zora")]
    # A repeated file does not bring the subject back.
    project.land("forget/people/20240102-100000000.csv", "U,1,Zebulonia\nU,2,Zora\n")
    assert tidemark(project, "run") == 0
    assert project.rows("current.cur_forget__people", ["id", "name"]) == [(2, "Zora")]


@pytest.fixture(scope="module")
def gdpr(module_project: Callable[[], Project]) -> Project:
    project = module_project()
    for table, (key, columns) in TABLES.items():
        types = {name: data_type for name, (data_type, _) in columns.items()}
        more: dict[str, Any] = {"transactions_path": "gdpr/tx"} if table in IN_TRANSACTIONS else {}
        more |= {"ignore_null_updates": True} if table == "orders" else {}
        project.add(f"gdpr.{table}", types, key, sequence="seq", **more)
    for file in project.folder.glob("models/staging/gdpr/*.yml"):
        declared = yaml.safe_load(file.read_text())
        for table in declared.get("sources", [{}])[0].get("tables", []):
            for column in table["columns"]:
                tags = TABLES[table["name"]][1][column["name"]][1]
                column["config"] = {"meta": tags}
        file.write_text(yaml.safe_dump(declared, sort_keys=False))
    for table in ("people", "items", "calls", "pets"):
        (project.folder / f"models/history/gdpr/hist_gdpr__{table}.sql").unlink()
        for file in project.folder.glob(f"models/history/gdpr/*{table}*.yml"):
            file.unlink()
    # A full refresh builds neither of these anew.
    project.write(
        "models/marts/gdpr/order_names.sql",
        "{{ config(materialized='incremental', incremental_strategy='merge', "
        "unique_key='order_id', full_refresh=false) }} "
        "select o.order_id, o.order_id as id, o.customer_id, p.name, o.note "
        "from {{ ref('cur_gdpr__orders') }} as o "
        "left join {{ ref('cur_gdpr__people') }} as p on o.customer_id = p.id",
    )
    project.write(
        "snapshots/snap_gdpr__orders.sql",
        "{% snapshot snap_gdpr__orders %}{{ config(target_schema='snapshots', "
        "unique_key='order_id', strategy='check', check_cols=['note']) }} "
        "select order_id, customer_id, note from {{ ref('cur_gdpr__orders') }}{% endsnapshot %}",
    )
    # dbt keeps the rows that fail them.
    for name, place in (
        ("people_have_no_name", ""),
        ("nameless", ", schema='gdpr_checks', alias='Nameless_People'"),
    ):
        project.write(
            f"tests/{name}.sql",
            f"{{{{ config(store_failures=true, severity='warn'{place}) }}}} "
            "select id, name from {{ ref('cur_gdpr__people') }} where name is not null",
        )
    project.land("gdpr/calls/notes.txt", "what someone wrote")
    for days in (("LOAD", "0101"), ("0102", "0103", "0104", "CDC_")):
        land(
            project,
            {
                path: FILES[path]
                for path in FILES
                if path.split("/")[1].removeprefix("2024")[:4] in days
            },
        )
        assert tidemark(project, "run") == 0
    # That of a test that is gone.
    project.spark.sql(f"create table {STORED}_before as select * from {STORED}")
    return project


@pytest.mark.slow
def test_nothing_changes_before_someone_means_it(
    gdpr: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    before = {table: gdpr.commits(f"log_gdpr.{table}") for table in TABLES}
    for arguments, message in {
        (
            "client",
            "--key",
            "42",
        ): "No column has the tag `subject: client`. The subjects are: custo",
        ("customer", "--key", "41"): "No change log has a customer with the key 41. Nothing was",
        ("customer", "--key", " "): "A subject and its keys go together",
        ("customer",): "A subject and its keys go together",
    }.items():
        assert tidemark(gdpr, "erase", *arguments) == 1
        assert message in capfd.readouterr().err
    assert tidemark(gdpr, "erase") == 0
    assert "No erasure is unfinished" in capfd.readouterr().out
    assert tidemark(gdpr, "erase", "customer", "--key", "42", "--dry-run") == 0
    told = capfd.readouterr().out
    lines = {line.split()[0]: line.split()[1:] for line in told.splitlines() if "gdpr." in line}
    assert lines["gdpr.people"] == ["4", "0", "0"]
    assert lines["gdpr.orders"] == ["4", "0", "1"]
    assert lines["gdpr.items"] == ["2", "0", "0"]
    assert lines["gdpr.calls"] == ["0", "2", "0"]
    assert "1 key of gdpr.orders, which belonged to the subject and to someone else" in told
    assert "gdpr/calls/notes.txt: it is set aside" in told
    assert "snap_gdpr__orders" in told and "20240103-100000000.csv" in told
    assert f"rows of failed tests to drop: {STORED}, {STORED}_before, {STORED_ELSEWHERE}." in told
    assert {table: gdpr.commits(f"log_gdpr.{table}") for table in TABLES} == before
    assert found(gdpr)


class Killed(BaseException):
    pass


def begin_to_erase(project: Project, *keys: str) -> None:
    """An erasure that is killed before it builds."""

    def killed(*_: Any) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(erase._Erasure, "_build", killed)
        with pytest.raises(Killed):
            tidemark(project, "erase", "customer", *(f"--key={key}" for key in keys))


@pytest.mark.slow
def test_an_interrupted_erasure_goes_on_and_the_subject_stays_away(
    gdpr: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    # Then a deleted row stays in its file, which only a purge rewrites.
    vectors = "set tblproperties ('delta.enableDeletionVectors' = 'true')"
    gdpr.spark.sql(f"alter table snapshots.snap_gdpr__orders {vectors}")
    begin_to_erase(gdpr, "042", "46")
    assert found(gdpr)
    assert tidemark(gdpr, "status", "--check") == 1
    assert "was interrupted" in capfd.readouterr().err
    # In the transaction file, a record of another was refused.
    assert tidemark(gdpr, "erase") == 1
    in_transactions = gdpr.landing / "gdpr/tx/CDC_TXN-20240102120000000.csv"
    error = capfd.readouterr().err
    assert f"{in_transactions}: it has open dead letters of others" in error
    in_transactions.unlink()
    assert (46, "Ann") not in [row[:2] for row in tables(gdpr, CURRENT[0])[CURRENT[0]]]
    assert tidemark(gdpr, "erase") == 0
    told = capfd.readouterr().out

    assert found(gdpr) == set()
    assert "Bob's fourteenth" in str(gdpr.rows("tidemark.dead_letter", ["raw"], "1")), (
        "a dead letter of another"
    )
    expected: dict[str, list[tuple[Any, ...]]] = {
        "cur_gdpr__people": [(43, "Bobby"), (44, "Quentin"), (45, "New")],
        "cur_gdpr__orders": [
            (7, 43, "for Bob"),
            (10, 43, "plain"),
            (11, 44, "for Quentin"),
            (12, 43, "x"),
            (42, 43, "y"),
        ],
        "cur_gdpr__items": [(7, 1, "Kate"), (10, 1, "Bob"), (11, 1, "Quentin forever")],
        "cur_gdpr__calls": [(1, None, None), (2, "43", "555-0143"), (3, "44", "555-0144")],
    }
    for name, rows in expected.items():
        assert [row[: len(rows[0])] for row in tables(gdpr, name)[name]] == rows
    versions = gdpr.rows("history.hist_gdpr__orders", ["order_id", "customer_id"], "1, 2")
    assert versions == [(7, 43), (10, 43), (11, 44), (12, 43), (42, 43)]
    snapshot = gdpr.rows("snapshots.snap_gdpr__orders", ["order_id", "customer_id"], "1, 2")
    assert {customer for _, customer in snapshot} == {43, 44}
    names = gdpr.rows("marts.order_names", ["order_id", "name"], "1")
    assert names == [(7, "Bobby"), (10, "Bobby"), (11, "Quentin"), (12, "Bobby"), (42, "Bobby")]
    (certificate,) = (paths.lake_dir() / "erasures").iterdir()
    assert str(certificate) in told
    stated = json.loads(certificate.read_text())
    assert [each["deleted"] for each in stated["tables"] if each["table"] == "log_gdpr.orders"] == [
        4
    ]
    assert not stated["remains"] and len(stated["files"]) == 9
    assert gdpr.rows(STORED, ["id"], "id") == [(43,), (44,), (45,)], "the test has run again"
    assert f"{STORED}_before" in {each["table"] for each in stated["tables"] if each["dropped"]}
    assert not gdpr.spark.catalog.tableExists(f"{STORED}_before")
    assert any("1 key of gdpr.orders" in line for line in stated["left"])

    # Nothing is due, and the log has what the ledger says.
    assert tidemark(gdpr, "run") == 0
    assert "Nothing to build" in capfd.readouterr().out
    assert gdpr.dbt("test", "--select", "source:gdpr").success
    kept = tables(gdpr, *expected)
    # Repeated files, and later changes.
    land(gdpr, {path: lines for path, lines in FILES.items() if "people" in path})
    land(gdpr, LATE)
    capfd.readouterr()
    assert tidemark(gdpr, "run") == 0
    assert "gdpr.orders: 3 records of erased subjects did not land" in capfd.readouterr().out
    now = tables(gdpr, *expected)
    again = [row for row in now["cur_gdpr__orders"] if row[:3] == (8, 43, "the key again")]
    assert len(again) == 1
    now["cur_gdpr__orders"].remove(again[0])
    assert now["cur_gdpr__orders"] == kept["cur_gdpr__orders"]
    assert [row[:2] for row in now["cur_gdpr__people"]] == expected["cur_gdpr__people"]
    assert [row[:3] for row in now["cur_gdpr__items"]] == [
        *[row[:3] for row in kept["cur_gdpr__items"][:2]],
        (10, 2, "Bob too"),
        (11, 1, "Quentin forever"),
    ]
    calls = [row[:4] for row in now["cur_gdpr__calls"]]
    assert calls[-1] == (4, None, None, 9) and calls[0] == (1, None, None, 8)
    in_landing = {file for file in found(gdpr) if str(gdpr.landing) not in file}
    assert in_landing == set()


@pytest.mark.slow
def test_a_key_that_is_erased_can_be_erased_again(
    gdpr: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A late dead letter may have it. One run of an orchestrator erases twice.
    monkeypatch.setenv("TIDEMARK_RUN_ID", "dags/privacy")
    before = tables(gdpr, *CURRENT)
    for _ in range(2):
        assert tidemark(gdpr, "erase", "customer", "--key", "42") == 0
    assert tables(gdpr, *CURRENT) == before
    certificates = sorted((paths.lake_dir() / "erasures").glob("dags*"))
    assert [each.name for each in certificates] == ["dags_privacy-2.json", "dags_privacy.json"]


@pytest.mark.slow
def test_an_erasure_also_finishes_one_that_was_interrupted(gdpr: Project) -> None:
    before = {*(paths.lake_dir() / "erasures").iterdir()}
    begin_to_erase(gdpr, "44")
    assert tidemark(gdpr, "erase", "customer", "--key", "45") == 0
    both = {*(paths.lake_dir() / "erasures").iterdir()} - before
    assert [json.loads(each.read_text())["remains"] for each in both] == [[], []]
    assert {row[0] for row in tables(gdpr, CURRENT[0])[CURRENT[0]]} == {43}
