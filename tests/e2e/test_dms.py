"""The lake equals a PostgreSQL database under load, by what AWS DMS would write (dms.py).

Four tasks read the same tables: `whole` with the settings that our documentation recommends, `text`
with CSV files, `bare` with AWS's defaults, and `txn` with files of transactions. Their capture
processes are killed and started again. More rounds and tables: as in test_postgres.py.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from tests import dms_tasks
from tests.aws_server import AwsServer
from tests.e2e import clients, dms, postgres, truth
from tests.e2e.dms import deliver, reach
from tests.e2e.stage import ROUNDS, SEED, Lake, Replica, now
from tests.e2e.test_postgres import ADD_COLUMN, SCHEMA
from tests.project import Project
from tidemark.variables import during

pytestmark = [pytest.mark.e2e, pytest.mark.functional, pytest.mark.slow]

SECONDS = int(os.environ.get("TIDEMARK_E2E_SECONDS", "15"))
RATE = int(os.environ.get("TIDEMARK_E2E_RATE", "30"))
ALL = ("customer", "event", "member", "order_line", "orders", "sample", "seat_hold", "venue")
# AWS DMS has no type for all digits of a `numeric`, nor for an `interval`.
REMOVED = ("event.length", "sample.a_numeric", "sample.an_interval")


def _tasks(which: str) -> list[dms.Task]:
    """All tasks and tables, or those whose changes are the hardest to follow."""
    has_all = which == "all"
    return [
        dms.Task(
            "whole",
            ALL if has_all else ("customer", "venue"),
            schema=f"{which}_whole",
            has_dates=True,
            removed=REMOVED,
        ),
        dms.Task(
            "text",
            ALL if has_all else ("member",),
            schema=f"{which}_text",
            parquet=False,
            null="<null>",
            op_in_load=False,
            removed=REMOVED,
            # After a restart, what is repeated has another change sequence.
            repeats_sequence=False,
        ),
        dms.Task(
            "bare",
            ("orders",) if has_all else (),
            schema=f"{which}_bare",
            parquet=False,
            has_names=False,
            op_in_load=False,
            has_time=False,
            has_sequence=False,
            has_images=False,
        ),
        dms.Task(
            "txn",
            ("orders", "order_line") if has_all else (),
            schema=f"{which}_txn",
            parquet=False,
            has_names=False,
            op_in_load=False,
            has_time=False,
            has_images=False,
            transactions_in="cdc",
        ),
    ]


# What a person must add to what `discover` writes, by table: settings of the feed, and types.
# docs/point_it_at_your_database.md says so.
_ORDERS = {
    "order_id": "bigint",
    "customer_id": "string",
    "state": "string",
    "total": "decimal(12,2)",
    "placed_at": "timestamp",
}
_LINES = {
    "order_id": "bigint",
    "line_no": "smallint",
    "event_id": "bigint",
    "seat": "string",
    "price": "decimal(12,2)",
}
_IN_ORDER = {"sequence": dms.SEQUENCE, "exclude_columns": dms.SEQUENCE}
BY_HAND: dict[str, Mapping[str, Any]] = {
    "whole/order_line": {"key": ["order_id", "line_no"]},
    "whole/venue": {"ignore_null_updates": ["seat_plan"]},
    "text/venue": {"ignore_null_updates": ["seat_plan"]},
    "text/customer": {"types": {"photo": "binary"}},
    "text/sample": {"types": {"a_bytea": "binary"}},
    "bare/orders": {"key": "order_id", "names": _ORDERS},
    "txn/orders": {
        "key": "order_id",
        "names": {**_ORDERS, dms.SEQUENCE: "string"},
        **_IN_ORDER,
    },
    "txn/order_line": {
        "key": ["order_id", "line_no"],
        "names": {**_LINES, dms.SEQUENCE: "string"},
        **_IN_ORDER,
    },
}


@pytest.fixture(scope="module", params=["hard", "all"])
def replica(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
    module_project: Callable[[], Project],
    _aws: AwsServer,
) -> Iterator[Replica]:
    postgres.require()
    with postgres.running() as source, ExitStack() as stack:
        folder = tmp_path_factory.mktemp("dms")
        tasks = [task for task in _tasks(request.param) if task.tables]
        captures = [dms.Capture(task, source, folder / "outbox") for task in tasks]
        for capture in captures:
            stack.callback(capture.stop)
        rounds = ROUNDS if request.param == "hard" else max(2, ROUNDS)
        yield _run(source, captures, module_project(), folder, _aws, rounds)


def _run(
    source: postgres.Postgres,
    captures: Sequence[dms.Capture],
    project: Project,
    folder: Path,
    aws: AwsServer,
    rounds: int,
) -> Replica:
    started = time.monotonic()
    replica = Replica({})
    lake = Lake(source, project, replica, lambda table: truth.content(source, table))
    source.sql(SCHEMA.read_text())
    # Its texts are large, and updates set them to NULL.
    source.sql("alter table ticketing.customer replica identity full")
    start = truth.last_change(source)
    tasks = [capture.task for capture in captures]
    for capture in captures:
        capture.prepare()
    read_from = now()
    for turn in range(1, rounds + 1):
        work = clients.working(source, folder, SECONDS, RATE, SEED + turn, without={"truncate"})
        with work as running:
            if turn == 1:
                for capture in captures:
                    capture.start()
                for capture in captures:
                    capture.wait(capture.has_changes, "changes of each table")
                replica.snapshot = (read_from, now())
                for capture in captures:
                    deliver(capture, project.landing)
                replica.discovered = declare(lake, aws, captures[1].task)
            with ThreadPoolExecutor() as pool:
                list(pool.map(dms.Capture.crash, captures))
            for capture in captures:
                capture.start()
            if turn == 1:
                source.sql(ADD_COLUMN)
                tables = truth.tables(source)
                replica.tables = {name: dms.captured(tables[name], REMOVED) for name in ALL}
            with clients.paused(source):
                reach(source, captures, turn)
                for capture in captures:
                    deliver(capture, project.landing)
                at_mark = lake.contents()
            replica.reports.append(lake.tidemark("run"))
            lake.compare(at_mark)
            clients.finish(running)
    reach(source, captures, rounds + 1)
    for capture in captures:
        deliver(capture, project.landing)
    replica.reports.append(lake.tidemark("run"))
    lake.compare(lake.contents())
    for name, table in replica.relations():
        # The others have no times of changes.
        if any(name.startswith(f"{task.schema}__") for task in tasks if task.has_time):
            replica.expected_versions[name] = truth.versions(source, table, start)
    lake.look_at_lake()
    for capture in captures:
        replica.operations += sum(capture.written.values(), capture.met)
    replica.seconds["all"] = time.monotonic() - started
    print({name: round(seconds, 1) for name, seconds in replica.seconds.items()})
    return replica


def declare(lake: Lake, aws: AwsServer, task: dms.Task) -> str:
    """Declare the tables as a user does: those of `task` by its settings, others by their files."""
    aws.reset()
    with during(aws.environment):
        arn = _create_task(aws, task)
        told = lake.tidemark("discover", "--dms-task", arn)
    told += lake.tidemark("discover")
    lake.drop_data_tests()
    connectors = {}
    for yml in (lake.project.folder / "models").rglob("*__sources.yml"):
        content = yaml.safe_load(yml.read_text())
        source = content["sources"][0]
        for table in source["tables"]:
            place, _, name = table["config"]["meta"]["feed"]["path"].split("/")
            _by_hand(table, BY_HAND.get(f"{place}/{name}", {}))
        connectors[place] = (source["name"], [table["name"] for table in source["tables"]])
        yml.write_text(yaml.safe_dump(content, sort_keys=False))
    lake.replica.connectors = connectors
    lake.tidemark("add", *(name for name, _ in connectors.values()))
    return told


def _by_hand(table: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for setting, value in changes.items():
        if setting == "names":
            table["columns"] = [{"name": name, "data_type": it} for name, it in value.items()]
        elif setting == "types":
            for column in table["columns"]:
                column["data_type"] = value.get(column["name"], column["data_type"])
        else:
            table["config"]["meta"]["feed"][setting] = value
    if "key" in changes:
        table["config"].pop("enabled", None)


def _create_task(aws: AwsServer, task: dms.Task) -> str:
    where = f"{dms.SCHEMA}.%"
    sequence = {"expression": "$AR_H_CHANGE_SEQ", "data-type": {"type": "string", "length": 50}}
    images = {"column-prefix": "BI_", "column-filter": "pk-only"}
    key = {"primary-key-def": {"columns": ["order_id", "line_no"]}}
    rules = [
        *(dms_tasks.include(dms.SCHEMA, table) for table in task.tables),
        dms_tasks.transform("schema", "rename", task.schema, dms.SCHEMA),
        dms_tasks.transform("column", "add-column", dms.SEQUENCE, where, sequence),
        dms_tasks.transform(
            "column", "add-before-image-columns", where=where, more={"before-image-def": images}
        ),
        dms_tasks.transform(
            "table", "define-primary-key", where=f"{dms.SCHEMA}.order_line", more=key
        ),
    ]
    settings = {
        "BucketName": "replica",
        "BucketFolder": task.name,
        "AddColumnName": True,
        "CsvNullValue": task.null,
        "TimestampColumnName": dms.TIME,
    }
    return dms_tasks.create(aws, task.name, rules, settings, engine="postgres")


def test_discover_leaves_only_what_is_documented(replica: Replica) -> None:
    _, _, disabled = replica.discovered.partition("These tables are disabled")
    open_tables = re.findall(r"^  \w+\.(\w+): ", disabled, re.MULTILINE)
    assert set(open_tables) <= {"order_line", "orders"}, replica.discovered


def test_the_captures_wrote_what_makes_replication_hard(replica: Replica) -> None:
    """Otherwise the other tests would prove little."""
    wanted = ("L", "I", "U", "D", "cached", "unchanged", "key", "repeated")
    assert [kind for kind in wanted if not replica.operations[kind]] == []
    assert not replica.operations["truncate"]


def test_nothing_is_refused(replica: Replica) -> None:
    assert not replica.dead_letters, "\n".join(replica.dead_letters[:40])


def test_current_tables_equal_the_source(replica: Replica) -> None:
    """While clients work, and at the end."""
    assert len(replica.shown) == len(replica.reports) >= 2
    for at in range(len(replica.shown)):
        differences = replica.differences(at)
        assert not differences, "\n".join(differences[:40])


def test_histories_have_one_version_for_each_state(replica: Replica) -> None:
    differences = replica.differences_of_versions()
    assert not differences, "\n".join(differences[:40])
