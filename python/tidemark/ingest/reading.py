"""Files to records: how the files of a load reach Spark's Python workers, which read them.

`tidemark.readers` has what runs in a worker. A worker opens a local file itself, in parts when the
file is large. Spark fetches all other files and hands over their content: small files whole, large
ones line by line.
"""

import posixpath
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidemark import readers
from tidemark.ingest.files import LandedFile
from tidemark.ingest.load import Load
from tidemark.spark import machine
from tidemark.storage import micros

# Spark hands over files of more bytes line by line, so that neither Java nor Python holds a whole
# file.
LARGE = 64 << 20
# All cores read a local file of more bytes than this side by side, if its format has parts.
IN_PARTS = 8 << 20
# A load of more bytes may have long lines: Spark sends fewer of them to a worker at once.
_MUCH = 16 << 20
_FOR_MUCH = {"spark.sql.execution.arrow.maxRecordsPerBatch": "1000"}
_PACKED = (".gz", ".bz2", ".deflate", ".lz4", ".snappy", ".zst")


def settings_for(size: int) -> dict[str, str]:
    """Spark's settings while it reads so many bytes."""
    return _FOR_MUCH if size > _MUCH else {}


def records(load: Load, files: Sequence[LandedFile], kind: str, *, in_parts: bool) -> DataFrame:
    """The records of files of one kind, with the columns of `readers.schema`."""
    if load.root.place(files[0].path) is None:
        read, content = readers.reader(load.feed, kind), _contents(load, files)
    else:
        read, content = readers.local_reader(load.feed, kind), _places(load, files, in_parts)
    schema = readers.schema(load.feed)
    return union([part.mapInArrow(read, schema) for part in content])


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all frames."""
    return reduce(DataFrame.unionByName, frames)


def is_broken_in_part(load: Load, files: Sequence[LandedFile], read: DataFrame) -> bool:
    """Whether a worker refused a part of a file: the workers of its other parts do not know."""
    paths = [file.path for file in files if _parts_of(load, file) > 1]
    if not paths:
        return False
    refused = read.where("_position is null and _reason is not null")
    return bool(refused.where(F.col("_file").isin(paths)).count())


def _parts_of(load: Load, file: LandedFile) -> int:
    is_split = file.size > IN_PARTS and readers.has_parts(file.path, load.feed)
    return machine.cores() if is_split and load.root.place(file.path) else 1


def _places(load: Load, files: Sequence[LandedFile], in_parts: bool) -> list[DataFrame]:
    """What `readers.local_reader` reads: where each file or part of a file is."""
    counts = [(file, _parts_of(load, file) if in_parts else 1) for file in files]
    rows = [
        (
            *(file.path, file.time, file.modified, load.root.place(file.path)),
            *(file.size, micros(file.modified), part, count),
        )
        for file, count in counts
        for part in range(count)
    ]
    # A task takes its rows in order: large parts go to different tasks.
    rows.sort(key=lambda row: -row[4] // row[7])
    tasks = machine.cores()
    dealt = [row for task in range(tasks) for row in rows[task::tasks]]
    return [load.spark.createDataFrame(dealt, readers.LOCAL_FILE)]


def _contents(load: Load, files: Sequence[LandedFile]) -> list[DataFrame]:
    """What `readers.reader` reads: path, times and content of the files.

    A file that is no longer the planned version has no content.
    """
    columns = ["path", "file_at", "written_at", "content", "size"]
    large = [file for file in files if _is_large(file)]
    small = [file for file in files if not _is_large(file)]
    parts = []
    if small:
        whole = load.root.contents(load.spark, [file.path for file in small])
        whole = whole.withColumn("size", F.lit(None).cast("bigint"))
        parts.append(_as_planned(load, whole, small).select(*columns))
    if large:
        lines = load.root.lines(load.spark, [file.path for file in large])
        lines = _as_planned(load, lines.withColumn("size", F.col("length")), large)
        # One worker gets all lines of a file, in order.
        lines = lines.repartition("path").sortWithinPartitions("path", "_block", "_line")
        parts.append(lines.select(*columns))
    return parts


def _is_large(file: LandedFile) -> bool:
    """Whether Spark reads the file by lines. It would unpack a file with such a name."""
    return file.size > LARGE and not file.path.lower().endswith(_PACKED)


def _as_planned(load: Load, found: DataFrame, files: Sequence[LandedFile]) -> DataFrame:
    """The files that Spark found, without content where they are not the planned version."""
    planned = load.spark.createDataFrame(
        [
            # A feed's path may be `.` or end with a slash, which Spark shortens.
            (
                f"{load.root.root}/{posixpath.normpath(file.path)}",
                *(file.path, file.time, file.size, file.modified),
            )
            for file in files
        ],
        "_at string, path string, file_at timestamp, _size bigint, written_at timestamp",
    )
    # Hadoop knows milliseconds.
    is_planned = (F.col("length") == F.col("_size")) & (
        F.date_trunc("millisecond", "modificationTime") == F.date_trunc("millisecond", "written_at")
    )
    return found.join(F.broadcast(planned), "_at").withColumn(
        "content", F.when(is_planned, F.col("content"))
    )
