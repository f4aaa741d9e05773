"""The landing folder, on a local disk or any Hadoop file system.

A remote one is listed and read by Spark: it need not be on S3, and on a cluster only Spark has its
credentials. `places.py` reaches all other files.
"""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tidemark import paths, places, targets
from tidemark.errors import ConfigError, SetupError
from tidemark.ingest.file_names import SIDE

# Listing a local folder does not need Spark, so Spark is imported only where it is needed.
if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

# Each file named in a statement makes it longer. Beyond this number, the sizes and times of the
# newest day's files are requested even if they are known.
_MOST_IN_SQL = 50_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Found:
    """A file version. Its path is relative to the landing folder.

    If the path is not UTF-8 (`is_text` is false), the invalid bytes are escaped, as in `\\xe9`.
    Spark cannot read such a file.
    """

    path: str
    size: int
    modified: datetime
    is_text: bool = True


# Gives the size and time of each file's newest version in the ledger, by path.
Known = Callable[[], Mapping[str, tuple[int, datetime]]]
# The SQL expression of a file's root and path, from its path or URI.
_AT = "regexp_replace({}, '^file:/+', '/') as _at"


class LandingFolder(ABC):
    """The folder where files arrive. Paths are relative to it and use /."""

    def __init__(self, root: str) -> None:
        self.root = root

    @abstractmethod
    def require(self) -> None:
        """Raise SetupError if it cannot be reached."""

    @abstractmethod
    def has(self, path: str) -> bool:
        """Whether the path is a file or a folder with files."""

    @abstractmethod
    def walk(self, path: str, known: Known) -> Iterator[Found]:
        """The files in a folder and its subfolders, without side files and links.

        Raises ConfigError if the folder is a link that leads out of the landing folder.
        """

    def delete(self, path: str) -> None:
        """Delete a file. Raises OSError if that is not possible, as on a store other than S3."""
        files, place = places.files_in(f"{self.root}/{path}")
        files.delete_file(place)

    def place(self, path: str) -> str | None:
        """The path at which this process and Spark's workers can open the file, or None."""
        return None

    def contents(self, spark: "SparkSession", paths: Iterable[str]) -> "DataFrame":
        """Each file's `content`, `length`, `modificationTime`, and `_at`, its root and path."""
        files = self._load(spark.read.format("binaryFile"), paths)
        return files.selectExpr(_AT.format("path"), "content", "length", "modificationTime")

    def lines(self, spark: "SparkSession", paths: Iterable[str]) -> "DataFrame":
        """The same with one row per line, without its line end (`\\n`), for any bytes.

        `_block` and then `_line` give the order.
        """
        # A URI. Java's decoder would turn + into a space.
        place = "url_decode(replace(_metadata.file_path, '+', '%2B'))"
        return self._load(spark.read.format("text").option("lineSep", "\n"), paths).selectExpr(
            _AT.format(place),
            "cast(value as binary) as content",
            "_metadata.file_size as length",
            "_metadata.file_modification_time as modificationTime",
            "_metadata.file_block_start as _block",
            # It increases within a block, because one task reads the block.
            "monotonically_increasing_id() as _line",
        )

    def _load(self, reader: "DataFrameReader", paths: Iterable[str]) -> "DataFrame":
        # Spark would read [ ] { } * ? as a pattern.
        places = [re.sub(r"([\[\]{}*?\\])", r"\\\1", f"{self.root}/{path}") for path in paths]
        return reader.load(places)


def as_text(path: str) -> str:
    """A path as text, with bytes that are not UTF-8 escaped as `\\xe9`."""
    return os.fsencode(path).decode(errors="backslashreplace")


def entries(folder: str, path: str) -> Iterator[tuple[str, "os.DirEntry[str]"]]:
    """The files in a folder and its subfolders, without side files and links.

    Each comes after its path, which starts with `path` in place of the folder.
    """
    with os.scandir(folder) as found:
        for entry in found:
            if SIDE.search(entry.name):
                continue
            below = f"{path}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                yield from entries(entry.path, below)
            elif entry.is_file(follow_symlinks=False):
                yield below, entry


def landing_folder() -> LandingFolder:
    """The landing folder: TIDEMARK_LANDING, or `landing` in the project."""
    return at(paths.landing())


def at(place: str) -> LandingFolder:
    """The landing folder at a path, or at a URI such as `s3a://bucket/folder`."""
    return _Remote(place.rstrip("/")) if "://" in place else _Local(place)


def micros(at: datetime) -> int:
    """Microseconds since 1970, as the ledger and Spark compare times."""
    return (at - EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    """The time so many microseconds after 1970 began."""
    return EPOCH + timedelta(microseconds=micros)


def _is_none_of(versions: Iterable[tuple[str, int, datetime]]) -> str:
    """An SQL condition: the file is not one of these versions (URI, size, time)."""
    at = "unix_micros(_metadata.file_modification_time)"
    known = "', '".join(
        f"{uri} {size} {micros(modified)}".replace("'", "%27") for uri, size, modified in versions
    )
    uri = "replace(_metadata.file_path, chr(39), '%27')"
    return f"concat_ws(' ', {uri}, _metadata.file_size, {at}) not in ('{known}')"


class _Local(LandingFolder):
    def require(self) -> None:
        if not Path(self.root).is_dir():
            raise SetupError(
                f"The landing folder {self.root} does not exist. Create it, "
                "or point TIDEMARK_LANDING at the folder where your change files arrive."
            )
        if self.root != as_text(self.root):
            raise SetupError(
                f"The path of the landing folder {as_text(self.root)} is not UTF-8, so Spark "
                "cannot read it. Rename the folder."
            )

    def has(self, path: str) -> bool:
        return Path(self.root, path).exists()

    def walk(self, path: str, known: Known) -> Iterator[Found]:
        folder = Path(self.root, path)
        if not folder.is_dir():
            return
        if not folder.resolve().is_relative_to(Path(self.root).resolve()):
            raise ConfigError(f"{folder} is a link that leads out of the landing folder.")
        for below, entry in entries(str(folder), path):
            status = entry.stat()
            micros = status.st_mtime_ns // 1000
            modified = datetime.fromtimestamp(micros / 1_000_000, UTC)
            name = as_text(below)
            yield Found(name, status.st_size, modified, name == below)

    def place(self, path: str) -> str | None:
        return f"{self.root}/{path}" if targets.method() == "session" else None

    def _load(self, reader: "DataFrameReader", paths: Iterable[str]) -> "DataFrame":
        # Hadoop's own local file system cannot read a name with a colon.
        reader = reader.option("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
        return super()._load(reader.option("fs.file.impl.disable.cache", True), paths)


class _Remote(LandingFolder):
    """Lists files with Spark's binaryFile source, which also works over Spark Connect."""

    def require(self) -> None:
        from tidemark.spark import session

        session.require_reachable(session.get(), "landing folder", self.root)

    def has(self, path: str) -> bool:
        try:
            # Over Spark Connect, only a question finds that a path is missing.
            return bool(self._files(path).columns)
        except Exception as error:  # Spark's AnalysisException
            if "PATH_NOT_FOUND" in str(error):
                return False
            raise

    def walk(self, path: str, known: Known) -> Iterator[Found]:
        try:
            files = self._files(path)
            uris = files.inputFiles()
        except Exception as error:  # Spark's AnalysisException
            if "PATH_NOT_FOUND" in str(error):
                return
            raise
        # Names cost one request per thousand files, sizes and times one request per file. So ask
        # for them only if a file is new, or was written after the newest known file and differs
        # from its known version. An object's time may be the start of its upload, so it may be
        # earlier than the moment the object appeared.
        versions = known()
        names = {self._below(unquote(uri)): uri for uri in uris}
        names = {
            name: uri for name, uri in names.items() if not any(map(SIDE.search, name.split("/")))
        }
        since = max((versions[name][1] for name in names if name in versions), default=None)
        recent = files
        if since:
            since -= timedelta(days=1)
            seen = [(uri, *versions[name]) for name, uri in names.items() if name in versions]
            written = "unix_micros(_metadata.file_modification_time)"
            recent = files.where(f"{written} >= {micros(since)}")
            seen = [each for each in seen if each[2] >= since]
            if len(seen) <= _MOST_IN_SQL:
                recent = recent.where(_is_none_of(seen))
        status = self._status(recent)
        others = [name for name in names if name not in status and name not in versions]
        if since and others:
            status |= self._status(self._files(*others) if len(others) < len(names) // 2 else files)
        for name in names:
            # The source skips empty files, which never differ.
            yield Found(name, *(status.get(name) or versions.get(name) or (0, EPOCH)))

    def _files(self, *paths: str) -> "DataFrame":
        reader = self._lister.read.format("binaryFile").option("recursiveFileLookup", True)
        return self._load(reader, paths)

    @cached_property
    def _lister(self) -> "SparkSession":
        """A session that lists files in few tasks. Other sessions keep their settings."""
        from tidemark.spark import session

        spark = session.fresh()
        spark.conf.set("spark.sql.files.openCostInBytes", "0")
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(1 << 62))
        return spark

    def _status(self, files: "DataFrame") -> dict[str, tuple[int, datetime]]:
        rows = files.select("path", "length", "modificationTime").collect()
        return {
            self._below(row["path"]): (row["length"], row["modificationTime"].replace(tzinfo=UTC))
            for row in rows
        }

    def _below(self, path: str) -> str:
        return path.removeprefix(self.root).lstrip("/")
