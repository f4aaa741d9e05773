"""What a job gets of a project: all that dbt reads, wherever it is named, and nothing else."""

import zipfile
from pathlib import Path

import pytest

from tidemark import bundle

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
        assert {"tidemark/landing.py", "dbt_tidemark.py"} <= set(archive.namelist())


def test_the_modules_are_all_that_the_package_imports_but_no_pyspark() -> None:
    names = {each.partition("==")[0] for each in bundle.modules()}
    assert {"dbt-core", "dbt-spark", "pyhive", "thrift", "fastavro", "boto3", "botocore"} <= names
    assert not names & {"pyspark", "py4j", "delta-spark", "pytest"}
