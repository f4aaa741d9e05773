"""Files of the landing folder: their kinds, and the order in which they apply."""

import posixpath
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tidemark.feed_values import time_pattern
from tidemark.feeds import Feed
from tidemark.ingest.file_names import DMS_CHANGES, DMS_LOAD, DMS_TRANSACTIONS
from tidemark.readers import type_of_file
from tidemark.readers.debezium import offset_in
from tidemark.reasons import Reason, Why
from tidemark.storage import Found, Known, LandingFolder, from_micros

# Files of one full load that were copied, or written in parallel, are not in order to the minute.
_OF_ONE_LOAD = timedelta(hours=1)


@dataclass(frozen=True, order=True)
class LandedFile:
    """One version of a file in the landing folder; sorts in the order in which files apply."""

    time: datetime
    path: str
    kind: str
    size: int
    modified: datetime


def listed(root: LandingFolder, feed: Feed, known: Known = dict) -> list[LandedFile]:
    """The feed's files, in the order in which they apply; the kind of a stranger is `foreign`.

    Of one whose path is not UTF-8 it is `misnamed`.
    Raises ConfigError when the feed's folder is a link that leaves the landing folder.
    """
    folders = [feed.path, *([feed.transactions_path] if feed.transactions_path else [])]
    found = [_file(feed, file) for folder in folders for file in root.walk(folder, known)]
    if feed.complete_marker:
        whole = {
            folder: root.has(f"{folder}/{feed.complete_marker}")
            for folder in {posixpath.dirname(file.path) for file in found}
        }
        found = [
            file
            for file in found
            if (whole[posixpath.dirname(file.path)] or file.kind == "misnamed")
            and posixpath.basename(file.path) != feed.complete_marker
        ]
    return sorted(set(found))


def _file(feed: Feed, file: Found) -> LandedFile:
    name = posixpath.basename(file.path)
    if not file.is_text:
        kind, time = "misnamed", file.modified
    elif feed.format == "dms":
        kind, time = _dms(feed, name, file.modified)
    elif feed.format == "debezium":
        kind, time = _debezium(feed, name, file.modified)
    else:
        below = file.path.removeprefix(f"{feed.path}/")
        found = time_in(below, feed.time_in_name) if feed.time_in_name else file.modified
        known = "changes" if feed.status_column else "load"
        kind = known if found and type_of_file(name) else "foreign"
        time = found or file.modified
    return LandedFile(time, file.path, kind, file.size, file.modified)


def _dms(feed: Feed, name: str, modified: datetime) -> tuple[str, datetime]:
    if DMS_LOAD.match(name):
        return "load", modified
    changes = DMS_CHANGES.match(name) or DMS_TRANSACTIONS.match(name)
    if not changes:
        return "foreign", modified
    try:
        second = datetime.strptime(changes["time"].replace("-", ""), "%Y%m%d%H%M%S")
    except ValueError:
        return "foreign", modified
    micros = int(changes["fraction"].ljust(6, "0")[:6])
    return "changes", _in_utc(second.replace(microsecond=micros), feed.file_time_zone, modified)


def _in_utc(local: datetime, zone: str, modified: datetime) -> datetime:
    """A local time as UTC. In the hour that comes twice, the one before the file was written."""
    first, second = (
        local.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC) for fold in (0, 1)
    )
    return second if second != first and second <= modified + timedelta(minutes=1) else first


def _debezium(feed: Feed, name: str, modified: datetime) -> tuple[str, datetime]:
    offset = offset_in(name, feed)
    if offset is not None:
        # The file's place in its partition, as a time: it orders, and says nothing else. By offset
        # the records are in order without it, and the time says which topic the file is of.
        by_place = from_micros(offset)
        return "changes", modified if feed.is_by_offset else by_place
    # Some sinks write names without a type: the file's first bytes show it.
    return "foreign" if type_of_file(name) == "csv" else "changes", modified


def time_in(path: str, form: str) -> datetime | None:
    """The time that a dated extract carries in its path below the feed's folder, as UTC."""
    pattern = time_pattern(form)
    found = pattern.findall(path) if pattern else []
    try:
        return datetime.strptime(found[-1], form).replace(tzinfo=UTC) if found else None
    except ValueError:
        return None


def left_over(found: Collection[LandedFile], landed: Collection[str]) -> dict[str, Reason]:
    """Load files of an older, longer full load in a folder that was not cleared.

    AWS DMS writes a load's files one after the other: one that is much older than a file with a
    lower number is of another load. `found` are all files in the folder; those that have `landed`
    do not wait again. Gives the reason of each; someone can confirm that it belongs.
    """
    series: dict[tuple[str, str], list[tuple[int, LandedFile]]] = {}
    for file in found:
        folder, _, name = file.path.rpartition("/")
        match = DMS_LOAD.match(name)
        if match:
            of_series = series.setdefault((folder, match[1].upper()), [])
            of_series.append((int(match[2], 16), file))
    old = {}
    for (folder, _), numbered in series.items():
        newest: LandedFile | None = None
        for _, file in sorted(numbered):
            if newest and newest.modified - file.modified > _OF_ONE_LOAD:
                old[file.path] = Why.LEFT_OVER(newer=newest.path, file=file.path, folder=folder)
            elif not newest or file.modified > newest.modified:
                newest = file
    return {path: why for path, why in old.items() if path not in landed}
