"""Which rows belong to erased subjects: of a load, a change log, a table, the dead letter."""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidemark.feeds import Column, Feed, Reference
from tidemark.ingest import books, macros, tombstones

if TYPE_CHECKING:
    from tidemark.ingest.load import Load

# What a load says of the records that it leaves out.
SKIPPED = "erased"
# A key may be a word of a refused record, or what separators enclose.
_BETWEEN = (r"[^\p{L}\p{N}_.@+-]+", r'[",;|\t{}\[\]:]+', r'[",;|\t{}\[\]]+')


def concerns(load: "Load") -> bool:
    """Whether the load may have rows of erased subjects."""
    return bool(_concerned(load.feed, load.erased))


def left_out(load: "Load", events: DataFrame) -> DataFrame:
    """The events of a load without the rows, or the personal values, of erased subjects."""
    references = _concerned(load.feed, load.erased)
    if not references:
        return events
    hashes = load.spark.table(books.ERASED).where(tombstones.IS_TOMBSTONE)
    salt = tombstones.salt(books.of(load.spark))
    marked = mark(events, references, hashes.select("subject", "value"), salt)
    masked = masked_columns(load.feed)
    told = {
        "_skipped": F.expr(f"if(_is_erased, '{SKIPPED}', _skipped)"),
        "_reason": F.expr("if(_is_erased, null, _reason)"),
    }
    if any(reference.masks for reference in references):
        masked += ["_raw", "_value"]
    told |= {name: F.when(~F.col("_is_masked"), F.col(f"`{name}`")) for name in masked}
    return marked.withColumns(told).select(*events.columns)


def _concerned(feed: Feed, erased: Collection[str]) -> list[Reference]:
    return [each for each in feed.all_references if each.subject in erased]


def masked_columns(feed: Feed) -> list[str]:
    """The columns that are NULL in the rows of a subject whose rows stay."""
    identify = {column.name for each in feed.references if each.masks for column in each.columns}
    return [
        column.name
        for column in feed.columns
        if (column.is_personal or column.name in identify) and column.name not in feed.key
    ]


def mark(
    rows: DataFrame,
    references: Sequence[Reference],
    hashes: DataFrame,
    salt: str,
    *,
    are_texts: bool = True,
) -> DataFrame:
    """The rows with `_is_erased`, `_is_masked`, and whom they name.

    `hashes` has the columns `subject` and `value`, and `references` are those to its subjects. With
    `are_texts` the rows are those of a change log, else those of a table, with its types.
    `_erased_of`, `_masked_of` and `_others_of` are arrays of subjects: of references to an erased
    key, and to a key that is not. A row's own key counts only if the row names nobody who is not
    erased: a source may give the key of a deleted row to a new one.
    """
    named: dict[str, list[str]] = {"_erased_of": [], "_masked_of": [], "_others_of": []}
    of_own_key: dict[bool, list[str]] = {False: [], True: []}
    for number, reference in enumerate(references):
        key, found = f"_key_{number}", f"_found_{number}"
        columns = reference.columns if are_texts else as_in(rows, reference.columns)
        key_sql = hashed(reference.subject, columns, salt, are_texts=are_texts)
        of_subject = hashes.where(F.col("subject") == reference.subject)
        of_subject = of_subject.select(F.col("value").alias(found)).distinct()
        rows = rows.withColumn(key, F.expr(key_sql)).join(
            of_subject, F.expr(f"{key} = {found}"), "left"
        )
        if reference.is_own:
            of_own_key[reference.masks].append(f"{found} is not null")
        else:
            subject = books.literal(reference.subject)
            of = "_masked_of" if reference.masks else "_erased_of"
            named[of].append(f"if({found} is not null, {subject}, null)")
            is_other = f"{key} is not null and {found} is null"
            named["_others_of"].append(f"if({is_other}, {subject}, null)")
    rows = rows.withColumns(
        {
            name: F.expr(f"array_compact(array({', '.join(['cast(null as string)', *each])}))")
            for name, each in named.items()
        }
    )
    return rows.withColumns(
        {
            name: F.expr(f"size({of}) > 0 or (size(_others_of) = 0 and {_any(of_own_key[masks])})")
            for name, of, masks in (
                ("_is_erased", "_erased_of", False),
                ("_is_masked", "_masked_of", True),
            )
        }
    )


def as_in(table: DataFrame, columns: Sequence[Column]) -> list[Column]:
    """The columns with the types that a table has for them."""
    types = {name.lower(): data_type for name, data_type in table.dtypes}
    return [Column(each.name, types[each.name.lower()]) for each in columns]


def of_nobody_else(marked: DataFrame, key: str, named: str) -> set[str]:
    """The hashes of the keys whose rows belong to an erased subject, and never to another like it.

    `named` is the column with the erased subjects: `_erased_of` or `_masked_of`.
    """
    found = (
        marked.withColumn("_key", F.expr(key))
        .where("_key is not null")
        .groupBy("_key")
        .agg(
            F.flatten(F.collect_set(named)).alias("erased"),
            F.flatten(F.collect_set("_others_of")).alias("others"),
        )
        .where("size(array_except(erased, others)) > 0")
    )
    return {row["_key"] for row in found.select("_key").collect()}


def letters(
    dead: DataFrame,
    identity: Sequence[str],
    references: Sequence[Reference],
    hashes: DataFrame,
    salt: str,
) -> DataFrame:
    """The dead letters with a key of one column as a word or a field of the record.

    A refused record may not be readable, so any word counts: better one letter too many.
    """
    text = F.concat_ws(" ", "raw", "value")
    # Not `F.trim` itself, which would take the element's number as what to trim.
    words = [F.transform(F.split(text, each), lambda word: F.trim(word)) for each in _BETWEEN]
    distinct = F.array_distinct(F.concat(*words))
    dead = dead.select(*identity, F.explode(distinct).alias("word"))
    found = dead.where("false").select(*identity)
    for reference in references:
        if len(reference.columns) == 1:
            column = Column("word", reference.columns[0].type)
            key = F.expr(hashed(reference.subject, [column], salt)).alias("value")
            of_subject = hashes.where(F.col("subject") == reference.subject)
            found = found.union(
                dead.select(*identity, key).join(of_subject, "value", "left_semi").drop("value")
            )
    return found.distinct()


def _any(conditions: Iterable[str]) -> str:
    return f"({' or '.join(['false', *conditions])})"


def hashed(subject: str, columns: Sequence[Column], salt: str, *, are_texts: bool = True) -> str:
    """The SQL expression of a key's hash, NULL if a part of the key is NULL.

    Equal keys have equal hashes, whatever their types: 42, 42.00 and the text 42.
    """
    parts = []
    for column in columns:
        value = f"`{column.name}`"
        if are_texts:
            value = macros.cast_text(value, column.type)
        text = f"cast({value} as string)"
        if column.type.startswith(("decimal", "float", "double")):
            text = f"regexp_replace({text}, '[.]0+$|([.][0-9]*[1-9])0+$', '$1')"
        parts.append(text)
    all_there = " and ".join(f"{part} is not null" for part in parts)
    texts = ", ".join([books.literal(salt), books.literal(subject), *parts])
    return f"case when {all_there} then sha2(concat_ws(chr(31), {texts}), 256) end"
