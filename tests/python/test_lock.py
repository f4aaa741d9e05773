"""Who has the lake, and who may read it."""

import atexit
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tidemark import paths, report
from tidemark.spark import lock, processes, warm
from tidemark.spark.processes import Ports, Server


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["/x/bin/tidemark", "run", "--target", "thrift"], "tidemark run"),
        (["/x/bin/tidemark", "sql", "select 'hunter2'"], "tidemark sql"),
        (["/x/bin/dbt", "build", "--vars", "{password: hunter2}"], "dbt build"),
        (["/x/bin/dbt", "--vars=hunter2", "build"], "dbt"),
        (["/x/job.py", "hunter2", "--notify", "x"], "job.py"),
        (["/x/bin/tidemark"], "tidemark"),
    ],
)
def test_the_holder_is_told_without_arguments(
    command: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", command)
    assert lock.own_command() == told


@pytest.mark.parametrize(
    ("there", "of_lake", "of_files"), [(None, 0o700, 0o600), (0o770, 0o770, 0o660)]
)
def test_a_new_lake_is_private_and_another_stays_as_it_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    there: int | None,
    of_lake: int,
    of_files: int,
) -> None:
    lake = tmp_path / "deep" / "lake"
    monkeypatch.setenv("TIDEMARK_LAKE", str(lake))
    if there is not None:
        lake.mkdir(parents=True)
        lake.chmod(there)
    umask = os.umask(0o002)
    try:
        report.log("run", "told")
        hold = "import tidemark.spark.lock as lock; lock.hold(lock.paths.lake_dir())"
        subprocess.run([sys.executable, "-c", hold], check=True)
    finally:
        os.umask(umask)
    assert paths.make_lake().stat().st_mode & 0o777 == of_lake
    for name in ("lock", "tidemark.log"):
        assert (lake / name).stat().st_mode & 0o777 == of_files


def test_a_holder_that_has_not_written_its_name_yet_is_named_soon(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two processes that start together: the second one asks between the lock and the name."""
    asks = threading.Thread(target=lock.hold, args=[tmp_path])
    with (tmp_path / "lock").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        asks.start()
        asks.join(0.1)
        file.write('{"process": 7, "command": "tidemark run", "since": "2024-01-01"}')
        file.flush()
        asks.join(0.4)
    asks.join(10)
    told = f"Waiting for process 7 (`tidemark run`, since 2024-01-01), which uses {tmp_path}\n"
    assert capsys.readouterr().err == told
    lock.done(tmp_path)


def test_who_waits_for_a_warm_spark_that_starts_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps the lock as long as it runs: the wait ended after ten minutes, with an error."""
    monkeypatch.setenv("TIDEMARK_LAKE", str(tmp_path))
    monkeypatch.setenv(lock.WAIT_VARIABLE, "5")
    monkeypatch.setattr(atexit, "register", lambda *_: None)
    (tmp_path / "server").mkdir()
    sleeps = "import time; time.sleep(60)"
    server = [sys.executable, "-c", sleeps, processes.READY, f"{tmp_path}/"]
    waits = threading.Thread(target=warm.hold)
    with subprocess.Popen(server) as spark, (tmp_path / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            waits.start()
            waits.join(0.5)
            assert waits.is_alive()
            processes.keep(Server(Ports(thrift=0), {"spark": spark.pid}))
            waits.join(3)
            assert not waits.is_alive() and lock.is_held(tmp_path)
        finally:
            spark.kill()
            waits.join()
            lock.done(tmp_path)
