"""Entity resolution for Python models: DataFrame in, DataFrame out, nothing written.

The macros remove exact duplicates of a key. These functions find different records of the same
entity.
"""

import difflib
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention


class MissingColumnError(ValueError):
    """The frame lacks a column that the function needs."""


def group_similar(
    frame: DataFrame,
    *,
    key: str,
    text: str,
    within: Sequence[str],
    threshold: float = 0.85,
) -> DataFrame:
    """Group records whose texts are variants of the same text.

    Compares texts as sorted words, ignoring case, punctuation and the difference between
    `140 cm` and `140cm`. Compares only records with the same values in the `within` columns,
    which limits the work. A record joins the first group, in key order, with a similarity of at
    least `threshold` (0 to 1, difflib's ratio). A group's id is its lowest key, so a rerun gives
    the same groups.

    Returns the columns of `frame` and `group_key` (the key's type), `similarity` (double).
    Raises MissingColumnError if a named column is missing.
    """
    _require(frame, [key, text, *within], "the frame")
    key_type = frame.schema[key].dataType.simpleString()
    columns = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in frame.schema.fields)

    def group(records: pd.DataFrame) -> pd.DataFrame:
        records = records.sort_values(key).reset_index(drop=True)
        leaders: list[tuple[object, str]] = []
        found: list[tuple[object, float]] = []
        for own_key, own_text in zip(records[key], records[text], strict=True):
            words = normalised(own_text)
            best = next(
                ((k, ratio) for k, t in leaders if (ratio := _alike(words, t)) >= threshold), None
            )
            if best is None:
                leaders.append((own_key, words))
                best = (own_key, 1.0)
            found.append(best)
        records["group_key"] = [group_key for group_key, _ in found]
        records["similarity"] = [ratio for _, ratio in found]
        return records

    return frame.groupBy(*within).applyInPandas(
        group, f"{columns}, group_key {key_type}, similarity double"
    )


def survivors(
    master: DataFrame,
    address: DataFrame,
    *,
    key: str,
    audited_at: str,
    email: str,
    name: Sequence[str],
    place: str,
    changed_at: str,
    threshold: float = 0.9,
) -> DataFrame:
    """Pick one record per key from audited entries, and find keys of the same person.

    Keeps the newest entry per key in `master` by `audited_at`. On a tie, the entry with more
    values wins, then the one with the greater values, so a rerun gives the same result. Does the
    same in `address` and left joins it. `email` is trimmed, in lower case, and NULL if empty.

    `person_id` is the lowest key of the same person. Keys in the same `place` whose `name` has a
    similarity of at least `threshold` are one person (see `group_similar`; keys without a place
    or a name are not compared). Groups that share an `email`, also through other groups, are
    one person, too.

    Returns `key`, `person_id` (the key's type), the other columns of both frames (`master`'s if
    both have one), `audited_at`, the newer of the two, and `known_at`, the newest `changed_at` of
    all entries. Raises MissingColumnError if a named column is missing.
    """
    _require(master, [key, audited_at, changed_at, *name], "master")
    _require(address, [key, audited_at, changed_at, email, place], "address")
    of_master = [column for column in master.columns if _is_own(column, key, audited_at)]
    of_address = [
        column
        for column in address.columns
        if _is_own(column, key, audited_at) and column not in of_master
    ]
    newest = _newest(master, key, audited_at, of_master)
    living_at = _newest(address, key, audited_at, of_address).withColumnRenamed(
        audited_at, "_address_at"
    )
    as_of = (
        master.select(changed_at).union(address.select(changed_at)).agg(F.max(changed_at))
    ).toDF("known_at")
    clean = F.nullif(F.lower(F.trim(F.col(email))), F.lit(""))
    people = (
        newest.join(living_at, key, "left")
        .withColumn(email, clean)
        .withColumn(audited_at, F.greatest(audited_at, "_address_at"))
        .withColumn("_name", F.concat_ws(" ", *name))
    )
    alike = group_similar(
        people.where(F.col(place).isNotNull() & (F.trim("_name") != "")).select(
            key, "_name", F.col(place).alias("_place")
        ),
        key=key,
        text="_name",
        within=["_place"],
        threshold=threshold,
    ).select(key, "group_key")
    grouped = people.join(alike, key, "left").withColumn("_group", F.coalesce("group_key", key))
    return (
        grouped.join(_lowest(grouped.select("_group", email)), "_group", "left")
        .withColumn("person_id", F.coalesce("_lowest", "_group"))
        .crossJoin(as_of)
        .select(key, "person_id", *of_master, *of_address, audited_at, "known_at")
    )


def _lowest(emails: DataFrame) -> DataFrame:
    """The lowest `_group` that each is connected with by emails, through any number of groups.

    Groups that share none are missing. The others are few, so one task has them all.
    """
    group, email = emails.schema.fields
    of_email = Window.partitionBy(email.name)
    shared = (
        emails.where(F.col(email.name).isNotNull())
        .withColumn("_first", F.min("_group").over(of_email))
        .where("_first <> _group")
        .select("_first", "_group")
        .distinct()
    )

    def connected(pairs: pd.DataFrame) -> pd.DataFrame:
        lowest: dict[Any, Any] = {}

        def lowest_of(group: Any) -> Any:
            while lowest.setdefault(group, group) != group:
                group = lowest[group]
            return group

        for first, other in pairs.itertuples(index=False):
            low, high = sorted((lowest_of(first), lowest_of(other)))
            lowest[high] = low
        found = [(each, lowest_of(each)) for each in lowest]
        return pd.DataFrame(found, columns=["_group", "_lowest"])

    key_type = group.dataType.simpleString()
    return shared.groupBy().applyInPandas(connected, f"_group {key_type}, _lowest {key_type}")


def _is_own(column: str, key: str, audited_at: str) -> bool:
    """Column names that start with _ are Tidemark's."""
    return column not in (key, audited_at) and not column.startswith("_")


def _newest(entries: DataFrame, key: str, audited_at: str, columns: Sequence[str]) -> DataFrame:
    values = sum((F.col(column).isNotNull().cast("int") for column in columns), F.lit(0))
    newest_first = Window.partitionBy(key).orderBy(
        F.desc(audited_at), F.desc(values), *[F.desc_nulls_last(column) for column in columns]
    )
    return (
        entries.select(key, audited_at, *columns)
        .withColumn("_rank", F.row_number().over(newest_first))
        .where("_rank = 1")
        .drop("_rank")
    )


def _require(frame: DataFrame, needed: Sequence[str], what: str) -> None:
    missing = [column for column in needed if column not in frame.columns]
    if missing:
        raise MissingColumnError(
            f"{what} lacks the columns {', '.join(missing)}; it has {', '.join(frame.columns)}."
        )


def normalised(text: str | None) -> str:
    """The words of a text, normalised and sorted.

    >>> normalised("Shelf steel, 90 x 30")
    '30 90 shelf steel x'
    """
    plain = unicodedata.normalize("NFKD", (text or "").lower())
    letters = "".join(each for each in plain if not unicodedata.combining(each))
    return " ".join(sorted(re.findall(r"[^\W\d_]+|\d+", letters)))


def _alike(left: str, right: str) -> float:
    return difflib.SequenceMatcher(None, left, right, autojunk=False).ratio()
