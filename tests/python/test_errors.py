"""What is printed does nothing to a terminal."""

import pytest

from tidemark.errors import TidemarkError, printable
from tidemark.spark import session


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


def test_lost_files_are_told_the_same_by_embedded_spark_and_by_a_thrift_server() -> None:
    text = "[DELTA_PATH_DOES_NOT_EXIST] file:/x/y doesn't exist, or is not a Delta table.;"
    rest = "\nShowTableProperties [key#1, value#2]"
    server = "org.apache.hive.service.cli.HiveSQLException: Error running query: "
    server += "[DELTA_PATH_DOES_NOT_EXIST] org.apache.spark.sql.AnalysisException: "
    told = session.readable_text(f"{text}{rest}")
    assert told.endswith("its files are gone. Runbooks: docs/operate.md")
    assert session.readable_text(f"{server}{text}{rest}") == told


@pytest.mark.parametrize("between", [": ", ") "])
def test_a_rest_catalog_that_does_not_respond_is_named(
    monkeypatch: pytest.MonkeyPatch, between: str
) -> None:
    """Embedded Spark and Connect print the class of an error in different ways."""
    monkeypatch.setenv("TIDEMARK_CATALOG_URI", "https://catalog")
    raised = f"(org.apache.iceberg.exceptions.RESTException{between}Error occurred while processing"
    told = session.readable_text(f"{raised} GET request")
    assert told.startswith("The REST catalog at https://catalog does not respond.")
