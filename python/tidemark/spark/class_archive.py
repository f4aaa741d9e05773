"""An archive of Spark's loaded classes (Java's class data sharing), which speeds up each start.

Without it, every start reads, verifies and links about twenty thousand classes, which takes some
four seconds. `make setup` creates it. In a new environment, the first process with a session starts
another one at its end, which creates it in the background. Without an archive, or if Java rejects
it, a session works, but starts more slowly.
"""

import atexit
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tidemark import formats, paths, targets
from tidemark.spark import jars, java

_SECONDS = 300
_UNUSED = 30 * 24 * 3600
# A full disk or too little memory may be over by then.
_TRY_AGAIN = 24 * 3600
# Log to stderr, which goes to Spark's log, why Java rejects an archive. Standard output has rows.
_TELL_STDERR = "-Xlog:disable -Xlog:all=warning:stderr"


def file(locks: Iterable[Path]) -> Path:
    """The archive's path in the jar cache, for Spark with the jars of these lock files.

    Java accepts an archive only with the same jars and Java version, so its name has their digest.
    """
    import pyspark

    home = Path(pyspark.__file__).parent
    more = jars.installed_jars(locks)
    found = [(str(jar), jar.stat()) for jar in [*more, *sorted((home / "jars").glob("*.jar"))]]
    state = [java.version(), *((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)]
    place = [home, *(jar.name for jar in more)]
    return paths.jar_dir() / f"classes-{_digest(place)}-{_digest(state)}.jsa"


def _digest(parts: Iterable[object]) -> str:
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:12]


def java_options() -> str:
    """The Java options that enable the session's archive, or '' without an archive."""
    archive = file(jars.session_locks())
    if not _is_made(archive):
        return ""
    with contextlib.suppress(OSError):
        archive.touch()  # `_delete_unused` reads the time.
    return f'"-XX:SharedArchiveFile={archive}" {_TELL_STDERR}'


def _is_made(archive: Path) -> bool:
    # Earlier versions left an empty file when they failed.
    return archive.exists() and archive.stat().st_size > 0


def is_tried(locks: Iterable[Path]) -> bool:
    """Whether the archive exists, is being made, or could not be made in the last day."""
    archive = file(locks)
    failed = _failed(archive)
    has_failed = failed.exists() and time.time() - failed.stat().st_mtime < _TRY_AGAIN
    if has_failed or _is_made(archive):
        return True
    with _only_here() as folder:
        return folder is None


@cache
def make_later(locks: tuple[Path, ...]) -> None:
    """Create the archive in the background when this process ends. It then competes with nothing.

    A process that creates it may be killed. Then a later session tries again.
    """
    atexit.register(_make_in_background, locks)


def _make_in_background(locks: Iterable[Path]) -> None:
    print(
        "Spark will start faster in about a minute: its classes are archived in the background, "
        f"once, in {paths.jar_dir()}.",
        file=sys.stderr,
    )
    subprocess.Popen(
        [sys.executable, "-m", "tidemark.spark.class_archive", *map(str, locks)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def make(locks: Iterable[Path]) -> None:
    """Create the archive unless it exists, by starting Spark once.

    If that fails, prints a message, and keeps it beside the place of the archive.
    """
    locks = list(locks)
    archive = file(locks)
    if _is_made(archive):
        return
    try:
        with _only_here() as folder:
            if folder:
                print(
                    f"Archiving Spark's classes in {archive.parent} (about a minute, once)",
                    file=sys.stderr,
                )
                _clear(folder)
                made = _made(locks, folder)
                _delete_unused(archive)
                made.replace(archive)
                _clear(folder)
    except (OSError, subprocess.SubprocessError) as error:
        message = f"Archiving failed, so Spark will start more slowly: {error}"
        print(message, file=sys.stderr)
        with contextlib.suppress(OSError):
            _failed(archive).write_text(message)


def _failed(archive: Path) -> Path:
    return archive.with_suffix(".failed")


@contextlib.contextmanager
def _only_here() -> Iterator[Path | None]:
    """A folder to create an archive in, locked. None if another process has it."""
    folder = paths.jar_dir() / "making"
    folder.mkdir(exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        found: Path | None = folder
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            found = None
        yield found
    finally:
        os.close(lock)


def _clear(folder: Path) -> None:
    for each in folder.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()


def _made(locks: list[Path], scratch: Path) -> Path:
    on_s3 = any(lock.name == jars.S3_LOCK for lock in locks)
    others = [format for format in formats.OTHERS.values() if format.lock in locks]
    made = scratch / "made.jsa"
    environment = {
        **os.environ,
        "TIDEMARK_JARS": str(paths.jar_dir()),
        "TIDEMARK_LAKE": f"{scratch}/lake",
        "TIDEMARK_WAREHOUSE": "",
        # Decides which jars the session loads. The location need not exist.
        "TIDEMARK_LANDING": "s3a://none" if on_s3 else f"{scratch}/landing",
        "SPARK_SUBMIT_OPTS": f'"-XX:ArchiveClassesAtExit={made}"',
    }
    formats.note(others, scratch / "lake")
    done = subprocess.run(
        [sys.executable, "-m", "tidemark.spark.class_archive"],
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode or not made.exists():
        lines = (done.stderr or done.stdout).splitlines()
        # The indented ones are places in the code.
        said = [line for line in lines if line[:1].strip()]
        raise OSError(said[-1] if said else "Java wrote nothing")
    return made


def _delete_unused(new: Path) -> None:
    """Delete archives and messages that `new` replaces, and those of environments that are gone.

    One that no session has used for a month counts as such. Each takes about 230 MB.
    """
    same_jars = new.name.rpartition("-")[0]
    for old in new.parent.glob("classes-*.*"):
        if old.name.startswith(f"{same_jars}-") or old.stat().st_mtime < time.time() - _UNUSED:
            old.unlink()


def _train() -> None:
    """Load the classes that a run needs: land rows, then merge, read and describe tables."""
    from tidemark import storage
    from tidemark.feeds import Column, Feed
    from tidemark.ingest import landing
    from tidemark.spark import session

    folder = paths.lake_dir() / "files"
    (folder / "t").mkdir(parents=True)
    (folder / "t" / "LOAD00000001.csv").write_text("1,2024-01-01,a,1\n2,2024-01-01,b,1\n")
    columns = (Column("id", "bigint"), Column("at", "date"), Column("name", "string"))
    feed = Feed(
        *("training", "t", "log_training", "here"),
        columns=(*columns, Column("seq", "bigint")),
        format="dms",
        path="t",
        key=("id",),
        sequence=("seq",),
    )
    for name in ("LOAD00000002.csv", "20240102-000000000.csv"):
        landing.land(session.get(), [feed], storage.at(str(folder)), run_id="training")
        row = "I,3,2024-01-02,c,2\n" if name[0] == "2" else "4,2024-01-02,d,1\n"
        (folder / "t" / name).write_text(row)
    spark = session.fresh()
    latest = """
        select id, max_by(name, seq) as name, max(at) as at, count(*) as n from (
            select
                *,
                row_number() over (partition by id order by seq desc) as nth,
                lead(seq) over (partition by id order by seq) as next_one
            from log_training.t
            where name is not null and not exists (select 1 from tidemark.dead_letter where false)
        ) as numbered
        where nth = 1
        group by id"""
    for statement in (
        "create schema if not exists training",
        f"create or replace table training.t using {targets.lake_format()} as {latest}",
        f"create or replace temporary view changes as {latest}",
        "merge into training.t as t using changes as c on t.id = c.id "
        "when matched and c.id = 1 then delete when matched then update set * "
        "when not matched then insert *",
        "select count(*), to_json(collect_list(struct(*))) from training.t as t "
        "left join changes using (id)",
        "show table extended in training like '*'",
        "describe extended training.t",
        formats.of_lake().versions("training.t"),
        "alter table training.t add column more string comment 'c'",
        "select distinct id, md5(concat(name, at)) from training.t order by id",
    ):
        spark.sql(statement).collect()
    _end_java()


def _end_java() -> None:
    """End Java, and wait until it has written the archive, which it does last."""
    from pyspark import SparkContext

    # PySpark starts Java with a pipe as its input, and Java ends when the input does.
    java: Any = SparkContext._gateway
    java.proc.stdin.close()
    java.proc.wait(_SECONDS)


if __name__ == "__main__":
    if sys.argv[1:]:
        os.nice(19)
        make(map(Path, sys.argv[1:]))
    else:
        _train()
