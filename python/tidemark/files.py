"""Files of the landing folder: which there are, what each is, and in which order they apply."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tidemark.errors import ConfigError
from tidemark.feeds import Feed, time_pattern

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# AWS DMS names: LOAD and a hexadecimal counter for the full load, the UTC time at which the
# file was closed for changes. The digits after the seconds are a decimal fraction.
_DMS_LOAD = re.compile(
    r"^(SEGMENT[0-9A-Za-z]+_)?LOAD(_\d+_)?(?P<counter>[0-9A-F]{1,16})\.csv(\.gz)?$", re.IGNORECASE
)
_DMS_CHANGES = re.compile(r"^(?P<time>\d{8}-\d{6})(?P<fraction>\d{1,9})\.csv(\.gz)?$", re.I)
_EXTRACT = re.compile(r"\.csv(\.gz)?$", re.IGNORECASE)
# Files and folders that producers and copy tools leave beside the data.
_SIDE = re.compile(r"^[._]|\.(dfm|crc|tmp|md)$|^awsdms_|^s3_validation_failures$", re.IGNORECASE)


@dataclass(frozen=True, order=True)
class LandedFile:
    """One version of a file in the landing folder; sorts in the order in which files apply."""

    time: datetime
    path: str
    kind: str
    size: int
    modified: datetime


def listed(root: Path, feed: Feed) -> list[LandedFile]:
    """The feed's files, in the order in which they apply; the kind of a stranger is `foreign`.

    Raises ConfigError when the feed's folder is a link that leaves the landing folder.
    """
    folder = root / feed.path
    if not folder.is_dir():
        return []
    if not folder.resolve().is_relative_to(root.resolve()):
        raise ConfigError(f"{feed.declared_in}, {feed.name}: {folder} leaves the landing folder.")
    return sorted(_file(feed, root, found) for found in _walk(folder))


def _walk(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if _SIDE.search(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                yield entry


def _file(feed: Feed, root: Path, entry: os.DirEntry[str]) -> LandedFile:
    status = entry.stat()
    modified = datetime.fromtimestamp(status.st_mtime_ns // 1000 / 1_000_000, UTC)
    path = Path(entry.path).relative_to(root).as_posix()
    kind, time = _kind_and_time(feed, path, entry.name, modified)
    return LandedFile(time, path, kind, status.st_size, modified)


def _kind_and_time(feed: Feed, path: str, name: str, modified: datetime) -> tuple[str, datetime]:
    if feed.format == "extract":
        time = _time_in(feed, path) if feed.time_in_name else modified
        return ("load" if time and _EXTRACT.search(name) else "foreign"), time or modified
    changes = _DMS_CHANGES.match(name)
    if changes:
        try:
            second = datetime.strptime(changes["time"], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
        except ValueError:
            return "foreign", modified
        micros = int(changes["fraction"].ljust(6, "0")[:6])
        return "changes", second.replace(microsecond=micros)
    return ("load" if _DMS_LOAD.match(name) else "foreign"), modified


def _time_in(feed: Feed, path: str) -> datetime | None:
    """The time that a dated extract carries in its path below the feed's folder, as UTC."""
    form = feed.time_in_name or ""
    pattern = time_pattern(form)
    found = pattern.findall(path.removeprefix(f"{feed.path}/")) if pattern else []
    try:
        return datetime.strptime(found[-1], form).replace(tzinfo=UTC) if found else None
    except ValueError:
        return None
