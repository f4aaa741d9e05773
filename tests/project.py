"""A dbt project of a test's own: Tidemark's macros, its own feeds, files and tables."""

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import yaml
from pyspark.sql import DataFrame, SparkSession

from tidemark import formats
from tidemark.feeds import Feed, feeds_of
from tidemark.variables import during

REPO = Path(__file__).parent.parent


class Project:
    """Feeds are declared with `add` or `declare`, files arrive with `land`, `build` is `dbt build`.

    Every instance needs source names of its own: the tests share one lake.
    """

    # Of a project without models.
    _parsed = b""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder = folder
        self.landing = folder / "landing"
        self.spark = spark
        self._feeds: tuple[dict[Path, bytes], list[Feed]] | None = None
        self.landing.mkdir(parents=True)
        settings = yaml.safe_load((REPO / "dbt_project.yml").read_text())
        settings["packages-install-path"] = str(REPO / "dbt_packages")
        settings["test-paths"] = ["tests"]
        shutil.copy(REPO / "packages.yml", folder / "packages.yml")
        # A test may write Spark settings beside the profiles.
        (folder / "profiles").mkdir()
        for name in ("profiles/profiles.yml", "macros"):
            (folder / name).symlink_to(REPO / name)
        (folder / "tests").mkdir()
        (folder / "profiles.yml").symlink_to(REPO / "profiles" / "profiles.yml")
        (folder / "dbt_project.yml").write_text(yaml.safe_dump(settings, sort_keys=False))
        self._knows_macros()

    def _knows_macros(self) -> None:
        """dbt has parsed the macros, as it has in any project but a new one.

        It takes two seconds, which each of some hundred projects would spend anew.
        """
        parsed = self.folder / "target" / "partial_parse.msgpack"
        if not Project._parsed:
            assert self.dbt("parse").success
            Project._parsed = parsed.read_bytes()
            shutil.rmtree(parsed.parent)
        parsed.parent.mkdir()
        parsed.write_bytes(Project._parsed)

    def add(
        self, name: str, columns: Mapping[str, str], key: str | Sequence[str], **feed: Any
    ) -> None:
        """Declare a feed and write its three models, as `tidemark add` does."""
        self._add(name, columns, key, feed)

    def declare(
        self, name: str, columns: Mapping[str, str], key: str | Sequence[str], **feed: Any
    ) -> None:
        """Declare a feed without models, for a test that only lands; parsing takes less time."""
        for model in self._add(name, columns, key, feed):
            model.unlink()

    def _add(
        self, name: str, columns: Mapping[str, str], key: str | Sequence[str], feed: dict[str, Any]
    ) -> list[Path]:
        from tidemark.scaffold import add

        source, table = name.split(".")
        settings = {"format": "dms", "path": f"{source}/{table}", "key": key, **feed}
        new = add.NewTable(source, table, dict(columns), settings)
        yml, *models = add.write(self.folder, new)
        # A query more for each table and build: test_commands has it.
        data_tests = re.compile(r"^( +)data_tests:\n(?:\1.*\n)+?(?=\1config:)", re.MULTILINE)
        yml.write_text(data_tests.sub("", yml.read_text()))
        return models

    def tag_subject(self, name: str, subject: str) -> None:
        """The column `id` of a table is the key of persons, for `tidemark erase`."""
        source, table = name.split(".")
        file = self.folder / f"models/staging/{source}/_{source}__sources.yml"
        declared = yaml.safe_load(file.read_text())
        tables = {each["name"]: each for each in declared["sources"][0]["tables"]}
        (column,) = (each for each in tables[table]["columns"] if each["name"] == "id")
        column["config"] = {"meta": {"subject": subject}}
        file.write_text(yaml.safe_dump(declared, sort_keys=False))

    def test_log(self, source: str, table: str) -> None:
        """Test the log of a table, as `tidemark add` does and `add` here does not."""
        arguments = f"{{arguments: {{source_name: {source}, table_name: {table}}}}}"
        test = f"data_tests: [{{tidemark.log_is_complete: {arguments}}}]"
        name = f"      - name: {table}\n"
        for yml in self.folder.glob(f"models/staging/{source}/*.yml"):
            yml.write_text(yml.read_text().replace(name, f"{name}        {test}\n", 1))

    def write(self, path: str, text: str) -> Path:
        """A file of the dbt project: a model, a YAML, a seed."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def land(self, path: str, content: str | bytes, *, modified: float | None = None) -> Path:
        """A file arrives below the landing folder; `modified` is its time in epoch seconds."""
        file = self.landing / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        if modified is not None:
            os.utime(file, (modified, modified))
        return file

    def dbt(self, *arguments: str) -> Any:
        """Run a dbt command in this process; gives dbt's result, also of a failure."""
        from tidemark.dbt_plugin import dbt

        # The manifest has all macros, and dbt would write it twice for each build.
        options = [] if "docs" in arguments else ["--no-write-json"]
        with self.here():
            return dbt.invoke(["--quiet", *options, *arguments])

    def feeds(self) -> list[Feed]:
        """What it declares. dbt parses it again only if its settings or models have changed."""
        from tidemark.dbt_plugin import dbt

        settings = self.folder / "dbt_project.yml"
        files = {file: file.read_bytes() for file in (settings, *self.folder.glob("models/**/*.*"))}
        if self._feeds is None or self._feeds[0] != files:
            with self.here():
                sources = dbt.parse().sources.values()
                self._feeds = files, feeds_of(each.to_dict() for each in sources)
        return self._feeds[1]

    def build(self, *arguments: str) -> Any:
        """`dbt build`, landing included; raises when it fails."""
        result = self.dbt("build", *arguments)
        if not result.success:
            messages = [
                f"{item.node.name}: {item.message}"
                for item in getattr(result.result, "results", [])
                if item.status in ("error", "fail", "runtime error")
            ]
            raise AssertionError(f"dbt build failed: {result.exception} {messages}")
        return result

    def here(self) -> AbstractContextManager[None]:
        """Tidemark's commands act on this project while in here."""
        mine = {"DBT_PROJECT_DIR": str(self.folder), "TIDEMARK_LANDING": str(self.landing)}
        mine["DBT_PROFILES_DIR"] = str(REPO / "profiles")
        return during(mine)

    def rows(
        self, relation: str, columns: Iterable[str], order: str = "1"
    ) -> list[tuple[Any, ...]]:
        """Rows of a table as tuples."""
        query = f"select {', '.join(columns)} from {relation} order by {order}"
        return [tuple(row) for row in self.spark.sql(query).collect()]

    def log(self, name: str) -> DataFrame:
        """A change log. The column with the file is `_file`, whatever the lake's format."""
        column = formats.of_lake().file_column
        return self.spark.table(f"log_{name}").withColumnRenamed(column, "_file")

    def newest_version(self, relation: str) -> int:
        """The version of a table that a query sees now."""
        return int(self.spark.sql(formats.of(relation).versions(relation)).collect()[0].version)

    def commits(self, relation: str) -> int:
        """How often a table has been written."""
        versions = formats.of(relation).versions(relation)
        return self.spark.sql(versions).where("operation is not null").count()
