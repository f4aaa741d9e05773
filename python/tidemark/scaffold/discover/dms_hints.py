"""What an AWS DMS task's rules and settings cost: each a sentence for the YAML and the report."""

from collections.abc import Iterator, Mapping
from typing import Any

from tidemark.scaffold.discover.dms_rules import locator, matches
from tidemark.scaffold.discover.dms_task import CHANGE_SEQUENCE, Task


def of(task: Task, schema: str, table: str) -> list[str]:
    """What the rules and settings cost, and what of them nobody understands here."""
    return [*_of_rules(task, schema, table), *_of_files(task, schema, table), *_of_task(task)]


def _of_rules(task: Task, schema: str, table: str) -> Iterator[str]:
    for rule in task.rules:
        if rule.kind in ("selection", "transformation") and not (
            matches(rule.schema, schema) and matches(rule.table, table)
        ):
            continue
        if not rule.is_understood:
            yield f"{rule.told} is of a kind that is not known here: see what it changes"
        elif rule.action in ("remove-column", "include-column"):
            kept = "alone" if rule.action == "include-column" else "not"
            column = locator(rule.content, "column-name") or "%"
            yield f"{rule.told}: column {column} is {kept} in the files"
        elif rule.content.get("filters"):
            yield (
                f"{rule.told} has filters: a row that no longer passes them may stay here as it was"
            )
    images = task.images(schema, table) or {}
    if not task.has_names and images.get("column-filter", "pk-only") != "pk-only":
        yield (
            "its before images are of more columns than the key's, which files without column "
            "names cannot have: let column-filter be pk-only"
        )
    if images.get("column-suffix"):
        yield (
            f"its before images have the suffix {images['column-suffix']}, which no setting "
            "can say: an update of the key leaves the old row behind; use column-prefix alone"
        )


def _of_files(task: Task, schema: str, table: str) -> Iterator[str]:
    if not task.sequence(schema, table):
        yield (
            f"no column has {CHANGE_SEQUENCE}: changes are ordered by their file's time and "
            "their place in it alone, and a file that comes again under another name counts "
            "again; an add-column rule mends it"
        )
    if not task.text("TimestampColumnName"):
        yield (
            "no TimestampColumnName: the history is dated by the time of the files, not of "
            "the commits (CdcMaxBatchInterval, by default a minute later)"
        )
    if task.is_on("CdcInsertsOnly"):
        yield "CdcInsertsOnly: updates and deletes never arrive; rows stay as they were first"
    if task.is_on("CdcInsertsAndUpdates"):
        yield "CdcInsertsAndUpdates: deletes never arrive; deleted rows stay"
    if not task.is_on("IncludeOpForFullLoad"):
        yield (
            "IncludeOpForFullLoad is off, which is well, but load files are only told by "
            "their names (LOAD...): never rename them"
        )
    if not task.is_parquet:
        yield from _of_csv(task)
    if task.is_on("ParquetTimestampInMillisecond") and task.is_parquet:
        yield "ParquetTimestampInMillisecond: the microseconds of timestamps are lost"
    zone = task.text("DatePartitionTimezone")
    if zone and zone != "UTC" and task.is_on("DatePartitionEnabled"):
        yield (
            f"file names have the time of {zone}: in an hour that comes twice, the time at "
            "which a file was written decides, so copies must keep it; unset "
            "DatePartitionTimezone"
        )
    if task.has_transactions and task.folder(schema, table) != (schema, table):
        yield (
            "the rules rename it, and its name in CDC_TXN files is taken to be the new one: "
            "see source_table"
        )


def _of_csv(task: Task) -> Iterator[str]:
    if not task.is_on("AddColumnName"):
        yield (
            "AddColumnName is off: columns go by their place, so a column that the source "
            "adds or drops breaks or shifts the rows of files; Parquet, or AddColumnName, "
            "mends it"
        )
    if "Rfc4180" in task.target and not task.is_on("Rfc4180"):
        yield "Rfc4180 is off: a text with a delimiter or a line end in it breaks its row"
    if task.target.get("CsvNullValue") == "":
        yield "CsvNullValue is empty: an empty text cannot be told from NULL, and becomes NULL"
    if task.is_on("AddTrailingPaddingCharacter"):
        yield "AddTrailingPaddingCharacter: texts are padded, and stay so"


def _of_task(task: Task) -> Iterator[str]:
    if task.migration == "full-load":
        yield "the task is a full load only: no change ever arrives, only reloads"
    if task.migration == "cdc":
        yield "the task has changes only: a row that does not change never arrives"
    lobs = _section(task.settings, "TargetMetadata")
    if lobs.get("SupportLobs") is False:
        yield "LOBs are off: columns of long texts, JSON and binaries are missing or empty"
    elif lobs.get("LimitedSizeLobMode"):
        yield (
            f"limited LOB mode: long texts, JSON and binaries are cut at "
            f"{lobs.get('LobMaxSize', 32)} KB (LobMaxSize), without a mark"
        )
    elif lobs.get("FullLobMode"):
        yield "full LOB mode, which AWS DMS does not support for S3: long values may be missing"
    if lobs.get("BatchApplyEnabled"):
        yield "BatchApplyEnabled, which AWS DMS does not support for S3: changes may be lost"
    if _section(task.settings, "FullLoadSettings").get("TargetTablePrepMode") == "DO_NOTHING":
        yield (
            "TargetTablePrepMode is DO_NOTHING: a shorter reload leaves load files of the one "
            "before, whose rows stay; delete a table's files before its reload"
        )
    handling = _section(task.settings, "ChangeProcessingDdlHandlingPolicy")
    if handling.get("HandleSourceTableTruncated"):
        yield (
            "HandleSourceTableTruncated: a truncate deletes the files and is told nowhere, so "
            "the rows stay here; turn it off, and reload the table after one"
        )
    if "postgres" in task.engine:
        yield (
            "PostgreSQL with its default replica identity logs the key alone of deletes, and "
            "NULL for long values that an update did not change: set REPLICA IDENTITY FULL, "
            "or ignore_null_updates here, by which no update can set NULL"
        )
    elif "oracle" in task.engine:
        yield (
            "Oracle without SUPPLEMENTAL LOG DATA (ALL) COLUMNS leaves columns of updates "
            "NULL: turn it on, or use CsvNoSupValue, or ignore_null_updates here"
        )
    elif task.engine in ("mysql", "mariadb", "aurora"):
        yield (
            "MySQL with another binlog_row_image than FULL leaves columns of updates NULL, "
            "and its commits have whole seconds"
        )


def _section(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = settings.get(name)
    return found if isinstance(found, Mapping) else {}
