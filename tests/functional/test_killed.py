"""kill -9 at any time, then run again: the tables are as if nothing had happened."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.project import REPO
from tidemark.spark import spark_line

pytestmark = [pytest.mark.functional, pytest.mark.slow]
_ON_3_5 = pytest.mark.skipif(spark_line.name() != "3.5", reason="Hudi has no jar for Spark 4.1")

LOGS = ["log_insurance.policies", "tidemark.dead_letter"]
# In the format of the project.
TABLES = [
    "current.cur_insurance__policies",
    "current.cur_inventory__products",
    "history.hist_insurance__policies",
    "history.hist_inventory__products",
    "marts.agg_exposure_by_region",
    "marts.agg_stock_by_group",
    "marts.dim_product_groups",
    "marts.fct_claims",
]
# What differs from run to run.
OF_RUNS = {
    *("_order", "_load_id", "_landed_at", "_file_at", "load_id", "run_id", "at", "superseded_by"),
}


def project_of(format: str, folder: Path) -> Path:
    """This repository's project, with its tables in another format than Delta."""
    if format == "delta":
        return REPO
    folder.mkdir()
    for each in REPO.iterdir():
        is_hidden = each.name[0] == "." and each.name != ".dbtignore"
        if not is_hidden and each.name not in ("target", "logs", "dbt_project.yml"):
            (folder / each.name).symlink_to(each)
    settings = yaml.safe_load((REPO / "dbt_project.yml").read_text())
    models = settings["models"]["showcase"]
    if format == "hudi":
        # The marts have no key, and the current table of inventory has partitions.
        of_hudi = (("current", "insurance"), ("history", "insurance"), ("history", "inventory"))
        changed = [models[layer].setdefault(domain, {}) for layer, domain in of_hudi]
    else:
        changed = [models, settings["snapshots"], settings["seeds"]]
    for each in changed:
        each["+file_format"] = format
    (folder / "dbt_project.yml").write_text(yaml.safe_dump(settings, sort_keys=False))
    return folder


# What `tidemark demo` does, whose queries are for Delta tables.
TWO_DAYS = """
import sys

from tidemark import cli, demo, paths

for day in ("day1", "day2"):
    for domain in ("insurance", "inventory"):
        demo.arrive(paths.project_dir() / "examples" / domain / day, paths.landing())
    if cli.main(["run"]):
        sys.exit("It failed.")
print("The end")
"""


def start(lake: Path, project: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {
        "TIDEMARK_LAKE": str(lake),
        "DBT_PROJECT_DIR": str(project),
        "TIDEMARK_LANDING": str(lake / "landing"),
    }
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment,
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def contents(lake: Path, project: Path, format: str) -> list[str]:
    """The rows of all tables, as text."""
    catalog = "iceberg." if format == "iceberg" else ""
    query = " union all ".join(
        f"select '{table}' as name, to_json(struct(rows.*)) as row from {place}{table} as rows"
        for place, tables in (("", LOGS), (catalog, TABLES))
        for table in tables
    )
    command = ("-m", "tidemark.cli", "sql", query, "--format", "json")
    output, _ = start(lake, project, *command).communicate()
    found = [json.loads(line) for line in output.splitlines() if line[:1] == "{"]
    assert {each["name"] for each in found} == {*LOGS, *TABLES}, output
    return sorted(f"{each['name']} {_compared(json.loads(each['row']))}" for each in found)


def _compared(row: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted((name, value) for name, value in row.items() if name not in OF_RUNS)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a run leaves that nothing disturbs, in Delta tables."""
    lake = tmp_path_factory.mktemp("undisturbed") / "lake"
    output, _ = start(lake, REPO, "-c", TWO_DAYS).communicate()
    assert output.endswith("The end\n"), output
    return contents(lake, REPO, "delta")


@pytest.mark.parametrize(
    ("format", "kills"), [("delta", 50), ("iceberg", 20), pytest.param("hudi", 10, marks=_ON_3_5)]
)
def test_runs_that_are_killed_at_any_point_end_right(
    tmp_path: Path, expected: list[str], format: str, kills: int
) -> None:
    project = project_of(format, tmp_path / "project")
    at = random.Random(os.environ.get("TIDEMARK_SEED", "7"))
    longest = float(os.environ.get("TIDEMARK_KILL_SECONDS", "60"))
    lakes, done = 1, 0
    while done < int(os.environ.get("TIDEMARK_KILLS", kills)):
        lake = tmp_path / str(lakes)
        process = start(lake, project, "-c", TWO_DAYS)
        try:
            output, _ = process.communicate(timeout=at.uniform(8, longest))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            done += 1
            print(f"kill {done}, lake {lakes}", flush=True)
        else:
            # It has come to its end in spite of all: the next one begins anew.
            assert output.endswith("The end\n"), output
            assert contents(lake, project, format) == expected, f"lake {lakes}, after {done} kills"
            print(f"lake {lakes} came to its end, and is right", flush=True)
            lakes += 1
    output, _ = start(tmp_path / str(lakes), project, "-c", TWO_DAYS).communicate()
    assert output.endswith("The end\n"), output
    assert contents(tmp_path / str(lakes), project, format) == expected
