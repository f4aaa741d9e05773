"""`tidemark erase`: delete what belongs to a person, everywhere in the lake, and keep it out.

The tags `subject` in the YAML say which rows belong to whom (docs/operate.md). An erasure writes
tombstones first, so that one that was killed can go on. Then it deletes landed files, rows of
change logs and dead letters, and builds the tables below anew. At the end it deletes the files of
all earlier versions, and their entries in Delta's logs: until then the values are still on disk.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from tabulate import tabulate

from tidemark import formats, paths, places, report, retention, runs, storage
from tidemark.dbt_plugin import project
from tidemark.errors import ConfigError, TidemarkError, printable
from tidemark.feeds import Column, Feed, Reference
from tidemark.formats import delta
from tidemark.ingest import books, erased, ledger, log, planning, tombstones
from tidemark.ingest.files import LandedFile
from tidemark.ingest.load import log_of
from tidemark.spark import lease, session, warm
from tidemark.spark.machine import side_by_side

# What tells the rows of a change log apart, and the dead letters.
_ROW = ("_load_id", "_file", "_position", "_op")
_LETTER = ("source_name", "table_name", "load_id", "file", "position")
# What dbt's schemas for the rows of failed tests are called, or end with.
_OF_FAILURES = "dbt_test__audit"


@dataclass
class Done:
    """What an erasure did with one table."""

    table: str
    deleted: int = 0
    masked: int = 0
    built: bool = False
    dropped: bool = False
    version: int | None = None


@dataclass
class Certificate:
    """What an erasure did. It has no keys, only their hashes.

    `left` is what it left alone, and people must look at; `remains` is what it could not erase.
    """

    erasure: str
    subjects: dict[str, list[str]]
    started_at: str
    finished_at: str = ""
    tables: dict[str, Done] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    remains: list[str] = field(default_factory=list)

    def of(self, table: str) -> Done:
        """The entry of a table."""
        return self.tables.setdefault(table, Done(table))

    def as_json(self) -> str:
        """The certificate as people keep it."""
        tables = [asdict(self.tables[name]) for name in sorted(self.tables)]
        return json.dumps(asdict(self) | {"tables": tables}, indent=2)


def erase(
    subject: str, keys: Sequence[str], *, dry_run: bool = False, keep_files: bool = False
) -> None:
    """Erase these keys of a subject, and finish the erasures that are unfinished.

    `dry_run` only prints what would be erased, and `keep_files` leaves the landed files. Raises
    ConfigError, before anything changes, for a subject or a key that is not there, and
    TidemarkError if values remain somewhere: the message says where.
    """
    parsed = project.current()
    tagged = sorted({r.subject for feed in parsed.feeds for r in feed.references} - _names(parsed))
    if subject and subject not in tagged:
        there = f"The subjects are: {', '.join(tagged)}." if tagged else "There are no such tags."
        raise ConfigError(f"No column has the tag `subject: {subject}`. {there}")
    # It reads whole logs, and builds their tables anew.
    sizes = books.sizes(feed.log for feed in parsed.feeds if feed.references)
    settings = delta.AT_ONCE | session.suited_to(sizes)
    spark = session.get()
    with lease.held(spark), session.settings_during(spark, settings):
        own = books.of(spark)
        if not own.exists(books.LEDGER):
            raise ConfigError("Nothing has landed yet: tidemark run")
        if not subject and not tombstones.unfinished(own):
            print("No erasure is unfinished.")
            return
        if not dry_run:
            storage.landing_folder().require()
            tombstones.create(spark, own)
        before = tombstones.unfinished(own)
        of_name = partial(_Erasure, spark, own, parsed)
        erasures: Iterable[_Erasure] = ()
        if subject:
            hashes = _hashes(spark, own, parsed.feeds, subject, keys)
            new = of_name(tombstones.new_name(own, runs.new_run_id()), hashes)
            if dry_run:
                new.show()
                return
            # Its tombstones are there, whatever becomes of the earlier ones.
            new.begin(keeps_files=keep_files)
            erasures = [new]
        if before:
            names = tombstones.unfinished(own)
            print(f"Unfinished: {', '.join(names)}.")
            erasures = (of_name(name, tombstones.hashes_of(own, name)) for name in names)
        failed = [each for erasure in erasures if (each := erasure.work(keeps_files=keep_files))]
    if failed:
        raise TidemarkError("\n".join([*failed, "Then finish with: tidemark erase"]))


def _names(parsed: project.Project) -> set[str]:
    return {feed.name for feed in parsed.feeds}


def _hashes(
    spark: SparkSession,
    own: books.Books,
    feeds: Sequence[Feed],
    subject: str,
    keys: Sequence[str],
) -> dict[str, set[str]]:
    """The hashes of the keys. Raises ConfigError for a key that no change log ever had."""
    salt = tombstones.salt(own)
    references = [
        (feed, each) for feed in feeds for each in feed.references if each.subject == subject
    ]
    types = sorted({column.type for _, each in references for column in each.columns})
    as_types = [erased.hashed(subject, [Column("key", each)], salt) for each in types]
    given = spark.createDataFrame([(key,) for key in keys], "key string")
    of_key = {row[0]: set(row[1:]) - {None} for row in given.selectExpr("key", *as_types).collect()}
    wanted = spark.createDataFrame(
        [(each,) for hashes in of_key.values() for each in hashes], "value string"
    )
    found = tombstones.values_of(own, subject)
    for feed, each in references:
        if spark.catalog.tableExists(feed.log):
            of_log = log_of(spark, feed).selectExpr(
                f"{erased.hashed(subject, each.columns, salt)} as value"
            )
            found |= {row[0] for row in of_log.join(wanted, "value").distinct().collect()}
    unknown = [key for key, hashes in of_key.items() if not hashes & found]
    if unknown:
        raise ConfigError(
            f"No change log has a {subject} with the key {printable(', '.join(unknown[:5]))}. "
            "Nothing was erased."
        )
    return {subject: set().union(*of_key.values())}


class _Erasure:
    """One erasure. `hashes` are those of the erased keys, by subject or feed."""

    def __init__(
        self,
        spark: SparkSession,
        own: books.Books,
        parsed: project.Project,
        name: str,
        hashes: Mapping[str, set[str]],
    ) -> None:
        self.spark, self.own, self.parsed = spark, own, parsed
        self.name, self.hashes, self.salt = name, dict(hashes), tombstones.salt(own)
        self.feeds = [
            feed for feed in parsed.feeds if feed.references and spark.catalog.tableExists(feed.log)
        ]
        keys = {
            each.subject for feed in parsed.feeds for each in (feed.own_key, feed.own_key_of_masked)
        }
        subjects = {each: sorted(hashes[each]) for each in hashes if each not in keys}
        self.done = Certificate(name, subjects, _now())
        self._known_counts: dict[str, dict[tuple[int, str], tuple[int, int]]] = {}
        self._known_letters: dict[str, list[tuple[Any, ...]]] = {}
        self._follow()
        # The answers are kept.
        side_by_side(self._files, self.feeds)

    def show(self) -> None:
        """Print what would be erased."""
        rows, files = [], set()
        for feed in self.feeds:
            counts = self._counts(feed)
            letters = len(self._letters(feed))
            if counts or letters:
                deleted = sum(count for count, _ in counts.values())
                masked = sum(count for _, count in counts.values())
                rows.append((feed.name, deleted, masked, letters))
                files |= self._files(feed)
        headers = ["feed", "rows to delete", "rows to mask", "dead letters to delete"]
        print(tabulate(rows, headers=headers))
        below = self._below({row[0] for row in rows})
        names = sorted(self.parsed.nodes[name].name for name in below)
        print(f"To rebuild: {', '.join(names) or 'nothing'}.")
        print(f"Landed files to delete: {printable(', '.join(sorted(files))) or 'none'}.")
        if stored := self._stored_failures():
            print(f"Tables with the rows of failed tests to drop: {', '.join(stored)}.")
        for line in self._to_check():
            print(f"Check manually: {line}")
        print("Nothing was changed.")

    def work(self, *, keeps_files: bool) -> str:
        """Erase. Gives what remains and where, or an empty text."""
        feeds, files, keeps_files = self.begin(keeps_files=keeps_files)
        for feed in feeds:
            self._delete_files(feed, files.get(feed.name, set()), keeps_files=keeps_files)
        for feed in feeds:
            self._delete_from_log(feed)
            self._delete_letters(feed)
        below = self._below({feed.name for feed in feeds})
        for name in below:
            keeps_versions = retention.keeps_versions(self.own, self.parsed, name)
            if self.parsed.nodes[name].keeps_rows or keeps_versions:
                self._delete_from_table(name)
        for relation in self._stored_failures():
            self._drop(relation)
        try:
            self._build(below)
        except TidemarkError as error:
            # Such as a failing test. What was built must not keep its earlier versions.
            self.done.remains.append(f"dbt build: {error}")
        relations = {feed.log.replace("`", "") for feed in feeds} | {books.DEAD_LETTER}
        relations |= {self.parsed.nodes[name].table for name in below} - {""}
        side_by_side(self._purge, sorted(relations))
        self.done.remains += filter(None, side_by_side(self._rows_left, below))
        if folder := warm.delete_temporary_files():
            self.done.left.append(
                f"temporary files of Spark in {folder}: tidemark down deletes them"
            )
        if not self.done.remains:
            self.own.append(books.ERASED, [{"erasure": self.name, "kind": tombstones.FINISHED}])
        self._certify()
        if not self.done.remains:
            return ""
        return "\n".join(["The subject is not erased everywhere:", *self.done.remains])

    def _follow(self) -> None:
        """Add the keys of the rows that belong to nobody else, and so on below them."""
        # How many keys there were of what a feed refers to, when it was asked.
        followed: dict[str, list[int]] = {}
        before = -1
        while before != (before := sum(map(len, self.hashes.values()))):
            for feed in self.feeds:
                own_keys = (("_erased_of", feed.own_key), ("_masked_of", feed.own_key_of_masked))
                references = [each for each in feed.references if each.subject in self.hashes]
                known = [len(self.hashes[each.subject]) for each in references]
                if not references or known == followed.get(feed.name):
                    continue
                followed[feed.name] = known
                rows = self._marked(log_of(self.spark, feed), references)
                for named, own_key in own_keys:
                    if any(each.masks == own_key.masks for each in references):
                        key = erased.hashed(own_key.subject, own_key.columns, self.salt)
                        found = erased.of_nobody_else(rows, key, named)
                        if found:
                            self.hashes.setdefault(own_key.subject, set()).update(found)

    def _marked(
        self, rows: DataFrame, references: Sequence[Reference], *, are_texts: bool = True
    ) -> DataFrame:
        known = [each for each in references if each.subject in self.hashes]
        return erased.mark(rows, known, self._all_hashes(), self.salt, are_texts=are_texts)

    def _all_hashes(self) -> DataFrame:
        pairs = [(subject, each) for subject, hashes in self.hashes.items() for each in hashes]
        return self.spark.createDataFrame(pairs, "subject string, value string")

    def _of_log(self, feed: Feed) -> DataFrame:
        """The rows of the log to delete or to mask."""
        marked = self._marked(log_of(self.spark, feed), feed.all_references)
        return marked.where("_is_erased or _is_masked").select(*_ROW, "_is_erased").distinct()

    def _counts(self, feed: Feed) -> dict[tuple[int, str], tuple[int, int]]:
        """The numbers of rows to delete and to mask, by load and file, before anything changes."""
        if feed.name in self._known_counts:
            return self._known_counts[feed.name]
        rows = self._of_log(feed).groupBy("_load_id", "_file", "_is_erased").count().collect()
        counts: dict[tuple[int, str], tuple[int, int]] = {}
        for row in rows:
            deleted, masked = counts.get((row["_load_id"], row["_file"]), (0, 0))
            more = (row["count"], 0) if row["_is_erased"] else (0, row["count"])
            counts[row["_load_id"], row["_file"]] = (deleted + more[0], masked + more[1])
        self._known_counts[feed.name] = counts
        return counts

    def _letters(self, feed: Feed) -> list[tuple[Any, ...]]:
        """The dead letters of the feed that have a key in their record, before any is deleted."""
        if feed.name not in self._known_letters:
            references = [each for each in feed.all_references if each.subject in self.hashes]
            letters = self.spark.table(books.DEAD_LETTER).where(books.is_of(feed))
            found = erased.letters(letters, _LETTER, references, self._all_hashes(), self.salt)
            has_any = any(books.rows(self.own.read(books.DEAD_LETTER, _LETTER, books.is_of(feed))))
            # A letter without a position is of a whole file, which is the only copy of its rows.
            rows = found.where("position is not null").collect() if has_any else []
            self._known_letters[feed.name] = [tuple(row) for row in rows]
        return self._known_letters[feed.name]

    def _files(self, feed: Feed) -> set[str]:
        """The landed files with rows of the subject, in the log or in the dead letter."""
        return {file for _, file in self._counts(feed)} | {row[3] for row in self._letters(feed)}

    def _to_check(self) -> list[str]:
        """What an erasure leaves alone, before it changes anything."""
        found = []
        for feed in self.feeds:
            is_open = f"{books.is_of(feed)} and superseded_by is null"
            whole = self.own.read(books.DEAD_LETTER, ("file",), f"{is_open} and position is null")
            found += [
                f"{printable(file)}: it is set aside, so nobody looked for the subject in it, and "
                "its dead letter may have keys"
                for file in sorted({row["file"] for row in books.rows(whole)})
            ]
            known = [each for each in feed.references if each.subject in self.hashes]
            if any(len(each.columns) > 1 for each in known):
                rows = f"{is_open} and position is not null"
                if any(books.rows(self.own.read(books.DEAD_LETTER, ("file",), rows))):
                    found.append(
                        f"the dead letters of {feed.name}: a key of several columns is not found "
                        "in them"
                    )
            if feed.has_partial_rows and (shared := self._shared_keys(feed)):
                found.append(
                    f"{report.counted(shared, 'key')} of {feed.name}, which belonged to the "
                    "subject and to someone else: its records have only the columns that changed, "
                    "so columns may be NULL now, or have a value of the subject"
                )
        return found

    def _shared_keys(self, feed: Feed) -> int:
        """The number of keys of which some rows are deleted and some stay."""
        rows = self._marked(log_of(self.spark, feed), feed.all_references)
        key = erased.hashed(feed.name, feed.own_key.columns, self.salt)
        is_erased = rows.selectExpr(f"{key} as own_key", "_is_erased").where("own_key is not null")
        both = is_erased.groupBy("own_key").agg({"_is_erased": "min"}).toDF("own_key", "all_erased")
        some = is_erased.where("_is_erased").select("own_key").distinct()
        return both.where("not all_erased").join(some, "own_key", "left_semi").count()

    def begin(self, *, keeps_files: bool) -> tuple[list[Feed], dict[str, set[str]], bool]:
        """Write what this erasure is about, unless it is written.

        Gives the feeds with rows of the subject, the files by feed, and whether the files stay.
        """
        known = tombstones.rows_of(self.own, self.name)
        wanted = [
            (tombstones.TOMBSTONE, subject, each)
            for subject, hashes in self.hashes.items()
            for each in hashes
        ]
        for feed in self.feeds:
            files = self._files(feed)
            if files:
                wanted.append((tombstones.FEED, feed.name, ""))
                wanted += [(tombstones.FILE, feed.name, file) for file in files]
        if not known:
            wanted += [(tombstones.LEFT, "", line) for line in self._to_check()]
        wanted += [(tombstones.DROPS, "", relation) for relation in self._stored_failures()]
        if keeps_files:
            wanted.append((tombstones.KEEPS_FILES, "", ""))
        self.own.append(
            books.ERASED,
            [
                {"erasure": self.name, "kind": kind, "subject": subject, "value": value}
                for kind, subject, value in wanted
                if (kind, subject, value) not in known
            ],
        )
        all_rows = known | {*wanted}
        of_kind: dict[str, list[tuple[str, str]]] = {}
        for kind, subject, value in all_rows:
            of_kind.setdefault(kind, []).append((subject, value))
        names = {subject for subject, _ in of_kind.get(tombstones.FEED, ())}
        files_of: dict[str, set[str]] = {}
        for subject, value in of_kind.get(tombstones.FILE, ()):
            files_of.setdefault(subject, set()).add(value)
        for _, relation in of_kind.get(tombstones.DROPS, ()):
            self.done.of(relation).dropped = True
        self.done.left = sorted(value for _, value in of_kind.get(tombstones.LEFT, ()))
        feeds = [feed for feed in self.feeds if feed.name in names]
        return feeds, files_of, tombstones.KEEPS_FILES in of_kind

    def _delete_files(self, feed: Feed, wanted: Collection[str], *, keeps_files: bool) -> None:
        """Delete the landed files with rows of the subject: their other rows are in the logs.

        A transaction file has the rows of several feeds.
        """
        root = storage.landing_folder()
        listed = planning.listed(root, feed, self.own)
        if isinstance(listed, Exception):
            raise listed
        there = [file for file in listed or [] if file.path in wanted]
        readers = [
            each
            for each in self.parsed.feeds
            if each.name == feed.name
            or (feed.transactions_path and each.transactions_path == feed.transactions_path)
        ]
        book = ledger.read(self.own, {each.name: there for each in readers})
        others = set[str]()
        for each in readers:
            is_open = f"{books.is_of(each)} and superseded_by is null"
            letters = books.rows(self.own.read(books.DEAD_LETTER, ("file", "position"), is_open))
            mine = {row[3:] for row in self._letters(each)}
            others |= {row["file"] for row in letters if (row["file"], row["position"]) not in mine}
        deleted: list[LandedFile] = []
        for file in there:
            name = printable(f"{root.root}/{file.path}")
            in_transactions = file.path.startswith(f"{feed.transactions_path}/")
            of_file = readers if in_transactions else [feed]
            if keeps_files:
                self.done.left.append(name)
            elif not all(book.knows(each, file) for each in of_file):
                self.done.remains.append(f"{name}: it has not landed as it is now: tidemark run")
            elif file.path in others:
                self.done.remains.append(
                    f"{name}: it has open dead letters of others. Land them (tidemark replay "
                    f"{' '.join(each.name for each in of_file)}), or delete the file"
                )
            else:
                try:
                    root.delete(file.path)
                    deleted.append(file)
                except OSError as error:
                    self.done.remains.append(f"{name}: {error}")
        for each in readers:
            ledger.write_removed(self.own, each, deleted, self.name)
        self.done.files += ledger.removed_files(self.own, feed, self.name)

    def _delete_from_log(self, feed: Feed) -> None:
        counts = self._counts(feed)
        done = self.done.of(feed.log.replace("`", ""))
        done.masked = sum(masked for _, masked in counts.values())
        deleted = {at: count for at, (count, _) in counts.items() if count}
        ledger.write_erased(self.own, feed, deleted, self.name)
        done.deleted = ledger.erased_rows(self.own, feed, self.name)
        if not counts:
            return
        masked = ", ".join(f"`{name}` = null" for name in erased.masked_columns(feed))
        mask = f"when matched and not erased._is_erased then update set {masked}" if masked else ""
        with self._view(self._of_log(feed)) as view:
            same = " and ".join(f"log.{log.in_log(name)} = erased.{name}" for name in _ROW)
            self.spark.sql(
                f"merge into {feed.log} as log using {view} as erased on {same} "
                f"when matched and erased._is_erased then delete {mask}"
            )

    def _delete_letters(self, feed: Feed) -> None:
        found = self._letters(feed)
        self.done.of(books.DEAD_LETTER).deleted += len(found)
        if not found:
            return
        schema = self.spark.table(books.DEAD_LETTER).select(*_LETTER).schema
        with self._view(self.spark.createDataFrame(found, schema)) as view:
            same = " and ".join(f"letter.{name} <=> found.{name}" for name in _LETTER)
            self.spark.sql(
                f"merge into {books.DEAD_LETTER} as letter using {view} as found on {same} "
                "when matched then delete"
            )

    @contextmanager
    def _view(self, rows: DataFrame) -> Iterator[str]:
        """The name of a view with these rows, for a MERGE."""
        name = f"erased_in_{re.sub('[^0-9A-Za-z]', '_', self.name)}"
        formats.of_lake().for_merge(rows).createOrReplaceTempView(name)
        try:
            yield name
        finally:
            self.spark.catalog.dropTempView(name)

    def _below(self, feeds: Collection[str]) -> list[str]:
        """What dbt builds from these feeds."""
        below = self.parsed.below(self.parsed.sources_of(feeds))
        return sorted(name for name in below if self.parsed.nodes[name].select)

    def _build(self, below: Collection[str]) -> None:
        newest = ledger.read(self.own, {}).newest_loads
        due = {*below} - self.parsed.idle(newest)
        if due:
            print(f"Rebuilding {report.counted(len(due), 'model')}.")
            runs.build(
                self.parsed,
                self.own,
                self.name,
                print,
                newest=newest,
                known=project.read_builds(self.own),
                select=runs.selectors(self.parsed, due),
                full_refresh=True,
            )
        for name in due:
            node = self.parsed.nodes[name]
            if node.table:
                self.done.of(node.table).built = not node.keeps_rows

    def _stored_failures(self) -> list[str]:
        """The tables with the rows of failed tests (store_failures), also of tests that are gone.

        They may have any column of what was tested.
        """
        # Spark does not keep capitals.
        spark, known = self.spark, {relation.lower() for relation in self.parsed.of_failures}
        of_tests = {relation.split(".")[0] for relation in known}
        found = set()
        for (schema,) in spark.sql("show schemas").collect():
            is_dbts = schema.endswith(_OF_FAILURES)
            if not is_dbts and schema not in of_tests:
                continue
            views = {row.viewName for row in spark.sql(f"show views in `{schema}`").collect()}
            for row in spark.sql(f"show tables in `{schema}`").collect():
                relation = f"{schema}.{row.tableName}"
                if row.tableName not in views and (is_dbts or relation in known):
                    found.add(relation)
        return sorted(found)

    def _drop(self, relation: str) -> None:
        """Drop a table, with its files also if Spark leaves them. Its test writes it again."""
        name = books.quoted(relation)
        of_table = self.spark.sql(f"describe table extended {name}")
        ((location,),) = of_table.where("col_name = 'Location'").select("data_type").collect()
        self.spark.sql(f"drop table {name}")
        try:
            files, root = places.files_in(location)
            if files.get_file_info(root).type == fs.FileType.Directory:
                files.delete_dir(root)
        except OSError as error:
            self.done.left.append(f"the files of {relation}, unless Spark deleted them. {error}")

    def _references_in(self, name: str, table: DataFrame) -> list[tuple[Feed, Reference]]:
        """The references of the feeds above a node whose columns its table has.

        A column of that name must not be another feed's as well: then it may be anything. So may a
        feed's own key where other feeds are above: `o.order_id as id` is not the customer's `id`.
        """
        above = self.parsed.above([name])
        feeds = {self.parsed.nodes[each].feed for each in above} - {""}
        of_node = [feed for feed in self.parsed.feeds if feed.name in feeds]
        there = {column.lower() for column in table.columns}
        found = []
        for feed in self.feeds:
            for reference in feed.references if feed in of_node else ():
                names = [column.name for column in reference.columns]
                is_shared = any(
                    column.subject != tagged.subject
                    for other in of_node
                    for column in other.columns
                    for tagged in reference.columns
                    if column.name.lower() == tagged.name.lower()
                )
                is_vague = len(of_node) > 1 and any(each in feed.key for each in names)
                if {each.lower() for each in names} <= there and not is_shared and not is_vague:
                    found.append((feed, reference))
        return found

    def _delete_from_table(self, name: str) -> None:
        """Delete from a table that a full refresh does not build anew, such as a snapshot."""
        relation = self.parsed.nodes[name].table
        if not self.spark.catalog.tableExists(books.quoted(relation)):
            return
        table = self.spark.table(books.quoted(relation))
        references = self._references_in(name, table)
        if not references:
            self.done.left.append(
                f"{relation}, which a full refresh does not build anew, and which has no column "
                "with the tag `subject`"
            )
        there = {each.lower() for each in table.columns}
        for feed, reference in references:
            hidden = [name for name in erased.masked_columns(feed) if name.lower() in there]
            if reference.masks and not hidden:
                continue
            masks = f"update set {', '.join(f'`{name}` = null' for name in hidden)}"
            action = masks if reference.masks else "delete"
            hashes = self._all_hashes().where(f"subject = '{reference.subject}'").select("value")
            columns = erased.as_in(table, reference.columns)
            value = erased.hashed(reference.subject, columns, self.salt, are_texts=False)
            count = table.selectExpr(f"{value} as value").join(hashes, "value").count()
            done = self.done.of(relation)
            done.masked += count if reference.masks else 0
            done.deleted += 0 if reference.masks else count
            if count:
                with self._view(hashes.selectExpr("value as _erased_hash").distinct()) as view:
                    self.spark.sql(
                        f"merge into {books.quoted(relation)} as kept using {view} as erased "
                        f"on {value} = erased._erased_hash when matched then {action}"
                    )

    def _rows_left(self, name: str) -> str:
        """A table below and how many rows of the subject it still has; '' for none."""
        relation = self.parsed.nodes[name].table
        if not relation or not self.spark.catalog.tableExists(books.quoted(relation)):
            return ""
        table = self.spark.table(books.quoted(relation))
        deleting = [each for _, each in self._references_in(name, table) if not each.masks]
        count = self._marked(table, deleting, are_texts=False).where("_is_erased").count()
        return f"{relation}: {report.counted(count, 'row')}" if count else ""

    def _purge(self, relation: str) -> None:
        """Delete the files of earlier versions, and what the table's log says of them."""
        if not self.spark.catalog.tableExists(books.quoted(relation)):
            return
        try:
            forgotten = formats.of(relation).forget(self.spark, relation)
        except TidemarkError as error:
            self.done.remains.append(str(error))
            return
        if forgotten:
            self.done.of(relation).version = forgotten.version
            self.done.left += filter(None, [forgotten.left])

    def _certify(self) -> None:
        """Write the certificate, and print it."""
        self.done.finished_at = _now()
        self.done.files = sorted({*self.done.files})
        folder = paths.make_lake() / "erasures"
        folder.mkdir(exist_ok=True)
        file = folder / f"{self.name}.json"
        file.write_text(self.done.as_json() + "\n")
        rows = [
            (each.table, each.deleted or "", each.masked or "", _anew(each))
            for each in sorted(self.done.tables.values(), key=lambda done: done.table)
        ]
        print(tabulate(rows, headers=["table", "deleted", "masked", "rebuilt"]))
        print(f"Deleted {report.counted(len(self.done.files), 'landed file')}.")
        for line in self.done.left:
            print(f"Left for you to check: {line}")
        print(f"The certificate is {file}.")


def _anew(each: Done) -> str:
    return "dropped" if each.dropped and not each.built else "yes" if each.built else ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
