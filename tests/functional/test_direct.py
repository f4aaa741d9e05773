"""Loads that land without Spark are what Spark would have landed."""

import csv
import gzip
import io
import json
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tests.functional.test_landing import land
from tests.project import Project
from tidemark import storage
from tidemark.errors import SetupError
from tidemark.ingest import direct, landing, macros
from tidemark.ingest.landed import Outcome
from tidemark.ingest.load import Load
from tidemark.spark import session

pytestmark = pytest.mark.functional

# Texts near the border of what fits. Others are made from them by changing characters.
TEXTS = {
    "tinyint": ["1", "-99", "127", "300"],
    "smallint": ["-9999", "32767", "40000"],
    "int": ["0", "-999999999", "2147483648", "1.0", "+5"],
    "bigint": ["999999999999999999", "9223372036854775808", "1e3"],
    "decimal(5,2)": ["-999.99", "1.5", "1000.00", "0.005", "7"],
    "decimal(38,0)": ["9" * 38, "-1", "9" * 39],
    "decimal(4,4)": ["0.1234", "1.0"],
    "float": ["3.4e38", "-1.5", "999999999e29", "1e-50", "nan"],
    "double": ["1e308", "999999999999999e99", "-0.1", "inf", "4.0E-7"],
    "boolean": ["true", "f", "1", "yes", "TRUE"],
    "date": ["2024-02-29", "2023-02-29", "1999-12-31 00:00:00.000", "2024-1-1", "2024-06-31"],
    "timestamp": [
        *(
            "2024-02-29 23:59:59.999999Z",
            "2024-01-01",
            "1000-01-01T00:00:00",
            "2024-04-31 10:00:00",
        ),
        *("2024-01-01 24:00:00", "2024-01-01 10:00:60", "2024-01-01 10:00:00.1+00:00"),
    ],
    "timestamp_ntz": ["2024-02-29 23:59:59.999999", "2024-01-01 10:00:00Z", "2024-13-01"],
    "binary": ["AAAA", "AA==", "AAA=", "A===", "AA=A", "+/+/"],
}


def nearby(rng: random.Random, texts: list[str], count: int) -> set[str]:
    """The texts, and others that differ from them in a few characters."""
    found = set(texts)
    while len(found) < count:
        text = list(rng.choice(texts))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(text) + 1)
            text[at : at + rng.randint(0, 1)] = rng.choice([*"0123456789-+.eE:TZ= ", ""])
        found.add("".join(text))
    return found


def is_plain(text: str, data_type: str) -> bool:
    try:
        direct.require_type(pa.array([text]), data_type)
    except (direct.NotPlainError, pa.ArrowException):
        return False
    return True


def test_a_text_that_counts_as_plain_fits_its_type(spark: SparkSession) -> None:
    rng = random.Random(7)
    plain = [
        (data_type, text)
        for data_type, texts in TEXTS.items()
        for text in sorted(nearby(rng, texts, 400))
        if is_plain(text, data_type)
    ]
    assert {data_type for data_type, _ in plain} == {*TEXTS} - {"decimal(4,4)"}
    casts = "".join(
        f" when '{data_type}' then cast({macros.cast_text('text', data_type)} as string)"
        for data_type in TEXTS
        if data_type != "binary"
    )
    casts += f" when 'binary' then hex({macros.cast_text('text', 'binary')})"
    times = macros.cast_text("text", "timestamp")
    found = (
        spark.createDataFrame(plain, "type string, text string")
        .selectExpr("*", f"case type{casts} end as value", f"unix_micros({times}) as micros")
        .collect()
    )
    assert [row for row in found if row.value is None] == []
    wrong = [
        row
        for row in found
        if row.type == "timestamp"
        and row.micros != direct.times(pa.array([row.text])).cast(pa.int64())[0].as_py()
    ]
    assert wrong == []


COLUMNS = {
    **{"id": "bigint", "name": "string", "amount": "decimal(9,2)", "ratio": "double"},
    **{"day": "date", "moment": "timestamp", "is_open": "boolean", "data": "binary"},
    "seq": "int",
}
Row = dict[str, Any]


def drawn(rng: random.Random, seq: int) -> Row:
    """A row with a value of each type, or NULL."""
    moment = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(microseconds=rng.randrange(10**13))
    values = {
        "name": rng.choice(["a", "", 'é,"x"', "b\nc"]),
        "amount": Decimal(rng.randrange(-(10**6), 10**6)).scaleb(-2),
        "ratio": rng.choice([0.1, -1e22, 5e-324, 1.7e308, 3.0]),
        "day": moment.date(),
        "moment": moment,
        "is_open": rng.random() < 0.5,
        "data": rng.randbytes(rng.randrange(4)),
    }
    row = {name: value if rng.random() < 0.9 else None for name, value in values.items()}
    return {"id": rng.randrange(1, 30), **row, "seq": seq}


def as_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return str(value).lower()
    return "NULL" if value is None else str(value)


def as_csv(rows: list[Row], *, header: bool = False) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    if header:
        writer.writerow(rows[0])
    writer.writerows([as_text(value) for value in row.values()] for row in rows)
    return text.getvalue().encode()


def as_parquet(rows: list[Row]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


def as_json(rows: list[Row]) -> bytes:
    lines = (
        {name: None if value is None else as_text(value) for name, value in row.items()}
        for row in rows
    )
    return "\n".join(json.dumps(line) for line in lines).encode()


def as_debezium(rows: list[Row]) -> bytes:
    lines = []
    for row in rows:
        operation, at = {"I": "c", "U": "u", "D": "d"}[row["Op"]], MOMENT.timestamp() + row["seq"]
        image = {"id": row["id"], "name": row["name"], "seq": row["seq"]}
        sides: Row = {"before": image} if operation == "d" else {"before": None, "after": image}
        source = {"lsn": 1000 + row["seq"], "ts_ms": int(at * 1000), "connector": "postgresql"}
        lines.append({**sides, "source": source, "op": operation, "ts_ms": int(at * 1000)})
    return "\n".join(json.dumps(line) for line in lines).encode()


STATUS = {"format": "extract", "status_column": "state", "operations": {"new": "I", "gone": "D"}}
# How the files of a feed are written, what they are called, and the feed's settings.
KINDS: dict[str, tuple[Callable[[list[Row]], bytes], str, Any]] = {
    "csv": (as_csv, ".csv", {}),
    "packed": (lambda rows: gzip.compress(as_csv(rows)), ".csv.gz", {"sequence": "seq"}),
    "timed": (
        partial(as_csv, header=True),
        ".csv",
        {"header": "all", "timestamp_column": "committed", "loaded_at": "2020-01-01"},
    ),
    "parquet": (as_parquet, ".parquet", {"sequence": "seq"}),
    "status": (partial(as_csv, header=True), ".csv", {**STATUS, "binary_text": "hex"}),
    "extract": (
        lambda rows: as_csv([*{row["id"]: row for row in rows}.values()], header=True),
        ".csv",
        {"format": "extract", "binary_text": "hex", "max_deleted_share": 0.9},
    ),
    "debezium": (as_debezium, ".json", {"format": "debezium"}),
    "json": (as_json, ".jsonl", {**STATUS, "binary_text": "hex"}),
}


def files(kind: str, rng: random.Random) -> Iterator[tuple[int, str, list[Row]]]:
    """The batch, the name and the rows of each file."""
    is_dms = "format" not in KINDS[kind][2]
    is_status = "status_column" in KINDS[kind][2]
    ops = {"I": "new", "U": "U", "D": "gone"} if is_status else {"I": "I", "U": "U", "D": "D"}
    rows = [drawn(rng, seq) for seq in range(120)]
    if kind == "extract":
        yield 0, "day1", rows[:60]
        yield 1, "day2", rows[50:]
        return
    if kind == "timed":
        rows = [{"committed": row["moment"] or MOMENT, **row} for row in rows]
    changes = [{"state" if is_status else "Op": ops[rng.choice("IUD")], **row} for row in rows]
    if is_dms:
        yield 0, "LOAD00000001", [*{row["id"]: row for row in rows[:20]}.values()]
    yield 0, "20240102-100000000", changes[20:40]
    yield 0, "20240103-100000000", changes[40:60]
    # A late file; a change twice, and one that landed before.
    again = [] if kind == "debezium" else [changes[90], changes[25]]
    yield 1, "20240101-100000000", changes[60:80]
    yield 1, "20240104-100000000", [*changes[80:100], *again]


MOMENT = datetime(2024, 1, 1, tzinfo=UTC)


# `json` has a status column, too, and test_landings has packed files.
RARER = ("packed", "status")
USUAL = tuple(kind for kind in KINDS if kind not in RARER)


@pytest.mark.parametrize(
    "kinds", [USUAL, pytest.param(RARER, marks=pytest.mark.slow)], ids=["usual", "rarer"]
)
def test_a_load_is_the_same_with_and_without_spark(
    project: Project, monkeypatch: pytest.MonkeyPatch, kinds: tuple[str, ...]
) -> None:
    ways: Counter[tuple[str, bool]] = Counter()
    land_direct: Callable[[Load], Outcome | None] = direct.land

    def by_one_way(load: Load) -> Outcome | None:
        outcome = None if load.feed.source == "by_spark" else land_direct(load)
        ways[load.feed.source, outcome is not None] += 1
        return outcome

    monkeypatch.setattr(direct, "land", by_one_way)
    for source in ("by_arrow", "by_spark"):
        for kind in kinds:
            _, _, settings = KINDS[kind]
            project.declare(f"{source}.{kind}", COLUMNS, "id", **settings)
    told: dict[str, list[Row]] = {"by_arrow": [], "by_spark": []}
    for batch in range(2):
        for source in told:
            for kind in kinds:
                written, suffix, _ = KINDS[kind]
                for of_batch, name, rows in files(kind, random.Random(kind)):
                    if of_batch == batch:
                        path = f"{source}/{kind}/{name}{suffix}"
                        project.land(path, written(rows), modified=1704100000 + batch)
        for done in land(project):
            assert not done.failure, done.failure
            remarks = [str(note).replace("by_spark", "by_arrow") for note in done.notes]
            run = done.as_run() | {"seconds": 0, "source_name": "", "remarks": remarks}
            told[done.feed.source].append(run)
    assert told["by_arrow"] == told["by_spark"]
    assert all(not run["rejected"] for run in told["by_arrow"])
    if kinds == USUAL:
        assert any(run["late"] and run["duplicate"] for run in told["by_arrow"])
        assert any("deletes" in str(run["remarks"]) for run in told["by_arrow"])
    assert ways == {("by_arrow", True): 2 * len(kinds), ("by_spark", False): 2 * len(kinds)}
    for kind in kinds:
        ours, sparks = (logged(project, f"{source}.{kind}") for source in told)
        assert ours, kind
        differ = [*(ours - sparks).elements(), *(sparks - ours).elements()]
        assert differ == [], kind


def logged(project: Project, name: str) -> Counter[Any]:
    """The rows of a log as texts, without what differs between loads and between the sources."""
    log = project.spark.table(f"log_{name}").drop("_load_id", "_landed_at")
    texts = [F.col(column).cast("string").alias(column) for column in sorted(log.columns)]
    rows = log.withColumn("_file", F.regexp_replace("_file", "by_spark", "by_arrow")).select(texts)
    return Counter(map(tuple, rows.collect()))


class NoSpark:
    """A Spark that never starts."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"Spark was asked for {name}")


def test_a_plain_load_of_a_known_table_needs_no_spark(project: Project) -> None:
    """So it lands while Spark starts."""
    columns = {"id": "int", "x": "string", "seq": "int"}
    ordered = {"sequence": "seq", "timestamp_column": "at"}
    project.declare("alone.t", columns, "id", **ordered)
    project.land("alone/t/20240101-000000000.csv", "I,2024-01-01,1,a,1\n")
    land(project)
    feeds = [landed.feed for landed in land(project)]
    # One change is there twice, and one has landed before.
    changes = "U,2024-01-01,1,b,2\nI,2024-01-02,2,c,3\nI,2024-01-02,2,c,3\nI,2024-01-01,1,a,1\n"
    project.land("alone/t/20240102-000000000.csv", changes)
    with project.here():
        folder = storage.landing_folder()
        (landed,) = landing.land(cast(SparkSession, NoSpark()), feeds, folder, run_id="test")
    assert (landed.failure, landed.rows, landed.as_run()["duplicate"]) == ("", 4, 2)
    assert project.rows("log_alone.t", ["id", "x"], "_file, _position") == [
        ("1", "a"),
        ("1", "b"),
        ("2", "c"),
        ("2", "c"),
        ("1", "a"),
    ]


def test_what_needs_spark_waits_for_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    may_start = threading.Event()

    def start() -> SimpleNamespace:
        assert may_start.wait(60)
        return SimpleNamespace(version="4")

    monkeypatch.setattr(session, "get", start)
    spark = session._Later()
    assert not may_start.is_set()
    may_start.set()
    assert spark.version == "4"


def test_a_start_that_failed_is_reported_before_dbt_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start() -> SparkSession:
        time.sleep(1)
        raise SetupError("Java does not start.")

    monkeypatch.setattr(session, "get", start)
    spark = cast(SparkSession, session._Later())
    # It is waited for.
    with pytest.raises(SetupError, match="Java does not start"):
        session.started(spark)
    with pytest.raises(SetupError, match="Java does not start"):
        _ = spark.version


def test_ctrl_c_cancels_what_spark_does(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark cares for that only if Spark starts in the main thread."""
    monkeypatch.setattr(session, "_running", lambda: None)
    monkeypatch.setattr(session, "get", lambda: spark)
    jobs = spark.sparkContext.statusTracker()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        session.later()
        with ThreadPoolExecutor(1) as beside:
            query = beside.submit(spark.sql("select sum(id % 7) from range(1000000000000)").collect)
            while not jobs.getActiveJobsIds():
                assert not query.done()
                time.sleep(0.1)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            try:
                with pytest.raises(Exception, match="cancel"):
                    query.result(30)
            finally:
                spark.sparkContext.cancelAllJobs()
    finally:
        signal.signal(signal.SIGINT, before)
