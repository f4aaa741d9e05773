"""Describe a Delta table for AWS Glue: types, comments, and what Athena needs."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from tidemark.errors import TidemarkError

_TYPES = re.compile(
    r"(tinyint|smallint|int|bigint|float|double|decimal\(\d+,\d+\)|boolean|string|binary|date"
    r"|timestamp)"
)
_LONGEST = {"comment": 255, "description": 2048}
_FORMAT = {
    "InputFormat": "org.apache.hadoop.mapred.SequenceFileInputFormat",
    "OutputFormat": "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
}
_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
# Athena and Lake Formation recognize a Delta table by these parameters. Spark and Delta also write
# a version and a time, which nothing reads and which the next commit would make outdated.
_OURS = {
    "classification": "delta",
    "table_type": "DELTA",
    "spark.sql.sources.provider": "delta",
    "spark.sql.partitionProvider": "catalog",
}
_SCHEMA = "spark.sql.sources.schema"


class RefusedError(TidemarkError):
    """The table cannot be described in the Data Catalog."""


@dataclass(frozen=True)
class Table:
    """A table in Spark, with descriptions from the project. `columns` has lower-case names.

    `full_name` is the name in Spark, `database` the one in Glue.
    """

    full_name: str
    database: str
    name: str
    location: str
    schema: StructType
    partitions: Sequence[str] = ()
    description: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)


def fresh(table: Table) -> dict[str, Any]:
    """Glue's TableInput for a new table. Raises RefusedError."""
    return refreshed(
        table,
        {
            "Name": table.name.lower(),
            "TableType": "EXTERNAL_TABLE",
            "Parameters": {"EXTERNAL": "TRUE"},
        },
    )


def refreshed(table: Table, there: Mapping[str, Any]) -> dict[str, Any]:
    """Update the TableInput `there` with the table's columns, location and parameters.

    Keeps what others have added. Raises RefusedError.
    """
    place = athena_location(table.location)
    found = deepcopy(dict(there))
    storage = found.setdefault("StorageDescriptor", {})
    known = {
        column["Name"].lower(): column
        for column in [*storage.get("Columns", ()), *found.get("PartitionKeys", ())]
    }
    columns = [_column(table, each, known) for each in table.schema.fields]
    twice = [name for name, count in Counter(each["Name"] for each in columns).items() if count > 1]
    if twice:
        raise RefusedError(
            f"{table.full_name}: two columns are called {twice[0]} in lower case, and the Data "
            "Catalog has only lower-case names. Rename one of them in the model."
        )
    keys = [name.lower() for name in table.partitions]
    storage["Columns"] = [each for each in columns if each["Name"] not in keys]
    by_name = {each["Name"]: each for each in columns}
    found["PartitionKeys"] = [by_name[key] for key in keys]
    storage |= _FORMAT | {"Location": place}
    serde = storage.setdefault("SerdeInfo", {})
    serde["SerializationLibrary"] = _SERDE
    serde["Parameters"] = {
        **(serde.get("Parameters") or {}),
        "serialization.format": "1",
        "path": place,
    }
    others = {
        name: value
        for name, value in (found.get("Parameters") or {}).items()
        # Spark splits a long schema into several parameters.
        if not name.startswith(f"{_SCHEMA}.")
    }
    found["Parameters"] = {**others, **_OURS, _SCHEMA: _without_comments(table.schema)}
    description = _one_line(table.description, "description")
    if description:
        found["Description"] = description
    return found


def athena_location(location: str) -> str:
    """The location as an s3:// URI, or '' if it is not on S3."""
    found = re.fullmatch(r"s3[an]?://(.+?)/*", location)
    return f"s3://{found[1]}" if found else ""


def location_of(there: Mapping[str, Any]) -> str:
    """The location of a table in Glue. Spark writes a placeholder as the location."""
    storage = there.get("StorageDescriptor") or {}
    path = ((storage.get("SerdeInfo") or {}).get("Parameters") or {}).get("path", "")
    return athena_location(path) or athena_location(storage.get("Location", ""))


def _column(
    table: Table, column: StructField, known: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    name = column.name.lower()
    words = table.columns.get(name) or column.metadata.get("comment", "")
    comment = _one_line(words, "comment")
    return {
        **known.get(name, {}),
        "Name": name,
        "Type": _type(column.dataType, f"{table.full_name}: the column {column.name}"),
        **({"Comment": comment} if comment else {}),
    }


def _type(data_type: DataType, where: str) -> str:
    if isinstance(data_type, ArrayType):
        return f"array<{_type(data_type.elementType, where)}>"
    if isinstance(data_type, MapType):
        key, value = (_type(each, where) for each in (data_type.keyType, data_type.valueType))
        return f"map<{key},{value}>"
    if isinstance(data_type, StructType):
        odd = [each.name for each in data_type.fields if not re.fullmatch(r"\w+", each.name)]
        if odd:
            raise RefusedError(
                f"{where} has a field '{odd[0]}', but field names in the Data Catalog may contain "
                "only letters, digits and _. Rename it in the model, or exclude the table "
                "(config.meta.catalog: false)."
            )
        fields = [f"{each.name}:{_type(each.dataType, where)}" for each in data_type.fields]
        return f"struct<{','.join(fields)}>".lower()
    name = data_type.simpleString()
    if not _TYPES.fullmatch(name):
        raise RefusedError(
            f"{where} has the type {name}, which Athena does not support. Cast it in the model, "
            "for example to string, or exclude the table (config.meta.catalog: false)."
        )
    return name


def _one_line(text: str, what: str) -> str:
    line = " ".join(text.split())
    longest = _LONGEST[what]
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def _without_comments(schema: StructType) -> str:
    """The schema in Spark's catalog format. Comments are stored with the columns instead."""

    def plain(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: {} if key == "metadata" else plain(each) for key, each in part.items()}
        return [plain(each) for each in part] if isinstance(part, list) else part

    return json.dumps(plain(json.loads(schema.json())), separators=(",", ":"))
