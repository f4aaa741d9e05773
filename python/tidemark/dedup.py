"""Entity resolution for Python models: DataFrame in, DataFrame out, nothing written.

Exact duplicates of a key are the macros' work; here are records that mean the same thing and
say it differently.
"""

import difflib
import re
from collections.abc import Sequence

import pandas as pd
from pyspark.sql import DataFrame


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
    missing = [name for name in (key, text, *within) if name not in frame.columns]
    if missing:
        raise MissingColumnError(
            f"group_similar needs the columns {', '.join(missing)}; "
            f"the frame has {', '.join(frame.columns)}."
        )
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


def normalised(text: str | None) -> str:
    """The text's words in a standard order and spelling.

    >>> normalised("Shelf steel, 90 x 30")
    '30 90 shelf steel x'
    """
    apart = re.sub(r"(?<=[0-9])(?=[a-z])|(?<=[a-z])(?=[0-9])", " ", (text or "").lower())
    return " ".join(sorted(re.findall(r"[a-z0-9]+", apart)))


def _alike(left: str, right: str) -> float:
    return difflib.SequenceMatcher(None, left, right, autojunk=False).ratio()
