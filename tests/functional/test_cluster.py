"""A real cluster: Spark's own master and two workers, as processes of this machine."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests import thrift_server
from tests.free_port import free_port
from tests.project import REPO
from tidemark.spark import processes

pytestmark = [pytest.mark.functional, pytest.mark.slow]


@dataclass(frozen=True)
class Cluster:
    master: str
    workers: list[subprocess.Popen[bytes]]


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    port = free_port()
    environment = {
        **os.environ,
        "SPARK_HOME": processes.spark_home(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
        "TZ": "UTC",
    }

    def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [f"{processes.spark_home()}/bin/spark-class", *arguments]
        with (folder / f"{name}.log").open("w") as log:
            return subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)

    deploy = "org.apache.spark.deploy"
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    started = [start("master", f"{deploy}.master.Master", *here, "--port", str(port))]
    try:
        while not processes.answers("127.0.0.1", port):
            assert started[0].poll() is None, (folder / "master.log").read_text()
            time.sleep(0.2)
        for name in ("worker-1", "worker-2"):
            size = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / name)]
            url = f"spark://127.0.0.1:{port}"
            started.append(start(name, f"{deploy}.worker.Worker", *here, *size, url))
        yield Cluster(f"spark://127.0.0.1:{port}", started[1:])
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def tables(spark: SparkSession, lake: Path) -> dict[str, DataFrame]:
    """What a lake says of the sources, by table."""
    found = {}
    for schema in ("current", "history", "marts"):
        for folder in sorted((lake / "warehouse" / f"{schema}.db").iterdir()):
            table = spark.read.format("delta").load(str(folder))
            own = [name for name in table.columns if not name.startswith("_")]
            found[f"{schema}.{folder.name}"] = table.select(*own)
    return found


def test_a_whole_database_replicates_though_a_worker_dies(
    spark: SparkSession, tmp_path: Path
) -> None:
    environment = {**os.environ, "TIDEMARK_LAKE": str(tmp_path / "embedded")}
    environment.pop("TIDEMARK_LANDING", None)
    tidemark = Path(sys.executable).with_name("tidemark")
    subprocess.run(
        [tidemark, "demo", "ticketing"],
        cwd=REPO,
        env={**environment, "DBT_TARGET_PATH": str(tmp_path / "target-1")},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    with cluster(tmp_path) as machines:
        settings = {
            "spark.executor.memory": "700m",
            "spark.executor.cores": "1",
            "spark.executorEnv.TZ": "UTC",
        }
        more = [part for name in settings for part in ("--conf", f"{name}={settings[name]}")]
        lake = tmp_path / "cluster"
        with thrift_server.running(lake, ["--master", machines.master, *more]) as server:
            target = str(tmp_path / "target-2")
            run = server.begin(
                "tidemark", "demo", "ticketing", "--target", "thrift", DBT_TARGET_PATH=target
            )
            # Reads of day one's files have begun; both workers have an executor by then.
            while not list(lake.glob("warehouse/log_ticketing.db/*/_delta_log/*1.json")):
                assert run.poll() is None
                time.sleep(0.2)
            machines.workers[0].send_signal(signal.SIGKILL)
            told, _ = run.communicate(timeout=1800)
            assert run.returncode == 0, told
            lost = (lake / "server" / "spark.log").read_text()
            assert "Lost executor" in lost
    expected, found = tables(spark, tmp_path / "embedded"), tables(spark, lake)
    assert found.keys() == expected.keys() and len(found) > 18
    for name, table in expected.items():
        assert table.count() == found[name].count(), name
        assert table.exceptAll(found[name]).isEmpty(), name
