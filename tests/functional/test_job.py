"""The job of Glue and EMR, as spark-submit starts it: its zip, files and artifacts are on S3."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

import tidemark_job
from tests import s3_server
from tests.aws_server import AwsServer
from tests.project import REPO, Project
from tidemark.errors import TidemarkError
from tidemark.shared import shared
from tidemark.spark import jars, processes, session, spark_line

pytestmark = pytest.mark.functional

# Glue has Spark 3.5, where `make test-core SPARK=3.5` runs this in CI.
ON_GLUES_SPARK = pytest.mark.slow if spark_line.name() == "4.1" else pytest.mark.functional

COLUMNS = {"id": "int", "name": "string"}
# What a cluster brings itself, or as the job's zip.
NOT_INSTALLED = ("pyspark", "delta", "delta_spark", "tidemark", "__editable__.tidemark")


class Job:
    """Submits the job of one project; its metastore and its lake are a cluster's of its own."""

    def __init__(self, project: Project, store: s3_server.S3Server, aws: AwsServer) -> None:
        self.project, self.store, self.aws = project, store, aws
        self.folder = project.folder.parent / "cluster"
        self.folder.mkdir()
        # A bundle takes nothing that links bring from elsewhere.
        for link in [each for each in project.folder.rglob("*") if each.is_symlink()]:
            there = link.resolve()
            link.unlink()
            (shutil.copytree if there.is_dir() else shutil.copy)(there, link)

    @property
    def environment(self) -> dict[str, str]:
        """What a machine of the cluster has: no variable of Tidemark's, files and data on S3."""
        others = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TIDEMARK_", "DBT_", "AWS_", "PYTHON"))
        }
        return {
            **others,
            **self.aws.environment,
            "AWS_ACCESS_KEY_ID": s3_server.KEY,
            "AWS_SECRET_ACCESS_KEY": s3_server.SECRET,
            "AWS_ENDPOINT_URL_S3": f"http://{self.store.address}",
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def bundle(self) -> None:
        """`tidemark bundle s3://lake/app`."""
        done = subprocess.run(
            [sys.executable, "-m", "tidemark.cli", "bundle", "s3://lake/app"],
            cwd=self.project.folder,
            env={**self.environment, "PYTHONPATH": f"{REPO}/python"},
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        for name in ("tidemark_job.py", "tidemark.zip"):
            # spark-submit and Glue fetch these themselves.
            self.store.get(f"lake/app/{name}", self.folder / name)

    def python(self) -> str:
        """A Python with the packages of this one that a bundle's requirements.txt installs."""
        there = self.folder / "python"
        if not there.exists():
            venv.create(there, symlinks=True)
            (packages,) = there.glob("lib/*/site-packages")
            for each in Path(sysconfig.get_path("purelib")).iterdir():
                if each.name.split("-")[0] not in NOT_INSTALLED:
                    (packages / each.name).symlink_to(each)
        return str(there / "bin" / "python")

    def submit(
        self, *arguments: str, python: str | None = None, brings: Sequence[str] = ("jars",)
    ) -> subprocess.CompletedProcess[str]:
        """Run the job as Glue does, its own arguments included."""
        python = python or self.python()
        locks = [spark_line.lock_folder() / f"{name}.lock" for name in (*brings, "jars-s3")]
        found = [str(jar) for jar in jars.install(locks)]
        # The settings of this project, which are for small data, and the cluster's own.
        settings = {
            **session.settings(),
            "spark.log.level": "WARN",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName="
            f"{self.folder}/metastore;create=true",
            "spark.driver.extraClassPath": os.pathsep.join(found),
            "spark.executor.extraClassPath": os.pathsep.join(found),
            **{f"spark.hadoop.{name}": value for name, value in self.store.settings.items()},
        }
        # Hosts have others; the job must see to these itself.
        for name in session.ESSENTIAL:
            del settings[name]
        command = [f"{processes.spark_home()}/bin/spark-submit", "--master", "local[2]"]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        command += ["--py-files", str(self.folder / "tidemark.zip")]
        command += [str(self.folder / "tidemark_job.py"), "--job-bookmark-option", "x"]
        command += ["--JOB_NAME", "tidemark", "--JOB_RUN_ID", "jr_42", *arguments]
        return subprocess.run(
            command,
            cwd=self.folder,
            env={**self.environment, "PYSPARK_PYTHON": python},
            text=True,
            capture_output=True,
            check=False,
        )


@pytest.fixture(scope="module")
def store() -> Iterator[s3_server.S3Server]:
    with s3_server.running() as found:
        found.put("lake/app/x", "")
        yield found


@ON_GLUES_SPARK
def test_a_job_lands_builds_tells_and_fails_with_the_tables(
    project: Project, store: s3_server.S3Server, aws: AwsServer
) -> None:
    project.add("jobs.good", COLUMNS, "id", loaded_at="2024-01-01")
    project.add("jobs.bad", COLUMNS, "id", loaded_at="2024-01-01", max_rejected_share=0)
    job = Job(project, store, aws)
    job.bundle()
    usual = ["--project", "s3://lake/app/project.zip", "--landing", "s3a://lake/landing"]
    usual += ["--warehouse", str(job.folder / "tables"), "--artifacts", "s3://lake/runs"]
    usual += ["--notify", aws.watched_topic()]

    store.put("lake/landing/jobs/good/LOAD00000001.csv", "1,one\n2,two\n")
    store.put("lake/landing/jobs/bad/LOAD00000001.csv", "one,1\n")
    done = job.submit(*usual)
    assert done.returncode == 1, done.stdout
    assert "Run jr_42" in done.stdout
    # spark-submit puts both outputs of Python into its first.
    last = "tidemark: 1 of 2 tables failed, see above: jobs.bad."
    assert last in done.stdout.splitlines(), done.stdout
    assert "Traceback" not in done.stdout
    ((subject, message),) = aws.told()
    assert subject == "Tidemark run failed: jr_42"
    assert "1 of 2 tables failed, see above: jobs.bad." in message
    results = json.loads(store.text("lake/runs/jr_42/run_results.json"))["results"]
    built = {each["unique_id"]: each["status"] for each in results}
    assert built["model.showcase.hist_jobs__good"] == "success"
    assert "model.showcase.cur_jobs__bad" not in built
    assert "cur_jobs__good" in store.text("lake/runs/jr_42/manifest.json")
    assert "Run jr_42 failed" in store.text("lake/runs/jr_42/summary.txt")
    for text in (done.stdout, done.stderr, message):
        assert s3_server.SECRET not in text


@pytest.mark.slow
def test_a_job_has_a_lake_without_delta(
    project: Project, store: s3_server.S3Server, aws: AwsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.add("bergs.people", COLUMNS, "id", loaded_at="2024-01-01")
    settings = yaml.safe_load((project.folder / "dbt_project.yml").read_text())
    settings["models"]["+file_format"] = "iceberg"
    (project.folder / "dbt_project.yml").write_text(yaml.safe_dump(settings, sort_keys=False))
    job = Job(project, store, aws)
    job.bundle()
    usual = ["--project", "s3://lake/app/project.zip", "--landing", "s3a://lake/bergs"]
    usual += ["--warehouse", str(job.folder / "tables")]
    store.put("lake/bergs/bergs/people/LOAD00000001.csv", "1,one\n2,two\n")

    # The cluster has Delta, the job wants Iceberg.
    done = job.submit(*usual, "--format", "iceberg")
    assert done.returncode == 1
    lacks = "TIDEMARK_FORMAT is iceberg, but this Spark session lacks spark.sql.catalog.spark_"
    assert f"tidemark: {lacks}catalog=org.apache.iceberg.spark.SparkSessionCatalog" in done.stdout

    # The other way round.
    monkeypatch.setenv("TIDEMARK_FORMAT", "iceberg")
    monkeypatch.setenv("TIDEMARK_LAKE", str(job.folder / "lake"))
    brings = ["jars-iceberg"]
    done = job.submit(*usual, brings=brings)
    assert done.returncode == 1
    assert "TIDEMARK_FORMAT is not set. Set it to iceberg (a job's --format)." in done.stdout
    assert not (job.folder / "tables").exists()

    usual += ["--format", "iceberg"]
    done = job.submit(*usual, brings=brings)
    assert done.returncode == 0, done.stdout
    assert "Landed 2 rows from 1 file." in done.stdout
    store.put("lake/bergs/bergs/people/20240102-100000000.csv", "U,1,uno\nD,2,two\nI,3,\n")
    done = job.submit(*usual, brings=brings)
    assert done.returncode == 0, done.stdout
    history = "history.hist_bergs__people"
    query = f"select id, name, version_number, is_current from {history} order by 1, 3"
    done = job.submit(*usual, "--command", f'sql "{query}" --format csv', brings=brings)
    assert done.returncode == 0, done.stdout
    told = done.stdout[done.stdout.index("id,name") :].splitlines()
    expected = ["1,one,1,false", "1,uno,2,true", "2,two,1,false", "3,,1,true"]
    assert told[1 : 1 + len(expected)] == expected
    assert [*job.folder.glob("tables/log_bergs.db/people/metadata")]
    assert not [*job.folder.rglob("_delta_log")]


@pytest.mark.slow
def test_the_modules_of_the_bundle_are_enough_and_bring_no_pyspark(
    project: Project, store: s3_server.S3Server, aws: AwsServer, tmp_path: Path
) -> None:
    project.add("lean.t", COLUMNS, "id", loaded_at="2024-01-01")
    store.put("lake/landing/lean/t/LOAD00000001.csv", "1,one\n2,two\n")
    job = Job(project, store, aws)
    job.bundle()
    store.get("lake/app/requirements.txt", tmp_path / "requirements.txt")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]
    subprocess.run([*install, str(tmp_path / "requirements.txt")], check=True)
    found = subprocess.run([python, "-c", "import pyspark"], capture_output=True, check=False)
    assert b"No module named 'pyspark'" in found.stderr
    done = job.submit(
        *("--project", "s3://lake/app/project.zip", "--landing", "s3a://lake/landing"),
        *("--warehouse", str(job.folder / "tables")),
        python=python,
    )
    assert done.returncode == 0, done.stdout
    assert "Landed 2 rows from 1 file." in done.stdout


def test_a_host_that_goes_on_finds_its_settings(
    project: Project, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    project.add("hosted.t", COLUMNS, "id", loaded_at="2024-01-01")
    # Fewer tables, fewer seconds.
    (project.folder / "models/history/hosted/hist_hosted__t.sql").unlink()
    project.land("hosted/t/LOAD00000001.csv", "1,one\n")
    spark = project.spark
    mine = {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "Asia/Tokyo"}
    before = {name: spark.conf.get(name) for name in mine}
    try:
        for name, value in mine.items():
            spark.conf.set(name, value)
        variables = dict(os.environ)
        tidemark_job.main(
            [
                *("--project", str(project.folder), "--landing", str(project.landing)),
                *("--artifacts", str(tmp_path / "runs"), "--run-id", "a/1"),
                *("--enable-metrics", "true"),
            ]
        )
        assert {name: spark.conf.get(name) for name in mine} == mine
        assert dict(os.environ) == variables
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))
    assert "Run a/1" in capfd.readouterr().out
    assert project.rows("current.cur_hosted__t", ["id", "name"]) == [(1, "one")]
    (run_id,) = project.rows("tidemark.runs where source_name = 'hosted'", ["run_id"])
    assert run_id == ("a/1",)
    found = sorted(file.name for file in (tmp_path / "runs" / "a_1").iterdir())
    assert found == ["dbt.log", "manifest.json", "run_results.json", "summary.txt"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "The job argument --project is missing. Set it to the project's folder or zip"),
        (
            ["--project", "/nowhere/project.zip"],
            "--project /nowhere/project.zip is not a readable zip",
        ),
        (["--project", "/nowhere"], "There is no dbt_project.yml in /nowhere"),
        (["--project", "s3://none/p.zip"], "s3://none/p.zip: "),
        (["--project", str(REPO), "--target", "thrift"], "Use --target embedded"),
    ],
)
def test_a_wrong_argument_is_said_in_a_sentence(
    arguments: list[str], words: str, aws: AwsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # dbt has set it in this process.
    monkeypatch.setattr(shared, "method", "")
    with pytest.raises(TidemarkError, match=re.escape(words)):
        tidemark_job.main(arguments)


def test_a_job_ends_with_the_sentence() -> None:
    done = subprocess.run(
        [sys.executable, REPO / "python" / "tidemark_job.py"],
        env={**os.environ, "PYTHONPATH": f"{REPO}/python"},
        cwd="/",
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert "tidemark: The job argument --project is missing." in done.stderr
    assert "Traceback" not in done.stderr
