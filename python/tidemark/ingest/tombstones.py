"""Tombstones of erased subjects, in the table `tidemark.erased`.

A tombstone is the salted hash of a key. `tidemark erase` writes it before it deletes anything, and
landing leaves out what belongs to it: repeated files and late changes do not bring a subject back.
"""

import re
import secrets
from itertools import chain, count
from typing import TYPE_CHECKING

from tidemark.ingest import books
from tidemark.ingest.books import Books

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The kinds of rows in `tidemark.erased`: the hash of a key; a feed and a landed file with rows of
# the subject; a table that is dropped; that landed files stay; what people must look at; the end of
# an erasure.
TOMBSTONE, FEED, FILE, FINISHED = "tombstone", "feed", "file", "finished"
DROPS, KEEPS_FILES, LEFT = "drops", "keeps_files", "left"
IS_TOMBSTONE = f"kind = '{TOMBSTONE}'"
_SALT = "tidemark.salt"


def create(spark: "SparkSession", own: Books) -> None:
    """Create the table of tombstones, with a salt of its own, unless it is there."""
    from tidemark.spark import session

    if not own.exists(books.ERASED):
        properties = f"{books.KEEPS_FORMAT}, '{_SALT}' = '{secrets.token_hex(16)}'"
        columns = books.columns_of(books.ERASED)
        session.create_table(spark, books.ERASED, columns, f"tblproperties ({properties})")


def salt(own: Books) -> str:
    """The salt of this lake's hashes; of a lake without tombstones, any."""
    return own.properties(books.ERASED)[_SALT] if own.exists(books.ERASED) else ""


def new_name(own: Books, run_id: str) -> str:
    """A name for an erasure, and for its file. A run that an orchestrator names may have many."""
    there = books.rows(own.read(books.ERASED, ("erasure",))) if own.exists(books.ERASED) else []
    known = {row["erasure"] for row in there}
    name = re.sub(r"[^\w.+-]", "_", run_id)
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(each for each in names if each not in known)


def unfinished(own: Books) -> list[str]:
    """The erasures that began and have not ended, the oldest first."""
    if not own.exists(books.ERASED):
        return []
    begun: dict[str, set[str]] = {}
    for row in books.rows(own.read(books.ERASED, ("erasure", "kind"))):
        begun.setdefault(row["erasure"], set()).add(row["kind"])
    return sorted(name for name, kinds in begun.items() if FINISHED not in kinds)


def rows_of(own: Books, erasure: str) -> set[tuple[str, str, str]]:
    """The rows of an erasure: kind, subject, value."""
    columns = ("kind", "subject", "value")
    found = books.rows(own.read(books.ERASED, columns, f"erasure = '{erasure}'"))
    return {(row["kind"], row["subject"], row["value"]) for row in found}


def hashes_of(own: Books, erasure: str) -> dict[str, set[str]]:
    """The hashes of an erasure's keys, by subject or feed."""
    hashes: dict[str, set[str]] = {}
    for kind, subject, value in rows_of(own, erasure):
        if kind == TOMBSTONE:
            hashes.setdefault(subject, set()).add(value)
    return hashes


def values_of(own: Books, subject: str) -> set[str]:
    """The hashes of the erased keys of a subject."""
    where = f"{IS_TOMBSTONE} and subject = '{subject}'"
    found = own.read(books.ERASED, ("value",), where) if own.exists(books.ERASED) else ()
    return {row["value"] for row in books.rows(found)}


def subjects(own: Books) -> frozenset[str]:
    """The subjects, and the feeds, of which rows were erased."""
    if not own.exists(books.ERASED):
        return frozenset()
    found = own.read(books.ERASED, ("subject",), IS_TOMBSTONE)
    return frozenset(row["subject"] for row in books.rows(found))
