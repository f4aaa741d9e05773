"""A lake of its own, used by commands in processes of their own, and how it differs from a source.

What AWS DMS would write fills it (dms.py).
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deltalake import DeltaTable

from tests.e2e import dms, postgres, truth
from tests.project import Project


@dataclass
class Place:
    """A project with a lake of its own. Several lakes may share a project and its files."""

    project: Project
    lake: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    # The folder of the tables, if it is not the lake's.
    tables_in: Path | None = None

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command; it can be killed with all its processes (os.killpg)."""
        return subprocess.Popen(
            [Path(sys.executable).with_name("tidemark"), *arguments],
            cwd=self.project.folder,
            env={
                **os.environ,
                "TIDEMARK_LAKE": str(self.lake),
                "TIDEMARK_LANDING": str(self.project.landing),
                **self.variables,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def tidemark(self, *arguments: str) -> str:
        """Run a command, which must succeed; gives what it printed."""
        process = self.begin(*arguments)
        output, _ = process.communicate(timeout=600)
        assert process.returncode == 0, output
        return output

    def processes(self) -> dict[str, int]:
        """The processes of `tidemark up` or `tidemark thrift start`, by their names."""
        return dict(json.loads((self.lake / "server" / "server.json").read_text())["processes"])

    def folder(self, table: str) -> Path:
        """The folder of a table `schema.name`."""
        schema, name = table.split(".")
        return (self.tables_in or self.lake / "warehouse") / f"{schema}.db" / name

    def tables(self) -> dict[str, DeltaTable]:
        """The logs, current tables and histories, by their names."""
        return {
            f"{folder.parent.name.removesuffix('.db')}.{folder.name}": DeltaTable(folder)
            for folder in (self.tables_in or self.lake / "warehouse").glob("*.db/*")
            if (folder / "_delta_log").is_dir() and folder.parent.name != "tidemark.db"
        }


def differences(
    source: postgres.Postgres, place: Place, task: dms.Task, start: int, snapshot: tuple[str, str]
) -> list[str]:
    """How the tables of a task differ from the source, as lines."""
    spark = place.project.spark
    tables = truth.tables(source)
    found = []
    for name in task.tables:
        table = dms.captured(tables[name], ())
        for layer, prefix in (("current", "cur"), ("history", "hist")):
            folder = place.folder(f"{layer}.{prefix}_{task.schema}__{name}")
            spark.read.format("delta").load(str(folder)).createOrReplaceTempView(f"lake_{layer}")
        lines = truth.of_contents(
            truth.content(source, table), truth.shown_content(spark, "lake_current", table)
        )
        lines += truth.of_versions(
            truth.versions(source, table, start),
            truth.shown_versions(spark, "lake_history", table),
            snapshot,
        )
        found += [f"{name} {line}" for line in lines]
    return found
