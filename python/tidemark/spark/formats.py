"""Table formats besides Delta, which needs nothing of this: their jars and their catalogs in Spark.

A format's tables are in a catalog of its own, on the same metastore: Delta's catalog can only be
`spark_catalog`, and cannot contain another one. What dbt must do for a format is in macros/formats.

A Spark gets the jars and settings of a format when it starts, if the project asks for the format or
the lake has tables in it. Others do not change at all.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tidemark import paths
from tidemark.errors import TidemarkError
from tidemark.spark import spark_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The formats that the lake's tables may have, a name per line.
_NOTE = "formats"
_FOLDERS = ("model", "seed", "snapshot")
# What a snapshot's summary calls the run that made it, also in the macro `_versions_of_iceberg`.
_RUN = "tidemark-run"


@dataclass(frozen=True)
class Format:
    """A table format, by its name in `file_format`, which is also the name of its catalog."""

    name: str
    title: str
    # What `show table extended` says of its tables in the metastore.
    mark: re.Pattern[str]
    # Of the catalog.
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def lock(self) -> Path:
        """The lock file of its jars. A Spark version that does not support the format has none."""
        return spark_line.lock_folder() / f"jars-{self.name}.lock"


ICEBERG = Format(
    "iceberg",
    "Iceberg",
    re.compile(r"\btable_type=ICEBERG\b", re.IGNORECASE),
    {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "hive",
        # Each session keeps tables for half a minute, and would not see what another one writes.
        ".cache-enabled": "false",
        # Spark lacks the jar for Hive's locks. Here one process writes, and each table by one node.
        ".hadoop.iceberg.engine.hive.lock-enabled": "false",
        # As Spark's own client of the metastore, which may be new.
        ".hadoop.hive.metastore.schema.verification": "false",
        ".hadoop.datanucleus.schema.autoCreateAll": "true",
        # Each commit writes the metadata of all that came before it.
        ".table-default.write.metadata.delete-after-commit.enabled": "true",
        ".table-default.write.metadata.previous-versions-max": "20",
    },
)
FORMATS = {format.name: format for format in (ICEBERG,)}


def used() -> list[Format]:
    """The formats that Spark needs for this lake and this project."""
    names = _noted() | _asked_for(paths.project_dir())
    return [each for each in FORMATS.values() if each.name in names and each.lock.exists()]


def settings() -> dict[str, str]:
    """The Spark settings of the formats that are used."""
    return {
        f"spark.sql.catalog.{each.name}{name}": value
        for each in used()
        for name, value in each.settings.items()
    }


def note(formats: list[Format], lake: Path | None = None) -> None:
    """Record that the lake may have tables in these formats."""
    noted = _noted(lake)
    names = noted | {each.name for each in formats}
    if names > noted:
        with paths.opened_in_lake(_NOTE, "w", lake=lake) as file:
            file.write("".join(f"{name}\n" for name in sorted(names)))


def of_table(information: str) -> Format | None:
    """The format of a table by the answer of `show table extended`; None if it is another one."""
    return next((each for each in FORMATS.values() if each.mark.search(information)), None)


def of_name(table: str) -> Format | None:
    """The format of a table by its name: `catalog.schema.table`. None for Delta's."""
    return FORMATS.get(table.split(".")[0]) if table.count(".") > 1 else None


@dataclass(frozen=True)
class Stored:
    """What a table's last commit says: its files, their bytes, and its snapshots that are old."""

    files: int
    size: int
    old_snapshots: int


def stored(folder: Path, before: datetime) -> Stored | None:
    """What is in a table's folder; None without a table. Snapshots before this time are old."""
    found = _newest_metadata(folder / "metadata")
    if not found:
        return None
    told = json.loads(found.read_text())
    current = told.get("current-snapshot-id")
    snapshots = told.get("snapshots", [])
    summary: dict[str, str] = next(
        (s["summary"] for s in snapshots if s["snapshot-id"] == current), {}
    )
    limit = before.timestamp() * 1000
    # Branches and tags keep theirs.
    kept = {current, *(ref["snapshot-id"] for ref in told.get("refs", {}).values())}
    old = [s for s in snapshots if s["timestamp-ms"] < limit and s["snapshot-id"] not in kept]
    files, size = summary.get("total-data-files", 0), summary.get("total-files-size", 0)
    return Stored(int(files), int(size), len(old))


def compact(table: str, many: int, largest: int) -> str:
    """The statement that makes files of up to `largest` bytes of `many` or more small ones."""
    options = {"min-input-files": many, "target-file-size-bytes": largest}
    told = ", ".join(f"'{name}', '{value}'" for name, value in options.items())
    return _call("rewrite_data_files", table, f"options => map({told})")


def expire(table: str, before: datetime) -> str:
    """The statement that deletes the snapshots from before this time, and what only they need."""
    at = f"timestamp'{before:%Y-%m-%d %H:%M:%S}'"
    return _call("expire_snapshots", table, f"older_than => {at}, retain_last => 1")


def versions(table: str) -> str:
    """A query of a table's versions, the newest first, with columns of Delta's history."""
    name = _quoted(table)
    return (
        "select version.snapshot_id as version, made_current_at as timestamp, operation, "
        f"summary['{_RUN}'] as userMetadata from {name}.history as version "
        f"join {name}.snapshots as made on made.snapshot_id = version.snapshot_id "
        "order by made_current_at desc"
    )


def restore(table: str, version: int | str) -> str:
    """The statement that puts a table back to a version."""
    return _call("set_current_snapshot", table, f"snapshot_id => {version}")


def commits_tell(run_id: str) -> dict[str, str]:
    """The settings with which the commits of tables have the run's id."""
    return {f"spark.sql.{each.name}.snapshot-property.{_RUN}": run_id for each in used()}


def forget(spark: "SparkSession", table: str, folder: Path) -> int:
    """Delete all that the newest version does not need, also files of no version. The version.

    Raises TidemarkError if a branch or a tag keeps other versions.
    """
    spark.sql(expire(table, datetime.now(UTC))).collect()
    others = [ref.name for ref in _rows(spark, table, "refs") if ref.name != "main"]
    if others:
        raise TidemarkError(
            f"{table}: the branches or tags {', '.join(others)} keep earlier versions. Drop them, "
            "with the engine that created them"
        )
    needed = {row.file_path for row in _rows(spark, table, "all_files")}
    needed |= {row.path for row in _rows(spark, table, "all_manifests")}
    (newest,) = _rows(spark, table, "snapshots")
    needed.add(newest.manifest_list)
    plain = {re.sub(r"^file:/*", "/", place) for place in needed}
    for file in [*folder.rglob("*.parquet"), *folder.rglob("*.avro")]:
        if str(file) not in plain:
            file.unlink()
    return int(newest.snapshot_id)


def _rows(spark: "SparkSession", table: str, metadata: str) -> list[Any]:
    return spark.table(f"{_quoted(table)}.{metadata}").collect()


def _quoted(table: str) -> str:
    return ".".join(f"`{part}`" for part in table.split("."))


def _call(procedure: str, table: str, arguments: str) -> str:
    # The session imports this module.
    from tidemark.spark.session import literal

    catalog, name = table.split(".", 1)
    return f"call {catalog}.system.{procedure}(table => {literal(name)}, {arguments})"


def lost(schema: str, folder: Path) -> Iterator[tuple[str, str]]:
    """The tables in a schema's folder that a new metastore lacks, and what registers each."""
    for metadata in sorted(folder.glob("*/metadata")):
        found = _newest_metadata(metadata)
        if found:
            name = f"{schema}.{metadata.parent.name}"
            yield f"{ICEBERG.name}.{name}", _register(name, found)


def lost_table(name: str, folder: Path) -> str:
    """What registers a table that the metastore has lost, by its folder; '' if there is none.

    A first commit alone is what a killed build leaves.
    """
    found = _newest_metadata(folder / "metadata")
    if found and int(found.name.partition("-")[0]) > 0:
        return _register(name, found)
    return ""


def _newest_metadata(folder: Path) -> Path | None:
    """The last commit of an Iceberg table.

    Not the highest number: of a table that was dropped and created again, both may be there.
    """
    files = folder.glob("[0-9]*-*.metadata.json")
    times = [(json.loads(file.read_text())["last-updated-ms"], file.name, file) for file in files]
    return max(times)[2] if times else None


def _register(name: str, metadata: Path) -> str:
    # The session imports this module.
    from tidemark.spark.session import literal

    file = literal(str(metadata))
    return _call("register_table", f"{ICEBERG.name}.{name}", f"metadata_file => {file}")


def _noted(lake: Path | None = None) -> set[str]:
    file = (lake or paths.lake_dir()) / _NOTE
    return {*file.read_text().split()} if file.exists() else set()


@cache
def _asked_for(root: Path) -> set[str]:
    """The formats that the project's files name, without dbt, which needs seconds to parse them.

    Not those that a variable names: see `relations._require_format`.
    """
    pattern = re.compile(rf"file_format['\"]?\s*[:=]\s*['\"]?({'|'.join(FORMATS)})\b")
    comment = re.compile(r"(^|\s)(#|--).*")
    texts = ("\n".join(comment.sub("", line) for line in _lines(text)) for text in _texts(root))
    return {found for text in texts for found in pattern.findall(text)}


def _lines(text: str) -> list[str]:
    return text.splitlines() if "file_format" in text else []


def _texts(root: Path) -> Iterator[str]:
    settings = (root / "dbt_project.yml").read_text()
    yield settings
    told = yaml.safe_load(settings) or {}
    for name in _FOLDERS:
        folders = told.get(f"{name}-paths") or [f"{name}s"]
        for folder in [folders] if isinstance(folders, str) else folders:
            for file in (root / folder).rglob("*.*"):
                # An editor's hidden copies may be links to nothing.
                if file.suffix in (".yml", ".yaml", ".sql", ".py") and file.name[0] not in ".#~":
                    with suppress(OSError):
                        yield file.read_text(errors="replace")
