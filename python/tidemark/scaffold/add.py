"""Add tables: write their YAML entries, and their three models with what dbt docs says of them.

Declarations are read directly from the YAML files below models/, without dbt, which is faster.
"""

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tabulate import tabulate

from tidemark.errors import ConfigError, printable
from tidemark.scaffold import discover, edits
from tidemark.scaffold.discover import task_tables
from tidemark.scaffold.discover.dms_task import Task

# LibYAML's loader, if available, is ten times as fast.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MODELS = {
    "staging": (
        "stg",
        "{{{{ tidemark.{reads}(\n"
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
# What the dbt docs say of a model, and Tidemark's columns of it (macros/staging/_columns__docs.md).
# The source's YAML describes the other columns.
_CHANGE = ("_op", "_changed_at", "_order", "_load_id")
_DOCS = {
    "staging": (
        "Every change of {name} in the log, typed. For a delete, only the key is read.",
        ("_op", "_is_delete", "_changed_at", "_order", "_load_id", "_landed_at"),
    ),
    "current": ("One row per row of {name} that exists in the source now (SCD1).", _CHANGE),
    "history": (
        "One row per version that a row of {name} ever had (SCD2). Deleted rows keep theirs.",
        ("version_key", "valid_from", "valid_to", "is_current", "version_number", *_CHANGE),
    ),
}


@dataclass(frozen=True)
class NewTable:
    """A table to add. `columns` maps names to Spark types, in the order of the files.

    With `todo`, decisions that the user must make, the table is declared but disabled. `hints`
    become comments.
    """

    source: str
    table: str
    columns: dict[str, str]
    feed: dict[str, Any]
    todo: Sequence[str] = ()
    hints: Sequence[str] = ()


@dataclass(frozen=True)
class Declared:
    """A source table that a YAML file below models/ declares, with its feed if it has one.

    `shared` has the feed settings of the source, which apply to all its tables.
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
        """Whether `tidemark run` reads it: it is enabled and has a key."""
        return self.enabled and bool(self.feed.get("key"))

    @property
    def paths(self) -> list[str]:
        """The folders that it reads, relative to the landing folder."""
        own = self.feed.get("path") or f"{self.source}/{self.table}"
        folders = [own, *_as_list(self.feed.get("transactions_path"))]
        return [str(folder).strip("/") for folder in folders]


@dataclass
class Added:
    """The result of `discovered`: tables with their TODOs, written files, and what was skipped."""

    tables: list[tuple[discover.Table, list[str]]] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    declared: dict[str, Declared] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    # Hints, each with the tables to which it applies. An empty list means all tables.
    hints: dict[str, list[str]] = field(default_factory=dict)


# --- declared tables ------------------------------------------------------------------------------


def declared(project: Path) -> list[Declared]:
    """Every source table that the project declares."""
    found = []
    for file, content in _contents(project):
        for source in content.get("sources") or []:
            shared = _feed(source)
            for table in source.get("tables") or []:
                enabled = _is_enabled(source) and _is_enabled(table)
                feed = {**shared, **_feed(table)}
                name, own = str(source.get("name")), str(table.get("name"))
                found.append(Declared(name, own, file, enabled, feed, shared))
    return found


def _contents(project: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Each YAML file below models/, and what it has."""
    for file in sorted([*_files(project, "*.yml"), *_files(project, "*.yaml")]):
        try:
            content = yaml.load(file.read_text(), _Loader)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{file.relative_to(project)} is not readable YAML: {error}"
            ) from error
        yield file, content if isinstance(content, Mapping) else {}


def _files(project: Path, pattern: str) -> list[Path]:
    return list((project / "models").rglob(pattern))


def _feed(entry: Mapping[str, Any]) -> dict[str, Any]:
    config = entry.get("config") or {}
    return (config.get("meta") or {}).get("feed") or (entry.get("meta") or {}).get("feed") or {}


def _is_enabled(entry: Mapping[str, Any]) -> bool:
    return (entry.get("config") or {}).get("enabled") is not False


# --- commands -------------------------------------------------------------------------------------


def discovered(project: Path, landing: Path, below: str = "") -> Added:
    """Declare every new table that has files below a folder of the landing folder.

    Does not change existing declarations. Raises ConfigError if there are no files.
    """
    return _declared_anew(project, landing, lambda paths: discover.survey(landing, below, paths))


def discovered_of_task(project: Path, task: Task, landing: str) -> Added:
    """Declare every new table that an AWS DMS task writes below the landing folder.

    `landing` may be a URI. Raises ConfigError if the task writes elsewhere, or its tables cannot be
    determined.
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
    """Override settings of the source that differ from what the files show."""
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
    """Describe the result of `discovered`: one line per table, then the next steps."""
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
            f"{printable(folder)} belongs to {table.name}, already declared in {where}: unchanged"
        )
    lines += [f"Skipped {printable(place)}: {printable(why)}" for place, why in added.left.items()]
    lines += [f"Wrote {file.relative_to(project)}" for file in added.written]
    off = [(table.name, todo) for table, todo in added.tables if todo]
    if off:
        lines.append("These tables are disabled until you resolve the TODO in the YAML:")
        lines += [f"  {name}: {printable('; '.join(todo))}" for name, todo in off]
    if added.hints:
        lines.append("Notes, also in the YAML:")
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
    """Infer a table from its files and the `given` settings.

    Columns that are given replace the inferred ones. Raises ConfigError if the key is not given,
    the columns cannot be inferred, or the files do not name them.
    """
    if "key" not in given:
        raise ConfigError(
            f"Set the key of {source}.{table} with --key, columns separated by commas."
        )
    path = given.get("path", f"{source}/{table}").strip("/")
    if path != printable(path):
        raise ConfigError(f"--path {path}: the name has unprintable characters. Rename the folder.")
    keys = [name.strip() for name in given["key"].split(",")]
    columns = _given_columns(given["columns"]) if "columns" in given else {}
    feed: dict[str, Any] = {"format": given.get("format", "extract"), "path": path}
    feed["key"] = keys[0] if len(keys) == 1 else keys
    stated = {name: given[name] for name in ("header", "delimiter") if name in given}
    instead = "or set the columns with --columns 'id bigint, name string'."
    files = discover.files_of(landing, path)
    as_given = NewTable(source, table, columns, {**feed, **stated})
    if not files and columns:
        return as_given
    if not files:
        raise ConfigError(
            f"There are no files below {landing / path}. Put one there, set the folder with "
            f"--path, {instead}"
        )
    try:
        found = discover.table_of(
            landing, path, files, wanted=given.get("format"), delimiter=given.get("delimiter")
        )
    except discover.NoTableError as error:
        if columns:
            return as_given
        raise ConfigError(f"{landing / path}: {error}. Fix it, {instead}") from error
    if found.is_unnamed and len(columns) != len(found.columns):
        raise ConfigError(_names_are_needed(landing / path, found.columns, columns))
    settings = dict(found.settings)
    if columns and settings.get("sequence") in found.columns:
        in_files = found.columns if found.is_unnamed else columns
        named = dict(zip(in_files, columns, strict=True))
        sequence = named.get(settings["sequence"])
        for name in ("sequence", "exclude_columns"):
            if settings.pop(name, None) and sequence:
                settings[name] = sequence
    feed = {**feed, "format": found.format, **settings, **stated}
    hints = [*found.todos, *found.hints]
    return NewTable(source, table, columns or found.columns, feed, hints=hints)


def _given_columns(text: str) -> dict[str, str]:
    entries = [entry.split(None, 1) for entry in split_columns(text)]
    if any(len(entry) < 2 for entry in entries):
        raise ConfigError("--columns must have a name and a type each: 'id bigint, name string'.")
    return dict(entries)


def _names_are_needed(folder: Path, found: Mapping[str, str], given: Mapping[str, str]) -> str:
    example = ", ".join(f"{name} {data_type}" for name, data_type in found.items())
    has = f"have {len(found)} columns and no header"
    if given:
        return (
            f"{folder}: the files {has}, but --columns lists {len(given)}. List all of them, in "
            f"the order of the files. Inferred from the files: '{example}'."
        )
    return (
        f"{folder}: the files {has}. Name all columns with --columns, in the order of the files. "
        f"Inferred from the files: --columns '{example}'."
    )


def write(project: Path, new: NewTable) -> list[Path]:
    """Write the YAML entry and the three models of one table. Returns the files, YAML first.

    Never overwrites. Raises ConfigError if the table or a file already exists.
    """
    models = _models(project, new.source, new.table, new.feed)
    _refuse_existing(project, models)
    described = _described(project, models)
    name = f"{new.source}.{new.table}"
    for table in declared(project):
        if table.name == name:
            raise ConfigError(
                f"{table.file.relative_to(project)} already declares {name}. Change it there, "
                f"then run: tidemark add {name}"
            )
    return [_declare(project, [new]), *_written(models | described)]


def write_models(project: Path, names: Iterable[str]) -> list[Path]:
    """Write the three models of declared tables. SOURCE means all its tables without models.

    Raises ConfigError, before it writes anything, if a SOURCE.TABLE is not declared, is disabled or
    already has a model. Skips such tables of a SOURCE.
    """
    known = [table for table in declared(project) if table.feed]
    there = {file.stem for file in _files(project, "*.sql") + _files(project, "*.py")}
    models: dict[Path, str] = {}
    for name in names:
        tables = [table for table in known if name in (table.name, table.source)]
        if not tables:
            raise ConfigError(
                f"{name} is not declared. To declare all tables in the landing folder, run: "
                "tidemark discover. For one table: tidemark add SOURCE.TABLE --key COLUMN"
            )
        for table in tables:
            own = _models(project, table.source, table.table, table.feed)
            if name == table.name:
                _refuse_existing(project, own)
                _refuse_switched_off(project, table)
                models |= own
            elif table.runs and not any(file.stem in there for file in own):
                models |= own
    return _written(models | _described(project, models))


def _refuse_switched_off(project: Path, table: Declared) -> None:
    where = table.file.relative_to(project)
    if not table.enabled:
        raise ConfigError(
            f"{table.name} is disabled in {where}. Resolve its TODO, remove "
            f"enabled: false, then run: tidemark add {table.name}"
        )
    if not table.runs:
        raise ConfigError(f"{table.name} has no key in {where}. Set it there.")


# --- writing --------------------------------------------------------------------------------------


def split_columns(text: str) -> list[str]:
    """Split `id bigint, price decimal(9, 2)` into entries, except at commas in brackets."""
    return [entry.strip() for entry in re.split(r",(?![^(]*\))", text)]


def _models(project: Path, source: str, table: str, feed: Mapping[str, Any]) -> dict[Path, str]:
    reads = "changes_from_table" if feed.get("format") == "table" else "typed_changes"
    names = {"source": source, "table": table, "reads": reads}
    names["key"] = repr(_as_list(feed.get("key")))
    return {
        project / "models" / layer / source / f"{prefix}_{source}__{table}.sql": body.format(
            **names
        )
        for layer, (prefix, body) in _MODELS.items()
    }


def _described(project: Path, models: Iterable[Path]) -> dict[Path, str]:
    """The YAML files that describe new models, one per folder, with the entries they have."""
    known = {
        model.get("name")
        for _, content in _contents(project)
        for model in content.get("models") or []
    }
    entries: dict[Path, list[dict[str, Any]]] = {}
    for model in models:
        if model.stem in known:
            continue
        source, layer = model.parent.name, model.parent.parent.name
        about, columns = _DOCS[layer]
        table = model.stem.removeprefix(f"{_MODELS[layer][0]}_{source}__")
        entry = {
            "name": model.stem,
            "description": about.format(name=f"{source}.{table}"),
            "columns": [
                {"name": name, "description": f'{{{{ doc("{name}") }}}}'} for name in columns
            ],
        }
        entries.setdefault(model.parent / f"_{source}__{layer}.yml", []).append(entry)
    described = {}
    for file, new in entries.items():
        text = file.read_text() if file.exists() else ""
        try:
            described[file] = edits.added(text, ["models"], new)
        except edits.NoPlaceError as error:
            raise ConfigError(f"{file.relative_to(project)}: {error}") from None
    return described


def _refuse_existing(project: Path, files: Iterable[Path]) -> None:
    for file in files:
        if file.exists():
            raise ConfigError(f"{file.relative_to(project)} already exists. Nothing was written.")


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
    """Append the YAML entries of tables of one source to its file."""
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
            raise ConfigError(f"{file.relative_to(project)} already declares {name}.")
    after = before.rstrip("\n") + "\n" + text
    try:
        fits = [table["name"] for table in _tables(after)] == [*tables, *names]
    except yaml.YAMLError:
        fits = False
    if not fits:
        raise ConfigError(
            f"{file.relative_to(project)} does not end with its list of tables. Add this entry to "
            f"the list by hand:\n{text}"
        )
    file.write_text(after)
    return file


def _entry(table: NewTable) -> str:
    """The YAML entry of one table, with its TODOs and hints as comments."""
    config: dict[str, Any] = {"enabled": False} if table.todo else {}
    what = f"The change log of {table.table}: every change that arrived, as text."
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
    text = edits.dump([entry])
    if table.todo:
        todo = [*table.todo[:-1], f"{table.todo[-1]}, then remove enabled: false"]
        comment = "".join(_comment(f"TODO: {each}", 4) for each in todo)
        text = text.replace("    enabled: false\n", f"{comment}    enabled: false\n", 1)
    if table.hints:
        comment = "".join(_comment(each, 8) for each in table.hints)
        text = text.replace("      feed:\n", f"      feed:\n{comment}", 1)
    return text


def _comment(text: str, indent: int) -> str:
    """A comment, wrapped. File names in it may contain anything, such as line ends."""
    lines = textwrap.wrap(printable(text), 88 - indent, break_on_hyphens=False)
    return "".join(f"{' ' * indent}# {line}\n" for line in lines)


def _tables(text: str) -> list[dict[str, Any]]:
    return list(yaml.load(text, _Loader)["sources"][-1]["tables"])
