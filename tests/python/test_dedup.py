"""Spellings of the same thing."""

import pytest

from tidemark.dedup import normalised


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Oak Desk 140 cm", "oak desk  (140cm)"),
        ("Steel Shelf 90x30", "Shelf steel 90 x 30"),
        (None, ""),
        ("Café Ångström", "cafe angstrom"),
    ],
)
def test_spelling_is_not_a_difference(left: str | None, right: str) -> None:
    assert normalised(left) == normalised(right)


def test_letters_of_every_script_count() -> None:
    assert normalised("\u041c\u0430\u0440\u0438\u044f") != normalised("\u041f\u0451\u0442\u0440")
