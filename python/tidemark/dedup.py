"""Entity resolution for Python models: DataFrame in, DataFrame out, nothing written.

Exact duplicates of a key are the macros' work; here are records that mean the same thing and
say it differently.
"""

import difflib
import re
from collections.abc import Sequence

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
    """Group records whose texts are spellings of the same thing.

    Texts are compared as sorted words, without case, punctuation or the difference between
    `140 cm` and `140cm`; only records that agree in the `within` columns are compared, so a
    group's size bounds the work. The group's id is its lowest key, so that a rerun gives the
    same groups; a record joins the first group, in key order, that is at least `threshold`
    alike (0 to 1, difflib's ratio).

    Returns the columns of `frame` and `group_key` (the key's type), `similarity` (double).
    Raises MissingColumnError when a named column is not there.
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
    threshold: float = 0.9,
) -> DataFrame:
    """One record per key out of audited entries, and which keys are the same person.

    Of a key's entries in `master` the newest by `audited_at` survives whole; among entries of the
    same time the one with more values, then the one with the greater values, so that a rerun
    survives alike. The same in `address`, which is joined to it where there is one. `email`
    is trimmed and in lower case, and NULL when nothing is left.

    `person_id` is the lowest key of those with the same `email`; where that is only the key
    itself, the lowest of those in the same `place` whose `name` is at least `threshold` alike
    (see `group_similar`).

    Returns `key`, `person_id` (the key's type), the other columns of both frames, and `audited_at`,
    the newer one of the two. Raises MissingColumnError when a named column is not there.
    """
    _require(master, [key, audited_at, *name], "master")
    _require(address, [key, audited_at, email, place], "address")
    of_master = [column for column in master.columns if _is_own(column, key, audited_at)]
    of_address = [column for column in address.columns if _is_own(column, key, audited_at)]
    newest = _newest(master, key, audited_at, of_master)
    known_at = _newest(address, key, audited_at, of_address).withColumnRenamed(
        audited_at, "_address_at"
    )
    clean = F.nullif(F.lower(F.trim(F.col(email))), F.lit(""))
    people = (
        newest.join(known_at, key, "left")
        .withColumn(email, clean)
        .withColumn(audited_at, F.greatest(audited_at, "_address_at"))
        .withColumn("_name", F.concat_ws(" ", *name))
    )
    alike = group_similar(
        people.select(key, "_name", F.coalesce(place, F.lit("")).alias("_place")),
        key=key,
        text="_name",
        within=["_place"],
        threshold=threshold,
    ).select(key, "group_key")
    same_email = Window.partitionBy(F.coalesce(F.col(email), F.col(key).cast("string")))
    return (
        people.join(alike, key)
        .withColumn("_first", F.min(key).over(same_email))
        .withColumn(
            "person_id",
            F.when(F.col("_first") == F.col(key), F.col("group_key")).otherwise(F.col("_first")),
        )
        .select(key, "person_id", *of_master, *of_address, audited_at)
    )


def _is_own(column: str, key: str, audited_at: str) -> bool:
    """Columns with _ in front are Tidemark's."""
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
    """The text's words in a standard order and spelling.

    >>> normalised("Shelf steel, 90 x 30")
    '30 90 shelf steel x'
    """
    apart = re.sub(r"(?<=[0-9])(?=[a-z])|(?<=[a-z])(?=[0-9])", " ", (text or "").lower())
    return " ".join(sorted(re.findall(r"[a-z0-9]+", apart)))


def _alike(left: str, right: str) -> float:
    return difflib.SequenceMatcher(None, left, right, autojunk=False).ratio()
