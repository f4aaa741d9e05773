"""Read CSV files into records, with Arrow's reader, block by block."""

import csv
import io
import itertools
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv

from tidemark.feeds import Feed
from tidemark.readers.records import (
    Names,
    Records,
    UnreadableFileError,
    binaries,
    folded,
    named,
    old_keys,
)
from tidemark.readers.texts import bad_rows, odd_characters, pieces_of
from tidemark.reasons import Reason, Why

# Replaces a delimiter of several characters. Arrow supports only single ones.
_UNIT = "\x1f"
# How many bytes Arrow reads at a time; it reads about 30 blocks ahead. A record that is larger than
# a block needs a larger block.
BLOCK = 4 << 20
_LARGER = (1, 16, 128)
_LEAST = 1 << 16
# A header is within this many characters.
_HEADER = 100_000
# The number of records that determine the width of a file.
_COUNTED = 1_000
csv.field_size_limit((1 << 31) - 1)
_RECORD = re.compile(r'(?:"(?:[^"]|"")*"|[^"\n])+')


def read(file: IO[bytes], name: str, feed: Feed, kind: str) -> Iterator[Records]:
    """The records of a CSV file in the feed's dialect.

    `_position` counts records from 1, including the header and bad records but not blank lines. A
    record with the wrong number of fields has `_reason` and `_raw`.
    """
    text = _Text(lambda: pieces_of(file, feed), file.seek(0, io.SEEK_END))
    text, delimiter = _with_single_characters(text, feed)
    if name.upper().startswith("CDC_TXN-"):
        yield from _of_one_table(text, delimiter, feed)
        return
    has_header = feed.has_header(kind)
    if has_header:
        found = _first_fields(text, delimiter)
        names = named(found, feed, kind)
    else:
        found = [*feed.leading_fields(kind), *feed.declared_names, *feed.before_images()]
        names = _by_place(feed, kind)
        first = [folded(field) for field in _first_fields(text, delimiter)]
        if first == [folded(field) for field in found]:
            raise UnreadableFileError(Why.HAS_HEADER())
    is_told = not has_header
    for part in _parse(text, delimiter, len(found), feed, skip=1 if has_header else 0):
        of_part = _records(part, names, feed)
        if not is_told and of_part.has_rows:
            of_part.telling(found)
            is_told = True
        yield of_part


def columns_of(text: str, feed: Feed) -> list[list[str | None]]:
    """The columns of a CSV text in a feed's dialect. A header counts as a record.

    Works without the feed's columns: the most frequent width counts. Raises UnreadableFileError.
    """
    source, delimiter = _with_single_characters(_Text.of(text), feed)
    records = csv.reader(source.lines(), delimiter=delimiter)
    try:
        widths = Counter(len(record) for record in itertools.islice(records, _COUNTED) if record)
    except csv.Error as error:
        raise UnreadableFileError(Why.NOT_CSV(str(error))) from None
    if not widths:
        return []
    parts = _parse(source, delimiter, widths.most_common(1)[0][0], feed, skip=0)
    good = pa.concat_tables(part.good for part in parts)
    return [column.to_pylist() for column in good.columns]


def _by_place(feed: Feed, kind: str) -> Names:
    """The meaning of each column of a file without column names."""
    leading = feed.leading_fields(kind)
    ends = len(leading) + len(feed.declared_names)
    return Names(
        declared=dict(enumerate(feed.declared_names, len(leading))),
        others={},
        op=leading.index(feed.op_column) if feed.op_column in leading else None,
        time=leading.index(feed.timestamp_column) if feed.timestamp_column in leading else None,
        before=dict(enumerate(feed.key, ends)) if feed.before_image_prefix else {},
    )


def _records(part: "_Part", names: Names, feed: Feed) -> Records:
    good = part.good
    columns = names.columns(lambda at: good[at])
    columns["_position"] = list(part.positions)
    reasons = bad_rows(good.columns, odd_characters(feed))
    if reasons:
        columns["_reason"] = reasons
    for name in feed.binary_columns & columns.keys():
        columns |= binaries(name, columns, feed)
    found = Records(columns, good.num_rows)
    if part.bad:
        found.parts.append(
            Records.from_rows(
                [
                    {"_position": position, "_raw": raw, "_reason": reason}
                    for position, raw, reason in part.bad
                ]
            )
        )
    if names.before:
        before = {name: good[at] for at, name in names.before.items()}
        found.parts += old_keys(found, before, feed)
    return found


# --- dialects -----------------------------------------------------------------------------------


class _Text:
    """A file's text. Each call of `pieces` reads it again. `size` is its approximate byte count."""

    def __init__(self, pieces: Callable[[], Iterator[str]], size: int) -> None:
        self.pieces = pieces
        self.size = size

    @classmethod
    def of(cls, text: str) -> "_Text":
        return cls(lambda: iter([text]), len(text))

    def whole(self) -> str:
        return "".join(self.pieces())

    def lines(self) -> Iterable[str]:
        """The lines with their line ends, as Python's csv module expects."""
        return io.TextIOWrapper(io.BufferedReader(_Bytes(self)), encoding="utf-8", newline="")


class _Bytes(io.RawIOBase):
    """A text in UTF-8 that ends with a line end. Arrow reads it in a separate thread.

    `quotes` is the number of quotes read so far.
    """

    def __init__(self, text: _Text) -> None:
        self._pieces = text.pieces()
        self._left = memoryview(b"")
        self._ends = b"\n"
        self._one = threading.Lock()
        self._is_stopped = False
        self.quotes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        with self._one:
            while not self._left:
                piece = None if self._is_stopped else next(self._pieces, None)
                if piece is None:
                    # Without a final line end, Arrow reads a NULL in the last field as an empty
                    # string.
                    if self._ends == b"\n":
                        return 0
                    piece = "\n"
                self.quotes += piece.count('"')
                self._left = memoryview(piece.encode())
                self._ends = bytes(self._left[-1:]) or self._ends
            size = min(len(into), len(self._left))
            into[:size] = self._left[:size]
            self._left = self._left[size:]
            return size

    def stop(self) -> None:
        """Stop reading, so that others can read the file."""
        with self._one:
            self._is_stopped = True


class _Blocks:
    """Blocks for Arrow. No block ends with CR: Arrow drops an LF after it, even in quotes."""

    closed = False

    def __init__(self, content: _Bytes) -> None:
        self._content = io.BufferedReader(content)

    def read(self, size: int) -> bytes:
        found = self._content.read(max(size - 8, 1))
        while found.endswith(b"\r"):
            found += self._content.read(1)
        return found


def _with_single_characters(text: _Text, feed: Feed) -> tuple[_Text, str]:
    """Convert a text for Arrow if necessary, and return it with its delimiter.

    A text that has to be converted is held completely in memory.
    """
    if feed.quote == "none":
        plain = _plain(text.whole(), feed)
        return _Text.of(plain), _UNIT
    if len(feed.delimiter) > 1 or feed.row_delimiter:
        single = _in_single_characters(text.whole(), feed)
        return _Text.of(single), _UNIT
    return text, feed.delimiter


def _plain(text: str, feed: Feed) -> str:
    """Quote every field of an unquoted file, except those that mean NULL."""
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
    """Replace delimiters of several characters by single ones."""
    if _UNIT in text and feed.delimiter != _UNIT:
        raise UnreadableFileError(Why.CSV_HAS_0X1F())
    places = {feed.delimiter: _UNIT}
    if feed.row_delimiter:
        places[feed.row_delimiter] = "\n"
    either = "|".join(re.escape(place) for place in sorted(places, key=len, reverse=True))

    def single(found: re.Match[str]) -> str:
        quoted, delimiter, plain = found.groups()
        if delimiter:
            return places[delimiter]
        if plain and feed.row_delimiter and "\n" in plain:
            # Rows end with another delimiter, so this line end belongs to the field.
            return '"' + plain + '"'
        return quoted or plain or ""

    return re.sub(f'("(?:[^"]|"")*")|({either})|((?:(?!{either}|").)+)', single, text, flags=re.S)


def _require_end(text: _Text, delimiter: str) -> None:
    """Raise UnreadableFileError if the text ends inside quotes, so that its end is missing."""
    try:
        for _ in csv.reader(text.lines(), delimiter=delimiter, strict=True):
            pass
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise UnreadableFileError(Why.ENDS_IN_QUOTES()) from None


def _first_fields(text: _Text, delimiter: str) -> list[str]:
    start = ""
    for piece in text.pieces():
        start += piece
        if len(start) >= _HEADER:
            break
    line = next((line for line in re.split(r"\r\n|\r|\n", start) if line), "")
    fields = next(csv.reader([line], delimiter=delimiter), [])
    return [field.strip() for field in fields]


def _of_one_table(text: _Text, delimiter: str, feed: Feed) -> Iterator[Records]:
    """The records of this table in a transaction file, which has the changes of all tables."""
    whole = text.whole()
    if feed.quote != "none" and whole.count('"') % 2:
        _require_end(text, delimiter)
    schema, _, table = feed.source_table.partition(".")
    mine: list[str] = []
    places: list[int] = []
    for position, line in enumerate(_RECORD.findall(whole), 1):
        fields = next(csv.reader([line], delimiter=delimiter))
        if fields[1:3] == [table, schema]:
            mine.append(line.rstrip("\r"))
            places.append(position)
    leading = feed.leading_fields("changes")
    width = 3 + len(leading) - 1 + len(feed.declared_names) + len(feed.before_images())
    names = _by_place(feed, "changes")
    # The operation, then the table and its schema (only in these files), then the rest.
    moved = Names(
        {at + 2: name for at, name in names.declared.items()},
        {},
        0,
        None if names.time is None else names.time + 2,
        {at + 2: name for at, name in names.before.items()},
    )
    for part in _parse(_Text.of("\n".join(mine)), delimiter, width, feed, skip=0):
        part.positions = [places[number - 1] for number in part.positions]
        part.bad = [(places[number - 1], raw, reason) for number, raw, reason in part.bad]
        yield _records(part, moved, feed)


@dataclass
class _Part:
    """Records of a file in order: good ones with their positions, and bad ones.

    A bad one is (position, text, reason).
    """

    good: pa.Table
    positions: Sequence[int]
    bad: list[tuple[int, str, Reason]]


class _TooLargeError(Exception):
    """A record is larger than a block."""


def _parse(text: _Text, delimiter: str, width: int, feed: Feed, *, skip: int) -> Iterator[_Part]:
    """The records, part by part, with at least one part.

    Raises UnreadableFileError, possibly only at the end, if the text is not CSV or incomplete.
    """
    good = bad = 0
    for times in _LARGER:
        try:
            seen_good = seen_bad = 0
            for part in _parsed(text, delimiter, width, feed, skip=skip, block=times * BLOCK):
                # With larger blocks, Arrow starts again; skip what is known already.
                again, known = max(good - seen_good, 0), max(bad - seen_bad, 0)
                seen_good += part.good.num_rows
                seen_bad += len(part.bad)
                yield _Part(part.good[again:], part.positions[again:], part.bad[known:])
                good, bad = max(good, seen_good), max(bad, seen_bad)
        except _TooLargeError:
            continue
        return
    raise UnreadableFileError(Why.CSV_RECORD_TOO_LARGE(megabytes=times * BLOCK >> 20))


def _parsed(
    text: _Text, delimiter: str, width: int, feed: Feed, *, skip: int, block: int
) -> Iterator[_Part]:
    names = [str(at) for at in range(width)]
    bad: list[tuple[int, str, Reason]] = []
    refused: set[int] = set()
    blank: list[int] = []

    def refuse(row: pa.csv.InvalidRow) -> str:
        if row.text == '""':
            # Old DMS versions write such a line when a task starts or stops.
            blank.append(row.number)
        else:
            reason = Why.WRONG_WIDTH(found=row.actual_columns, expected=row.expected_columns)
            # Blank lines are not counted.
            number = row.number - len(blank)
            refused.add(number)
            bad.append((number, row.text.replace(_UNIT, feed.delimiter), reason))
        return "skip"

    content = _Bytes(text)
    is_quoted = feed.quote != "none"
    told, last = 0, None
    part: _Part | None = None
    numbers = itertools.count(skip + 1)
    try:
        batches = pa.csv.open_csv(
            pa.PythonFile(_Blocks(content), mode="r"),
            read_options=pa.csv.ReadOptions(
                column_names=names,
                skip_rows=skip,
                use_threads=False,
                # Do not allocate a large block for a small file.
                block_size=min(block, max(4 * text.size, _LEAST)),
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
        for batch in batches:
            # Arrow reports a bad record before the good ones that follow it.
            free = (number for number in numbers if number not in refused)
            positions = list(itertools.islice(free, batch.num_rows))
            news, told = bad[told:], len(bad)
            part = _Part(pa.Table.from_batches([batch]), positions, news)
            last = batch.column(width - 1)[-1].as_py() if batch.num_rows else last
            yield part
    except pa.ArrowInvalid as error:
        content.stop()
        if "straddling" in str(error):
            raise _TooLargeError from error
        if is_quoted:
            _require_end(text, delimiter)
        if "Empty CSV" not in str(error):
            raise UnreadableFileError(Why.NOT_CSV(str(error))) from error
    if told < len(bad) or part is None:
        nothing = pa.table({name: pa.array([], pa.string()) for name in names})
        yield _Part(nothing, [], bad[told:])
    # An unquoted field may also contain a single quote. If quotes are open at the end, the last
    # field contains the final line end.
    if is_quoted and (content.quotes % 2 or (last or "").endswith("\n")):
        _require_end(text, delimiter)
