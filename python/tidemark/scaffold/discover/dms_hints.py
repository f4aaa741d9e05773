"""Limitations caused by an AWS DMS task's rules and settings, as hints for the YAML."""

from collections.abc import Iterator, Mapping
from typing import Any

from tidemark.scaffold.discover.dms_rules import locator, matches
from tidemark.scaffold.discover.dms_task import CHANGE_SEQUENCE, Task


def of(task: Task, schema: str, table: str) -> list[str]:
    """Hints on limitations, and on rules that Tidemark does not know."""
    return [*_of_rules(task, schema, table), *_of_files(task, schema, table), *_of_task(task)]


def _of_rules(task: Task, schema: str, table: str) -> Iterator[str]:
    for rule in task.rules:
        if rule.kind in ("selection", "transformation") and not (
            matches(rule.schema, schema) and matches(rule.table, table)
        ):
            continue
        if not rule.is_understood:
            yield f"{rule.told} is not known to Tidemark: check what it changes"
        elif rule.action in ("remove-column", "include-column"):
            kept = "only" if rule.action == "include-column" else "not"
            column = locator(rule.content, "column-name") or "%"
            yield f"{rule.told}: the files have {kept} the column {column}"
        elif rule.content.get("filters"):
            yield (
                f"{rule.told} has filters: a row that no longer passes them may stay unchanged here"
            )
    images = task.images(schema, table) or {}
    if not task.has_names and images.get("column-filter", "pk-only") != "pk-only":
        yield (
            "it has before images of columns other than the key, which is not supported in files "
            "without column names: set column-filter to pk-only"
        )
    if images.get("column-suffix"):
        yield (
            f"its before images have the suffix {images['column-suffix']}, which is not "
            "supported: an update of the key leaves the old row behind; use only column-prefix"
        )


def _of_files(task: Task, schema: str, table: str) -> Iterator[str]:
    if not task.sequence(schema, table):
        yield (
            f"no column has {CHANGE_SEQUENCE}: changes are ordered only by their file's time and "
            "their position in it, and a file that arrives again under another name counts twice; "
            "to fix this, use an add-column rule"
        )
    if not task.text("TimestampColumnName"):
        yield (
            "no TimestampColumnName: the history has the times of the files, not of the commits "
            "(CdcMaxBatchInterval, by default a minute later)"
        )
    if task.is_on("CdcInsertsOnly"):
        yield "CdcInsertsOnly: updates and deletes never arrive, so rows never change"
    if task.is_on("CdcInsertsAndUpdates"):
        yield "CdcInsertsAndUpdates: deletes never arrive, so deleted rows stay"
    if not task.is_on("IncludeOpForFullLoad"):
        yield (
            "IncludeOpForFullLoad is off: only their names (LOAD...) identify load files, so never "
            "rename them"
        )
    if not task.is_parquet:
        yield from _of_csv(task)
    if task.is_on("ParquetTimestampInMillisecond") and task.is_parquet:
        yield "ParquetTimestampInMillisecond: the microseconds of timestamps are lost"
    zone = task.text("DatePartitionTimezone")
    if zone and zone != "UTC" and task.is_on("DatePartitionEnabled"):
        yield (
            f"file names have the time of {zone}: in an hour that occurs twice, a file's "
            "modification time decides, so copies must keep it; better unset "
            "DatePartitionTimezone"
        )
    if task.has_transactions and task.folder(schema, table) != (schema, table):
        yield (
            "the rules rename it, and its new name is expected in CDC_TXN files: see source_table"
        )


def _of_csv(task: Task) -> Iterator[str]:
    if not task.is_on("AddColumnName"):
        yield (
            "AddColumnName is off: columns are matched by position, so a column that the source "
            "adds or drops breaks or shifts the rows of files; to fix this, use Parquet or "
            "AddColumnName"
        )
    if "Rfc4180" in task.target and not task.is_on("Rfc4180"):
        yield "Rfc4180 is off: a text that contains a delimiter or a line end breaks its row"
    if task.target.get("CsvNullValue") == "":
        yield "CsvNullValue is empty: an empty text becomes NULL"
    if task.is_on("AddTrailingPaddingCharacter"):
        yield "AddTrailingPaddingCharacter: texts stay padded"


def _of_task(task: Task) -> Iterator[str]:
    if task.migration == "full-load":
        yield "the task is full load only: changes never arrive, only reloads"
    if task.migration == "cdc":
        yield "the task is changes only: a row that does not change never arrives"
    lobs = _section(task.settings, "TargetMetadata")
    if lobs.get("SupportLobs") is False:
        yield "LOBs are off: columns with long texts, JSON or binaries are missing or empty"
    elif lobs.get("LimitedSizeLobMode"):
        yield (
            f"limited LOB mode: long texts, JSON and binaries are truncated at "
            f"{lobs.get('LobMaxSize', 32)} KB (LobMaxSize) without a warning"
        )
    elif lobs.get("FullLobMode"):
        yield "full LOB mode, which AWS DMS does not support for S3: long values may be missing"
    if lobs.get("BatchApplyEnabled"):
        yield "BatchApplyEnabled, which AWS DMS does not support for S3: changes may be lost"
    if _section(task.settings, "FullLoadSettings").get("TargetTablePrepMode") == "DO_NOTHING":
        yield (
            "TargetTablePrepMode is DO_NOTHING: a shorter reload leaves load files of the previous "
            "load, whose rows stay; delete a table's files before its reload"
        )
    handling = _section(task.settings, "ChangeProcessingDdlHandlingPolicy")
    if handling.get("HandleSourceTableTruncated"):
        yield (
            "HandleSourceTableTruncated: a truncate only deletes files, so the rows stay here; "
            "turn it off, and reload the table after a truncate"
        )
    if "postgres" in task.engine:
        yield (
            "PostgreSQL with its default replica identity logs only the key of deletes, and NULL "
            "for long values that an update did not change: set REPLICA IDENTITY FULL, or "
            "ignore_null_updates here, but then no update can set NULL"
        )
    elif "oracle" in task.engine:
        yield (
            "Oracle without SUPPLEMENTAL LOG DATA (ALL) COLUMNS leaves columns of updates "
            "NULL: turn it on, use CsvNoSupValue, or set ignore_null_updates here"
        )
    elif task.engine in ("mysql", "mariadb", "aurora"):
        yield (
            "MySQL with a binlog_row_image other than FULL leaves columns of updates NULL; its "
            "commit times are in whole seconds"
        )


def _section(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = settings.get(name)
    return found if isinstance(found, Mapping) else {}
