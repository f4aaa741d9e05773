"""What `tidemark verify` says of a difference, without Spark. Whole: tests/functional."""

import pytest

from tidemark.aws import verify


@pytest.mark.parametrize(
    ("rows", "files", "told"),
    [
        (1, 0, "1 row has an open dead letter."),
        (0, 1, "1 complete file has an open dead letter."),
        (2, 1, "2 rows and 1 complete file have open dead letters."),
    ],
)
def test_open_dead_letters_are_counted(rows: int, files: int, told: str) -> None:
    ours = verify.Counts(rejected=rows, refused_files=files)
    (line,) = verify._reasons(verify.Compared("shop.orders", []), ours)
    assert line == f"{told} Fix the cause, then run: tidemark replay"
