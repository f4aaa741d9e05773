"""What is printed does nothing to a terminal."""

import pytest

from tidemark.errors import TidemarkError, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("café, 漢字, 😀, a b", "café, 漢字, 😀, a b"),
        ("a\n\r\tb", r"a\n\r\tb"),
        ("\x1b[31mred\x07\x7f\x9b", r"\x1b[31mred\x07\x7f\x9b"),
        ("a\u202egpj.exe\u2066", r"a\u202egpj.exe\u2066"),
        ("a\u2028b", r"a\u2028b"),
        ("caf\udce9 \ud800", r"caf\xe9 \ud800"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_an_error_keeps_its_lines_and_nothing_else() -> None:
    assert str(TidemarkError("one\n\ttwo \x1b[2J")) == "one\n\ttwo \\x1b[2J"
