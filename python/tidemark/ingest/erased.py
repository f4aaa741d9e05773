"""Which rows belong to erased subjects: of a load, a change log, a table, the dead letter."""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidemark.feeds import Column, Feed, Reference
from tidemark.ingest import books, macros, tombstones
from tidemark.spark import session

if TYPE_CHECKING:
    from tidemark.ingest.load import Load

# What a load says of the records that it leaves out.
SKIPPED = "erased"
# A key may be a word of a refused record, or what separators enclose.
_BETWEEN_WORDS, _BETWEEN_FIELDS = r"[^\p{L}\p{N}_.@+-]+", r'[",;|\t{}\[\]:]+'


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
    hidden = {name: F.when(~F.col("_is_masked"), F.col(f"`{name}`")) for name in masked}
    if any(reference.masks for reference in references):
        hidden |= {name: F.when(~F.col("_is_masked"), F.col(name)) for name in ("_raw", "_value")}
    return (
        marked.withColumns(hidden)
        .withColumn("_skipped", F.expr(f"if(_is_erased, '{SKIPPED}', _skipped)"))
        .withColumn("_reason", F.expr("if(_is_erased, null, _reason)"))
        .select(*events.columns)
    )


def _concerned(feed: Feed, erased: Collection[str]) -> list[Reference]:
    own_key = [feed.own_key] if feed.references else []
    return [each for each in (*feed.references, *own_key) if each.subject in erased]


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
    """The rows with `_is_erased`, `_is_masked`, and `_is_others`: they name another subject.

    `hashes` has the columns `subject` and `value`. With `are_texts` the rows are those of a change
    log, else those of a table, with its types.
    """
    erased: list[str] = []
    masked: list[str] = []
    others: list[str] = []
    for number, reference in enumerate(references):
        key, found = f"_key_{number}", f"_found_{number}"
        columns = reference.columns if are_texts else as_in(rows, reference.columns)
        key_sql = hashed(reference.subject, columns, salt, are_texts=are_texts)
        of_subject = hashes.where(F.col("subject") == reference.subject)
        of_subject = of_subject.select(F.col("value").alias(found)).distinct()
        rows = rows.withColumn(key, F.expr(key_sql)).join(
            of_subject, F.expr(f"{key} = {found}"), "left"
        )
        (masked if reference.masks else erased).append(f"{found} is not null")
        others.append(f"({key} is not null and {found} is null)")
    conditions = {"_is_erased": erased, "_is_masked": masked, "_is_others": others}
    return rows.withColumns({name: F.expr(_any(each)) for name, each in conditions.items()})


def as_in(table: DataFrame, columns: Sequence[Column]) -> list[Column]:
    """The columns with the types that a table has for them."""
    types = {name.lower(): data_type for name, data_type in table.dtypes}
    return [Column(each.name, types[each.name.lower()]) for each in columns]


def of_nobody_else(marked: DataFrame, key: str) -> set[str]:
    """The hashes of the keys whose rows belong to an erased subject, and never to another."""
    found = (
        marked.withColumn("_key", F.expr(key))
        .where("_key is not null")
        .groupBy("_key")
        .agg(F.expr("bool_or(_is_erased) as erased"), F.expr("bool_or(_is_others) as others"))
        .where("erased and not others")
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
    fields = F.transform(F.split(text, _BETWEEN_FIELDS), F.trim)
    words = F.array_union(F.split(text, _BETWEEN_WORDS), fields)
    dead = dead.select(*identity, F.explode(words).alias("word"))
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
    texts = ", ".join([session.literal(salt), session.literal(subject), *parts])
    return f"case when {all_there} then sha2(concat_ws(chr(31), {texts}), 256) end"
