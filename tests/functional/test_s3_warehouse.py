"""Files and tables on S3, as a person has them: the command, a real server, variables alone."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import s3_server
from tests.functional.test_table_formats import use_iceberg, values
from tests.project import REPO, Project

pytestmark = pytest.mark.functional

# Everything but what differs from run to run: loads, and the times of them.
EVERY_ROW = """
import json, sys
from tidemark.spark import session
spark = session.get()
for schema in sorted(row[0] for row in spark.sql("show schemas").collect()):
    if not schema.startswith(("log_", "current", "history", "marts", "tidemark")):
        continue
    for table in sorted(row.tableName for row in spark.sql(f"show tables in `{schema}`").collect()):
        rows = spark.table(f"`{schema}`.`{table}`")
        of_runs = ("_order", "_load_id", "_landed_at", "_file_at", "load_id", "run_id", "at")
        of_runs = (*of_runs, "modified", "file_at", "seconds", "project")
        rows = rows.drop(*of_runs)
        print(json.dumps([f"{schema}.{table}", sorted(rows.toJSON().collect())]))
"""

# Another process has the tables in test_the_demo_on_s3.
RUNS_AND_UPKEEP = """
import json, time
from tidemark import cli, s3
assert cli.main(["run"]) == 0
with s3.client().open_output_stream("PATH") as file:
    file.write(b"CONTENT")
assert cli.main(["run"]) == 0
from tidemark.spark import session
spark, table = session.get(), "`history`.hist_s3shop__t"
rows = [[*row] for row in spark.sql(f"select id, name, is_current from {table}").collect()]
start = time.monotonic()
spark.sql(f"optimize {table}").collect()
spark.sql(f"vacuum {table}").collect()
seconds = time.monotonic() - start
s3.client().get_file_info("lake/club/idle")
assert cli.main(["run"]) == 0
print(json.dumps(sorted(rows)))
print(seconds)
"""

LEFT_BEHIND = """
from tidemark.spark import session
spark = session.get()
spark.sql("create schema s3left")
place = spark.sql("describe schema s3left").where("info_name = 'Location'").first()[1]
# Killed between the first commit and the catalog.
spark.sql(f"create table delta.`{place}/empty` (id int) using delta")
session.create_table(spark, "s3left.empty", "id int, name string", "partitioned by (id)")
assert spark.table("s3left.empty").columns == ["id", "name"]
spark.sql("insert into s3left.empty values (1, 'a')")
# A table that the catalog has lost.
spark.range(3).write.format("delta").save(f"{place}/full")
try:
    session.create_table(spark, "s3left.full", "id bigint", "")
except Exception as error:
    print(place, session.readable(error))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[s3_server.S3Server]:
    with s3_server.running() as found:
        found.put("lake/other/x", "")
        yield found


def on_s3(server: s3_server.S3Server, lake: Path) -> dict[str, str]:
    """The variables of a lake whose files and tables are on S3, in folders of its name."""
    return {
        "TIDEMARK_LAKE": str(lake),
        "TIDEMARK_LANDING": f"s3a://lake/{lake.name}/landing",
        "TIDEMARK_WAREHOUSE": f"s3a://lake/{lake.name}/tables",
        "AWS_ENDPOINT_URL": f"http://{server.address}",
        "AWS_ACCESS_KEY_ID": s3_server.KEY,
        "AWS_SECRET_ACCESS_KEY": s3_server.SECRET,
    }


def python(
    variables: Mapping[str, str], *arguments: str, project: Path = REPO
) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, with these variables of Tidemark's and AWS's alone."""
    others = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TIDEMARK_L", "TIDEMARK_WAREHOUSE", "AWS_"))
    }
    mine = {"DBT_PROJECT_DIR": str(project), "DBT_PROFILES_DIR": str(REPO / "profiles")}
    return subprocess.run(
        [sys.executable, *arguments],
        env={**others, **mine, **variables},
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


def tidemark(
    variables: Mapping[str, str], *arguments: str, project: Path = REPO
) -> subprocess.CompletedProcess[str]:
    return python(variables, "-m", "tidemark.cli", *arguments, project=project)


def everything(variables: Mapping[str, str]) -> dict[str, Any]:
    result = python(variables, "-c", EVERY_ROW)
    assert result.returncode == 0, result.stderr
    return dict(json.loads(line) for line in result.stdout.splitlines())


def texts_below(folder: Path) -> Iterator[tuple[Path, str]]:
    for file in folder.rglob("*"):
        if file.is_file():
            yield file, file.read_text(errors="replace")


def test_a_project_lives_on_s3(
    project: Project, server: s3_server.S3Server, tmp_path: Path
) -> None:
    columns = {"id": "int", "name": "string"}
    project.add("s3shop.t", columns, "id", loaded_at="2023-01-01 00:00:00")
    # Fewer tables, fewer seconds.
    (project.folder / "models/current/s3shop/cur_s3shop__t.sql").unlink()
    variables = on_s3(server, tmp_path / "club")
    server.put("lake/club/landing/s3shop/t/LOAD00000001.csv", "1,a\n2,b\n")
    path = "lake/club/landing/s3shop/t/20240101-100000000.csv"
    script = RUNS_AND_UPKEEP.replace("PATH", path).replace("CONTENT", r"D,1,a\nU,2,c\n")
    done = python(variables, "-c", script, project=project.folder)
    assert (done.returncode, done.stdout.count("Landed 2 rows from 1 file.")) == (0, 2), done
    assert [*(tmp_path / "club").glob("warehouse*")] == []
    *_, rows, seconds = done.stdout.splitlines()
    assert json.loads(rows) == [[1, "a", False], [2, "b", False], [2, "c", True]]
    # Ten thousand tasks, one for each of Spark's usual listing, would take many minutes.
    assert float(seconds) < 60

    assert done.stdout.count("Nothing to build: every table is up to date.") == 1, done
    requests = server.requests()
    (begin,) = (
        n for n, request in enumerate(requests) if request.startswith("HEAD /lake/club/idle")
    )
    assert len(requests) > begin + 10
    assert {request.split()[0] for request in requests[begin:]} == {"HEAD", "GET"}

    for file, text in [*texts_below(tmp_path / "club"), *texts_below(project.folder / "target")]:
        assert s3_server.SECRET not in text, file
    assert s3_server.SECRET not in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        pytest.param(
            {"AWS_SECRET_ACCESS_KEY": "not-the-secret"},
            "the credentials are wrong: check AWS_ACCESS",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"AWS_ACCESS_KEY_ID": "nobody"},
            "the credentials are wrong: check AWS_ACCESS_KEY_ID",
            marks=pytest.mark.slow,
        ),
        ({"TIDEMARK_WAREHOUSE": "s3a://nowhere/tables"}, "the bucket does not exist."),
        pytest.param(
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
            "the store does not respond: check AWS_ENDPOINT_URL",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["secret", "key", "bucket", "endpoint"],
)
def test_what_is_wrong_is_said_in_a_sentence(
    server: s3_server.S3Server, tmp_path: Path, wrong: Mapping[str, str], sentence: str
) -> None:
    variables = {**on_s3(server, tmp_path / "wrong"), **wrong}
    result = tidemark(variables, "sql", "select 1")
    place = variables["TIDEMARK_WAREHOUSE"]
    assert result.returncode == 1
    assert result.stderr.startswith(
        f"tidemark: The warehouse {place} cannot be reached: {sentence}"
    )
    assert len(result.stderr.splitlines()) == 1
    secret = variables["AWS_SECRET_ACCESS_KEY"]
    for file, text in texts_below(tmp_path / "wrong"):
        assert secret not in text, file
    assert secret not in result.stdout + result.stderr


@pytest.mark.slow
def test_a_run_with_local_files_says_it_too(server: s3_server.S3Server, tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    variables = {
        **on_s3(server, tmp_path / "wrong"),
        "TIDEMARK_WAREHOUSE": "s3a://nowhere/tables",
        "TIDEMARK_LANDING": str(tmp_path / "landing"),
    }
    result = tidemark(variables, "run")
    assert result.returncode == 1
    sentence = "The warehouse s3a://nowhere/tables cannot be reached: the bucket does not exist."
    assert result.stderr == f"tidemark: {sentence}\n"


@pytest.mark.slow
def test_what_a_killed_creation_left_on_s3_is_no_obstacle(
    server: s3_server.S3Server, tmp_path: Path
) -> None:
    variables = on_s3(server, tmp_path / "left")
    result = python(variables, "-c", LEFT_BEHIND)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("s3a://lake/left/tables/s3left.db ")
    assert "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("lake", ["delta", "iceberg"])
def test_iceberg_tables_are_on_s3(
    project: Project, server: s3_server.S3Server, tmp_path: Path, lake: str
) -> None:
    use_iceberg(project, deletion_vectors_from=1)
    project.add("s3ice.people", {"id": "int", "name": "string"}, "id")
    project.tag_subject("s3ice.people", "member")
    name = f"ice_{lake}"
    variables = {**on_s3(server, tmp_path / name), "TIDEMARK_FORMAT": lake}

    def told(*arguments: str) -> str:
        done = tidemark(variables, *arguments, project=project.folder)
        assert done.returncode == 0, done
        return done.stdout

    table = "iceberg.current.cur_s3ice__people"
    if lake == "iceberg":
        table = table.removeprefix("iceberg.")
    rows = ("sql", f"select id, name from {table} order by id", "--format", "json")
    for day, content in enumerate(("I,1,a\nI,2,Zebulon\nI,3,c\n", "U,1,aa\nD,3,\n"), 1):
        server.put(f"lake/{name}/landing/s3ice/people/2024010{day}-100000000.csv", content)
        told("run")
    expected = [{"id": 1, "name": "aa"}, {"id": 2, "name": "Zebulon"}]
    assert [json.loads(line) for line in told(*rows).splitlines()] == expected
    assert "Nothing to build" in told("run")
    assert table in told("maintain", "cur_s3ice__people", "--vacuum-after", "1 second", "--force")

    # As a metastore that has lost it: a build would begin it anew, and a snapshot its history.
    told("sql", f"drop table {table}")
    lost = tidemark(variables, "run", "--all", project=project.folder)
    assert lost.returncode == 1
    assert "has a table in Iceberg's format that the catalog does not have" in lost.stdout
    assert f"{table} is registered." in told("register")
    told("run", "--all")
    assert [json.loads(line) for line in told(*rows).splitlines()] == expected

    told("erase", "member", "--key", "2")
    assert [json.loads(line) for line in told(*rows).splitlines()] == expected[:1]
    server.copy(f"lake/{name}", tmp_path / "copy")
    assert values(tmp_path / "copy/tables/current.db", "aa")
    assert not values(tmp_path / "copy", "Zebulon")
    assert bool([*tmp_path.glob("copy/**/_delta_log")]) == (lake == "delta")


@pytest.mark.slow
def test_the_demo_on_s3_gives_the_tables_of_a_local_one(
    server: s3_server.S3Server, tmp_path: Path
) -> None:
    local, remote = {"TIDEMARK_LAKE": str(tmp_path / "local")}, on_s3(server, tmp_path / "demo")
    for variables in (local, remote):
        result = tidemark(variables, "demo")
        assert (result.returncode, "Where to look next" in result.stdout) == (0, True), result
    found = everything(remote)
    assert len(found) > 20
    assert found == everything(local)

    before = len(server.requests())
    again = tidemark(remote, "demo")
    assert "No new files arrived." in again.stdout
    assert "Nothing to build: every table is up to date." in again.stdout
    assert {request.split()[0] for request in server.requests()[before:]} <= {"HEAD", "GET"}
