"""What the generators of the samples share: how producers write their files.

Each module makes the files of one domain: `days()` gives them by day and by their path below the
landing folder.
"""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet

Days = dict[int, dict[str, bytes]]


def as_csv(rows: Iterable[Sequence[Any]]) -> bytes:
    """Lines as AWS DMS writes them: RFC 4180 quoting, LF line ends, nothing for None."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


def as_json_lines(documents: Iterable[Mapping[str, Any]]) -> bytes:
    """A document a line."""
    return "".join(json.dumps(document) + "\n" for document in documents).encode()


def as_parquet(columns: Mapping[str, pa.DataType], rows: Iterable[Sequence[Any]]) -> bytes:
    """A Parquet file of these columns."""
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    arrays = [pa.array(each, kind) for each, kind in zip(values, columns.values(), strict=True)]
    out = io.BytesIO()
    pa.parquet.write_table(pa.table(arrays, list(columns)), out)
    return out.getvalue()
