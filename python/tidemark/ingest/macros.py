"""The dbt package's pure SQL macros, rendered without dbt, so that both use the same rules."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2


@cache
def _module(file: str) -> Any:
    # A job has this package as a zip file.
    text = files("tidemark").joinpath("dbt_package", "macros", *file.split("/")).read_text()
    # In one file macros see each other; in dbt they are called by the package's name.
    text = text.replace("tidemark.", "")
    return jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(text).module


def cast_text(text: str, data_type: str) -> str:
    """The SQL expression that reads `text` as `data_type`: macros/staging/cast_text.sql."""
    return str(_module("staging/cast_text.sql").cast_text(text, data_type))


def epoch_of(epochs: Sequence[str], at: str) -> str:
    """The SQL expression of the epoch of a change at a time: macros/staging/epoch_of.sql."""
    return str(_module("staging/epoch_of.sql").epoch_of(epochs, at))


def names_in_list(text: str) -> str:
    """The SQL array of the column names that `text` lists: macros/feeds/names_in_list.sql."""
    return str(_module("feeds/names_in_list.sql").names_in_list(text))
