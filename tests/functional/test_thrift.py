"""The target `thrift`: a real Thrift server with Spark Connect, reached by commands."""

import getpass
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests import environments, jaffle_shop
from tests.free_port import free_port
from tests.project import REPO, Project
from tests.thrift_server import PASSWORD, ThriftServer, running
from tidemark.spark import jars, processes, session, spark_line
from tidemark.spark.processes import PASSWORD_VARIABLE

pytestmark = pytest.mark.functional

COLUMNS = {"id": "int", "name": "string", "amount": "decimal(9, 2)"}
SEED = "id,text,big\n1,O'Brien,9007199254740993\n2,,2\n3,a \\ back ${slash} 100%,3\n"
MODELS = {
    # With ANSI, which Spark 4 has by default, this would fail.
    "models/marts/odd.sql": "select cast('abc' as int) as n, cast('2024-01-01' as timestamp) as t, "
    "'a \\\\ b' as b",
    # Its work is done in Spark's Python workers, with this package's code.
    "models/marts/people.py": (
        "from tidemark import dedup\n\n\n"
        "def model(dbt, session):\n"
        "    dbt.config(materialized='table')\n"
        "    found = dbt.ref('cur_remote__orders')\n"
        "    return dedup.group_similar(\n"
        "        found.selectExpr('id', 'name', '1 as place'), key='id', text='name',\n"
        "        within=['place'],\n"
        "    )\n"
    ),
    "snapshots/snap.sql": "{% snapshot snap %}\n"
    "{{ config(unique_key='id', strategy='check', check_cols='all', hard_deletes='new_record') }}\n"
    "select id, name from {{ ref('cur_remote__orders') }}\n{% endsnapshot %}\n",
    "models/marts/_marts.yml": "models:\n  - name: odd\n    description: Odd values\n"
    "    columns:\n      - name: n\n        description: It's no number\n"
    "        data_tests: [{unique: {config: {where: n is not null}}}]\n"
    "    config: {persist_docs: {relation: true, columns: true}}\n",
}
# By table: the columns, and their texts, as an embedded Spark has them, too.
EXPECTED: dict[str, tuple[str, list[tuple[str | None, ...]]]] = {
    "log_remote.orders": (
        "_op, _position, id, name, amount, cast(_changed_at as string)",
        [
            ("D", "3", "2", None, None, "2024-01-02 10:00:00"),
            ("I", "4", "4", "one.", "4.00", "2024-01-02 10:00:00"),
            ("R", "1", "1", "one", "1.00", "2024-01-01 00:00:00"),
            ("R", "2", "2", "two", "2.00", "2024-01-01 00:00:00"),
            ("R", "3", "3", "three", "3.00", "2024-01-01 00:00:00"),
            ("U", "1", "1", "uno", "1.00", "2024-01-02 10:00:00"),
            ("U", "2", "1", "eins", "1.50", "2024-01-02 10:00:00"),
        ],
    ),
    "current.cur_remote__orders": (
        "id, name, cast(amount as string)",
        [("1", "eins", "1.50"), ("3", "three", "3.00"), ("4", "one.", "4.00")],
    ),
    "history.hist_remote__orders": (
        "id, version_number, name, cast(valid_from as string), cast(valid_to as string), "
        "is_current",
        [
            ("1", "1", "one", "2024-01-01 00:00:00", "2024-01-02 10:00:00", "False"),
            ("1", "2", "eins", "2024-01-02 10:00:00", None, "True"),
            ("2", "1", "two", "2024-01-01 00:00:00", "2024-01-02 10:00:00", "False"),
            ("3", "1", "three", "2024-01-01 00:00:00", None, "True"),
            ("4", "1", "one.", "2024-01-02 10:00:00", None, "True"),
        ],
    ),
    "seeds.words": (
        "id, text, big",
        [
            ("1", "O'Brien", "9007199254740993"),
            ("2", None, "2"),
            ("3", "a \\ back ${slash} 100%", "3"),
        ],
    ),
    "marts.odd": ("n, cast(t as string), b", [(None, "2024-01-01 00:00:00", "a \\ b")]),
    "marts.people": (
        "id, group_key, similarity",
        [("1", "1", "1.0"), ("3", "3", "1.0"), ("4", "4", "1.0")],
    ),
    "tidemark.dead_letter where source_name = 'remote'": (
        "position, column, value, reason",
        [("5", "amount", "a lot", "not a decimal(9, 2)")],
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThriftServer]:
    with running(tmp_path_factory.mktemp("lake")) as found:
        yield found


@pytest.fixture(scope="module")
def shop(module_project: Callable[[], Project]) -> Project:
    project = module_project()
    project.add("remote.orders", COLUMNS, "id", loaded_at="2024-01-01")
    for path, text in {**MODELS, "seeds/words.csv": SEED}.items():
        project.write(path, text)
    return project


def test_the_same_tables_come_of_the_same_files(shop: Project, server: ThriftServer) -> None:
    load = "1,one,1.00\n2,two,2.00\n3,three,3.00\n"
    day_2 = "U,1,uno,1.00\nU,1,eins,1.50\nD,2,,\nI,4,one.,4.00\nU,3,three,a lot\n"
    shop.land("remote/orders/LOAD00000001.csv", load)
    told = server.dbt(shop, "build")
    assert "Landed 3 rows from 1 file" in told
    shop.land("remote/orders/20240102-100000000.csv", day_2)
    told = server.tidemark(shop, "run")
    assert "Landed 4 rows from 1 file. 1 row went to tidemark.dead_letter." in told
    for relation, (columns, expected) in EXPECTED.items():
        query = f"select {columns} from {relation} order by 1, 2, 3"
        assert [tuple(map(_plain, row)) for row in server.rows(query)] == expected, relation

    snapshot = "select id, name, dbt_valid_to is null, dbt_is_deleted from snapshots.snap"
    assert sorted(server.rows(snapshot)) == [
        (1, "eins", True, "False"),
        (1, "one", False, "False"),
        (2, "two", False, "False"),
        (2, "two", True, "True"),
        (3, "three", True, "False"),
        (4, "one.", True, "False"),
    ]

    assert ("n", "int", "It's no number") in server.rows("describe marts.odd")


def _plain(value: object) -> object:
    return str(value) if value is not None else None


@pytest.mark.slow
def test_tidemark_in_a_project_that_exists(server: ThriftServer, tmp_path: Path) -> None:
    """As on the embedded Spark in test_wheel.py, which also looks at what `init` writes."""
    theirs = jaffle_shop.copied_to(tmp_path / "jaffle_shop")
    theirs.land_people(jaffle_shop.PEOPLE)
    for command in ("init --into . --yes", "add club.people --key id"):
        done = server.command("tidemark", *command.split(), project=theirs)
        assert done.returncode == 0, done.stdout
    assert "Landed 2 rows from 1 file." in server.dbt(theirs, "build")

    def rows(relation: str, columns: str) -> list[tuple[str, ...]]:
        found = server.rows(f"select {columns} from {relation}")
        return [tuple(map(str, row)) for row in found]

    jaffle_shop.require_first_build(rows)


@pytest.mark.slow
def test_the_documentation_and_queries_read_the_tables(shop: Project, server: ThriftServer) -> None:
    assert "Nothing to build" in server.tidemark(shop, "run")
    server.dbt(shop, "docs", "generate")
    catalog = (shop.folder / "target" / "catalog.json").read_text()
    assert "model.showcase.people" in catalog
    printed = server.tidemark(shop, "sql", "select id, name from current.cur_remote__orders")
    assert "eins" in printed


def _settings_of_another_spark(server: ThriftServer) -> dict[str, str]:
    """For a Spark with Delta on the server's metastore."""
    class_path = os.pathsep.join(
        map(str, jars.installed_jars([spark_line.lock_folder() / "jars.lock"]))
    )
    return {
        "spark.hadoop.hive.metastore.uris": f"thrift://localhost:{server.ports.metastore}",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(server.lake / "warehouse"),
        "spark.driver.extraClassPath": class_path,
        "spark.executor.extraClassPath": class_path,
        "spark.sql.shuffle.partitions": "2",
    }


@pytest.mark.slow
@pytest.mark.parametrize(("method", "hour"), [("thrift", 12), ("session", 13)])
def test_stock_dbt_spark_builds_on_a_log_and_warns_once(
    shop: Project, server: ThriftServer, tmp_path: Path, method: str, hour: int
) -> None:
    stock = environments.without_tidemark(tmp_path / "stock")
    shop.land(f"remote/orders/20240102-{hour}0000000.csv", f"U,1,{method},1.00\nD,3,,\n")
    server.tidemark(shop, "land")
    profile: dict[str, object] = {"type": "spark", "method": method, "schema": "default"}
    if method == "thrift":
        profile |= {"host": "localhost", "port": server.ports.thrift, "user": "tidemark"}
        profile |= {"auth": "CUSTOM", "password": PASSWORD}
    else:
        # What the plugin would set, and the profile of such a project has to.
        local = {"spark.master": "local[2]", "spark.ui.enabled": "false"}
        settings = session.ESSENTIAL | _settings_of_another_spark(server) | local
        profile |= {"host": "NA", "server_side_parameters": settings}
    outputs = {"stock": {**profile, "threads": 2}}
    (tmp_path / "profiles.yml").write_text(
        yaml.safe_dump({"tidemark": {"target": "stock", "outputs": outputs}})
    )
    told = stock.must(
        *("dbt", "run", "--select", "+cur_remote__orders", "hist_remote__orders"),
        *("--profiles-dir", str(tmp_path), "--target-path", str(tmp_path / "target")),
        cwd=shop.folder,
        SPARK_LOCAL_IP="127.0.0.1",
    )
    assert told.count("dbt runs without Tidemark's Python package") == 1, told
    rows = server.rows("select id, name from current.cur_remote__orders order by id")
    assert rows == [(1, method), (4, "one.")]
    query = "select id, name from history.hist_remote__orders where is_current order by id"
    assert server.rows(query) == rows


@pytest.mark.slow
def test_of_two_runs_at_once_one_waits(shop: Project, server: ThriftServer) -> None:
    shop.land("remote/orders/20240103-100000000.csv", "I,10,ten,10.00\n")
    runs = [server.begin("tidemark", "run", "--target", "thrift", project=shop)]
    runs.append(
        server.begin("dbt", "build", "--target", "thrift", project=shop, DBT_TARGET_PATH="t2")
    )
    while server.rows("select until > now() from tidemark.lease") != [(True,)]:
        time.sleep(0.1)
    third = server.command(
        "tidemark", "run", "--target", "thrift", project=shop, TIDEMARK_WAIT_SECONDS="0"
    )
    told = [run.communicate(timeout=600)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], told
    waited = [text for text in told if f"Waiting for {getpass.getuser()}@" in text]
    assert len(waited) == 1, told
    assert sorted("Landed 1 row from 1 file" in text for text in told) == [False, True], told
    assert server.rows("select count(*) from log_remote.orders where id = '10'") == [(1,)]
    assert third.returncode == 1
    assert f"tidemark: The lake is in use by {getpass.getuser()}@" in third.stdout
    assert any(f"process {run.pid} (" in third.stdout for run in runs), third.stdout
    # Nothing is landed or built twice, whoever asks.
    before = server.rows("describe history current.cur_remote__orders")
    server.dbt(shop, "build")
    assert server.rows("describe history current.cur_remote__orders") == before


@pytest.mark.slow
def test_a_job_of_spark_submit_lands(shop: Project, server: ThriftServer) -> None:
    shop.land("remote/orders/20240103-110000000.csv", "I,11,eleven,11.00\n")
    settings = _settings_of_another_spark(server)
    command = [f"{processes.spark_home()}/bin/spark-submit", "--master", "local[2]"]
    command += [part for name in settings for part in ("--conf", f"{name}={settings[name]}")]
    command += [
        str(REPO / "python" / "tidemark_job.py"),
        "--project",
        str(shop.folder),
        "--command",
        "land",
    ]
    environment = server.environment | {"TIDEMARK_LANDING": str(shop.landing)}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    # A job has a folder for its own log; nothing else of a lake.
    environment["TIDEMARK_LAKE"] = str(shop.folder / "job")
    done = subprocess.run(
        command, cwd="/", env=environment, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Landed 1 row from 1 file" in done.stdout
    own = sorted(file.name for file in (shop.folder / "job").iterdir())
    assert own == ["project.json", "tidemark.log"]
    query = "select count(*) from {} where cast(id as int) = 11"
    assert server.rows(query.format("log_remote.orders")) == [(1,)]
    assert server.rows(query.format("current.cur_remote__orders")) == [(0,)]
    assert "No new files" in server.tidemark(shop, "run")
    assert server.rows(query.format("current.cur_remote__orders")) == [(1,)]


@pytest.mark.slow
def test_what_is_wrong_is_said_in_a_sentence(shop: Project, server: ThriftServer) -> None:
    nowhere = str(free_port())
    token = "TIDEMARK_CONNECT must have the form sc://host:15002"
    cases: list[tuple[str, dict[str, str], list[str]]] = [
        (
            "dbt build",
            {"TIDEMARK_THRIFT_PORT": nowhere},
            [f"The Thrift server at localhost:{nowhere} does not respond. Start it"],
        ),
        (
            "dbt build",
            {PASSWORD_VARIABLE: "wrong"},
            ["refused the user tidemark. Check TIDEMARK_THRIFT_USER"],
        ),
        ("dbt build", {"TIDEMARK_THRIFT_AUTH": "NONE"}, ["refused the user tidemark"]),
        ("dbt build", {PASSWORD_VARIABLE: ""}, [f"Set {PASSWORD_VARIABLE}"]),
        (
            "tidemark run",
            {"TIDEMARK_CONNECT": f"sc://localhost:{nowhere}"},
            [f"Spark Connect does not respond at localhost:{nowhere}"],
        ),
        ("tidemark run", {PASSWORD_VARIABLE: "no"}, ["Spark Connect at localhost"]),
        ("tidemark run", {"TIDEMARK_CONNECT": "x:1/;token=s3cret"}, [token]),
        ("tidemark run", {"TIDEMARK_CONNECT": "sc://localhost:15002;token=s3cret"}, [token]),
        (
            "tidemark run",
            {"TIDEMARK_CONNECT": ""},
            ["TIDEMARK_CONNECT is not set. Set it to the URL of Spark Connect"],
        ),
        # Without Connect a Thrift server still builds; what needs Python there says so.
        (
            "dbt build",
            {"TIDEMARK_CONNECT": ""},
            [
                "No files are landed, because TIDEMARK_CONNECT is not set.",
                "models/marts/people.py: TIDEMARK_CONNECT is not set",
            ],
        ),
    ]

    def failed(number: int) -> str:
        command, variables, _ = cases[number]
        variables = {"DBT_TARGET_PATH": f"t_wrong_{number}", **variables}
        options = (*command.split(), "--target", "thrift")
        done = server.command(*options, project=shop, **variables)
        assert done.returncode != 0, done.stdout
        return " ".join(done.stdout.split())

    # Two at once: most of the time is the start of Python and dbt.
    with ThreadPoolExecutor(2) as side_by_side:
        printed = list(side_by_side.map(failed, range(len(cases))))
    for (_, _, wanted), told in zip(cases, printed, strict=True):
        assert all(sentence in told for sentence in wanted), told
        assert "Traceback" not in told and "s3cret" not in told, told
    done = server.command("tidemark", "sql", "select 1", "--target", "nowhere", project=shop)
    assert "has no target nowhere: use one of embedded, thrift" in done.stdout


def test_while_a_server_has_the_lake_an_embedded_spark_waits(server: ThriftServer) -> None:
    done = server.command("tidemark", "sql", "select 1", TIDEMARK_WAIT_SECONDS="0")
    assert done.returncode == 1
    assert f"The lake {server.lake} is in use by process " in done.stdout
    assert "(`tidemark thrift start`, since " in done.stdout
    assert "The server is already running." in server.start().stdout
    assert server.command("tidemark", "thrift", "status").returncode == 0


def test_the_password_is_written_nowhere(shop: Project, server: ThriftServer) -> None:
    for folder in (server.lake / "server", shop.folder / "target", shop.folder / "logs"):
        files = [file for file in folder.rglob("*") if file.is_file()]
        assert files
        for file in files:
            assert PASSWORD.encode() not in file.read_bytes(), file
    assert PASSWORD not in (server.lake / "tidemark.log").read_text()
    assert (server.lake / "server" / "password").stat().st_mode & 0o077 == 0
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        assert PASSWORD not in command.read_text(errors="replace")


@pytest.mark.slow
def test_a_lost_server_is_told_and_made_good(shop: Project, server: ThriftServer) -> None:
    shop.land("remote/orders/20240104-100000000.csv", "I,20,twenty,20.00\nD,10,,\n")
    run = server.begin("tidemark", "run", "--target", "thrift", project=shop)
    while server.rows("select count(*) from log_remote.orders where id = '20'") == [(0,)]:
        time.sleep(0.1)
    state = (server.lake / "server" / "server.json").read_text()
    spark = int(state.split('"spark": ')[1].split("}")[0])
    # In the midst of dbt's merges.
    time.sleep(3)
    os.kill(spark, signal.SIGKILL)
    told = run.communicate(timeout=600)[0]
    assert run.returncode == 1, told
    assert "Traceback" not in told.split("tidemark: ")[-1]
    status = server.command("tidemark", "thrift", "status")
    assert status.returncode == 3
    assert "The server's process spark has ended" in status.stdout
    assert server.start().returncode == 0
    told = server.tidemark(shop, "run")
    # An earlier test has deleted key 3.
    ids = "select array_join(array_sort(collect_list(cast(id as string))), ' ') from "
    assert server.rows(f"{ids} current.cur_remote__orders where id <> 11") == [("1 20 4",)]
    assert server.rows(f"{ids} history.hist_remote__orders where is_current and id <> 11") == [
        ("1 20 4",)
    ]
    assert server.rows("select count(*) from log_remote.orders where id in ('20', '10')") == [(3,)]


@pytest.mark.slow
def test_servers_that_cannot_work_say_why(server: ThriftServer, tmp_path: Path) -> None:
    other = ThriftServer(tmp_path / "lake", server.ports)
    told = other.start().stdout
    assert (
        f"Port {server.ports.thrift} is in use by another program. Set another with --port." in told
    )
    done = other.command("tidemark", "thrift", "start", DBT_ENV_SECRET_TIDEMARK_PASSWORD="")
    assert f"The server requires a password. Set {PASSWORD_VARIABLE}" in done.stdout
    assert "No server is running" in other.command("tidemark", "thrift", "stop").stdout


@pytest.mark.slow
def test_a_metastore_of_another_version_and_a_spark_without_delta(tmp_path: Path) -> None:
    with running(
        tmp_path / "lake",
        ["--conf", "spark.driver.extraClassPath=/nowhere"],
    ) as bare:
        done = bare.command("tidemark", "run", "--target", "thrift")
        assert "This Spark has no Delta Lake. Add the jars of jars.lock" in done.stdout, done.stdout
    script = tmp_path / "script.sql"
    script.write_text(
        f"connect 'jdbc:derby:{tmp_path}/lake/metastore';\n"
        "insert into app.version values (1, '1.2.0', 'of a test');\n"
    )
    classes = f"{processes.spark_home()}/jars/*"
    command = [jars.require_java(), "-cp", classes, "org.apache.derby.tools.ij", str(script)]
    assert "1 row inserted/updated/deleted" in subprocess.check_output(command, text=True)
    other = ThriftServer(tmp_path / "lake", bare.ports)
    told = other.start().stdout
    assert "has the schema of Hive 1.2.0, but this Spark has Hive 2.3.0" in told
