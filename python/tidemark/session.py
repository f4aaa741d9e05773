"""The embedded Spark session: one per process, made here and nowhere else."""

import logging
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemark import jars, lock, paths

# Spark and Python must agree on what a timestamp without a zone means.
os.environ["TZ"] = "UTC"
time.tzset()

# dbt's threads ask for the session all at once.
_one_thread = threading.Lock()


def settings() -> dict[str, str]:
    """The Spark settings of profiles/spark-defaults.conf, with this lake's paths filled in."""
    lake = paths.lake_dir()
    text = (paths.project_dir() / "profiles" / "spark-defaults.conf").read_text()
    pairs = [line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#")]
    return {
        key: value.strip()
        .replace("${lake}", str(lake))
        .replace("${profiles}", str(paths.project_dir() / "profiles"))
        .replace("${jars}", ",".join(str(jar) for jar in jars.installed_jars()))
        for key, value in pairs
    }


def get() -> SparkSession:
    """The process's base session, started on first use, holding the lake's lock.

    A host that runs a session already (a Glue job, a notebook) keeps its own.
    Raises SetupError without Java or jars, LakeBusyError while another process has the lake.
    """
    with _one_thread:
        running = SparkSession.getActiveSession()
        return running or getattr(SparkSession, "_instantiatedSession", None) or _start()


def _start() -> SparkSession:
    jars.require_java()
    lock.hold(paths.lake_dir())
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")
    # PySpark prints each analysis error as a JSON line, beside the exception that carries it.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    builder = SparkSession.builder.appName("tidemark").enableHiveSupport()
    for key, value in settings().items():
        builder = builder.config(key, value)
    with _stderr_to(paths.lake_dir() / "spark.log"):
        spark = builder.getOrCreate()
    remove_unborn_tables(spark)
    return spark


def remove_unborn_tables(spark: SparkSession) -> None:
    """Move away what a killed process left of tables that it was about to create.

    Such a folder has no commit or the first one alone, no table of the catalog is there, and yet
    Delta would refuse to create the table. It is kept in the lake's folder `left_behind`. A
    folder with more commits stays: it is a table that the catalog has lost, as is every folder of
    a schema that the catalog has lost.
    """
    for folder in (paths.lake_dir() / "warehouse").glob("*.db"):
        schema = folder.name.removesuffix(".db")
        young = {each.name: each for each in folder.iterdir() if each.is_dir() and _is_young(each)}
        # Folders of a schema that the catalog has lost stay.
        if not young or not spark.catalog.databaseExists(schema):
            continue
        known = {row.tableName for row in spark.sql(f"show tables in `{schema}`").collect()}
        for name in young.keys() - known:
            if not _is_of_a_renamed_table(spark, schema, young[name]):
                aside = paths.lake_dir() / "left_behind"
                aside.mkdir(exist_ok=True)
                shutil.move(young[name], aside / f"{schema}.{name}.{time.time_ns()}")


def _is_young(folder: Path) -> bool:
    """Whether there is no commit but perhaps the first one; without reading a long log."""
    log = folder / "_delta_log"
    if (log / f"{1:020}.json").exists() or (log / "_last_checkpoint").exists():
        return False
    return len(list(log.glob("*.json"))) <= 1 and not any(log.glob("*.parquet"))


def _is_of_a_renamed_table(spark: SparkSession, schema: str, folder: Path) -> bool:
    tables = spark.sql(f"show table extended in `{schema}` like '*'").collect()
    place = re.compile(rf"^Location: .*{re.escape(folder.as_posix())}/?$", re.MULTILINE)
    return any(place.search(table.information) for table in tables)


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """What the JVM says on its standard error, now and later, belongs in a file.

    It inherits the file descriptor at its start. If it does not start, the file's end is shown.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 2)
    failed = True
    try:
        yield
        failed = False
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        os.close(file)
        if failed:
            print("\n".join(log.read_text().splitlines()[-15:]), file=sys.stderr)


def readable(error: Exception) -> str:
    """Spark's message without its Java stack and its query plan.

    Where it has the stack alone to say why ("Job aborted"), the innermost cause is kept.
    """
    if isinstance(error, PySparkException):
        text, causes = str(error), []
    else:
        text = f"{type(error).__name__}: {error}"
        causes = re.findall(r"^Caused by: .*?(?=\n\tat |\Z)", text, re.DOTALL | re.MULTILINE)
    for rest in ("\n\tat ", "\n\nJVM stacktrace", ";\n'"):
        text = text.split(rest)[0]
    return "\n".join([text.strip(), *causes[-1:]])
