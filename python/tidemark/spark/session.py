"""The Spark session: one per process, made here and nowhere else.

It is embedded, or the host's, or, for the target `thrift`, remote over Spark Connect.
"""

import atexit
import hashlib
import io
import json
import logging
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import tidemark
from tidemark import paths, s3, targets
from tidemark.errors import ConfigError, SetupError, printable
from tidemark.spark import class_archive, jars, lock, machine, spark_line

# Spark and Python must agree on what a timestamp without a zone means.
os.environ["TZ"] = "UTC"
time.tzset()
os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")

CONNECT_VARIABLE = "TIDEMARK_CONNECT"
PASSWORD_VARIABLE = "DBT_ENV_SECRET_TIDEMARK_PASSWORD"

# Spark's settings for small data on few cores, with the reason for each.
SETTINGS = Path(__file__).parent / "settings"
_DEFAULTS = "spark-defaults.conf"

# What every session must have, whoever started Spark, for tables to mean the same.
ESSENTIAL = {
    # dbt-spark turns ANSI off for every statement of a session; landing must read alike.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.default": "delta",
    # Spark 3.5 would make Hive tables of text otherwise.
    "spark.sql.legacy.createHiveTableByDefault": "false",
    # A text with ${name} in it is a text: Spark would put a setting's value there.
    "spark.sql.variable.substitute": "false",
    # A date before 1582 or a time before 1900 is written as it is; Spark 3.5 would refuse the row.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}

# From so many bytes of files on, compiled queries save more time than compiling them takes: with
# three rows a run takes a fifth longer, with 10,000 a third less.
_MUCH = 128 << 10
_COMPILED = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
# From so many on, other options of Java's pay: the thorough compiler (C2), of large methods, too,
# and garbage collection on all cores. A million rows land and are built in half the time; 50,000
# would take a few seconds more. It is decided when Java starts.
_LARGE = 32 << 20
_JAVA_FOR_LARGE = {
    "-XX:TieredStopAtLevel=1": "-XX:-DontCompileHugeMethods",
    "-XX:+UseSerialGC": "-XX:+UseParallelGC",
}
# Bytes of files that the run which this process is at takes.
_size_of_run = [0]

# dbt's threads ask for the session all at once.
_one_thread = threading.Lock()
_remote: list[SparkSession] = []


def is_remote() -> bool:
    """Whether the target is a Spark of another process."""
    return targets.method() == "thrift"


def connect_url() -> str:
    """Where Spark Connect answers: TIDEMARK_CONNECT, or the port of `tidemark thrift start`.

    '' when the Thrift server is another one and nothing says where its Connect is.
    """
    is_ours = (
        os.environ.get("TIDEMARK_THRIFT_HOST", "localhost") == "localhost"
        and os.environ.get("TIDEMARK_THRIFT_PORT", "10000") == "10000"
    )
    return os.environ.get(CONNECT_VARIABLE, "sc://localhost:15002" if is_ours else "")


def spark_home() -> str:
    """The folder of the installed PySpark, jars and commands included."""
    return str(Path(pyspark.__file__).parent)


def settings() -> dict[str, str]:
    """Tidemark's Spark settings, then the project's own, with this lake's paths filled in.

    The project's are in profiles/spark-defaults.conf, if it has one: they count for more.
    """
    filled = {
        "${lake}": str(paths.lake_dir()),
        "${warehouse}": paths.warehouse(),
        "${settings}": str(SETTINGS),
        "${cores}": str(min(max(machine.cores(), 2), 8)),
        "${memory}": f"{min(max(machine.memory() >> 32, 2), 8)}g",
        "${jars}": os.pathsep.join(str(jar) for jar in jars.installed_jars()),
    }
    own = paths.project_dir() / "profiles" / _DEFAULTS
    text = (SETTINGS / _DEFAULTS).read_text() + (own.read_text() if own.exists() else "")
    pairs = [line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#")]
    found = {key: value.strip() for key, value in pairs}
    for name, value in filled.items():
        found = {key: text.replace(name, value) for key, text in found.items()}
    return found | ESSENTIAL | s3.settings()


def get() -> SparkSession:
    """The process's base session, started on first use, holding the lake's lock.

    A host that runs a session already (a Glue job, a notebook) keeps its own. On the target
    `thrift` it is one over Spark Connect.
    Raises SetupError without Java or jars, or when the remote Spark does not answer,
    LakeBusyError while another process has the lake, ConfigError on the target `glue`.
    """
    targets.require_spark()
    with _one_thread:
        if is_remote():
            if not _remote:
                _remote.append(_connected())
            return _remote[0]
        running: SparkSession | None = SparkSession.getActiveSession()
        return running or getattr(SparkSession, "_instantiatedSession", None) or _start()


def fresh() -> SparkSession:
    """A session with settings and temporary views of its own, on the same Spark as `get`."""
    if is_remote():
        return _connected()
    spark = get().newSession()
    # A host's Spark may have others.
    for name, value in (ESSENTIAL | _suited()).items():
        spark.conf.set(name, value)
    return spark


def suited_to(size: int) -> dict[str, str]:
    """The settings for a run that takes files of so many bytes; `fresh` sessions have them too.

    If Java has not started yet, it does so as suits the run.
    """
    _size_of_run[0] = size
    return _suited()


def _suited() -> dict[str, str]:
    return dict(_COMPILED) if _size_of_run[0] >= _MUCH else {}


@contextmanager
def settings_during(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """While in here the session has these settings; then each has the value it had, or none."""
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _connected() -> SparkSession:
    url = connect_url()
    if not url:
        raise ConfigError(
            f"There is no Spark Connect to work through: set {CONNECT_VARIABLE}, such as "
            "sc://host:15002. Without it, dbt on this target only builds; see "
            "docs/targets/thrift.md."
        )
    host, port = _host_and_port(url)
    # The client itself would try for minutes.
    if not answers(host, port):
        raise SetupError(
            f"Spark Connect does not answer at {host}:{port}: is it running? On this machine "
            f"`tidemark thrift start` starts it; elsewhere {CONNECT_VARIABLE} says where it is."
        )
    password = os.environ.get(PASSWORD_VARIABLE)
    if password and host == "localhost" and ";token=" not in url:
        # PySpark's client reads a token from here, and sends it to localhost without TLS.
        url = f"{url.rstrip('/')}/;token={quote(password, safe='')};use_ssl=false"
    # Imported late: it asks for gRPC, which an embedded Spark does not need.
    from pyspark.sql.connect.client.retries import DefaultPolicy

    try:
        spark: SparkSession = SparkSession.builder.remote(url).create()
        # The client's own policy is to go on for ten minutes when the server is gone; this is a
        # quarter of a minute. A statement that is sent again has the same id: it runs once.
        client: Any = spark.client  # type: ignore[operator]
        client.set_retry_policies([DefaultPolicy(max_retries=6, max_backoff=5000)])
        for name, value in ESSENTIAL.items():
            spark.conf.set(name, value)
        # Landing reads files in the server's Python workers, which need this package.
        spark.addArtifacts(_package(), pyfile=True)
    except Exception as error:  # PySpark's, or gRPC's own
        raise SetupError(
            f"Spark Connect at {host}:{port} refuses the session: "
            + re.sub(r"token=[^;\s]*", "token=***", readable(error))
        ) from error
    return spark


def _host_and_port(url: str) -> tuple[str, int]:
    """Of a Connect URL; it may have a token, so no error repeats it."""
    try:
        place = urlsplit(url)
        if place.scheme == "sc" and place.hostname:
            return place.hostname, place.port or 15002
    except ValueError:
        pass
    raise ConfigError(
        f"{CONNECT_VARIABLE} must be like sc://host:15002, or sc://host:15002/;token=... with the "
        "slash."
    )


def answers(host: str, port: int) -> bool:
    """Whether something accepts connections there."""
    try:
        with socket.create_connection((host, port), timeout=5):
            return True
    except OSError:
        return False


@cache
def _package() -> str:
    """This package as a zip file, made once a process.

    Spark keeps files of all sessions in one folder and refuses two that differ under one name:
    the same sources give the same bytes, and the name says which.
    """
    source = Path(tidemark.__file__).parent
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for file in sorted(source.rglob("*.py")):
            archive.writestr(
                zipfile.ZipInfo(str(file.relative_to(source.parent))), file.read_bytes()
            )
    folder = tempfile.mkdtemp(prefix="tidemark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    digest = hashlib.sha256(content.getvalue()).hexdigest()[:16]
    package = Path(folder, f"tidemark-{digest}.zip")
    package.write_bytes(content.getvalue())
    return str(package)


def _start() -> SparkSession:
    jars.require_java()
    jars.prepare()
    lock.hold(paths.lake_dir())
    spark_line.claim(paths.lake_dir())
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if os.environ.get("LC_ALL") in ("C", "POSIX"):
        # Java would find no file whose name is not ASCII; Python takes this for UTF-8 anyway.
        os.environ["LC_ALL"] = "C.UTF-8"
    # PySpark prints each analysis error as a JSON line, beside the exception that carries it.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    builder = SparkSession.builder.appName("tidemark").enableHiveSupport()
    for key, value in ({"spark.local.dir": _scratch()} | settings()).items():
        builder = builder.config(key, value)
        if key == "spark.driver.extraJavaOptions":
            builder = builder.config(key, f"{class_archive.java_options()} {_for_run(value)}")
    with _stderr_to(paths.lake_dir() / "spark.log"):
        spark = builder.getOrCreate()
    if "://" in paths.warehouse():
        require_reachable(spark, "warehouse", paths.warehouse())
    remove_unborn_tables(spark)
    return spark


def _for_run(java_options: str) -> str:
    for small, large in _JAVA_FOR_LARGE.items() if _size_of_run[0] >= _LARGE else ():
        java_options = java_options.replace(small, large)
    return java_options


def _scratch() -> str:
    """A folder of this process for what Spark puts on disk meanwhile: in /tmp all could read it."""
    folder = tempfile.mkdtemp(prefix="tidemark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def literal(text: str) -> str:
    """A text as a literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def require_reachable(spark: SparkSession, what: str, place: str) -> None:
    """Raise SetupError, one sentence, when a URI cannot be reached; nothing need be there yet."""
    try:
        # A pattern is listed, and the answer to that says why; one to a look at a name does not.
        spark.read.format("binaryFile").options(**s3.ONE_TRY).load(f"{place}/_/*")
    except Exception as error:  # each store has its own
        if "PATH_NOT_FOUND" not in str(error):
            why = s3.why(readable(error)) or readable(error)
            raise SetupError(f"The {what} {place} cannot be reached: {why}.") from error


def create_table(spark: SparkSession, name: str, columns: str, clauses: str) -> None:
    """Create an empty Delta table, also where a killed process left one without data.

    That is what `remove_unborn_tables` does not move away. A folder with data is refused.
    """
    try:
        spark.sql(f"create table {name} ({columns}) using delta {clauses}")
    except PySparkException as error:
        place = re.search(r"associated location \('(.+?)'\) is not empty", str(error))
        if not place or _has_data(spark, place[1]):
            raise
        # Delta only takes the place of what the catalog does not know with the result of a query.
        spark.sql(
            f"create or replace table {name} using delta {clauses} as select * from {{rows}}",
            rows=spark.createDataFrame([], columns),
        )


def _has_data(spark: SparkSession, place: str) -> bool:
    try:
        # The source passes over _delta_log.
        files = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(place)
    except PySparkException as error:
        if "PATH_NOT_FOUND" in str(error):
            return False
        raise
    return bool(files.inputFiles())


def remove_unborn_tables(spark: SparkSession) -> None:
    """Move away what a killed process left of tables that it was about to create.

    Only in the lake's own folder: elsewhere the tables may be another lake's, and on an object
    store nothing can be moved. `create_table` and dbt's `create or replace` get along with it.

    Such a folder has no commit or the first one alone, no table of the catalog is there, and yet
    Delta would refuse to create the table. It is kept in the lake's folder `left_behind`. A
    folder with more commits stays: it is a table that the catalog has lost, as is every folder of
    a schema that the catalog has lost.

    Tables that were in the catalog once are written down: the catalog is asked for others alone.
    """
    own = paths.lake_dir() / "warehouse"
    if paths.warehouse() != str(own):
        return
    note = paths.lake_dir() / "young_tables.json"
    known_before = _written_down(note)
    found: dict[str, str] = {}
    for folder in own.glob("*.db"):
        schema = folder.name.removesuffix(".db")
        young = {each.name: each for each in folder.iterdir() if each.is_dir() and _is_young(each)}
        born = {f"{schema}.{name}": _birth(each) for name, each in young.items()}
        if born.items() <= known_before.items():
            found |= born
            continue
        # Folders of a schema that the catalog has lost stay.
        if not spark.catalog.databaseExists(schema):
            continue
        known = {row.tableName for row in spark.sql(f"show tables in `{schema}`").collect()}
        for name in young.keys() - known:
            if not _is_of_a_renamed_table(spark, schema, young[name]):
                aside = paths.lake_dir() / "left_behind"
                aside.mkdir(exist_ok=True)
                shutil.move(young[name], aside / f"{schema}.{name}.{time.time_ns()}")
                del born[f"{schema}.{name}"]
        found |= born
    if found != known_before:
        new = note.with_suffix(".new")
        new.write_text(json.dumps(found))
        new.replace(note)


def _written_down(note: Path) -> dict[str, str]:
    try:
        return dict(json.loads(note.read_text()))
    except (FileNotFoundError, ValueError):
        return {}


def _birth(folder: Path) -> str:
    """Other for a table that was created anew in this place, or in another metastore."""
    first = folder / "_delta_log" / f"{0:020}.json"
    made = (first if first.exists() else folder).stat()
    metastore = paths.lake_dir() / "metastore"
    of_metastore = metastore.stat().st_ino if metastore.exists() else 0
    return f"{of_metastore} {made.st_ino} {made.st_mtime_ns}"


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
    rights = log.parent.stat().st_mode & 0o666
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, rights)
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
        text, causes = str(error), list[Any]()
    else:
        text = f"{type(error).__name__}: {error}"
        causes = re.findall(r"^Caused by: .*?(?=\n\tat |\Z)", text, re.DOTALL | re.MULTILINE)
    return printable("\n".join([readable_text(text), *causes[-1:]]), keep="\n\t")


def readable_text(message: str) -> str:
    """A message of Spark's without what only its developers need."""
    for rest in ("\n\tat ", "\n\nJVM stacktrace", ";\n'"):
        message = message.split(rest)[0]
    missing = "DATA_SOURCE_NOT_FOUND|ClassNotFoundException|[Cc]atalog plugin class|PLUGIN_CLASS"
    if re.search(rf"({missing}).*\bdelta\b", message):
        return (
            "This Spark has no Delta Lake: the jars of jars.lock belong on its class path "
            "(spark.driver.extraClassPath and spark.executor.extraClassPath), see "
            f"docs/targets/thrift.md. ({message.strip()[:200]})"
        )
    if "Invalid method name" in message:
        return (
            "The Hive metastore is of another version than the client in Spark: set "
            "spark.sql.hive.metastore.version and spark.sql.hive.metastore.jars, see "
            f"docs/targets/thrift.md. ({message.strip()[:200]})"
        )
    return message.strip()
