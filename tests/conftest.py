"""One Spark, one lake for the whole test run; each test brings a project of its own.

Where pytest has several processes, each of them has a Spark and a lake.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

LAKE = Path(tempfile.mkdtemp(prefix="tidemark-tests-"))
os.environ["TIDEMARK_LAKE"] = str(LAKE)
os.environ.setdefault("DBT_SEND_ANONYMOUS_USAGE_STATS", "false")

from pyspark.sql import SparkSession  # noqa: E402 - the lake's place must be known first

from tests import aws_server, s3_server  # noqa: E402
from tests.free_port import free_port  # noqa: E402
from tests.project import REPO, Project  # noqa: E402

# The longest first, so that no process is left with one of them when the others are done.
_LONGEST = (
    *("our folder", "test_convergence", "test_scenarios", "test_soak", "test_landings"),
    *("test_postgres", "test_landing", "test_thrift", "test_drift", "test_runs", "test_wheel"),
)
# They work in the repository's own folder, where dbt keeps files: one process takes them all.
_IN_OUR_FOLDER = [
    f"test_{name}" for name in ("s3_warehouse", "domains", "demo", "cluster", "glue", "killed")
]

_OPTIMIZING = (
    "-XX:ReservedCodeCacheSize=512m -XX:Tier4InvocationThreshold=50000 "
    "-XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 "
    "-XX:Tier4BackEdgeThreshold=400000"
)


def pytest_unconfigure() -> None:
    # Of the process that shares tests out, too.
    shutil.rmtree(LAKE, ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that need Spark, and begin with the longest where several processes run."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _place(_shared_out(item.nodeid)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Several processes share out modules, not tests: a module's tests share what they build.

    xdist has `--dist loadgroup` for this. Version 3.8 ignores its groups with pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = _shared_out
    return scheduler


def _shared_out(nodeid: str) -> str:
    """What one process takes: a module, by its path, or all that work in our folder."""
    path = nodeid.partition("::")[0]
    return "our folder" if Path(path).stem in _IN_OUR_FOLDER else path


def _place(shared_out: str) -> int:
    name = Path(shared_out).stem
    return _LONGEST.index(name) if name in _LONGEST else len(_LONGEST)


@pytest.fixture(scope="session")
def port_of_s3_tables() -> int:
    """Where an S3 server with the bucket `tables` may be started, for schemas that are there."""
    return free_port()


@pytest.fixture(scope="session")
def spark(port_of_s3_tables: int, request: pytest.FixtureRequest) -> SparkSession:
    """The embedded session that all tests and all their dbt runs share."""
    import dbt_tidemark  # noqa: F401 - what dbt would import by itself
    from tidemark import formats
    from tidemark.spark import jars, session

    with pytest.MonkeyPatch.context() as patched:
        # So that the session can reach the S3 servers of tests.
        patched.setenv("TIDEMARK_LANDING", "s3a://tests")
        # And that it can have tables in every format. Hudi changes settings of all tables.
        has_hudi = any(item.path.name == "test_hudi.py" for item in request.session.items)
        formats.note([each for name, each in formats.OTHERS.items() if name != "hudi" or has_hudi])
        jars.install()
        more = s3_server.settings_of_bucket("tables", port_of_s3_tables)
        settings = {**session.settings(), **more}
        # This Spark lives long enough for Java's optimizing compiler to pay off, but only for what
        # runs ten times as often as it must by default: compiling takes the tests' two cores. With
        # several processes, it would take the cores of the others.
        java = "spark.driver.extraJavaOptions"
        if "PYTEST_XDIST_WORKER" not in os.environ:
            settings[java] = settings[java].replace("-XX:TieredStopAtLevel=1", _OPTIMIZING)
        patched.setattr(session, "settings", lambda: settings)
        return session.get()


@pytest.fixture(scope="session")
def _aws() -> Iterator[aws_server.AwsServer]:
    with aws_server.running() as server:
        yield server


@pytest.fixture
def aws(_aws: aws_server.AwsServer, monkeypatch: pytest.MonkeyPatch) -> aws_server.AwsServer:
    """AWS, empty, and this process's environment such that it is what boto3 reaches."""
    _aws.reset()
    for name, value in _aws.environment.items():
        monkeypatch.setenv(name, value)
    return _aws


@pytest.fixture(scope="session")
def profiles_dir() -> Path:
    """Where the tests' dbt projects find their profile."""
    return REPO / "profiles"


@pytest.fixture
def project(tmp_path: Path, spark: SparkSession) -> Project:
    """An empty project for one test."""
    return Project(tmp_path / "project", spark)


@pytest.fixture(scope="module")
def module_project(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Callable[[], Project]:
    """Makes projects that live as long as the module."""
    return lambda: Project(tmp_path_factory.mktemp("project") / "project", spark)
