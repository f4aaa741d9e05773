"""Hudi tables are beside Delta tables in Spark's own catalog: their folders tell which they are."""

from datetime import timedelta
from pathlib import Path

import pytest

from tidemark import formats, maintain
from tidemark.errors import ConfigError, TidemarkError
from tidemark.spark import jars, session, spark_line

HUDI = formats.OTHERS["hudi"]


@pytest.fixture(params=["3.5", "4.1"])
def project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Path:
    """A project that asks for Hudi, on each Spark."""
    monkeypatch.setattr(spark_line, "name", lambda: request.param)
    text = "name: p\nprofile: tidemark\nmodels: {p: {+file_format: hudi}}\n"
    (tmp_path / "dbt_project.yml").write_text(text)
    (tmp_path / "models").mkdir()
    monkeypatch.setenv("DBT_PROJECT_DIR", str(tmp_path))
    for name in ("LANDING", "WAREHOUSE", "LAKE"):
        monkeypatch.delenv(f"TIDEMARK_{name}", raising=False)
    monkeypatch.setenv("TIDEMARK_WAREHOUSE", str(tmp_path / "warehouse"))
    return tmp_path


@pytest.fixture
def on_spark_3(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(spark_line, "name", lambda: "3.5")
    return project


def commits(table: Path, *names: str) -> Path:
    timeline = table / ".hoodie" / "timeline"
    timeline.mkdir(parents=True)
    (table / ".hoodie" / "hoodie.properties").touch()
    for name in names:
        (timeline / name).touch()
    return table


FIRST = "20260101000000000_20260101000001000.commit"
SECOND = "20260102000000000_20260102000001000.deltacommit"
# A write that has not ended, a cleaning, and a checksum.
OTHERS = ("20260103000000000.commit.requested", "20260103000000000_20260103000001000.clean")


def test_only_spark_3_gets_the_jar_and_the_settings(project: Path) -> None:
    del project
    is_there = spark_line.name() == "3.5"
    assert formats.used() == ([HUDI] if is_there else [])
    assert ("jars-hudi.lock" in [lock.name for lock in jars.session_locks()]) is is_there
    assert ("spark.kryo.registrator" in formats.settings()) is is_there
    assert any("Hoodie" in each for each in formats.extensions()) is is_there
    assert (HUDI.problem("session") == "") is is_there


def test_it_has_no_catalog(on_spark_3: Path) -> None:
    del on_spark_3
    formats.note([HUDI])
    formats.require_catalogs()
    assert not [name for name in formats.settings() if name.startswith("spark.sql.catalog")]
    assert HUDI.spark_catalog == "spark_catalog"


def test_a_target_that_cannot_have_it(on_spark_3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del on_spark_3
    assert HUDI.problem("thrift") == "Only embedded Spark builds such tables"
    monkeypatch.setenv("TIDEMARK_WAREHOUSE", "s3a://bucket/warehouse")
    assert HUDI.problem("session") == "The warehouse s3a://bucket/warehouse is no local folder"


def test_a_folder_tells_the_format(on_spark_3: Path) -> None:
    commits(on_spark_3 / "warehouse" / "marts.db" / "a", FIRST)
    assert formats.of("marts.A") is HUDI
    assert formats.of("marts.b") is formats.DELTA
    assert formats.of("iceberg.marts.a").name == "iceberg"
    assert formats.of_listed("Database: marts\nProvider: hudi\nType: MANAGED") is HUDI
    assert formats.of_listed("Provider: delta\nComment: hudi") is None
    said: list[str] = []
    assert maintain._maintained(["marts.a", "marts.b"], said.append) == ["marts.b"]
    assert said == [
        "Left out: marts.a. Hudi compacts and cleans its tables itself, with each write."
    ]


def test_a_table_that_a_killed_build_began_is_not_lost(on_spark_3: Path) -> None:
    schema = on_spark_3 / "warehouse" / "marts.db"
    commits(schema / "begun", *OTHERS)
    commits(schema / "first", FIRST, *OTHERS)
    commits(schema / "lost", FIRST, SECOND, *OTHERS)
    assert [session.is_young(schema / name) for name in ("begun", "first", "lost")] == [
        *(True, True, False)
    ]
    assert HUDI.registers("marts.first") == ""
    assert HUDI.registers("marts.lost") == (
        f"create table `marts`.`lost` using hudi location '{schema}/lost'"
    )
    assert [name for name, _ in HUDI.lost("marts", schema)] == ["marts.first", "marts.lost"]


def test_an_erasure_needs_a_table_of_one_version(on_spark_3: Path) -> None:
    schema = on_spark_3 / "warehouse" / "marts.db"
    commits(schema / "anew", FIRST, *OTHERS)
    commits(schema / "old", FIRST, SECOND)
    done = HUDI.forget(None, "marts.anew")  # type: ignore[arg-type]
    assert done and done.version == 20260101000001000
    with pytest.raises(TidemarkError, match="marts.old: Hudi has kept earlier versions"):
        HUDI.forget(None, "marts.old")  # type: ignore[arg-type]


def test_what_its_tables_cannot_do_is_refused(on_spark_3: Path) -> None:
    del on_spark_3
    for ask in (HUDI.versions, lambda relation: HUDI.restore(relation, 1)):
        with pytest.raises(ConfigError, match="--full-refresh --select a"):
            ask("marts.a")
    nothing = None
    for write in (HUDI.append, HUDI.overwrite):
        with pytest.raises(TidemarkError, match="Only models can be Hudi tables"):
            write(nothing, "marts.a")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="itself, with each write"):
        HUDI.compact(nothing, "marts.a")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="itself, with each write"):
        HUDI.delete_old(nothing, "marts.a", timedelta(1))  # type: ignore[arg-type]
    assert (HUDI.look("marts.a", None), HUDI.content("marts.a")) == (None, None)
