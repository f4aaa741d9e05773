"""What a job gets of a project: all that dbt reads, wherever it is named, and nothing else."""

import ast
import os
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from tests.project import REPO
from tidemark.aws import bundle
from tidemark.errors import ConfigError

SETTINGS = "name: x\nmodel-paths: [models, more]\ndocs-paths: [words]\n"
IN = (
    *("dependencies.yml", "selectors.yml", ".dbtignore", "profiles/profiles.yml"),
    *("models/a.sql", "models/_a.yml", "more/b.py", "words/words.md", "seeds/c.csv"),
    *("tests/assert_x.sql", "tests/assert_x.yml", "tests/fixtures/rows.csv"),
)
OUT = ("landing/a.csv", "target/manifest.json", "tests/test_a.py", "models/__pycache__/b.pyc")


def test_all_that_dbt_reads_is_in_the_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    for name in (*IN, *OUT):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(name)
    (project / "dbt_project.yml").write_text(SETTINGS)
    # dbt makes a link of a package that is a folder elsewhere.
    (tmp_path / "own" / "macros").mkdir(parents=True)
    (tmp_path / "own" / "macros" / "m.sql").write_text("m")
    (project / "dbt_packages").mkdir()
    (project / "dbt_packages" / "own").symlink_to(tmp_path / "own")
    monkeypatch.setenv("DBT_PROJECT_DIR", str(project))
    written = [Path(each).name for each in bundle.make(str(tmp_path / "app"))]
    assert written == ["tidemark_job.py", "tidemark.zip", "requirements.txt", "project.zip"]
    with zipfile.ZipFile(tmp_path / "app" / "project.zip") as archive:
        found = set(archive.namelist())
    assert found == {*IN, "dbt_project.yml", "dbt_packages/own/macros/m.sql"}
    with zipfile.ZipFile(tmp_path / "app" / "tidemark.zip") as archive:
        packed = set(archive.namelist())
    macro = "tidemark/dbt_package/macros/staging/cast_text.sql"
    assert {"tidemark/ingest/landing.py", "dbt_tidemark.py", macro} <= packed
    for_people = ("tidemark/scaffold/examples/", "tidemark/scaffold/template/")
    assert not [name for name in packed if name.startswith(for_people)]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project, in which this repository's profile stands behind a link."""
    project = tmp_path / "project"
    shutil.copytree(REPO / "profiles", project / "profiles")
    (project / "profiles.yml").symlink_to("profiles/profiles.yml")
    (project / "models").mkdir()
    (project / "dbt_project.yml").write_text("name: x\n")
    monkeypatch.setenv("DBT_PROJECT_DIR", str(project))
    return project


def packed(project: Path) -> set[str]:
    bundle.make(str(project.parent / "app"))
    with zipfile.ZipFile(project.parent / "app" / "project.zip") as archive:
        return set(archive.namelist())


def test_our_own_profile_and_links_within_the_project_are_packed(project: Path) -> None:
    (project / "models" / "round").symlink_to("..")
    (project / "models" / "gone.sql").symlink_to("nowhere.sql")
    (project / "profiles" / "key.pem").write_text("-----BEGIN PRIVATE KEY-----")
    (project / "profiles" / "spark-defaults.conf").write_text("spark.driver.memory 1g")
    found = packed(project)
    assert {"profiles.yml", "profiles/profiles.yml", "profiles/spark-defaults.conf"} <= found
    assert not {"profiles/key.pem", "models/gone.sql"} & found


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("profiles.yml", "x: {outputs: {a: {type: spark, password: hunter2}}}"),
        ("profiles/profiles.yml", "x: {outputs: {a: {token: \"a{{ env_var('B') }}\"}}}"),
        ("profiles/more.yaml", "x: {password: \"{{ env_var('A', 'hunter2') }}\"}"),
        ("profiles/profiles.yml", "x: {settings: [{fs.s3a.secret.key: hunter2}]}"),
        ("profiles/profiles.yml", "x: {conf: --conf spark.a.password=hunter2}"),
        ("profiles/profiles.yml", "x: {host: 'https://me:hunter2@host/'}"),
        ("profiles/profiles.yml", "x: {connect: 'sc://host:1/;token=hunter2'}"),
        ("profiles/spark-defaults.conf", "spark.hadoop.fs.s3a.access.key  hunter2\n"),
        ("profiles/spark-defaults.conf", "a b\nspark.ssl.keyPassword=hunter2\n"),
    ],
)
def test_a_password_that_is_written_out_is_refused(project: Path, file: str, text: str) -> None:
    (project / file).write_text(text)
    with pytest.raises(ConfigError, match=r"contains a secret in") as refused:
        packed(project)
    assert "hunter2" not in str(refused.value)
    assert not (project.parent / "app").exists()


@pytest.mark.parametrize("place", ["models/x", "profiles/x.yml", "models/a/b.sql"])
def test_a_link_out_of_the_project_is_refused(project: Path, place: str) -> None:
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "b.sql").write_text("select 1")
    (project / place).parent.mkdir(exist_ok=True)
    (project / place).symlink_to(elsewhere / "b.sql" if "." in place else elsewhere)
    with pytest.raises(ConfigError, match=rf"{place} is a link to {elsewhere}"):
        packed(project)


def test_a_name_that_is_not_utf_8_is_refused(project: Path) -> None:
    (project / "models" / os.fsdecode(b"caf\xe9.sql")).write_text("select 1")
    with pytest.raises(
        ConfigError, match=r"models/caf\\xe9.sql: the name has unprintable characters"
    ):
        packed(project)


def imported() -> Iterator[str]:
    """The top-level modules that the job's Python imports anywhere."""
    for file in [*(REPO / "python").glob("*.py"), *(REPO / "python/tidemark").rglob("*.py")]:
        if "examples" in file.parts:
            continue
        for each in ast.walk(ast.parse(file.read_text())):
            if isinstance(each, ast.Import):
                yield from (name.name.partition(".")[0] for name in each.names)
            elif isinstance(each, ast.ImportFrom):
                yield str(each.module).partition(".")[0]


def test_the_modules_are_all_that_the_package_imports_but_no_pyspark() -> None:
    names = {each.partition("==")[0] for each in bundle.modules()}
    assert {"dbt-core", "dbt-spark", "pyhive", "thrift", "fastavro", "boto3", "botocore"} <= names
    assert not names & {"pyspark", "py4j", "delta-spark", "pytest"}
    # The host has PySpark.
    known = sys.stdlib_module_names | {"tidemark", "dbt_tidemark", "pyspark"}
    of_module = metadata.packages_distributions()
    lacking = {
        module
        for module in set(imported()) - known
        if not {re.sub(r"[-_.]+", "-", of).lower() for of in of_module.get(module, ())} & names
    }
    assert not lacking
