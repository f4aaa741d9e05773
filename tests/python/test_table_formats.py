"""A Spark gets the jars and settings of a table format only if somebody uses the format."""

import json
from pathlib import Path

import pytest

from tests.project import REPO
from tidemark import formats
from tidemark.errors import ConfigError
from tidemark.shared import shared
from tidemark.spark import jars, session, spark_line

ICEBERG = formats.OTHERS["iceberg"]

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
    assert formats.used() == [ICEBERG]
    assert [lock.name for lock in jars.session_locks()] == ["jars.lock", "jars-iceberg.lock"]
    own = {name for name in formats.settings() if name.startswith("spark.sql.catalog.iceberg")}
    assert own == set(formats.settings())


def test_a_project_names_its_folders(project: Path) -> None:
    text = "{{ config(file_format='iceberg') }} select 1 as id"
    (project / "marts" / "one.sql").write_text(text)
    (project / "dbt_project.yml").write_text("name: p\nmodel-paths: [marts]\n")
    assert formats.used() == [ICEBERG]


def test_a_lake_with_such_tables_keeps_what_they_need(project: Path) -> None:
    formats.note([ICEBERG])
    assert formats.used() == [ICEBERG]
    note = project / ".tidemark" / "formats"
    assert note.read_text() == "iceberg\n"
    formats.note([])
    assert note.read_text() == "iceberg\n"


def test_only_spark_3_needs_an_extension_to_call_procedures(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_line, "name", lambda: "3.5")
    assert formats.extensions() == ["io.delta.sql.DeltaSparkSessionExtension"]
    formats.note([ICEBERG])
    _, found = formats.extensions()
    assert found.endswith("IcebergSparkSessionExtensions")
    monkeypatch.setattr(spark_line, "name", lambda: "4.1")
    assert formats.extensions() == ["io.delta.sql.DeltaSparkSessionExtension"]


def test_a_rest_catalog_gets_its_address_and_no_secret_is_a_setting(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "seeds" / "_seeds.yml").write_text("config: {file_format: iceberg}")
    monkeypatch.setenv("TIDEMARK_CATALOG", "rest")
    with pytest.raises(ConfigError, match="TIDEMARK_CATALOG_URI is not set"):
        formats.settings()
    monkeypatch.setenv("TIDEMARK_CATALOG_URI", "https://catalog")
    monkeypatch.setenv("TIDEMARK_CATALOG_CREDENTIAL", "me:secret")
    found = formats.settings()
    assert found["spark.sql.catalog.iceberg.type"] == "rest"
    assert found["spark.sql.catalog.iceberg.uri"] == "https://catalog"
    # Iceberg reads the variable.
    assert found["spark.sql.catalog.iceberg.credential"] == "env:TIDEMARK_CATALOG_CREDENTIAL"
    assert "spark.sql.catalog.iceberg.token" not in found
    assert not [name for name in found if "hive" in name]
    header = "spark.sql.catalog.iceberg.header.X-Iceberg-Access-Delegation"
    assert found[header] == "vended-credentials"
    # The catalog knows its tables: those of a new metastore are not lost.
    commits(project / "marts.db" / "a", n00001=5)
    assert not [*formats.lost("marts", project / "marts.db")]


def test_a_project_has_the_last_word_on_a_catalog(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "seeds" / "_seeds.yml").write_text("config: {file_format: iceberg}")
    monkeypatch.setenv("TIDEMARK_CATALOG", "rest")
    monkeypatch.setenv("TIDEMARK_CATALOG_URI", "https://catalog")
    monkeypatch.setattr(jars, "installed_jars", list)
    header = "spark.sql.catalog.iceberg.header.X-Iceberg-Access-Delegation"
    assert session.settings()[header] == "vended-credentials"
    (project / "profiles").mkdir()
    # As Spark reads such a file.
    (project / "profiles" / "spark-defaults.conf").write_text(
        f"  # spark.a a\n  ! b\n\n{header} = remote-signing\nspark.b=-Da=b c\nspark.c: s3a://b \n"
    )
    found = session.settings()
    assert found[header] == "remote-signing"
    assert (found["spark.b"], found["spark.c"]) == ("-Da=b c", "s3a://b")
    assert not {"#", "spark.a", "!"} & found.keys()
    assert found["spark.sql.catalog.iceberg.uri"] == "https://catalog"


def test_a_lake_with_tables_in_one_catalog_refuses_another(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    formats.note([ICEBERG])
    monkeypatch.setenv("TIDEMARK_CATALOG", "rest")
    monkeypatch.setenv("TIDEMARK_CATALOG_URI", "https://one")
    with pytest.raises(ConfigError, match="are in the metastore, but .*: tidemark register"):
        formats.settings()
    formats.move()
    assert (project / ".tidemark/formats").read_text() == "iceberg the REST catalog https://one\n"
    formats.require_catalogs()
    monkeypatch.setenv("TIDEMARK_CATALOG_URI", "https://two")
    with pytest.raises(ConfigError, match="in the REST catalog https://one, but .* https://two"):
        formats.require_catalogs()
    formats.move()
    monkeypatch.delenv("TIDEMARK_CATALOG")
    with pytest.raises(ConfigError, match="now name the metastore.*Set the variables as before."):
        formats.require_catalogs()


@pytest.fixture
def of_iceberg(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose lake is to have Iceberg tables only."""
    (project / "dbt_project.yml").write_text("name: p\nprofile: tidemark\n")
    monkeypatch.setenv("DBT_PROFILES_DIR", str(REPO / "profiles"))
    monkeypatch.setattr(shared, "method", "")
    monkeypatch.setenv("TIDEMARK_FORMAT", "iceberg")
    return project


def test_a_lake_of_iceberg_has_nothing_of_delta(of_iceberg: Path) -> None:
    formats.claim()
    assert (of_iceberg / ".tidemark/formats").read_text() == "iceberg spark_catalog\n"
    found = session.settings()
    assert found["spark.sql.catalog.spark_catalog"].endswith(".SparkSessionCatalog")
    assert found["spark.sql.sources.default"] == "iceberg"
    assert not [name for name, value in found.items() if ".delta." in value]
    assert not [name for name in found if name.startswith("spark.sql.catalog.iceberg")]


def test_a_lake_keeps_its_format(of_iceberg: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metastore = of_iceberg / ".tidemark/metastore"
    metastore.mkdir(parents=True)
    with pytest.raises(ConfigError, match="format delta, but TIDEMARK_FORMAT says iceberg"):
        formats.claim()
    metastore.rmdir()
    formats.claim()
    metastore.mkdir()
    formats.claim()
    monkeypatch.delenv("TIDEMARK_FORMAT")
    with pytest.raises(ConfigError, match="format iceberg, but TIDEMARK_FORMAT says delta"):
        formats.claim()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"TIDEMARK_FORMAT": "hudi"}, "TIDEMARK_FORMAT is 'hudi': it must be delta or iceberg"),
        ({"TIDEMARK_CATALOG": "rest"}, "TIDEMARK_CATALOG is rest. Set only one"),
        ({"TIDEMARK_CATALOG": "glue"}, "TIDEMARK_CATALOG is glue. Set only one"),
        ({"DBT_TARGET": "glue"}, "needs embedded Spark or a Thrift server"),
    ],
)
def test_a_format_that_cannot_be_is_refused(
    of_iceberg: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    del of_iceberg
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=message):
        formats.claim()


def commits(table: Path, **at: int) -> None:
    """Metadata files as Iceberg names them, by the time that it wrote into them."""
    (table / "metadata").mkdir(parents=True)
    for name, when in at.items():
        file = table / "metadata" / f"{name.removeprefix('n')}-x.metadata.json"
        file.write_text(json.dumps({"last-updated-ms": when}))


def test_a_lost_metastore_gets_the_newest_state_of_each_table(tmp_path: Path) -> None:
    schema = tmp_path / "o'brien" / "marts.db"
    # A table that was dropped and created again has a lower number.
    commits(schema / "b", n00009=10, n00010=11, n00000=20, n00001=21)
    commits(schema / "a", n00000=5)
    commits(schema / "c")
    found = dict(formats.lost("marts", schema))
    assert list(found) == ["iceberg.marts.a", "iceberg.marts.b"]
    place = str(schema).replace("'", "\\'")
    assert found["iceberg.marts.b"] == (
        "call iceberg.system.register_table(table => 'marts.b', "
        f"metadata_file => '{place}/b/metadata/00001-x.metadata.json')"
    )


def test_a_table_that_a_killed_build_began_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_WAREHOUSE", str(tmp_path))
    commits(tmp_path / "marts.db" / "begun", n00000=1)
    commits(tmp_path / "marts.db" / "lost", n00000=1, n00001=2)
    # Killed while it wrote: no catalog knows this commit.
    commits(tmp_path / "marts.db" / "half")
    (tmp_path / "marts.db" / "half" / "metadata" / "00000-x.metadata.json").touch()
    (tmp_path / "marts.db" / "lost" / "metadata" / "00002-x.metadata.json").write_text('{"la')
    assert ICEBERG.registers("iceberg.marts.half") == ""
    assert ICEBERG.registers("iceberg.marts.begun") == ""
    assert ICEBERG.registers("iceberg.marts.none") == ""
    assert "'marts.lost'" in ICEBERG.registers("iceberg.marts.lost")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("dbt_project.yml", "name: p\nmodels:\n  p:\n    # +file_format: iceberg\n"),
        ("models/one.sql", "-- was: config(file_format='iceberg')\nselect 1 as id"),
        ("models/.#two.sql", "{{ config(file_format='iceberg') }} select 1 as id"),
    ],
)
def test_what_is_no_part_of_the_project_does_not_ask(project: Path, file: str, text: str) -> None:
    (project / file).write_text(text)
    # What Emacs leaves while a file is not saved.
    (project / "models" / ".#one.sql").symlink_to("nobody@nowhere.1")
    assert formats.used() == []


@pytest.mark.parametrize("name", ["SerDe", "FileInputFormat"])
def test_a_name_of_two_parts_gets_a_sentence(name: str) -> None:
    said = session.readable_text(f"Failed to instantiate org.apache.hadoop.mapred.{name}")
    assert ("iceberg.schema.table" in said) == (name == "FileInputFormat")


@pytest.mark.parametrize(
    ("error", "frames", "is_iceberg"),
    [
        (
            "java.lang.RuntimeException: java.lang.InstantiationException",
            ("hadoop.util.ReflectionUtils.newInstance", "spark.rdd.HadoopRDD.getInputFormat"),
            True,
        ),
        # Such as a file that is gone: the frames are those of any table in Hive's formats.
        (
            "org.apache.hadoop.mapred.InvalidInputException: Input path does not exist",
            ("hadoop.mapred.FileInputFormat.listStatus", "spark.rdd.HadoopRDD.getPartitions"),
            False,
        ),
        (
            "java.lang.InstantiationException",
            ("spark.util.Utils.load", "spark.rdd.HadoopRDD.getPartitions"),
            False,
        ),
    ],
)
def test_a_stack_trace_is_not_taken_for_such_a_name(
    error: str, frames: tuple[str, ...], is_iceberg: bool
) -> None:
    trace = "".join(f"\n\tat org.apache.{frame}(A.java:1)" for frame in frames)
    said = session.readable_text(f"An error occurred.\n: {error}{trace}")
    assert ("iceberg.schema.table" in said) == is_iceberg


def test_a_table_of_iceberg_v1_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_WAREHOUSE", str(tmp_path))
    place = tmp_path / "marts.db" / "old" / "metadata"
    place.mkdir(parents=True)
    snapshot = {"snapshot-id": 1, "timestamp-ms": 1000, "summary": {"total-records": "3"}}
    # The first version of the format has no sequence numbers.
    told = {"format-version": 1, "last-updated-ms": 1, "snapshots": [snapshot]}
    told["snapshot-log"] = [{"snapshot-id": 1, "timestamp-ms": 1000}]
    (place / "00001-x.metadata.json").write_text(json.dumps(told))
    found = ICEBERG.content("iceberg.marts.old")
    assert found and [rows for _, rows in found.rows] == [3]
