"""CSV files to records: Arrow's reader, one file at a time."""

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tidemark.feeds import Feed
from tidemark.readers.records import (
    Names,
    Records,
    UnreadableFileError,
    WrongValueError,
    base64_of,
    named,
    old_keys,
)
from tidemark.readers.texts import WRONG, bad_text, text_of

# Stands for a delimiter of several characters: Arrow knows single ones only.
_UNIT = "\x1f"
# So many records tell how wide a file is.
_COUNTED = 1_000
csv.field_size_limit((1 << 31) - 1)
_WRONG_VALUE = ("_reason", "_column", "_value")
_RECORD = re.compile(r'(?:"(?:[^"]|"")*"|[^"\n])+')


def read(content: bytes, name: str, feed: Feed, kind: str) -> Records:
    """The records of a CSV file, in any dialect that a feed can declare.

    `_position` counts the file's records from 1, its header and its bad records included, blank
    lines not. A record with another number of fields has `_reason` and `_raw`.
    """
    text, delimiter = _with_single_characters(text_of(content, feed), feed)
    if feed.quote != "none":
        _require_end(text, delimiter)
    if name.upper().startswith("CDC_TXN-"):
        return _of_one_table(text, delimiter, feed)
    has_header = feed.has_header(kind)
    if has_header:
        found = _first_fields(text, delimiter, feed)
        names = named(found, feed, kind)
    else:
        found = [*feed.leading_fields(kind), *feed.declared_names, *feed.before_images()]
        names = _by_place(feed, kind)
        first = [field.lower() for field in _first_fields(text, delimiter, feed)]
        if first == [field.lower() for field in found]:
            raise UnreadableFileError("the file begins with a header: see the feed's header")
    good, bad = _parse(text, delimiter, len(found), feed, skip=1 if has_header else 0)
    first_position = 2 if has_header else 1
    total = good.num_rows + len(bad)
    bad_positions = {position for position, _, _ in bad}
    positions = [
        at for at in range(first_position, first_position + total) if at not in bad_positions
    ]
    return _records(good, positions, bad, names, feed)


def columns_of(text: str, feed: Feed) -> list[list[str | None]]:
    """The columns of a text in a feed's dialect, as wide as most records are; a header is a record.

    For who does not know the feed's columns yet. Raises UnreadableFileError.
    """
    text, delimiter = _with_single_characters(text, feed)
    records = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        widths = Counter(len(record) for record in itertools.islice(records, _COUNTED) if record)
    except csv.Error as error:
        raise UnreadableFileError(f"not readable as CSV: {error}") from None
    if not widths:
        return []
    good, _ = _parse(text, delimiter, widths.most_common(1)[0][0], feed, skip=0)
    return [column.to_pylist() for column in good.columns]


def _by_place(feed: Feed, kind: str) -> Names:
    """What each column of a file without column names is."""
    leading = feed.leading_fields(kind)
    ends = len(leading) + len(feed.declared_names)
    return Names(
        declared=dict(enumerate(feed.declared_names, len(leading))),
        others={},
        op=leading.index(feed.op_column) if feed.op_column in leading else None,
        time=leading.index(feed.timestamp_column) if feed.timestamp_column in leading else None,
        before=dict(enumerate(feed.key, ends)) if feed.before_image_prefix else {},
    )


def _records(
    good: pa.Table,
    positions: Sequence[int],
    bad: list[tuple[int, str, str]],
    names: Names,
    feed: Feed,
) -> Records:
    columns = names.columns(lambda at: good[at])
    columns["_position"] = list(positions)
    reasons = _reasons(good, feed)
    if reasons:
        columns["_reason"] = reasons
    for name in feed.binary_columns & columns.keys():
        columns |= _binaries(name, columns, feed)
    found = Records(columns, good.num_rows)
    if bad:
        found.parts.append(
            Records.from_rows(
                [
                    {"_position": position, "_raw": raw, "_reason": reason}
                    for position, raw, reason in bad
                ]
            )
        )
    if names.before:
        found.parts += old_keys(found, {name: good[at] for at, name in names.before.items()})
    return found


def _reasons(good: pa.Table, feed: Feed) -> list[str | None] | None:
    """Why each record cannot be taken, when there is one such."""
    is_bad = None
    for column in good.columns:
        found = pc.match_substring_regex(column, f"{WRONG}|\\x00")
        is_bad = found if is_bad is None else pc.or_kleene(is_bad, found)
    if is_bad is None or not pc.any(is_bad).as_py():
        return None
    rows = zip(is_bad.to_pylist(), *(column.to_pylist() for column in good.columns), strict=True)
    return [
        next(reason for text in texts if text and (reason := bad_text(text, feed)))
        if wrong
        else None
        for wrong, *texts in rows
    ]


def _binaries(name: str, columns: dict[str, Any], feed: Feed) -> dict[str, Any]:
    """A column of binaries as base64, and what is wrong with those that are none."""
    texts = columns[name].to_pylist()
    wrong: dict[str, Any] = {
        key: list(columns.get(key) or [None] * len(texts)) for key in _WRONG_VALUE
    }
    for at, text in enumerate(texts):
        try:
            texts[at] = None if text is None else base64_of(text, feed)
        except WrongValueError as error:
            wrong["_reason"][at] = wrong["_reason"][at] or str(error)
            wrong["_column"][at], wrong["_value"][at] = name, text
    return {name: texts, **wrong}


# --- dialects -----------------------------------------------------------------------------------


def _with_single_characters(text: str, feed: Feed) -> tuple[str, str]:
    """A text such that Arrow can read it, and its delimiter now."""
    if feed.quote == "none":
        return _plain(text, feed), _UNIT
    if len(feed.delimiter) > 1 or feed.row_delimiter:
        return _in_single_characters(text, feed), _UNIT
    return text, feed.delimiter


def _plain(text: str, feed: Feed) -> str:
    """A file without quotes, as one with: every field quoted but those that mean NULL."""
    rows = text.split(feed.row_delimiter or "\n")
    lines = []
    for row in rows:
        row = row if feed.row_delimiter else row.removesuffix("\r")
        if row:
            fields = row.split(feed.delimiter)
            lines.append(
                _UNIT.join(
                    field if field in feed.null_text else '"' + field.replace('"', '""') + '"'
                    for field in fields
                )
            )
    return "\n".join(lines)


def _in_single_characters(text: str, feed: Feed) -> str:
    """A file whose delimiters are several characters long, with single ones in their place."""
    if _UNIT in text and feed.delimiter != _UNIT:
        raise UnreadableFileError("not readable as CSV: it holds the character 0x1F")
    places = {feed.delimiter: _UNIT}
    if feed.row_delimiter:
        places[feed.row_delimiter] = "\n"
    either = "|".join(re.escape(place) for place in sorted(places, key=len, reverse=True))

    def single(found: re.Match[str]) -> str:
        quoted, delimiter, plain = found.groups()
        if delimiter:
            return places[delimiter]
        if plain and feed.row_delimiter and "\n" in plain:
            # Rows end elsewhere: this line end is the field's.
            return '"' + plain + '"'
        return quoted or plain or ""

    return re.sub(f'("(?:[^"]|"")*")|({either})|((?:(?!{either}|").)+)', single, text, flags=re.S)


def _require_end(text: str, delimiter: str) -> None:
    """Raise UnreadableFileError when the text ends inside quotes: the rest of it is missing."""
    if text.count('"') % 2 == 0:
        return
    # An odd quote may also stand in a field that is not quoted.
    try:
        for _ in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True):
            pass
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise UnreadableFileError("the file ends inside quotes: it is not whole") from None


def _first_fields(text: str, delimiter: str, feed: Feed) -> list[str]:
    line = next((line for line in re.split(r"\r\n|\r|\n", text[:100_000]) if line), "")
    fields = next(csv.reader([line], delimiter=delimiter), [])
    return [field.strip() for field in fields]


def _of_one_table(text: str, delimiter: str, feed: Feed) -> Records:
    """This table's records of a transaction file, in which all tables stand together."""
    schema, _, table = feed.source_table.partition(".")
    mine: list[str] = []
    places: list[int] = []
    for position, line in enumerate(_RECORD.findall(text), 1):
        fields = next(csv.reader([line], delimiter=delimiter))
        if fields[1:3] == [table, schema]:
            mine.append(line.rstrip("\r"))
            places.append(position)
    leading = feed.leading_fields("changes")
    width = 3 + len(leading) - 1 + len(feed.declared_names) + len(feed.before_images())
    good, bad = _parse("\n".join(mine), delimiter, width, feed, skip=0)
    refused = {number for number, _, _ in bad}
    positions = [place for number, place in enumerate(places, 1) if number not in refused]
    bad = [(places[number - 1], raw, reason) for number, raw, reason in bad]
    names = _by_place(feed, "changes")
    # The operation, then the table and its schema, which no other file has, then the rest.
    moved = Names(
        {at + 2: name for at, name in names.declared.items()},
        {},
        0,
        None if names.time is None else names.time + 2,
        {at + 2: name for at, name in names.before.items()},
    )
    return _records(good, positions, bad, moved, feed)


def _parse(
    text: str, delimiter: str, width: int, feed: Feed, *, skip: int
) -> tuple[pa.Table, list[tuple[int, str, str]]]:
    """The good records, and (position, text, reason) of the others."""
    names = [str(at) for at in range(width)]
    bad: list[tuple[int, str, str]] = []
    blank: list[int] = []

    def refuse(row: pa.csv.InvalidRow) -> str:
        if row.text == '""':
            # Old versions of DMS write such a line when a task starts or stops.
            blank.append(row.number)
            return "skip"
        reason = f"{row.actual_columns} fields instead of {row.expected_columns}"
        bad.append((row.number, row.text.replace(_UNIT, feed.delimiter), reason))
        return "skip"

    # Without a last line end, Arrow reads a last field that is NULL as the empty text.
    content = (text if text.endswith("\n") else f"{text}\n").encode()
    try:
        good = pa.csv.read_csv(
            io.BytesIO(content),
            read_options=pa.csv.ReadOptions(
                column_names=names,
                skip_rows=skip,
                use_threads=False,
                # The file in one block: a record must not be larger than one.
                block_size=min(max(len(content) + 1, 1 << 20), (1 << 31) - 1),
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=refuse
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types={name: pa.string() for name in names},
                null_values=list(feed.null_text),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV" not in str(error):
            raise UnreadableFileError(f"not readable as CSV: {error}") from error
        good = pa.table({name: pa.array([], pa.string()) for name in names})
    # Blank lines have no number.
    return good, [
        (number - sum(at < number for at in blank), raw, reason) for number, raw, reason in bad
    ]
