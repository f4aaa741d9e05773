"""Adding a table: its YAML entry and its three models, written as a person would."""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import yaml

from tidemark.errors import ConfigError

_ARROW_TYPES = {
    pa.types.is_boolean: "boolean",
    pa.types.is_integer: "bigint",
    pa.types.is_floating: "double",
    pa.types.is_date: "date",
    pa.types.is_timestamp: "timestamp",
}
_MODELS = {
    "staging": (
        "stg",
        "{{{{ typed_changes(source('{source}', '{table}'), feed('{source}', '{table}')) }}}}\n",
    ),
    "current": (
        "cur",
        "{{{{ config(unique_key={key}) }}}}\n\n"
        "{{{{ current_from_changes(\n"
        "    ref('stg_{source}__{table}'),\n"
        "    feed('{source}', '{table}'),\n"
        ") }}}}\n",
    ),
    "history": (
        "hist",
        "{{{{ history_from_changes(\n"
        "    ref('stg_{source}__{table}'),\n"
        "    feed('{source}', '{table}'),\n"
        ") }}}}\n",
    ),
}


@dataclass(frozen=True)
class NewTable:
    """A table to be added: `columns` maps names to Spark types, in the files' order."""

    source: str
    table: str
    columns: dict[str, str]
    feed: dict[str, Any]


def inferred_columns(landing: Path, path: str, delimiter: str = ",") -> dict[str, str]:
    """Names and Spark types of the columns, from the first CSV file (with header) of a folder.

    Raises ConfigError when there is no such file.
    """
    found = sorted((landing / path).rglob("*.csv")) + sorted((landing / path).rglob("*.csv.gz"))
    if not found:
        raise ConfigError(
            f"There is no .csv file below {landing / path}: put one there, name the folder with "
            "--path, or give the columns with --columns 'id bigint, name string'."
        )
    sample = pa.csv.read_csv(
        found[0],
        parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(strings_can_be_null=True),
    )
    return {column.name: _spark_type(column.type) for column in sample.schema}


def split_columns(text: str) -> list[str]:
    """`id bigint, price decimal(9, 2)` into its entries; commas within brackets stay."""
    return [entry.strip() for entry in re.split(r",(?![^(]*\))", text)]


def _spark_type(arrow_type: pa.DataType) -> str:
    return next((name for is_it, name in _ARROW_TYPES.items() if is_it(arrow_type)), "string")


def write(project: Path, new: NewTable) -> list[Path]:
    """Write the YAML entry and the three models; gives the files, YAML first.

    Nothing is overwritten. Raises ConfigError when the table or a file is there already.
    """
    names = {"source": new.source, "table": new.table, "key": repr(_as_list(new.feed["key"]))}
    models = {
        project / "models" / layer / new.source / f"{prefix}_{new.source}__{new.table}.sql": body
        for layer, (prefix, body) in _MODELS.items()
    }
    for file in models:
        if file.exists():
            raise ConfigError(f"{file.relative_to(project)} exists already: nothing was written.")
    declared = _declare(project, new)
    for file, body in models.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(body.format(**names))
    return [declared, *models]


def _as_list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _declare(project: Path, new: NewTable) -> Path:
    file = project / "models" / "staging" / new.source / f"_{new.source}__sources.yml"
    key = _as_list(new.feed["key"])
    missing = [name for name in key if name not in new.columns]
    if missing:
        raise ConfigError(
            f"The key column {', '.join(missing)} is not among the columns: "
            f"{', '.join(new.columns)}."
        )
    entry = {
        "name": new.table,
        "description": f"The change log of {new.table}: every change that arrived, once, as text.",
        "config": {"meta": {"feed": new.feed}},
        "columns": [
            {"name": name, "description": "", "data_type": data_type}
            for name, data_type in new.columns.items()
        ],
    }
    text = textwrap.indent(_yaml([entry]), "      ")
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        head = (
            f"sources:\n  - name: {new.source}\n"
            f"    description: Change feeds of {new.source}.\n"
            f"    schema: log_{new.source}\n    tables:\n"
        )
        file.write_text(head + text)
        return file
    before = file.read_text()
    tables = [table["name"] for table in _tables(before)]
    if new.table in tables:
        raise ConfigError(f"{file.relative_to(project)} declares {new.table} already.")
    after = before.rstrip("\n") + "\n" + text
    try:
        fits = [table["name"] for table in _tables(after)] == [*tables, new.table]
    except yaml.YAMLError:
        fits = False
    if not fits:
        raise ConfigError(
            f"{file.relative_to(project)} does not end with its list of tables: add this to the "
            f"list by hand, then run the command again without it being there.\n{text}"
        )
    file.write_text(after)
    return file


def _tables(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load(text)["sources"][-1]["tables"])


class _Dumper(yaml.SafeDumper):
    """Lists are indented below their name, as everywhere in the project."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
