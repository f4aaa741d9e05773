"""`tidemark sql`: one statement, its rows as a table, CSV or JSON lines."""

import csv
import json
import re
import sys
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from tabulate import tabulate

from tidemark.errors import TidemarkError, printable
from tidemark.spark import session


class QueryError(TidemarkError):
    """Spark refused the statement."""


def rows(statement: str) -> DataFrame:
    """The statement's result. Raises QueryError with Spark's own message."""
    import dbt_tidemark  # noqa: F401 - makes Delta's error messages readable

    try:
        return session.get().sql(statement)
    except PySparkException as error:
        problem = session.readable(error)
        if problem.startswith("[TABLE_OR_VIEW_NOT_FOUND]"):
            problem += (
                "\n`tidemark run` creates the tables that have files in the landing folder. "
                'To list them: tidemark sql "show tables in current"'
            )
        raise QueryError(problem) from error


def as_table(frame: DataFrame) -> str:
    """Rows as a table for people, with NULL as a word and control characters escaped."""
    data = [[printable(_text(value), keep="\n\t") for value in row] for row in frame.collect()]
    return tabulate(data, headers=list(map(printable, frame.columns)), disable_numparse=True)


def print_rows(statement: str, output: str, *, shows_all: bool = False) -> None:
    """Run the statement and print its rows: `output` is table, csv or json (one row per line).

    A table leaves out Tidemark's own columns, which begin with `_`, unless the statement names them
    or `shows_all` is set.
    """
    frame = rows(statement)
    try:
        if output == "table":
            named = set(re.findall(r"\w+", statement))
            own = [
                name
                for name in frame.columns
                if name.startswith("_") and name not in named and not shows_all
            ]
            print(as_table(frame.drop(*own)))
        elif output == "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(frame.columns)
            for row in frame.toLocalIterator():
                writer.writerow(["" if value is None else _text(value) for value in row])
        else:
            for row in frame.toLocalIterator():
                print(json.dumps(row.asDict(recursive=True), default=str, ensure_ascii=False))
    except PySparkException as error:
        raise QueryError(session.readable(error)) from error


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Row):
        return json.dumps(value.asDict(recursive=True), default=str, ensure_ascii=False)
    return str(value)
