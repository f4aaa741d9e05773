"""AWS DMS's own counts against the change logs: discover, land, build, verify."""

from typing import Any

import pytest

from tests import dms_tasks
from tests.aws_server import AwsServer
from tests.dms_tasks import counted, include, transform
from tests.project import Project
from tidemark import cli

pytestmark = [pytest.mark.functional, pytest.mark.slow]

LOADED, CHANGED = "2026-04-01 10:00:00.000001", "2026-04-01 13:40:19.145400"
SETTINGS = {
    **{"BucketName": "replica", "AddColumnName": True, "IncludeOpForFullLoad": True},
    "TimestampColumnName": "dms_ts",
}
RULES = [
    include("Vsrc", "%"),
    transform("schema", "rename", "vshop", where="Vsrc"),
    transform(
        *("table", "define-primary-key"),
        where="Vsrc.orders",
        more={"primary-key-def": {"columns": ["order_no"]}},
    ),
    transform(
        *("column", "add-before-image-columns"),
        where="Vsrc.orders",
        more={"before-image-def": {"column-prefix": "BI_", "column-filter": "pk-only"}},
    ),
]


def test_the_logs_have_what_aws_dms_counted_or_verify_says_why(
    project: Project, aws: AwsServer, capfd: pytest.CaptureFixture[str]
) -> None:
    def tidemark(*arguments: str, code: int = 0) -> list[str]:
        capfd.readouterr()
        with project.here():
            assert cli.main(arguments) == code, capfd.readouterr()
        told = capfd.readouterr()
        return [*told.out.splitlines(), *told.err.splitlines()]

    def verify(code: int = 0) -> list[str]:
        return [
            " ".join(line.split()) for line in tidemark("verify", "--dms-task", "vtask", code=code)
        ]

    def land(path: str, head: str, *records: str) -> None:
        project.land(f"vshop/{path}", "\n".join([f"Op,dms_ts,{head}", *records, ""]))

    orders = counted("Vsrc", "orders", FullLoadRows=3, Inserts=1, Updates=2, Deletes=1)
    items = counted("Vsrc", "items", FullLoadRows=2)
    arn = dms_tasks.create(aws, "vtask", RULES, SETTINGS, statistics=[orders, items])
    land(
        "orders/LOAD00000001.csv",
        "order_no,price,BI_order_no",
        *(f"I,{LOADED},{number},1.5{number}," for number in (1, 2, 3)),
    )
    land(
        "orders/2026/04/01/20260401-134119166.csv",
        "order_no,price,BI_order_no",
        f"I,{CHANGED},4,1.50,",
        f"U,{CHANGED},4,1.60,4",
        # The key itself changes: in the log a delete and an insert, for AWS DMS an update.
        f"U,{CHANGED},5,1.60,4",
        f"D,{CHANGED},1,1.51,1",
    )
    land("items/LOAD00000001.csv", "id,name", f"I,{LOADED},1,a", f"I,{LOADED},2,b")

    # Nothing is edited by hand between the task's description and the tables.
    assert "vshop.orders  dms             2          2  order_no" in tidemark(
        "discover", "--dms-task", arn
    )
    tidemark("add", "vshop")
    assert verify(code=1)[2] == "vshop.items full load 2 0 -2"
    project.build()
    assert project.rows("current.cur_vshop__orders", ["order_no", "cast(price as string)"]) == [
        (2, "1.52"),
        (3, "1.53"),
        (5, "1.60"),
    ]
    assert project.rows("current.cur_vshop__items", ["id", "name"]) == [(1, "a"), (2, "b")]
    assert verify() == [
        "table rows AWS DMS log difference",
        "------------ --------- --------- ----- ------------",
        *("vshop.items full load 2 2", "vshop.items inserts 0 0", "vshop.items updates 0 0"),
        *("vshop.items deletes 0 0", "vshop.orders full load 3 3", "vshop.orders inserts 1 1"),
        *("vshop.orders updates 2 2", "vshop.orders deletes 1 1"),
        "All 2 tables match the counts of AWS DMS.",
    ]

    # A file comes again as it was, another with a row that cannot be read; a third is on its way.
    first = project.landing / "vshop/orders/2026/04/01/20260401-134119166.csv"
    project.land("vshop/orders/2026/04/01/20260401-134119166.csv", first.read_text(), modified=9e8)
    land("items/20260401-150000000.csv", "id,name", f"U,{CHANGED},1,x", f"U,{CHANGED},,y")
    tidemark("land")
    more = [
        {**items, "Updates": 3, "FullLoadErrorRows": 4},
        {**orders, "FullLoadRows": 2},
        counted("Vsrc", "unknown", FullLoadRows=1, TableState="Table error"),
    ]
    dms_tasks.count(arn, *more)
    project.add("vshop.own", {"id": "int"}, "id")
    told = verify(code=1)
    numbers = [line for line in told if line.startswith("vshop.") and ": " not in line]
    assert "vshop.items updates 3 1 -2" in numbers
    assert "vshop.orders full load 2 3 1" in numbers
    assert "vshop.orders inserts 1 1" in numbers
    assert "vshop.orders updates 2 2" in numbers
    remarks = [line for line in told if ": " in line]
    assert remarks == [
        "vshop.items: AWS DMS could not load 4 of its rows",
        "vshop.items: 1 row has an open dead letter. Fix the cause, then run: tidemark replay",
        "vshop.items: the log has fewer rows: files may not have landed yet (tidemark land), or "
        "AWS DMS may not have written them yet (CdcMaxBatchInterval, CdcMinFileSize)",
        "vshop.orders: the log has more rows: AWS DMS resets its counts when a task is restarted "
        "or a table is reloaded, and writes some changes twice when it resumes",
        "Vsrc.unknown: no enabled table is declared at vshop/unknown. Run: tidemark discover "
        "--dms-task vtask",
        "vshop.own: the task has no such table: another task or a rule may write it",
        "tidemark: 4 of 4 tables differ from what the task vtask counted: vshop.items, "
        "vshop.orders, Vsrc.unknown, vshop.own.",
    ]


def test_a_reload_counts_alone_and_odd_operations_count_together(
    project: Project, aws: AwsServer, capfd: pytest.CaptureFixture[str]
) -> None:
    def verify(code: int = 0) -> list[str]:
        capfd.readouterr()
        with project.here():
            assert cli.main(["verify", "--dms-task", "vodd"]) == code
        return [" ".join(line.split()) for line in capfd.readouterr().out.splitlines()]

    def lines(*ids: int) -> str:
        return "".join(f"I,{number},false\n" for number in ids)

    rules = [include("vodd", "%")]
    arn = dms_tasks.create(aws, "vodd", rules, {**SETTINGS, "AddColumnName": False}, statistics=[])
    with project.here():
        assert cli.main(["verify", "--dms-task", "vodd"]) == 1
    assert "it has not been started" in capfd.readouterr().err
    columns = {"id": "int", "gone": "boolean"}
    # The files' times are fixed, and later than many clocks.
    project.add("vodd.t", columns, "id", delete_when="gone", op_in_load=True, ahead=None)
    project.land("vodd/t/LOAD00000001.csv", lines(1, 2, 3, 4), modified=1.7e9)
    project.land("vodd/t/LOAD00000002.csv", lines(5, 6), modified=1.7e9)
    project.land("vodd/t/20260401-134119166.csv", "U,1,true\nI,9,false\n")

    def land() -> None:
        with project.here():
            assert cli.main(["land"]) == 0

    land()
    counts: dict[str, Any] = {"Inserts": 1, "Updates": 1}
    dms_tasks.count(arn, counted("vodd", "t", FullLoadRows=6, **counts))
    assert verify()[2:4] == ["vodd.t full load 6 6", "vodd.t changes 2 2"]
    # The reload has fewer rows, and its second file comes later.
    project.land("vodd/t/LOAD00000001.csv", lines(7, 8), modified=1.8e9)
    land()
    project.land("vodd/t/LOAD00000003.csv", lines(10), modified=1.81e9)
    land()
    dms_tasks.count(arn, counted("vodd", "t", FullLoadRows=3, **counts))
    assert verify()[2:4] == ["vodd.t full load 3 3", "vodd.t changes 2 2"]
