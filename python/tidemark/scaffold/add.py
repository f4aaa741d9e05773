"""Adding tables: their YAML entries and their three models, written as a person would.

What is declared is read from the YAML files below models/, without dbt, so that it is quick.
"""

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tabulate import tabulate

from tidemark.errors import ConfigError, printable
from tidemark.scaffold import discover
from tidemark.scaffold.discover import task_tables
from tidemark.scaffold.discover.dms_task import Task

# LibYAML's loader, where it is there, takes a tenth of the time.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MODELS = {
    "staging": (
        "stg",
        "{{{{ tidemark.typed_changes(\n"
        "    source('{source}', '{table}'),\n"
        "    tidemark.feed('{source}', '{table}'),\n"
        ") }}}}\n",
    ),
    "current": (
        "cur",
        "{{{{ config(unique_key={key}) }}}}\n\n"
        "{{{{ tidemark.current_from_changes(\n"
        "    ref('stg_{source}__{table}'),\n"
        "    tidemark.feed('{source}', '{table}'),\n"
        ") }}}}\n",
    ),
    "history": (
        "hist",
        "{{{{ tidemark.history_from_changes(\n"
        "    ref('stg_{source}__{table}'),\n"
        "    tidemark.feed('{source}', '{table}'),\n"
        ") }}}}\n",
    ),
}


@dataclass(frozen=True)
class NewTable:
    """A table to be added: `columns` maps names to Spark types, in the files' order.

    With `todo`, decisions that a person must take, it is declared but switched off; `hints` are
    comments.
    """

    source: str
    table: str
    columns: dict[str, str]
    feed: dict[str, Any]
    todo: Sequence[str] = ()
    hints: Sequence[str] = ()


@dataclass(frozen=True)
class Declared:
    """A table of a source as a YAML file below models/ declares it, with its feed if it has one.

    `shared` are those settings of the feed that the source has for all its tables.
    """

    source: str
    table: str
    file: Path
    enabled: bool
    feed: Mapping[str, Any]
    shared: Mapping[str, Any]

    @property
    def name(self) -> str:
        """`source.table`."""
        return f"{self.source}.{self.table}"

    @property
    def runs(self) -> bool:
        """Whether `tidemark run` reads it: it is not switched off, and has a key."""
        return self.enabled and bool(self.feed.get("key"))

    @property
    def paths(self) -> list[str]:
        """The folders that it reads, below the landing folder."""
        own = self.feed.get("path") or f"{self.source}/{self.table}"
        folders = [own, *_as_list(self.feed.get("transactions_path"))]
        return [str(folder).strip("/") for folder in folders]


@dataclass
class Added:
    """What `discovered` did: a table and what is to be decided of it, files, and what it left."""

    tables: list[tuple[discover.Table, list[str]]] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    declared: dict[str, Declared] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    # What makes its tables inexact, with those for which it holds; none means all.
    hints: dict[str, list[str]] = field(default_factory=dict)


# --- what is there --------------------------------------------------------------------------------


def declared(project: Path) -> list[Declared]:
    """Every table of a source that the project declares."""
    found = []
    for file in sorted([*_files(project, "*.yml"), *_files(project, "*.yaml")]):
        try:
            content = yaml.load(file.read_text(), _Loader)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{file.relative_to(project)} is not readable YAML: {error}"
            ) from error
        sources = content.get("sources") if isinstance(content, Mapping) else None
        for source in sources or []:
            shared = _feed(source)
            for table in source.get("tables") or []:
                enabled = _is_enabled(source) and _is_enabled(table)
                feed = {**shared, **_feed(table)}
                name, own = str(source.get("name")), str(table.get("name"))
                found.append(Declared(name, own, file, enabled, feed, shared))
    return found


def _files(project: Path, pattern: str) -> list[Path]:
    return list((project / "models").rglob(pattern))


def _feed(entry: Mapping[str, Any]) -> dict[str, Any]:
    config = entry.get("config") or {}
    return (config.get("meta") or {}).get("feed") or (entry.get("meta") or {}).get("feed") or {}


def _is_enabled(entry: Mapping[str, Any]) -> bool:
    return (entry.get("config") or {}).get("enabled") is not False


# --- commands -------------------------------------------------------------------------------------


def discovered(project: Path, landing: Path, below: str = "") -> Added:
    """Declare every table whose files stand below a folder of the landing folder, if it is new.

    What stands in a YAML file already stays as it is. Raises ConfigError when there are no files.
    """
    return _declared_anew(project, landing, lambda paths: discover.survey(landing, below, paths))


def discovered_of_task(project: Path, task: Task, landing: str) -> Added:
    """Declare every table that an AWS DMS task writes below the landing folder, if it is new.

    `landing` may be a URI. Raises ConfigError when the task writes elsewhere, or nothing tells
    which tables it has.
    """
    added = _declared_anew(
        project, Path(landing), lambda paths: task_tables.survey(task, landing, paths)
    )
    hints: dict[str, list[str]] = {}
    for table, _ in added.tables:
        for hint in table.hints:
            hints.setdefault(hint, []).append(table.name)
    added.hints = {
        hint: [] if len(names) == len(added.tables) else names for hint, names in hints.items()
    }
    return added


def _declared_anew(
    project: Path, landing: Path, survey: Callable[[Mapping[str, str]], discover.Survey]
) -> Added:
    known = declared(project)
    by_name = {table.name: table for table in known}
    paths = {path: table.name for table in known if table.feed for path in table.paths}
    found = survey(paths)
    added = Added(left=found.left)
    added.declared = {folder: by_name[name] for folder, name in found.declared.items()}
    discover.name_tables(found.tables, landing, by_name)
    new: dict[str, list[NewTable]] = {}
    for table in found.tables:
        file = _sources_file(project, table.source)
        shared = next((each.shared for each in known if each.source == table.source), {})
        _set_apart(table, shared)
        todo = discover.problems(table, str(file.relative_to(project)), shared)
        added.tables.append((table, todo))
        new.setdefault(table.source, []).append(
            NewTable(table.source, table.table, table.columns, table.feed, todo, table.hints)
        )
    for tables in new.values():
        try:
            added.written.append(_declare(project, tables))
        except ConfigError as error:
            added.failed.append(str(error))
    return added


def _set_apart(table: discover.Table, shared: Mapping[str, Any]) -> None:
    """What the files tell counts, not what a source says of its tables in general."""
    usual = {
        "header": "all" if table.format == "extract" else "none",
        "delimiter": ",",
        "op_in_load": False,
        "op_in_changes": True,
        "timestamp_column": None,
    }
    if table.format != "debezium":
        for name in usual.keys() & shared.keys():
            table.settings.setdefault(name, usual[name])


def told(project: Path, added: Added) -> list[str]:
    """What `discovered` did, for a person: a line for each table, then what to do next."""
    rows = [
        (t.name, t.format, t.files, len(t.columns), ", ".join(_as_list(t.key)) or "TODO")
        for t, _ in added.tables
    ]
    rows.sort()
    lines = []
    if rows:
        headers = ("table", "format", "files", "columns", "key")
        lines += [*tabulate(rows, headers, tablefmt="plain").splitlines(), ""]
    for folder, table in added.declared.items():
        where = table.file.relative_to(project)
        lines.append(
            f"{printable(folder)} is of {table.name}, which {where} declares: left as it is"
        )
    lines += [f"Left: {printable(place)}: {printable(why)}" for place, why in added.left.items()]
    lines += [f"Wrote {file.relative_to(project)}" for file in added.written]
    off = [(table.name, todo) for table, todo in added.tables if todo]
    if off:
        lines.append("These are switched off until a person decides; see TODO in the YAML:")
        lines += [f"  {name}: {printable('; '.join(todo))}" for name, todo in off]
    if added.hints:
        lines.append("To know, also in the YAML:")
    for hint, names in added.hints.items():
        only = f" ({', '.join(sorted(names))})" if names else ""
        lines.append(f"  {printable(hint)}{only}")
    ready = sorted({table.source for table, todo in added.tables if not todo})
    if ready:
        add = f"tidemark add {' '.join(ready)}"
        lines.append(f"Next: check columns and types in the YAML, then: {add}; tidemark run")
    elif not off:
        lines.append("No new tables.")
    return lines


def sampled(landing: Path, source: str, table: str, given: Mapping[str, str]) -> NewTable:
    """A table as its files and the settings that are `given` describe it.

    Raises ConfigError when its key is not given, or the files do not tell the columns.
    """
    if "key" not in given:
        raise ConfigError(f"Name the key of {source}.{table}: --key, with commas between columns.")
    path = given.get("path", f"{source}/{table}").strip("/")
    if path != printable(path):
        raise ConfigError(f"--path {path}: the name is no plain text: rename the folder.")
    keys = [name.strip() for name in given["key"].split(",")]
    feed: dict[str, Any] = {"format": given.get("format", "extract"), "path": path}
    feed["key"] = keys[0] if len(keys) == 1 else keys
    stated = {name: given[name] for name in ("header", "delimiter") if name in given}
    if "columns" in given:
        entries = [entry.split(None, 1) for entry in split_columns(given["columns"])]
        if any(len(entry) < 2 for entry in entries):
            raise ConfigError("--columns: give name and type of each, 'id bigint, name string'.")
        return NewTable(source, table, dict(entries), {**feed, **stated})
    instead = "or give the columns with --columns 'id bigint, name string'."
    files = discover.files_of(landing, path)
    if not files:
        raise ConfigError(
            f"There are no files below {landing / path}: put one there, name the folder with "
            f"--path, {instead}"
        )
    try:
        found = discover.table_of(
            landing, path, files, wanted=given.get("format"), delimiter=given.get("delimiter")
        )
    except discover.NoTableError as error:
        raise ConfigError(f"{landing / path}: {error}. Mend it, {instead}") from error
    feed = {**feed, "format": found.format, **found.settings, **stated}
    return NewTable(source, table, found.columns, feed, hints=[*found.todos, *found.hints])


def write(project: Path, new: NewTable) -> list[Path]:
    """Write the YAML entry and the three models of one table; gives the files, YAML first.

    Nothing is overwritten. Raises ConfigError when the table or a file is there already.
    """
    models = _models(project, new.source, new.table, new.feed["key"])
    _refuse_existing(project, models)
    name = f"{new.source}.{new.table}"
    for table in declared(project):
        if table.name == name:
            raise ConfigError(
                f"{table.file.relative_to(project)} declares {name} already: change it there, "
                f"then: tidemark add {name}"
            )
    return [_declare(project, [new]), *_written(models)]


def write_models(project: Path, names: Iterable[str]) -> list[Path]:
    """Write the three models of declared tables: of SOURCE.TABLE, of SOURCE all that have none.

    Raises ConfigError, before anything is written, when a table is not declared, is switched off,
    or has a model already; of a SOURCE such tables are passed over.
    """
    known = [table for table in declared(project) if table.feed]
    there = {file.stem for file in _files(project, "*.sql") + _files(project, "*.py")}
    models: dict[Path, str] = {}
    for name in names:
        tables = [table for table in known if name in (table.name, table.source)]
        if not tables:
            raise ConfigError(
                f"{name} is not declared. To declare all that stands in the landing folder: "
                "tidemark discover; one table: tidemark add SOURCE.TABLE --key COLUMN"
            )
        for table in tables:
            own = _models(project, table.source, table.table, table.feed.get("key"))
            if name == table.name:
                _refuse_existing(project, own)
                _refuse_switched_off(project, table)
                models |= own
            elif table.runs and not any(file.stem in there for file in own):
                models |= own
    return _written(models)


def _refuse_switched_off(project: Path, table: Declared) -> None:
    where = table.file.relative_to(project)
    if not table.enabled:
        raise ConfigError(
            f"{table.name} is switched off in {where}: do what its TODO says, take out "
            f"enabled: false, then: tidemark add {table.name}"
        )
    if not table.runs:
        raise ConfigError(f"{table.name} has no key in {where}: name it there.")


# --- writing --------------------------------------------------------------------------------------


def split_columns(text: str) -> list[str]:
    """`id bigint, price decimal(9, 2)` into its entries; commas within brackets stay."""
    return [entry.strip() for entry in re.split(r",(?![^(]*\))", text)]


def _models(project: Path, source: str, table: str, key: Any) -> dict[Path, str]:
    names = {"source": source, "table": table, "key": repr(_as_list(key))}
    return {
        project / "models" / layer / source / f"{prefix}_{source}__{table}.sql": body.format(
            **names
        )
        for layer, (prefix, body) in _MODELS.items()
    }


def _refuse_existing(project: Path, files: Iterable[Path]) -> None:
    for file in files:
        if file.exists():
            raise ConfigError(f"{file.relative_to(project)} exists already: nothing was written.")


def _written(models: Mapping[Path, str]) -> list[Path]:
    for file, body in models.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(body)
    return list(models)


def _as_list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])


def _sources_file(project: Path, source: str) -> Path:
    return project / "models" / "staging" / source / f"_{source}__sources.yml"


def _declare(project: Path, new: Sequence[NewTable]) -> Path:
    """Write the YAML entries of tables of one source behind those that are there."""
    source = new[0].source
    file = _sources_file(project, source)
    for table in new:
        missing = [name for name in _as_list(table.feed["key"]) if name not in table.columns]
        if missing:
            raise ConfigError(
                f"The key column {', '.join(missing)} is not among the columns: "
                f"{', '.join(table.columns)}."
            )
    text = "".join(textwrap.indent(_entry(table), "      ") for table in new)
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        head = (
            f"sources:\n  - name: {source}\n"
            f"    description: Change feeds of {source}.\n"
            f"    schema: log_{source}\n    tables:\n"
        )
        file.write_text(head + text)
        return file
    before = file.read_text()
    tables = [table["name"] for table in _tables(before)]
    names = [table.table for table in new]
    for name in names:
        if name in tables:
            raise ConfigError(f"{file.relative_to(project)} declares {name} already.")
    after = before.rstrip("\n") + "\n" + text
    try:
        fits = [table["name"] for table in _tables(after)] == [*tables, *names]
    except yaml.YAMLError:
        fits = False
    if not fits:
        raise ConfigError(
            f"{file.relative_to(project)} does not end with its list of tables: add this to the "
            f"list by hand, then run the command again without it being there.\n{text}"
        )
    file.write_text(after)
    return file


def _entry(table: NewTable) -> str:
    """The YAML of one table, with its TODOs and hints as comments."""
    config: dict[str, Any] = {"enabled": False} if table.todo else {}
    what = f"The change log of {table.table}: every change that arrived, once, as text."
    entry = {
        "name": table.table,
        "description": what,
        "data_tests": [
            {
                "tidemark.log_is_complete": {
                    "name": f"log_{table.source}__{table.table}__is_complete",
                    "arguments": {"source_name": table.source, "table_name": table.table},
                }
            }
        ],
        "config": {**config, "meta": {"feed": table.feed}},
        "columns": [
            {"name": name, "description": "", "data_type": data_type}
            for name, data_type in table.columns.items()
        ],
    }
    text = _yaml([entry])
    if table.todo:
        todo = [*table.todo[:-1], f"{table.todo[-1]}, then take out enabled: false"]
        comment = "".join(_comment(f"TODO: {each}", 4) for each in todo)
        text = text.replace("    enabled: false\n", f"{comment}    enabled: false\n", 1)
    if table.hints:
        comment = "".join(_comment(each, 8) for each in table.hints)
        text = text.replace("      feed:\n", f"      feed:\n{comment}", 1)
    return text


def _comment(text: str, indent: int) -> str:
    """A comment of one or more lines. Names of files may hold anything, also the end of a line."""
    lines = textwrap.wrap(printable(text), 88 - indent, break_on_hyphens=False)
    return "".join(f"{' ' * indent}# {line}\n" for line in lines)


def _tables(text: str) -> list[dict[str, Any]]:
    return list(yaml.load(text, _Loader)["sources"][-1]["tables"])


class _Dumper(yaml.SafeDumper):
    """Lists are indented below their name, as everywhere in the project."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
