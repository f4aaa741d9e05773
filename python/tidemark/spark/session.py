"""The Spark session. All sessions are created here.

It is embedded, the host's, or remote over Spark Connect: on the target `thrift`, and if
`tidemark up` has started a Spark for this lake.
"""

import atexit
import hashlib
import io
import logging
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeVar, cast
from urllib.parse import quote, urlsplit

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import Row, SparkSession

import tidemark
from tidemark import formats, paths, s3, targets
from tidemark.errors import ConfigError, SetupError, printable
from tidemark.formats.delta import register
from tidemark.shared import shared
from tidemark.spark import (
    class_archive,
    jars,
    lock,
    machine,
    processes,
    spark_line,
    warm,
)

# Spark and Python must interpret timestamps without a zone in the same way.
os.environ["TZ"] = "UTC"
time.tzset()
os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")

T = TypeVar("T")

CONNECT_VARIABLE = "TIDEMARK_CONNECT"

# The folder of Spark's settings and the reasons for them.
SETTINGS = Path(__file__).parent / "settings"
_DEFAULTS = "spark-defaults.conf"

# Settings that affect the content of tables. Every session needs them, whoever started Spark.
ESSENTIAL = {
    # dbt-spark disables ANSI mode for every statement, so landing must do the same.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.default": "delta",
    # Otherwise Spark 3.5 creates Hive text tables.
    "spark.sql.legacy.createHiveTableByDefault": "false",
    # Otherwise Spark replaces ${name} in a text by the value of a setting.
    "spark.sql.variable.substitute": "false",
    # Write dates before 1582 and times before 1900 unchanged. Spark 3.5 would refuse the row.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}

# From this many bytes of new files of one table on, whole-stage code generation saves time: a run
# of three rows takes a fifth longer with it, a run of 10,000 rows a third less. Each table has code
# of its own, so many small tables do not count as a large one.
_MUCH = 128 << 10
_COMPILED = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
# From this many bytes on, other Java options pay off: the optimizing compiler (C2), also for large
# methods, and parallel garbage collection. A run of a million rows takes half the time, one of
# 50,000 rows a few seconds more. They apply only when Java starts.
_LARGE = 32 << 20
_JAVA_FOR_LARGE = {
    "-XX:TieredStopAtLevel=1": "-XX:-DontCompileHugeMethods",
    "-XX:+UseSerialGC": "-XX:+UseParallelGC",
}
_YOUNG = "young_tables.json"
# Its key of the metastore.
_OF_METASTORE = "metastore"

# dbt's threads ask for the session at the same time.
_one_thread = threading.Lock()
_one_adds = threading.Lock()


def is_remote() -> bool:
    """Whether Spark runs in another process."""
    return targets.method() == "thrift" or targets.method() in shared.remote


def connect_url() -> str:
    """The URL of Spark Connect: TIDEMARK_CONNECT, or that of `tidemark thrift start`.

    '' if another Thrift server is used and TIDEMARK_CONNECT is not set.
    """
    is_ours = (
        os.environ.get("TIDEMARK_THRIFT_HOST", "localhost") == "localhost"
        and os.environ.get("TIDEMARK_THRIFT_PORT", "10000") == "10000"
    )
    return os.environ.get(CONNECT_VARIABLE, "sc://localhost:15002" if is_ours else "")


def settings() -> dict[str, str]:
    """Tidemark's Spark settings, overridden by the project's, with placeholders filled in.

    The project's settings are in profiles/spark-defaults.conf, if that file exists.
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
    found = dict(targets.spark_settings((SETTINGS / _DEFAULTS).read_text())) | formats.settings()
    found |= targets.spark_settings(own.read_text() if own.exists() else "")
    for name, value in filled.items():
        found = {key: text.replace(name, value) for key, text in found.items()}
    # The project's own come after those that the tables need.
    extensions = [
        *formats.extensions(),
        *filter(None, found.get(formats.EXTENSIONS, "").split(",")),
    ]
    found[formats.EXTENSIONS] = ",".join(dict.fromkeys(extensions))
    return found | essential() | s3.settings()


def get() -> SparkSession:
    """The process's base session. The first call starts Spark and locks the lake.

    If a host (a Glue job, a notebook) already runs a session, uses that one. On the target
    `thrift`, and if `tidemark up` runs, connects over Spark Connect. Raises SetupError if Java or
    jars are missing or the remote Spark does not respond, LakeBusyError if another process has the
    lake, and ConfigError on the target `glue`.
    """
    targets.require_spark()
    with _one_thread:
        method = targets.method()
        if method == "thrift" and method not in shared.remote:
            shared.remote[method] = _connected()
        if method in shared.remote:
            return shared.remote[method]
        running = _running()
        if not running and warm.running():
            running = _warm()
        return running or _start()


def _running() -> SparkSession | None:
    """The session of a Spark in this process, if there is one."""
    active: SparkSession | None = SparkSession.getActiveSession()
    found = active or getattr(SparkSession, "_instantiatedSession", None)
    if found and not lock.is_held(paths.lake_dir()):
        formats.require_host(found)
    return found


def essential() -> dict[str, str]:
    """The settings that every session needs, in a lake of this format."""
    return ESSENTIAL | {"spark.sql.sources.default": formats.of_lake().name}


def later(tell: Callable[[str], None] = lambda text: None) -> SparkSession:
    """As `get`, but Spark starts in the background: the first use of the session waits for it.

    A lake in use, and a missing Java or jar, are reported at once. Calls `tell` if Java starts,
    which takes many seconds.
    """
    targets.require_spark()
    if _running():
        return get()
    if targets.method() == "session":
        if warm.running():
            warm.hold()
        else:
            _require_what_spark_needs()
            _cancel_jobs_when_interrupted()
            tell("Starting Spark.")
    return cast(SparkSession, _Later())


def started(spark: SparkSession) -> SparkSession:
    """The session of `later`, once Spark has started. Raises what kept Spark from starting."""
    return spark._started.result() if isinstance(spark, _Later) else spark


def read_ahead(spark: SparkSession, log: str, load_id: int) -> "Future[list[Row]] | None":
    """Let a Spark that `later` has started read a load in the background, while dbt starts.

    The first query of a Spark takes seconds: it loads classes, opens the metastore and reads the
    state of the log. So the build, which would wait for it, takes 1.5 to 2 s less.
    """
    if not isinstance(spark, _Later) or is_remote():
        return None
    rows = f"(select * from {log} where _load_id >= {load_id} limit 10)"
    query = f"select _op, max_by(struct(*), _load_id) from {rows} group by _op"
    return _beside(lambda: fresh().sql(query).collect())


def _beside(work: Callable[[], T]) -> "Future[T]":
    # As a context manager, the executor would wait for the work.
    executor = ThreadPoolExecutor(1)
    future = executor.submit(work)
    executor.shutdown(wait=False)
    return future


def _cancel_jobs_when_interrupted() -> None:
    """Let Ctrl-C cancel Spark's jobs. PySpark does so only if Spark starts in the main thread."""

    def interrupted(*_: object) -> None:
        context = SparkContext._active_spark_context
        if context:
            context.cancelAllJobs()
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupted)


class _Later:
    """A session whose Spark is about to start."""

    def __init__(self) -> None:
        self._started = _beside(get)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._started.result(), name)


def fresh() -> SparkSession:
    """A session with its own settings and temporary views, on the same Spark as `get`."""
    base = get()
    if is_remote():
        return _connected() if targets.method() == "thrift" else _open_warm(warm.url())
    spark = base.newSession()
    # A host's Spark may have other settings.
    for name, value in (essential() | _suited()).items():
        spark.conf.set(name, value)
    return spark


def suited_to(sizes: Iterable[int], run_id: str = "") -> dict[str, str]:
    """The settings for a run that reads so many bytes of each table, also for `fresh` sessions.

    If Java has not started yet, its options also depend on them. Once a `run_id` is given, commits
    have it, also if a later call gives none.
    """
    shared.sizes = tuple(sizes)
    shared.run_id = run_id or shared.run_id
    return _suited()


def of_run() -> dict[str, str]:
    """The settings with which commits have the current run's id, if there is one."""
    return formats.commits_tell(shared.run_id) if shared.run_id else {}


def _suited() -> dict[str, str]:
    return of_run() | _for_size()


def _for_size() -> dict[str, str]:
    return _COMPILED if max(shared.sizes, default=0) >= _MUCH else {}


def kill() -> None:
    """End Tidemark's own Spark at once, also one that does not respond. What waits for it fails."""
    java = getattr(SparkContext._gateway, "proc", None)
    if java:
        java.kill()
    else:
        warm.kill()


@contextmanager
def settings_during(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of the session within the block, and restore them afterwards."""
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


def _warm() -> SparkSession | None:
    """A session of the warm Spark, which this process locks; None if it has been stopped."""
    warm.hold()
    url = warm.url()
    if not url:
        return None
    spark_line.claim(paths.lake_dir())
    spark = _open_warm(url)
    formats.require_catalogs()
    formats.require_catalogs_of(spark)
    shared.remote["session"] = spark
    # What a failed model has left there; one command at a time uses this Spark.
    spark.catalog.clearCache()
    return spark


def _open_warm(url: str) -> SparkSession:
    if not url:
        raise SetupError("Spark was stopped while this command used it. Run the command again.")
    spark = _opened(url)
    # Before its connection is closed: ends the statements that may still run, and frees what the
    # server keeps.
    atexit.register(_stop_warm, spark)
    for name, value in _suited().items():
        spark.conf.set(name, value)
    return spark


def _stop_warm(spark: SparkSession) -> None:
    # Without an answer, `stop` would try again for long.
    with suppress(Exception):
        if warm.running():
            spark.stop()


def _close(spark: SparkSession) -> None:
    with suppress(Exception):
        spark.client.close()  # type: ignore[operator]


def _connected() -> SparkSession:
    url = connect_url()
    if not url:
        raise ConfigError(
            f"{CONNECT_VARIABLE} is not set. Set it to the URL of Spark Connect, such as "
            "sc://host:15002. Without it, dbt on this target only builds. See "
            "docs/targets/thrift.md."
        )
    host, port = _host_and_port(url)
    # The client would retry for minutes.
    if not processes.answers(host, port):
        raise SetupError(
            f"Spark Connect does not respond at {host}:{port}. Start it (on this machine: "
            f"tidemark thrift start), or set {CONNECT_VARIABLE} to its URL."
        )
    password = os.environ.get(processes.PASSWORD_VARIABLE)
    if password and host == "localhost" and ";token=" not in url:
        # PySpark's client sends the token to localhost without TLS.
        url = f"{url.rstrip('/')}/;token={quote(password, safe='')};use_ssl=false"
    try:
        spark = _opened(url)
        for name, value in (essential() | of_run()).items():
            spark.conf.set(name, value)
        # The server's Python workers read files for landing, so they need this package. Two threads
        # at once may fail in Python's `importlib.invalidate_caches`.
        with _one_adds:
            spark.addArtifacts(_package(), pyfile=True)
    except Exception as error:  # from PySpark or gRPC
        raise SetupError(
            f"Spark Connect at {host}:{port} refused the session: "
            + re.sub(r"token=[^;\s]*", "token=***", readable(error))
        ) from error
    return spark


def _opened(url: str) -> SparkSession:
    # Imported here because it needs gRPC, which embedded Spark does not.
    from pyspark.sql.connect.client.retries import DefaultPolicy

    _raise_errors_only()
    spark: SparkSession = SparkSession.builder.remote(url).create()
    # Python may hang at its end if a session is still open.
    atexit.register(_close, spark)
    # If the server is gone, the client retries for ten minutes by default, here for 15 seconds.
    # A retried statement has the same id, so it runs only once.
    client: Any = spark.client  # type: ignore[operator]
    client.set_retry_policies([DefaultPolicy(max_retries=6, max_backoff=5000)])
    return spark


def _host_and_port(url: str) -> tuple[str, int]:
    """The host and port of a Connect URL. Errors do not show the URL, which may contain a token."""
    try:
        place = urlsplit(url)
        if place.scheme == "sc" and place.hostname:
            return place.hostname, place.port or 15002
    except ValueError:
        pass
    raise ConfigError(
        f"{CONNECT_VARIABLE} must have the form sc://host:15002, or sc://host:15002/;token=... "
        "with the slash."
    )


@cache
def _package() -> str:
    """This package as a zip file, created once per process.

    Spark keeps the files of all sessions in one folder and rejects different files with the same
    name. So the name contains a digest of the bytes, which depend only on the sources.
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


def _raise_errors_only() -> None:
    """PySpark prints each analysis error as a JSON line, in addition to the exception."""
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


def _require_what_spark_needs() -> None:
    jars.require_java()
    jars.prepare()
    lock.hold(paths.lake_dir())
    spark_line.claim(paths.lake_dir())
    formats.claim()


def _start() -> SparkSession:
    _require_what_spark_needs()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if os.environ.get("LC_ALL") in ("C", "POSIX"):
        # Otherwise Java cannot find files with non-ASCII names. Python uses UTF-8 in any case.
        os.environ["LC_ALL"] = "C.UTF-8"
    _raise_errors_only()
    conf = SparkConf().setAppName("tidemark").set("spark.sql.catalogImplementation", "hive")
    for key, value in ({"spark.local.dir": _scratch()} | settings() | _for_size()).items():
        if key == "spark.driver.extraJavaOptions":
            value = f"{class_archive.java_options()} {_for_run(value)}"
        conf.set(key, value)
    with _log_of_java() as log:
        # After a failed start, PySpark keeps the Java of that start.
        gateway = SparkContext._gateway or launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
        spark: SparkSession = SparkSession(SparkContext(conf=conf, gateway=gateway))
    if "://" in paths.warehouse():
        require_reachable(spark, "warehouse", paths.warehouse())
    remove_unborn_tables(spark)
    return spark


def _for_run(java_options: str) -> str:
    for small, large in _JAVA_FOR_LARGE.items() if sum(shared.sizes) >= _LARGE else ():
        java_options = java_options.replace(small, large)
    return java_options


def _scratch() -> str:
    """A private folder for Spark's temporary files. Everyone could read them in /tmp."""
    folder = tempfile.mkdtemp(prefix="tidemark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def require_reachable(spark: SparkSession, what: str, place: str) -> None:
    """Raise SetupError if a URI cannot be reached. Nothing needs to exist there yet."""
    try:
        # A pattern makes Spark list the location, and that error contains the cause.
        spark.read.format("binaryFile").options(**s3.ONE_TRY).load(f"{place}/_/*")
    except Exception as error:  # each store has its own types
        if "PATH_NOT_FOUND" not in str(error):
            why = s3.why(readable(error)) or readable(error)
            raise SetupError(f"The {what} {place} cannot be reached: {why}.") from error


def create_table(
    spark: SparkSession, name: str, columns: str, clauses: str, *, adopts: bool = False
) -> None:
    """Create an empty table in the lake's format, even if a killed process left a folder there.

    This handles folders that `remove_unborn_tables` does not move. Refuses a folder with data, or
    if it `adopts`, registers the table that is there: the metastore has lost it.
    """
    format = formats.of_lake()
    # Iceberg would begin the table anew in its folder. Delta tells by itself.
    registers = "" if format is formats.DELTA else format.registers(name)
    if registers and not adopts:
        raise SetupError(
            f"The metastore does not have the table {name}, but its files are still there. "
            f'Register it (tidemark sql "{registers}"), or if you dropped it, delete its folder.'
        )
    try:
        spark.sql(registers or f"create table {name} ({columns}) using {format.name} {clauses}")
    except PySparkException as error:
        place = re.search(r"associated location \('(.+?)'\) is not empty", str(error))
        if not place:
            raise
        if _has_data(spark, place[1]):
            if not adopts:
                raise
            spark.sql(register(name, place[1]))
            return
        # Delta replaces a table that is not in the catalog only with the result of a query.
        text = f"create or replace table {name} using delta {clauses}"
        spark.sql(
            text.replace("{", "{{").replace("}", "}}") + " as select * from {rows}",
            rows=spark.createDataFrame([], columns),
        )


def _has_data(spark: SparkSession, place: str) -> bool:
    try:
        # The source skips _delta_log.
        files = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(place)
    except PySparkException as error:
        if "PATH_NOT_FOUND" in str(error):
            return False
        raise
    return bool(files.inputFiles())


def remove_unborn_tables(spark: SparkSession) -> None:
    """Move away the remains of tables that a killed process was creating.

    Works only in the lake's own folder: elsewhere the tables may belong to another lake, and an
    object store cannot move folders. There, `create_table` and dbt's `create or replace` cope.

    Such a folder has at most one commit and no table in the catalog, but Delta would refuse to
    create a table there. It is moved to the lake's folder `left_behind`. A folder with more commits
    stays, since it is a table that the catalog has lost. In a new metastore, all tables of a lost
    schema are registered again.

    Tables that were found in the catalog are remembered, so that only others are looked up.
    """
    own = paths.lake_dir() / "warehouse"
    if paths.warehouse() != str(own):
        return
    known_before = paths.note(_YOUNG)
    found = {_OF_METASTORE: _metastore()}
    has_new_metastore = found.items() - known_before.items()
    for folder in own.glob("*.db"):
        schema = folder.name.removesuffix(".db")
        young = {each.name: each for each in folder.iterdir() if each.is_dir() and is_young(each)}
        born = {f"{schema}.{name}": _birth(each) for name, each in young.items()}
        if born.items() <= known_before.items() and not has_new_metastore:
            found |= born
            continue
        if not spark.catalog.databaseExists(schema):
            _register_lost(spark, schema, folder)
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
        paths.write_note(_YOUNG, found)


def _register_lost(spark: SparkSession, schema: str, folder: Path) -> None:
    for name, statement in formats.lost(schema, folder):
        try:
            spark.sql(f"create schema if not exists `{schema}`")
            spark.sql(statement)
            print(f"{name} was not in the metastore, and is registered again.", file=sys.stderr)
        except Exception as error:  # the others can be used; Iceberg has errors of its own
            print(f"{name} was not registered again: {readable(error)}", file=sys.stderr)


def _birth(folder: Path) -> str:
    """An identity that changes if the table is created again or belongs to another metastore."""
    first = folder / "_delta_log" / f"{0:020}.json"
    made = (first if first.exists() else folder).stat()
    return f"{_metastore()} {made.st_ino} {made.st_mtime_ns}"


def _metastore() -> str:
    """An identity that changes if the metastore is created again."""
    metastore = paths.lake_dir() / "metastore"
    return str(metastore.stat().st_ino if metastore.exists() else 0)


def is_young(folder: Path) -> bool:
    """Whether a Delta table has at most one commit, without reading a long log."""
    if formats.is_kept_in(folder):
        return False
    log = folder / "_delta_log"
    if (log / f"{1:020}.json").exists() or (log / "_last_checkpoint").exists():
        return False
    return len(list(log.glob("*.json"))) <= 1 and not any(log.glob("*.parquet"))


def _is_of_a_renamed_table(spark: SparkSession, schema: str, folder: Path) -> bool:
    tables = spark.sql(f"show table extended in `{schema}` like '*'").collect()
    place = re.compile(rf"^Location: .*{re.escape(folder.as_posix())}/?$", re.MULTILINE)
    return any(place.search(table.information) for table in tables)


@contextmanager
def _log_of_java() -> Iterator[IO[str]]:
    """The file for what Java prints: its log, and what Delta tells about a VACUUM.

    If Java fails to start, prints the end of the file.
    """
    with paths.opened_in_lake("spark.log", "w") as log:
        try:
            yield log
        except Exception:
            lines = Path(log.name).read_text().splitlines()
            print("\n".join(lines[-15:]), file=sys.stderr)
            raise


def readable(error: Exception) -> str:
    """Spark's message without the Java stack trace and the query plan.

    Keeps the innermost cause if only the stack trace shows it ("Job aborted").
    """
    if isinstance(error, PySparkException):
        text, causes = str(error), list[Any]()
    else:
        text = f"{type(error).__name__}: {error}"
        causes = re.findall(r"^Caused by: .*?(?=\n\tat |\Z)", text, re.DOTALL | re.MULTILINE)
    return printable("\n".join([readable_text(text), *causes[-1:]]), keep="\n\t")


def readable_text(message: str) -> str:
    """Spark's message without details for its developers."""
    # Spark 3.5 does not name the class: its stack trace says what was to be an input format.
    if re.search(
        r"instantiate org\.apache\.hadoop\.mapred\.FileInputFormat"
        r"|InstantiationException\n.*ReflectionUtils\.newInstance.*\n.*HadoopRDD\.getInputFormat",
        message,
    ):
        return (
            "A table of this query is in Iceberg's format. Its name has three parts: "
            "iceberg.schema.table. See docs/table_formats.md"
        )
    # A Thrift server puts two names of classes before it.
    message = re.sub(r"^[\w.]+HiveSQLException: .*?(\[\w+\]) [\w.]+: (?=\1)", "", message)
    for rest in ("\n\tat ", "\n\nJVM stacktrace", ";\n'"):
        message = message.split(rest)[0]
    if re.match(r"\[DELTA_(TABLE_NOT_FOUND|PATH_DOES_NOT_EXIST)\]", message):
        return (
            f"{message.splitlines()[0].rstrip(';')} If the metastore has the table, its files are "
            "gone. Runbooks: docs/operate.md"
        )
    if re.search(r"iceberg\.exceptions\.RESTException\W+Error occurred while processing", message):
        uri = os.environ.get(f"{targets.CATALOG_VARIABLE}_URI")
        return (
            f"The REST catalog at {uri} does not respond. Check {targets.CATALOG_VARIABLE}_URI, "
            "and that the catalog runs."
        )
    missing = "DATA_SOURCE_NOT_FOUND|ClassNotFoundException|[Cc]atalog plugin class|PLUGIN_CLASS"
    if re.search(rf"({missing}).*\bdelta\b", message):
        return (
            "This Spark has no Delta Lake. Add the jars of jars.lock to its class path "
            "(spark.driver.extraClassPath and spark.executor.extraClassPath). See "
            f"docs/targets/thrift.md. ({message.strip()[:200]})"
        )
    if "Invalid method name" in message:
        return (
            "The Hive metastore and Spark's Hive client have different versions. Set "
            "spark.sql.hive.metastore.version and spark.sql.hive.metastore.jars. See "
            f"docs/targets/thrift.md. ({message.strip()[:200]})"
        )
    return message.strip()
