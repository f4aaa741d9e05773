"""Spellings of the same thing."""

import pytest

from tidemark.dedup import normalised


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Oak Desk 140 cm", "oak desk  (140cm)"),
        ("Steel Shelf 90x30", "Shelf steel 90 x 30"),
        (None, ""),
    ],
)
def test_spelling_is_not_a_difference(left: str | None, right: str) -> None:
    assert normalised(left) == normalised(right)
