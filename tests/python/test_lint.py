"""What lint.py finds, and what it must not take for a finding."""

from pathlib import Path

import pytest

from tests import lint

FINE = """{#- It's a comment, and '' in it is nothing. -#}
select coalesce(name, '') as a, '' as b, {{ dbt.concat(["''", "'it'"]) }} as c
-- where x = 'it''s'
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lint, "REPO", tmp_path)
    (tmp_path / "models").mkdir()
    return tmp_path / "models" / "m.sql"


def test_sql_that_every_spark_reads_alike_is_fine(model: Path) -> None:
    model.write_text(FINE)
    assert [*lint.doubled_quotes_in_sql(), *lint.backslashes_in_sql()] == []


@pytest.mark.parametrize("literal", ["'it''s'", "''''", "'''a'", "'a\n''b'"])
def test_a_doubled_quote_is_found_in_its_line(model: Path, literal: str) -> None:
    model.write_text(f"{FINE}\nselect {literal} as d")
    (found,) = lint.doubled_quotes_in_sql()
    assert found.startswith("models/m.sql:5: a doubled quote in SQL")


def test_a_backslash_is_found_in_its_line(model: Path) -> None:
    model.write_text(FINE + r"select regexp_replace(a, '\d+', '')")
    (found,) = lint.backslashes_in_sql()
    assert found.startswith("models/m.sql:4: a backslash in SQL")
