"""The ledger: which file versions landed, in which load; and what could not land, and why.

`tidemark.ledger` gets a row when a file is planned, another when it is landed or set aside, and
one more when someone confirms, replays or retracts it. A load with files that are only planned
belongs to a run that died: the next run plans its files again, under a new load id.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark import formats
from tidemark.errors import ConfigError
from tidemark.feeds import Feed
from tidemark.ingest import books
from tidemark.ingest.books import Books
from tidemark.ingest.file_names import is_load
from tidemark.ingest.files import LandedFile
from tidemark.reasons import Reason
from tidemark.storage import EPOCH, micros

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.ingest.landed import Landed, Outcome

# A file's version: its size and modification time.
Version = tuple[int, datetime]

# The counts of a file's records; see models/_tidemark__sources.yml.
COUNTS = ("rows", "rejected", "skipped", "inserted", "updated", "deleted", "late")

# The statuses of a file version that was read. A later load has the files of an abandoned one.
READ = ("landed", "set_aside", "retracted")
FINISHED = (*READ, "abandoned")
# Someone wants to take a file back; `retracted` follows when its tables are built without it.
RETRACTING = "retracting"
# An erasure deleted some of a load's rows, or the landed file.
ERASED, REMOVED = "erased", "removed"
# Someone wants a file to be read again.
WISHES = ("confirmed", "replayed")

_FILE = ("source_name", "table_name", "load_id", "file", "kind", "file_at", "size", "modified")


@dataclass(frozen=True)
class Plan:
    """The files that land together under one load id.

    `confirmed` are the paths that someone has confirmed. `reloads` are those of them that had
    landed before. `read_before` are the paths of file versions that were read before, in
    `earlier_loads`, and `landed_before` those of them that landed. `supersedes` is set when any
    version of a file was read before. `gone` are paths that a run which died has planned, and that
    have no file any more. `left_over` are load files that do not belong to this full load, with the
    reason.

    `settled` is the table's newest load that came to its end. With `has_unfinished` the log may
    have rows of newer loads, of runs that died; `died` are their files, by load.
    """

    load_id: int
    files: tuple[LandedFile, ...]
    confirmed: frozenset[str] = frozenset()
    read_before: frozenset[str] = frozenset()
    landed_before: frozenset[str] = frozenset()
    earlier_loads: frozenset[int] = frozenset()
    supersedes: bool = False
    gone: frozenset[str] = frozenset()
    left_over: Mapping[str, Reason] = field(default_factory=dict)
    reloads: frozenset[str] = frozenset()
    settled: int = 0
    has_unfinished: bool = False
    died: Mapping[int, Sequence[LandedFile]] = field(default_factory=dict)


@dataclass
class _History:
    """The history of one file in the ledger, version by version."""

    loads: dict[Version, set[int]] = field(default_factory=dict)
    wished: dict[Version, LandedFile] = field(default_factory=dict)
    confirmed: set[Version] = field(default_factory=set)
    # Confirmed after they had landed.
    reloads: set[Version] = field(default_factory=set)
    has_landed: bool = False
    retracting: tuple[int, LandedFile] | None = None

    def add(self, row: Mapping[str, Any]) -> None:
        version = (row["size"], row["modified"])
        status = row["status"]
        if status in WISHES:
            self.wished[version] = _landed_file(row)
            if status == "confirmed":
                self.confirmed.add(version)
                if self.has_landed:
                    self.reloads.add(version)
        elif status == RETRACTING:
            self.retracting = (row["load_id"], _landed_file(row))
        elif status == "retracted":
            self.retracting = None
            # As if it had never arrived, but a run reads it again only when someone wants that.
            self.loads = {each: set[int]() for each in (*self.loads, version)}
            self.wished.clear()
            self.has_landed = False
        elif status in READ:
            self.loads.setdefault(version, set()).add(row["load_id"])
            self.wished.pop(version, None)
            self.reloads.discard(version)
            self.has_landed = self.has_landed or status == "landed"


@dataclass
class Ledger:
    """The ledger's rows about the files in the landing folder; read once in a run.

    The ledger grows with every file, so it is read in pieces, and only rows about the listed files
    are kept.
    """

    last_load_id: int = 0
    # By table, then path: files with a wish, another version, a retraction.
    _histories: dict[str, dict[str, _History]] = field(default_factory=dict)
    # By table: the paths of files in a version that was read, and of files that have landed.
    _known: dict[str, set[str]] = field(default_factory=dict)
    _landed: dict[str, set[str]] = field(default_factory=dict)
    _died: dict[str, dict[int, list[LandedFile]]] = field(default_factory=dict)
    _settled: dict[str, int] = field(default_factory=dict)
    newest_loads: dict[str, int] = field(default_factory=dict)
    newest_changes: dict[str, datetime] = field(default_factory=dict)
    newest_in_log: dict[str, int] = field(default_factory=dict)
    # By table: why its log cannot be read.
    unreadable: dict[str, Exception] = field(default_factory=dict)

    def knows(self, feed: Feed, file: LandedFile) -> bool:
        """Whether this version of the file was read, and nobody asked to read it again."""
        history = self._histories.get(feed.name, {}).get(file.path)
        if history is None:
            return file.path in self.known_paths(feed.name)
        version = (file.size, file.modified)
        return version in history.loads and version not in history.wished

    def paths(self, feed: Feed) -> set[str]:
        """The paths of listed files that have landed."""
        return self._landed.get(feed.name, set())

    def known_paths(self, name: str) -> set[str]:
        """The paths of a table's listed files in a version that was read."""
        return self._known.get(name, set())

    def wanted(self, feed: Feed) -> set[str]:
        """The paths of files that someone asked to read again."""
        return {
            path for path, history in self._histories.get(feed.name, {}).items() if history.wished
        }

    def retracting(self, feed: Feed) -> list[tuple[int, LandedFile]]:
        """The files to take back, each after the load id of the retraction."""
        paths = self._histories.get(feed.name, {}).values()
        return [history.retracting for history in paths if history.retracting]

    def is_idle(self, feed: Feed, found: Sequence[LandedFile]) -> bool:
        """Whether there is nothing to do for these files of the feed."""
        return (
            all(self.knows(feed, file) for file in found)
            and not self._died.get(feed.name)
            and not self.wanted(feed)
            and not self.retracting(feed)
        )

    def plan(self, feed: Feed, found: Sequence[LandedFile]) -> Plan | None:
        """What to land of these files, under a new load id; None when nothing is new."""
        there = {file.path for file in found}
        died = self._died.get(feed.name, {})
        new = [file for file in found if not self.knows(feed, file)]
        gone = {
            file.path: file for files in died.values() for file in files if file.path not in there
        }
        if not new and not gone and not died:
            return None
        settled = self._settled.get(feed.name, 0)
        self.last_load_id += 1
        histories = self._histories.get(feed.name, {})
        of_new = {
            file.path: (histories[file.path], (file.size, file.modified))
            for file in new
            if file.path in histories
        }
        reloads = {path for path, (of, version) in of_new.items() if version in of.reloads}
        loads = {
            path: of.loads.get(version, set())
            for path, (of, version) in of_new.items()
            if path not in reloads
        }
        read_before = frozenset(path for path, of_path in loads.items() if of_path)
        return Plan(
            self.last_load_id,
            tuple(sorted([*new, *gone.values()])),
            frozenset(path for path, (of, version) in of_new.items() if version in of.confirmed),
            read_before,
            read_before & self.paths(feed),
            frozenset(load for of_path in loads.values() for load in of_path),
            supersedes=bool(of_new),
            gone=frozenset(gone),
            settled=settled,
            reloads=frozenset(reloads),
            has_unfinished=bool(died) or self.newest_in_log.get(feed.name, 0) > settled,
            died=died,
        )


def read(
    own: Books, listed: Mapping[str, Sequence[LandedFile]], feeds: Iterable[Feed] = ()
) -> Ledger:
    """The ledger's rows about the listed files, by table.

    For `feeds` with new files it also reads the newest load of the change log. A restored older
    ledger may not know that load, and no load id is given twice. `unreadable` has what went wrong.
    """
    book = Ledger()
    pass_ = _Pass(book, listed)
    for batch in own.read(books.LEDGER, (*_FILE, "status", "newest_change")):
        pass_.take(batch)
    pass_.finish(own)
    for feed in feeds:
        found = listed.get(feed.name, ())
        if not book.is_idle(feed, found):
            try:
                in_log = own.newest_load(feed)
            except Exception as error:  # the other tables land
                book.unreadable[feed.name] = error
                continue
            book.newest_in_log[feed.name] = in_log
            book.last_load_id = max(book.last_load_id, in_log)
    return book


class _Pass:
    """One pass over the ledger, in pieces and without a loop over its rows."""

    def __init__(self, book: Ledger, listed: Mapping[str, Sequence[LandedFile]]) -> None:
        self.book = book
        self.pairs = [(name, file) for name, files in listed.items() for file in files]
        self.keys = pa.array([f"{name}\0{file.path}" for name, file in self.pairs], pa.string())
        self.sizes = np.array([file.size for _, file in self.pairs], dtype=np.int64)
        self.times = np.array([micros(file.modified) for _, file in self.pairs], dtype=np.int64)
        self.is_known = np.zeros(len(self.pairs), dtype=bool)
        self.has_landed = np.zeros(len(self.pairs), dtype=bool)
        # Files that need all their rows.
        self.has_history = np.zeros(len(self.pairs), dtype=bool)
        self.with_history: set[tuple[str, str]] = set()
        self.planned = [np.zeros(0, dtype=np.int64)]
        self.finished = [np.zeros(0, dtype=np.int64)]

    def take(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        names = pc.binary_join_element_wise(
            batch.column("source_name"), batch.column("table_name"), "."
        )
        at = pc.index_in(
            pc.binary_join_element_wise(names, batch.column("file"), "\0"), value_set=self.keys
        )
        at = at.fill_null(-1).to_numpy(zero_copy_only=False)
        status = batch.column("status")
        load = batch.column("load_id")
        is_finished = pc.is_in(status, value_set=pa.array(FINISHED))
        is_read = pc.is_in(status, value_set=pa.array(READ))
        is_landed = pc.equal(status, "landed")
        self.book.last_load_id = max(self.book.last_load_id, pc.max(load).as_py())
        self.planned.append(np.unique(load.filter(pc.equal(status, "planned")).to_numpy()))
        self.finished.append(np.unique(load.filter(is_finished).to_numpy()))
        self._newest(names, load, is_finished, self.book._settled)
        self._newest(names, load, is_landed, self.book.newest_loads)
        self._newest(names, batch.column("newest_change"), is_landed, self.book.newest_changes)
        odd_ones = pa.array((*WISHES, RETRACTING, "retracted"))
        odd = pc.is_in(status, value_set=odd_ones).to_numpy(zero_copy_only=False)
        if odd.any():
            of_odd = pa.array(odd)
            self.with_history |= set(
                zip(
                    names.filter(of_odd).to_pylist(),
                    batch.column("file").filter(of_odd).to_pylist(),
                    strict=True,
                )
            )
        hit = at >= 0
        if hit.any():
            sizes = batch.column("size").fill_null(-1).to_numpy(zero_copy_only=False)
            times = batch.column("modified").cast(pa.int64()).fill_null(-1)
            is_same = (self.sizes[at] == sizes) & (
                self.times[at] == times.to_numpy(zero_copy_only=False)
            )
            read = is_read.to_numpy(zero_copy_only=False)
            self.is_known[at[hit & is_same & read]] = True
            self.has_history[at[hit & ~is_same & read]] = True
            self.has_landed[at[hit & is_landed.to_numpy(zero_copy_only=False)]] = True

    def finish(self, own: Books) -> None:
        for at in np.flatnonzero(self.has_history):
            name, file = self.pairs[at]
            self.with_history.add((name, file.path))
        for at in np.flatnonzero(self.is_known):
            name, file = self.pairs[at]
            self.book._known.setdefault(name, set()).add(file.path)
        for at in np.flatnonzero(self.has_landed):
            name, file = self.pairs[at]
            self.book._landed.setdefault(name, set()).add(file.path)
        self._read_histories(own)
        self._read_died(own)

    def _read_histories(self, own: Books) -> None:
        if not self.with_history:
            return
        columns = (*_FILE, "status", "at")
        wanted = pa.array([path for _, path in self.with_history], pa.string())
        found: list[dict[str, Any]] = []
        for batch in own.read(books.LEDGER, columns, "status <> 'planned'"):
            found += batch.filter(pc.is_in(batch.column("file"), value_set=wanted)).to_pylist()
        for row in sorted(found, key=lambda row: (row["load_id"], row["at"])):
            name = books.table_of(row)
            if (name, row["file"]) in self.with_history:
                paths = self.book._histories.setdefault(name, {})
                paths.setdefault(row["file"], _History()).add(row)
        retracted = set()
        for name, paths in self.book._histories.items():
            for path, history in paths.items():
                landed = self.book._landed.setdefault(name, set())
                (landed.add if history.has_landed else landed.discard)(path)
                if not history.has_landed and any(not loads for loads in history.loads.values()):
                    retracted.add(name)
        if retracted:
            self._newest_without_retracted(own, retracted)

    def _newest_without_retracted(self, own: Books, names: set[str]) -> None:
        """A retracted change is not the newest change of a table."""
        for name in names:
            self.book.newest_changes.pop(name, None)
        columns = ("source_name", "table_name", "file", "newest_change")
        for batch in own.read(books.LEDGER, columns, "status = 'landed'"):
            for row in batch.to_pylist():
                name = books.table_of(row)
                history = self.book._histories.get(name, {}).get(row["file"])
                newest = row["newest_change"]
                if name in names and newest and (history is None or history.has_landed):
                    known = self.book.newest_changes.get(name, newest)
                    self.book.newest_changes[name] = max(known, newest)

    def _read_died(self, own: Books) -> None:
        died = np.setdiff1d(np.concatenate(self.planned), np.concatenate(self.finished))
        if not died.size:
            return
        loads = ", ".join(str(load) for load in died)
        where = f"status = 'planned' and load_id in ({loads})"
        for row in books.rows(own.read(books.LEDGER, _FILE, where)):
            name = books.table_of(row)
            files = self.book._died.setdefault(name, {}).setdefault(row["load_id"], [])
            files.append(_landed_file(row))

    def _newest(
        self, names: pa.Array, values: pa.Array, mask: pa.Array, into: dict[str, Any]
    ) -> None:
        of_mask = pa.table({"name": names.filter(mask), "value": values.filter(mask)})
        for row in of_mask.group_by("name").aggregate([("value", "max")]).to_pylist():
            newest = row["value_max"]
            if newest is not None:
                into[row["name"]] = max(newest, into.get(row["name"], newest))


def versions(own: Books, feed: Feed) -> dict[str, Version]:
    """The newest known version of each of a feed's files."""
    found: dict[str, Version] = {}
    columns = ("file", "size", "modified")
    for batch in own.read(books.LEDGER, columns, books.is_of(feed)):
        values = (batch.column(name).to_pylist() for name in columns)
        for path, size, modified in zip(*values, strict=True):
            known = found.get(path)
            if size is not None and (known is None or known[1] <= modified):
                found[path] = (size, modified)
    return found


def landed_paths(own: Books, feed: Feed) -> set[str]:
    """The paths of all files of a feed that have landed, also without a file there now."""
    gone = (RETRACTING, "retracted", REMOVED)
    where = f"{books.is_of(feed)} and status in {('landed', *gone)}"
    found = own.read(books.LEDGER, ("file", "load_id", "status"), where)
    newest: dict[str, tuple[int, str]] = {}
    for row in books.rows(found):
        last = (row["load_id"], row["status"])
        newest[row["file"]] = max(last, newest.get(row["file"], last))
    return {path for path, (_, status) in newest.items() if status not in gone}


def write(
    own: Books, files: Iterable[tuple[Feed, int, LandedFile]], status: str, run_id: str
) -> None:
    """Write, in one commit, that files of these loads have a status."""
    own.append(books.LEDGER, [_row(*file, status, run_id) for file in files])


def write_finished(own: Books, tables: Iterable["Landed"], run_id: str) -> None:
    """Write, in one commit, which files of tables with an outcome landed or were set aside.

    This also ends the loads of runs that died: their rows in the log have landed, their other files
    are in the load that took them over.
    """
    rows = []
    for landed in tables:
        feed, plan, outcome = landed.feed, landed.plan, landed.outcome
        if not plan or not outcome:
            continue
        for load_id, file in _files_of_died(plan, outcome):
            count = outcome.found.get((load_id, file.path), 0)
            status = "landed" if count else "abandoned"
            rows.append(_row(feed, load_id, file, status, run_id, {"rows": count}))
        for file in plan.files:
            status = "set_aside" if file.path in outcome.set_aside else "landed"
            counts = outcome.counts.get(file.path, {})
            newest = outcome.newest.get(file.path)
            rows.append(_row(feed, plan.load_id, file, status, run_id, counts, newest))
    own.append(books.LEDGER, rows)


def _files_of_died(plan: Plan, outcome: "Outcome") -> Iterator[tuple[int, LandedFile]]:
    planned = set()
    for load_id, files in plan.died.items():
        for file in files:
            planned.add((load_id, file.path))
            yield load_id, file
    there = {file.path: file for file in plan.files}
    for load_id, path in outcome.found:
        if (load_id, path) not in planned:
            # Someone restored an older ledger: nobody knows of which version the rows are.
            known = there.get(path)
            yield load_id, LandedFile(EPOCH, path, known.kind if known else "changes", -1, EPOCH)


def write_run(own: Books, landed: Iterable[Mapping[str, object]], run_id: str) -> None:
    """Write, in one commit, what a run did with each table that had something new."""
    own.append(books.RUNS, [{**row, "run_id": run_id} for row in landed])


def confirm(spark: "SparkSession", path: str, run_id: str) -> str:
    """Accept the newest version of a file that was set aside; gives `source.table`.

    Also of a file that was retracted, and of a load file that has landed: it is then a reload, even
    with the same rows. Raises ConfigError without such a file.
    """
    own = books.of(spark)
    own.create()
    newest = _newest_rows(own, "status in ('set_aside', 'retracted', 'landed')")
    waiting = [row for row in newest.values() if row["status"] != "landed"]
    found = _below(path, waiting) or [
        row
        for row in newest.values()
        if row["file"] == path and row["status"] == "landed" and is_load(path)
    ]
    if not found:
        others = _alike(path, waiting, 10)
        raise ConfigError(
            f"No file '{path}' is set aside. "
            + (f"These are: {others}." if others else "No file at all is.")
        )
    _wish(own, found, "confirmed", run_id)
    return _tables_of(found)


def retract(spark: "SparkSession", path: str, run_id: str) -> str:
    """Mark a file, or the files of a folder, to be taken back; gives `source.table`.

    The next `tidemark run` deletes its rows from the log, and rebuilds the tables. Of a file that
    was only set aside, this closes the dead letters and ends the wish to read it again, and no
    table is rebuilt. Raises ConfigError when there is no such file.
    """
    own = books.of(spark)
    own.create()
    gone = f"'retracted', '{RETRACTING}'"
    newest = _newest_rows(own, f"status in ('landed', {gone})")
    landed = {key: row for key, row in newest.items() if row["status"] == "landed"}
    newest = _newest_rows(own, f"status in ('set_aside', {gone})")
    aside = [
        row for key, row in newest.items() if row["status"] == "set_aside" and key not in landed
    ]
    known = [*landed.values(), *aside]
    found, aside = _below(path, landed.values()), _below(path, aside)
    if not found and not aside:
        others = _alike(path, known, 5)
        raise ConfigError(
            f"Nothing of '{path}' has landed or was set aside, so there is nothing to retract. "
            + (f"Such files are: {others}." if others else "There is no such file at all.")
        )
    load_id = _next_load_id(own)
    _wish(own, [{**row, "load_id": load_id} for row in found], RETRACTING, run_id)
    if aside:
        files = " or ".join(
            f"({books.is_of_table(row['source_name'], row['table_name'])} "
            f"and file = {books.literal(row['file'])})"
            for row in aside
        )
        spark.sql(
            f"update {books.DEAD_LETTER} set superseded_by = 0 "
            f"where superseded_by is null and ({files})"
        )
        # As if it had been read again, under the same load: that ends the wish.
        _wish(own, aside, "set_aside", run_id)
    return _tables_of([*found, *aside])


def _below(path: str, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a file, or of the files in a folder."""
    folder = f"{path.rstrip('/')}/"
    return [row for row in rows if row["file"] == path or row["file"].startswith(folder)]


def _alike(path: str, rows: Iterable[Mapping[str, Any]], number: int) -> str:
    """The files with names that are most like a path."""
    files = [row["file"] for row in rows]
    return ", ".join(sorted(difflib.get_close_matches(path, files, n=number, cutoff=0)))


def _tables_of(rows: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(sorted({books.table_of(row) for row in rows}))


def _next_load_id(own: Books) -> int:
    loads = (pc.max(batch.column("load_id")) for batch in own.read(books.LEDGER, ("load_id",)))
    return 1 + max((load.as_py() or 0 for load in loads), default=0)


def write_erased(own: Books, feed: Feed, rows: Mapping[tuple[int, str], int], run_id: str) -> None:
    """Write how many rows of each load and file are about to be deleted.

    Twice under the same run id counts once, since that run may have died before it deleted them.
    """
    own.append(
        books.LEDGER,
        [
            _row(feed, load_id, LandedFile(EPOCH, path, "", -1, EPOCH), ERASED, run_id, {"rows": n})
            for (load_id, path), n in rows.items()
        ],
    )


def erased_rows(own: Books, feed: Feed, run_id: str) -> int:
    """The number of rows of a feed that an erasure deletes, as `write_erased` counts them."""
    where = f"{books.is_of(feed)} and status = '{ERASED}' and run_id = '{run_id}'"
    found = books.rows(own.read(books.LEDGER, ("load_id", "file", "rows"), where))
    return sum({(row["load_id"], row["file"]): row["rows"] for row in found}.values())


def removed_files(own: Books, feed: Feed, run_id: str) -> list[str]:
    """The landed files of a feed that an erasure has deleted."""
    where = f"{books.is_of(feed)} and status = '{REMOVED}' and run_id = '{run_id}'"
    return sorted({row["file"] for row in books.rows(own.read(books.LEDGER, ("file",), where))})


def write_removed(own: Books, feed: Feed, files: Iterable[LandedFile], run_id: str) -> None:
    """Write that these landed files are deleted."""
    newest = _newest_rows(own, f"{books.is_of(feed)} and status in {READ}")
    loads = {path: row["load_id"] for (_, _, path), row in newest.items()}
    write(own, [(feed, loads.get(file.path, 0), file) for file in files], REMOVED, run_id)


def replay(
    spark: "SparkSession", feeds: Iterable[Feed], run_id: str, *, all_files: bool = False
) -> list[str]:
    """Mark files of these feeds with open dead letters to be read again; gives the files.

    With `all_files` all of them, for a change log that was lost: rows that it has are left out.
    """
    own = books.of(spark)
    names = {(feed.source, feed.table) for feed in feeds}
    columns = ("source_name", "table_name", "file")
    with_letters = {
        tuple(row[name] for name in columns)
        for row in books.rows(own.read(books.DEAD_LETTER, columns, "superseded_by is null"))
        if (row["source_name"], row["table_name"]) in names
    }
    newest = _newest_rows(own, f"status in {(*READ, REMOVED)}")
    found = [
        row
        for key, row in newest.items()
        if row["status"] not in ("retracted", REMOVED)
        and (key in with_letters or (all_files and key[:2] in names and row["status"] == "landed"))
    ]
    _wish(own, found, "replayed", run_id)
    return sorted(row["file"] for row in found)


def supersede(spark: "SparkSession", own: Books, feed: Feed, plan: Plan, run_id: str) -> None:
    """Close the earlier dead letters of the plan's files, which were read again."""
    is_open = f"{books.is_of(feed)} and superseded_by is null and load_id < {plan.load_id}"
    paths = {file.path for file in plan.files}
    if plan.supersedes and any(
        row["file"] in paths for row in books.rows(own.read(books.DEAD_LETTER, ("file",), is_open))
    ):
        # Imported late: it brings PySpark.
        from tidemark.spark import session

        places = [(feed.source, feed.table, file.path, plan.load_id) for file in plan.files]
        columns = "source_name string, table_name string, file string, load_id bigint"
        # A MERGE takes no parameters.
        view = f"read_again_in_{plan.load_id}"
        spark.createDataFrame(places, columns).createOrReplaceTempView(view)
        with session.settings_during(spark, formats.commits_tell(run_id)):
            spark.sql(
                f"""
                merge into {books.DEAD_LETTER} as letter
                using {view} as again
                on letter.source_name = again.source_name and letter.table_name = again.table_name
                    and letter.file = again.file
                    and letter.superseded_by is null and letter.load_id < again.load_id
                when matched then update set superseded_by = again.load_id
                """
            )
        spark.catalog.dropTempView(view)


def _newest_rows(own: Books, where: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The last row of each file among those for which a condition holds."""
    newest: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in books.rows(own.read(books.LEDGER, (*_FILE, "status", "at"), where)):
        key = (row["source_name"], row["table_name"], row["file"])
        known = newest.get(key)
        if not known or (known["load_id"], known["at"]) < (row["load_id"], row["at"]):
            newest[key] = row
    return newest


def _wish(own: Books, found: Iterable[Mapping[str, Any]], status: str, run_id: str) -> None:
    own.append(
        books.LEDGER,
        [
            {**{name: row[name] for name in _FILE}, "status": status, "run_id": run_id}
            for row in found
        ],
    )


def _row(
    feed: Feed,
    load_id: int,
    file: LandedFile,
    status: str,
    run_id: str,
    counts: Mapping[str, int] | None = None,
    newest: datetime | None = None,
) -> dict[str, object]:
    counted = (
        {} if status == "planned" else {name: (counts or {}).get(name, 0) for name in COUNTS[:3]}
    )
    return {
        "load_id": load_id,
        "source_name": feed.source,
        "table_name": feed.table,
        "file": file.path,
        "kind": file.kind,
        "file_at": file.time,
        "size": file.size,
        "modified": file.modified,
        "status": status,
        "run_id": run_id,
        "newest_change": newest,
        **counted,
    }


def _landed_file(row: Mapping[str, Any]) -> LandedFile:
    return LandedFile(row["file_at"], row["file"], row["kind"], row["size"], row["modified"])
