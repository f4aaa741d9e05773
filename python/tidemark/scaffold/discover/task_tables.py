"""The tables that an AWS DMS task writes, from its settings and samples of its files."""

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from pyarrow import fs

from tidemark import places
from tidemark.errors import ConfigError
from tidemark.feeds import COLUMN_NAME
from tidemark.ingest.file_names import SIDE, is_change
from tidemark.readers.records import safe_name
from tidemark.scaffold import discover, sampling
from tidemark.scaffold.discover import NoTableError, Survey, Table, dms_hints
from tidemark.scaffold.discover.dms import set_sequence
from tidemark.scaffold.discover.dms_task import Task
from tidemark.scaffold.discover.table import check_texts


class _Landing(Protocol):
    """Read access to the landing folder."""

    root: Path
    # The path from the landing folder to the folders of schemas.
    below: str

    def folders(self) -> list[tuple[str, str]]:
        """The existing (schema, table) folders."""

    def files(self, folder: str) -> list[str]:
        """The data files below a folder."""

    def open(self, file: Path) -> Any:
        """Open a file below `root`."""


def landing_of(task: Task, place: str) -> _Landing:
    """The landing folder, a local folder or a URI, to which the task writes.

    A local folder represents the bucket, or, if it does not contain the task's folder, that folder.
    Raises ConfigError if the task writes elsewhere.
    """
    bucket, folder = task.place()
    if "://" not in place:
        root = Path(place)
        return _Local(root, folder if folder and (root / folder).is_dir() else "")
    written = f"{bucket}/{folder}" if folder else bucket
    scheme, _, top = place.partition("://")
    if scheme not in ("s3", "s3a", "s3n") or not f"{written}/".startswith(f"{top}/"):
        raise ConfigError(
            f"The task {task.name} writes to s3://{written}, which is not below TIDEMARK_LANDING, "
            f"{place}. Set TIDEMARK_LANDING=s3a://{written}"
        )
    return _OnS3(top, written[len(top) :].strip("/"))


def survey(task: Task, place: str, declared: Mapping[str, str]) -> Survey:
    """Every table that a task writes, still without names.

    `declared` maps the paths of declared feeds to their names. Their files are not read. Raises
    ConfigError if the tables cannot be determined.
    """
    landing = landing_of(task, place)
    found = Survey()
    for schema, table in tables(task, landing, found.left):
        path = path_of(task, landing, schema, table)
        owner = next((name for own, name in declared.items() if discover.overlap(path, own)), None)
        if owner:
            found.declared[path] = owner
            continue
        if any(other.path == path for other in found.tables):
            found.left[f"{schema}.{table}"] = (
                f"the rules put it into {path}, the folder of another table, which AWS DMS does "
                "not support"
            )
            continue
        try:
            found.tables.append(_table(task, landing, schema, table, path))
        except NoTableError as error:
            found.left[path] = str(error)
    return found


def path_of(task: Task, landing: _Landing, schema: str, table: str) -> str:
    """The path of a source table's files, below the landing folder."""
    return "/".join(part for part in (landing.below, *task.folder(schema, table)) if part)


def tables(task: Task, landing: _Landing, left: dict[str, str]) -> list[tuple[str, str]]:
    """The (schema, table) pairs that the task selects. Adds the others to `left`."""
    named = task.named()
    if task.known:
        for each in named:
            if each not in task.known:
                left[".".join(each)] = "a rule names it, but the task's statistics lack it"
        found = [each for each in task.known if task.selects(*each)]
        for each in sorted(set(task.known) - set(found)):
            left[".".join(each)] = "the task's statistics have it, but no rule here selects it"
    else:
        found = named
        if task.has_wildcards:
            folders = {folder: task.of_folder(folder) for folder in landing.folders()}
            found = sorted({*named, *(each for each in folders.values() if each)})
            schemas = {task.folder(*each)[0] for each in found}
            for folder, table in folders.items():
                if table is None and folder[0] in schemas:
                    left["/".join(folder)] = "no table that the rules select has this folder"
            if not found:
                raise ConfigError(
                    f"The rules of {task.name} have wildcards, so they do not list its tables. "
                    "Start the task and use --dms-task, or wait until its files have arrived below "
                    "TIDEMARK_LANDING."
                )
    for each in list(found):
        if any(part in ("", ".", "..") for part in task.folder(*each)):
            left[".".join(each)] = "its name cannot be a folder: rename it with a rule"
            found.remove(each)
    return found


# --- one table ------------------------------------------------------------------------------------


def _table(task: Task, landing: _Landing, schema: str, table: str, path: str) -> Table:
    files = landing.files(path)
    place = PurePosixPath(path)
    found = Table(path, 0, "dms", folder=place.name, origin=place.parent.parts)
    if files:
        dialect = task.dialect(schema, table)
        found = discover.table_of(
            landing.root, path, files, wanted="dms", known=dialect, opened=landing.open
        )
    _set_feed(task, landing, schema, table, found, has_changes=any(map(is_change, files)))
    if not files:
        _set_columns_without_files(task, schema, table, found)
        found.todos += task.doubts(schema, table)
    else:
        found.hints += task.doubts(schema, table)
    added = task.added(schema, table)
    if added and not task.has_names:
        found.hints.append(f"columns that rules add are last in its files: {', '.join(added)}")
    _set_sequence(task, schema, table, found)
    _set_key(task, schema, table, found)
    found.hints += dms_hints.of(task, schema, table)
    check_texts(found)
    return found


def _set_feed(
    task: Task, landing: _Landing, schema: str, table: str, found: Table, *, has_changes: bool
) -> None:
    """Set the feed's settings. Those of the task take precedence over samples."""
    sampled = found.settings
    found.settings = task.feed(schema, table)
    for name in ("encoding", "sequence", "exclude_columns"):
        if name in sampled:
            found.settings[name] = sampled[name]
    if task.has_transactions:
        parts = (landing.below, str(task.target["CdcPath"]).strip("/"))
        found.settings["transactions_path"] = "/".join(part for part in parts if part)
        found.settings["source_table"] = ".".join(task.folder(schema, table))
    elif task.is_op_doubtful and has_changes:
        if "op_in_changes" in sampled:
            found.settings["op_in_changes"] = sampled["op_in_changes"]
    elif task.is_op_doubtful and task.has_names:
        # Files with column names show whether they have Op.
        found.settings["op_in_changes"] = False
    elif task.is_op_doubtful:
        found.todos.append(
            "CdcInsertsAndUpdates without IncludeOpForFullLoad: AWS's documentation is ambiguous "
            "on Op in change files; check one, and set op_in_changes: false if it has no Op"
        )


def _set_columns_without_files(task: Task, schema: str, table: str, found: Table) -> None:
    known = {task.column(schema, table, name): "string" for name in task.key(schema, table)}
    known |= task.added(schema, table)
    if task.has_names:
        found.columns = {name: kind for name, kind in known.items() if COLUMN_NAME.fullmatch(name)}
        order = ""
    else:
        order = ", in their order"
    if found.columns:
        order = f" in addition to those in the rules{order}"
    found.todos.append(f"no files yet: list its columns with their types{order}")


def _set_sequence(task: Task, schema: str, table: str, found: Table) -> None:
    column = _declared(task.sequence(schema, table) or "", found)
    if column:
        set_sequence(found, column)


def _set_key(task: Task, schema: str, table: str, found: Table) -> None:
    said = task.key(schema, table)
    if not said:
        if not found.key:
            found.hints.append(
                "AWS DMS shows the key only in a define-primary-key rule: look it up in the source"
            )
        return
    columns = [
        _declared(name, found) or _declared(task.column(schema, table, name), found)
        for name in said
    ]
    if all(columns):
        names = [name for name in columns if name]
        found.key = names[0] if len(names) == 1 else names
    else:
        found.key = None
        found.hints.append(f"its key in a define-primary-key rule is {', '.join(said)}")


def _declared(name: str, found: Table) -> str | None:
    """The declared name of a column in the files."""
    for alike in (str, str.lower, safe_name):
        for column in found.columns:
            if name and alike(column) == alike(name):
                return column
    return None


# --- files ----------------------------------------------------------------------------------------


class _Local:
    def __init__(self, root: Path, below: str) -> None:
        self.root, self.below = root, below

    def folders(self) -> list[tuple[str, str]]:
        return [
            (table.parent.name, table.name)
            for table in sorted((self.root / self.below).glob("*/*"))
            if table.is_dir() and not _is_aside(table.parent.name, table.name)
        ]

    def files(self, folder: str) -> list[str]:
        return discover.files_of(self.root, folder) if (self.root / folder).is_dir() else []

    open = staticmethod(sampling.on_disk)


class _OnS3:
    def __init__(self, top: str, below: str) -> None:
        self.root, self.below = Path(top), below
        self._files, _ = places.files_in(f"s3a://{top}")

    def folders(self) -> list[tuple[str, str]]:
        schemas = self._listed(str(self.root / self.below))
        return [
            (schema.base_name, table.base_name)
            for schema in schemas
            if schema.type == fs.FileType.Directory
            for table in self._listed(schema.path)
            if table.type == fs.FileType.Directory
            and not _is_aside(schema.base_name, table.base_name)
        ]

    def files(self, folder: str) -> list[str]:
        found = (
            each.path.removeprefix(f"{self.root}/")
            for each in self._listed(f"{self.root}/{folder}", recursive=True)
            if each.type == fs.FileType.File
        )
        return sorted(
            file for file in found if not _is_aside(*PurePosixPath(file[len(folder) :]).parts)
        )

    def open(self, file: Path) -> Any:
        with places.reaching(f"s3a://{file} cannot be read"):
            return self._files.open_input_file(str(file))

    def _listed(self, place: str, *, recursive: bool = False) -> Iterable[fs.FileInfo]:
        with places.reaching(f"s3a://{place} cannot be read"):
            selector = fs.FileSelector(place, allow_not_found=True, recursive=recursive)
            return list(self._files.get_file_info(selector))


def _is_aside(*parts: str) -> bool:
    return any(SIDE.search(part) or part == ".." for part in parts if part != "/")
