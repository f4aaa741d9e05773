"""The `tidemark` command, without Spark: its help, and what it refuses."""

from importlib.metadata import version

import pytest
from deltalake.exceptions import DeltaError

from tidemark import cli, query


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in ("init", "run", "status", "sql", "thrift"))
    assert cli.main(["run", "--help"]) == 0
    assert "--verbose" in capsys.readouterr().out
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"tidemark {version('tidemark')}\n"


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("init", "[DIR]"),
        ("replay", "[SOURCE.TABLE]..."),
        ("maintain", "[TABLE]..."),
        ("demo", "[DOMAIN]..."),
        ("add", "SOURCE[.TABLE]..."),
        ("confirm", "FILE"),
    ],
)
def test_the_usage_shows_what_may_be_left_out(
    command: str, usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([command, "--help"]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith(f" [OPTIONS] {usage}")


@pytest.mark.parametrize("arguments", [[], ["rnu"], ["run", "--alll"], ["sql"], ["thrift", "go"]])
def test_a_wrong_call_ends_with_2_and_the_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("Usage: tidemark")


def test_a_statement_may_begin_with_a_comment(monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    monkeypatch.setattr(query, "print_rows", lambda sql, *_, **__: statements.append(sql))
    assert cli.main(["sql", "-- a=1\nselect 1", "--format", "csv"]) == 0
    assert statements == ["-- a=1\nselect 1"]


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (
            OSError,
            "Generic LocalFileSystem error\n \x1b[31m↳\x1b[0m No space left (os error 28)",
            "No space is left on a disk (No space left (os error 28)).\nThe lake is in ",
        ),
        (
            DeltaError,
            "Failed to parse parquet: External: Generic LocalFileSystem error: Unable to copy data "
            "to file: No space left on device (os error 28)",
            "No space is left on a disk (Failed to parse parquet: External: Generic ",
        ),
        (
            OSError,
            "Kernel error -> Generic S3 error\n \x1b[31m↳\x1b[0m GET http://here/lake\n"
            "  \x1b[31m↳\x1b[0m Connection refused (os error 111)\n\n",
            "A table cannot be read or written: Kernel error -> Generic S3 error: GET "
            "http://here/lake: Connection refused (os error 111). So the store does not respond: "
            "check AWS_ENDPOINT_URL and AWS_REGION.\nThe lake is in ",
        ),
    ],
)
def test_storage_that_fails_is_told_in_a_sentence(
    kind: type[Exception],
    text: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise kind(text)

    monkeypatch.setattr(query, "print_rows", fail)
    assert cli.main(["sql", "select 1"]) == 1
    assert capsys.readouterr().err.startswith(f"tidemark: {told}")


def test_another_error_of_the_system_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise FileNotFoundError("nothing")

    monkeypatch.setattr(query, "print_rows", fail)
    with pytest.raises(FileNotFoundError):
        cli.main(["sql", "select 1"])
