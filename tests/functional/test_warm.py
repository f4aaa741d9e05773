"""`tidemark up`: the commands as people type them, each in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.project import Project
from tidemark.spark import spark_line

pytestmark = [
    pytest.mark.functional,
    pytest.mark.slow,
    pytest.mark.skipif(spark_line.name() != "4.1", reason="PySpark 3.5 has no Connect server"),
]
Begin = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def begin(project: Project, tmp_path: Path) -> Iterator[Begin]:
    environment = {
        **os.environ,
        "TIDEMARK_LAKE": str(tmp_path / "lake"),
        "TIDEMARK_LANDING": str(project.landing),
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    }

    def started(program: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [Path(sys.executable).with_name(program), *arguments],
            cwd=project.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    yield started
    started("tidemark", "down").communicate()


def put(project: Project, day: int, row: str) -> None:
    project.land(f"club/people/2024010{day}-100000000.csv", f"{row}\n")


def test_commands_use_a_warm_spark_and_survive_its_end(
    project: Project, begin: Begin, tmp_path: Path
) -> None:
    server = tmp_path / "lake" / "server"

    def tell(program: str, *arguments: str) -> str:
        output, _ = begin(program, *arguments).communicate(timeout=300)
        return output

    def names() -> list[str]:
        query = "select name from current.cur_club__people order by id"
        return tell("tidemark", "sql", query, "--format", "csv").splitlines()

    def process() -> int:
        return int(json.loads((server / "server.json").read_text())["processes"]["spark"])

    project.add("club.people", {"id": "int", "name": "string"}, "id")
    put(project, 1, "I,1,Ada\nI,2,Grace")
    assert "Spark is up." in tell("tidemark", "up")
    assert "Spark is already up." in tell("tidemark", "up")
    first = process()

    # Both land and build; one waits for the other.
    runs = [begin("tidemark", "run"), begin("tidemark", "run")]
    told = [run.communicate(timeout=300)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], told
    assert sum("Waiting for process" in each for each in told) == 1, told
    assert sum("Landed 2 rows" in each for each in told) == 1, told
    # A bad row is read by a Python worker of Spark.
    put(project, 2, "U,2,Grace H.\nD,1,\nI,x,Bad")
    assert "Completed successfully" in tell("dbt", "build")
    assert names() == ["name", "Grace H."]
    assert process() == first
    # The error, without PySpark's line of JSON.
    wrong = tell("tidemark", "sql", "select * from nowhere")
    assert wrong.startswith("tidemark: [TABLE_OR_VIEW_NOT_FOUND]"), wrong

    # Sessions share the class loader, and so the code that Spark has generated and compiled.
    code = "java_method('org.apache.spark.util.Utils', 'getContextOrSparkClassLoader')"
    loaders = [tell("tidemark", "sql", f"select {code} from range(1)") for _ in range(2)]
    assert "ClassLoader@" in loaders[0]
    assert loaders[0] == loaders[1]

    # Only this user has the token.
    port = json.loads((server / "server.json").read_text())["ports"]["connect"]
    assert (server / "token").stat().st_mode & 0o777 == 0o600
    for token in ("", "/;token=wrong;use_ssl=false"):
        connect = f"SparkSession.builder.remote('sc://localhost:{port}{token}').create()"
        code = f"from pyspark.sql import SparkSession; {connect}.sql('select 1').collect()"
        refused = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert "UNAUTHENTICATED" in refused.stderr, refused.stderr

    # A killed command may have left a statement in Spark, which must not write later.
    put(project, 3, "I,3,Alan")
    killed = begin("tidemark", "run")
    assert killed.stdout
    while "Building" not in killed.stdout.readline():
        assert killed.poll() is None
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert "(`tidemark run`, since" in (again := tell("tidemark", "run"))
    assert "was killed" in again
    assert "tidemark up" in again
    assert not (server / "server.json").exists(), again
    assert names() == ["name", "Grace H.", "Alan"]

    # A Spark that was killed is not missed.
    assert "Spark is up." in tell("tidemark", "up")
    os.kill(process(), signal.SIGKILL)
    put(project, 4, "I,4,Edith")
    assert "Landed 1 row" in tell("tidemark", "run")
    assert names() == ["name", "Grace H.", "Alan", "Edith"]
    assert "Spark is not up" in tell("tidemark", "down")
    assert "Spark is up." in tell("tidemark", "up")
    assert tell("tidemark", "down") == "Stopped.\n"
    assert tell("tidemark", "run").endswith("is up to date.\n")


def test_watch_runs_when_files_arrive_and_ends_when_asked(project: Project, begin: Begin) -> None:
    project.add("club.people", {"id": "int", "name": "string"}, "id", max_rejected_share=0)
    put(project, 1, "I,1,Ada")
    watch = begin("tidemark", "watch")
    assert watch.stdout
    lines: list[str] = []
    at_last = threading.Timer(240, watch.kill)
    at_last.start()

    def until(text: str) -> str:
        for line in watch.stdout or ():
            lines.append(line)
            if text in line:
                return line
        raise AssertionError("".join(lines))

    try:
        until("Watching")
        until("3 models built")
        # Not before the file has stayed as it is.
        file = project.land("club/people/20240102-100000000.csv", "I,2,Gra")
        file.write_text("I,2,Grace\nx,3,\n")
        until("1 of 1 tables failed")
        file.write_text("I,2,Grace\nI,3,Joan\n")
        until("3 models built")
        query = ["tidemark", "sql", "select name from current.cur_club__people order by id"]
        told, _ = begin(*query, "--format", "csv").communicate(timeout=300)
        assert told.splitlines() == ["name", "Ada", "Grace", "Joan"]
        assert "Landed 1 row" in "".join(lines)
        assert sum(line.startswith("Run ") for line in lines) == 3, lines
    finally:
        at_last.cancel()
        watch.send_signal(signal.SIGTERM)
        rest, _ = watch.communicate(timeout=300)
    assert watch.returncode == 0
    assert "Stopped watching. Spark is still up" in rest
