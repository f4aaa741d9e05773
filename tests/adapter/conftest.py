"""dbt's own functional suites for adapters, on the embedded Spark, with Tidemark's overrides.

The suites are written for Postgres. Where Spark lacks a spelling, `in_sparks_words` changes the
words of a statement, for all suites alike; what a suite asserts stays as it is.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.adapters.spark.impl import SparkAdapter
from dbt.tests.fixtures import project as upstream
from dbt.tests.fixtures.project import *  # noqa: F403 - its fixtures are the suites' own
from dbt_common.tests import disable_test_caching
from pyspark.sql import SparkSession

from tests.project import REPO

# dbt-spark has no database: `{{ target.database }}` renders as None.
WORDS = {
    r"{{ ?(target\.)?database ?}}\.": "",
    r"(?<!{){database}\.": "",
    r"`?\bNone\b`?\.(?=`?test)": "",
    r"(?i)timestamp without time zone": "timestamp",
    r"\bTEXT\b": "string",
    r"::text\b": "::string",
    r'(?i)\bas "(\w+)"': r"as `\1`",
    # A new column's default fills the rows that are there, which Delta's does not.
    r"(?i)alter table (\S+)\s+add column (\w+) ([^;]*?) default ([^;]*)": (
        r"alter table \1 add column \2 \3; update \1 set \2 = \4"
    ),
}


def in_sparks_words(sql: str) -> str:
    for theirs, ours in WORDS.items():
        sql = re.sub(theirs, ours, sql)
    return sql


def backticked(sql: str) -> str:
    """Postgres's quotes of names as Spark's; those within a text stay."""
    return re.sub(r"""('[^']*')|"(\w+)\"""", lambda found: found[1] or f"`{found[2]}`", sql)


def _in_sparks_words(files: Any) -> Any:
    """The same for the files of a project, in folders of any depth."""
    if isinstance(files, dict):
        return {
            name: text if name.endswith((".csv", ".py")) else _in_sparks_words(text)
            for name, text in files.items()
        }
    return in_sparks_words(files) if isinstance(files, str) else files


@pytest.fixture(scope="session", autouse=True)
def _one_statement_at_a_time(spark: SparkSession) -> Iterator[None]:
    """The suites send several statements at once; Spark takes one."""
    run_one = SparkAdapter.run_sql_for_tests

    def run_each(self: SparkAdapter, sql: str, fetch: str | None, conn: Any) -> Any:
        bare = backticked(re.sub(r"^\s*--.*$", "", sql, flags=re.MULTILINE))
        rows = None
        for statement in re.split(r";(?:\s|$)", in_sparks_words(bare)):
            if statement.strip():
                rows = run_one(self, statement, fetch, conn)
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkAdapter, "run_sql_for_tests", run_each)
        patch.setattr(upstream.TestProjInfo, "get_tables_in_schema", _tables_in_schema)
        yield


def _tables_in_schema(self: Any) -> dict[str, str]:
    """What a suite reads from the information_schema, which Spark does not have."""
    views = {row[1] for row in self.run_sql(f"show views in {self.test_schema}", fetch="all")}
    tables = {row[1] for row in self.run_sql(f"show tables in {self.test_schema}", fetch="all")}
    return {name: "view" if name in views else "table" for name in sorted(tables)}


@pytest.fixture(scope="class", autouse=True)
def _leave_no_trace() -> Iterator[None]:
    """The suites set dbt's caches and the environment for the whole process."""
    before = dict(os.environ)
    yield
    disable_test_caching()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="class")
def dbt_profile_target() -> dict[str, Any]:
    return {"type": "spark", "method": "session", "host": "embedded", "threads": 4}


@pytest.fixture(scope="class")
def logs_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """dbt's logs, not in the repository."""
    folder = str(tmp_path_factory.mktemp("logs"))
    os.environ["DBT_LOG_PATH"] = folder
    yield folder
    os.environ.pop("DBT_LOG_PATH", None)


@pytest.fixture(scope="class")
def dbt_project_yml(project_root: Path, project_config_update: Any) -> dict[str, Any]:
    """The suite's project, with Tidemark's dbt package and Delta as file format."""
    update = project_config_update or {}
    config = {
        "name": "test",
        "profile": "test",
        "flags": {"send_anonymous_usage_stats": False},
        **(yaml.safe_load(update) if isinstance(update, str) else update),
    }
    packages = Path(project_root, "dbt_packages")
    packages.mkdir()
    (packages / "tidemark").symlink_to(REPO / "python" / "tidemark" / "dbt_package")
    config["dispatch"] = [{"macro_namespace": "dbt", "search_order": ["test", "tidemark", "dbt"]}]
    for kind in ("models", "seeds", "snapshots", "data_tests"):
        config[kind] = {"+file_format": "delta", **config.get(kind, {})}
    config = dict(_in_sparks_words(config))
    Path(project_root, "dbt_project.yml").write_text(yaml.safe_dump(config))
    return config


@pytest.fixture(scope="class")
def project_files(
    project_root: Any,
    models: Any,
    macros: Any,
    snapshots: Any,
    properties: Any,
    seeds: Any,
    tests: Any,
    analyses: Any,
    selectors_yml: Any,
    dependencies_yml: Any,
    packages_yml: Any,
    dbt_project_yml: Any,
) -> None:
    """The suite's files, in Spark's words."""
    folders = {
        "models": {**models, **properties},
        "macros": macros,
        "snapshots": snapshots,
        "seeds": seeds,
        "tests": tests,
        "analyses": analyses,
    }
    for folder, files in folders.items():
        upstream.write_project_files(project_root, folder, _in_sparks_words(files))
