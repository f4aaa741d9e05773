"""A Spark gets the jars and settings of a table format only if somebody uses the format."""

from pathlib import Path

import pytest

from tidemark.spark import formats, jars, session, spark_line

pytestmark = pytest.mark.skipif(spark_line.name() == "3.5", reason="Spark 3.5 has Delta only")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "dbt_project.yml").write_text("name: p\nmodels: {p: {+file_format: delta}}\n")
    for name in ("models", "marts", "seeds", "snapshots"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("DBT_PROJECT_DIR", str(tmp_path))
    for name in ("LANDING", "WAREHOUSE", "LAKE"):
        monkeypatch.delenv(f"TIDEMARK_{name}", raising=False)
    return tmp_path


def test_without_the_format_nothing_changes(project: Path) -> None:
    (project / "models" / "one.sql").write_text("-- not iceberg\nselect 1 as file_format")
    assert formats.used() == []
    assert [lock.name for lock in jars.session_locks()] == ["jars.lock"]
    assert not [name for name in session.settings() if "iceberg" in name.lower()]
    assert "iceberg" not in session.settings()["spark.driver.extraClassPath"]
    formats.note(formats.used())
    assert not (project / ".tidemark").exists()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("dbt_project.yml", "name: p\nmodels:\n  p:\n    +file_format: iceberg\n"),
        ("dbt_project.yml", "name: p\nsnapshots: {p: {file_format: 'iceberg'}}\n"),
        ("models/a/one.sql", "{{ config(file_format='iceberg') }} select 1 as id"),
        ("models/a/one.py", 'def model(dbt, session):\n    dbt.config(file_format = "iceberg")\n'),
        ("models/a/_a.yml", 'models: [{name: a, config: {"file_format": "iceberg"}}]'),
        ("snapshots/s.yml", "snapshots:\n  - config:\n      file_format: iceberg\n"),
    ],
)
def test_a_project_asks_for_it(project: Path, file: str, text: str) -> None:
    (project / "models" / "a").mkdir()
    (project / file).write_text(text)
    assert formats.used() == [formats.ICEBERG]
    assert [lock.name for lock in jars.session_locks()] == ["jars.lock", "jars-iceberg.lock"]
    own = {name for name in formats.settings() if name.startswith("spark.sql.catalog.iceberg")}
    assert own == set(formats.settings())


def test_a_project_names_its_folders(project: Path) -> None:
    text = "{{ config(file_format='iceberg') }} select 1 as id"
    (project / "marts" / "one.sql").write_text(text)
    (project / "dbt_project.yml").write_text("name: p\nmodel-paths: [marts]\n")
    assert formats.used() == [formats.ICEBERG]


def test_a_lake_with_such_tables_keeps_what_they_need(project: Path) -> None:
    formats.note([formats.ICEBERG])
    assert formats.used() == [formats.ICEBERG]
    note = project / ".tidemark" / "formats"
    assert note.read_text() == "iceberg\n"
    formats.note([])
    assert note.read_text() == "iceberg\n"


def test_a_spark_without_a_lock_file_does_not_have_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    formats.note([formats.ICEBERG])
    monkeypatch.setattr(spark_line, "name", lambda: "3.5")
    assert formats.used() == []


def test_a_lost_metastore_gets_the_newest_state_of_each_table(tmp_path: Path) -> None:
    for table, names in {"b": ["00001-x", "00010-y", "00009-z"], "a": ["00000-x"], "c": []}.items():
        folder = tmp_path / "marts.db" / table / "metadata"
        folder.mkdir(parents=True)
        for name in names:
            (folder / f"{name}.metadata.json").touch()
    found = dict(formats.lost("marts", tmp_path / "marts.db"))
    assert list(found) == ["iceberg.marts.a", "iceberg.marts.b"]
    assert found["iceberg.marts.b"] == (
        "call iceberg.system.register_table(table => 'marts.b', "
        f"metadata_file => '{tmp_path}/marts.db/b/metadata/00010-y.metadata.json')"
    )


@pytest.mark.parametrize("name", ["SerDe", "FileInputFormat"])
def test_a_name_of_two_parts_gets_a_sentence(name: str) -> None:
    said = session.readable_text(f"Failed to instantiate org.apache.hadoop.mapred.{name}")
    assert ("iceberg.schema.table" in said) == (name == "FileInputFormat")
