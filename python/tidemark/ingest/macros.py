"""The dbt package's pure SQL macros, rendered without dbt, so that both use the same rules."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2

from tidemark.feeds import Feed


@cache
def _module(*names: str) -> Any:
    # A job has this package as a zip file.
    folder = files("tidemark").joinpath("dbt_package", "macros")
    text = "".join(folder.joinpath(*name.split("/")).read_text() for name in names)
    # In one module macros see each other; in dbt they are called by the package's name.
    text = text.replace("tidemark.", "")
    # The rows that landing compares have this column in every lake.
    known = {"file_column": lambda: "_file"}
    return jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(text, known).module


def cast_text(text: str, data_type: str) -> str:
    """The SQL expression that reads `text` as `data_type`: macros/staging/cast_text.sql."""
    return str(_module("staging/cast_text.sql").cast_text(text, data_type))


def epoch_of(epochs: Sequence[str], at: str) -> str:
    """The SQL expression of the epoch of a change at a time: macros/staging/epoch_of.sql."""
    return str(_module("staging/epoch_of.sql").epoch_of(epochs, at))


def place_of_change(feed: Feed, *, has_reloads: bool) -> str:
    """The SQL fields that order the changes of a key: macros/staging/place_of_change.sql."""
    told = {
        "columns": {column.name: column.type for column in feed.columns},
        "epochs": feed.epochs,
        "epoch_at": feed.epoch_at,
        "format": feed.format,
        "has_generations": feed.has_generations,
        "is_of_folders": feed.extract_is == "folder",
        "is_placed": feed.is_placed,
        "sequence": feed.sequence_columns,
    }
    names = ("place_of_change", "reloads_before", "cast_text", "epoch_of")
    module = _module(*(f"staging/{name}.sql" for name in names))
    return str(module.place_of_change(told, has_reloads))


def names_in_list(text: str) -> str:
    """The SQL array of the column names that `text` lists: macros/feeds/names_in_list.sql."""
    return str(_module("feeds/names_in_list.sql").names_in_list(text))
