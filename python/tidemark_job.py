"""Tidemark as a job: AWS Glue, EMR Serverless, an EMR step, any spark-submit.

The job uses the host's session, with its metastore and jars. All arguments have the form
`--name value`, as in Glue; arguments that the host adds for itself are ignored. The job restores
the session settings and environment variables that it changes, for hosts that continue.
"""

import argparse
import os
import shlex
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import SparkSession

from tidemark import cli, outcome, places, runs, targets
from tidemark.errors import ConfigError, TidemarkError
from tidemark.spark import session
from tidemark.variables import during

# Job arguments that set an environment variable of the tidemark commands.
_VARIABLES = {
    "landing": ("TIDEMARK_LANDING", "where change files arrive, such as s3a://bucket/landing"),
    "warehouse": ("TIDEMARK_WAREHOUSE", "where schemas are created, such as s3a://bucket/tables"),
    "artifacts": (outcome.ARTIFACTS_VARIABLE, "where dbt's artifacts go, such as s3://bucket/runs"),
    "notify": (
        outcome.NOTIFY_VARIABLE,
        "ARN of an SNS topic, https://... or cmd:..., told when the run ends",
    ),
    "format": (targets.FORMAT_VARIABLE, "iceberg: a lake without Delta tables"),
    "catalog": ("TIDEMARK_CATALOG", "glue: register tables in the AWS Glue Data Catalog"),
    "target": (targets.TARGET_VARIABLE, "a target of profiles.yml with method session"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command in the host's session.

    Raises TidemarkError with the names of the failed tables.
    """
    options = _options(sys.argv[1:] if arguments is None else arguments)
    with ExitStack() as until_the_end:
        folder = Path(until_the_end.enter_context(tempfile.TemporaryDirectory(prefix="tidemark-")))
        variables = {
            variable: value
            for name, (variable, _) in _VARIABLES.items()
            if (value := getattr(options, name))
        }
        run_id = options.run_id or options.JOB_RUN_ID or runs.new_run_id()
        variables["TIDEMARK_RUN_ID"] = run_id
        is_zip = options.project.endswith(".zip")
        variables["DBT_PROJECT_DIR"] = str(folder / "project") if is_zip else options.project
        # The job's lake holds only its logs; tables are in the warehouse.
        variables["TIDEMARK_LAKE"] = os.environ.get("TIDEMARK_LAKE", str(folder / "lake"))
        until_the_end.enter_context(during(variables))
        until_the_end.enter_context(outcome.published(run_id))
        if is_zip:
            _unpack(options.project, folder / "project")
        if targets.method() != "session":
            raise ConfigError(
                "The job runs in its host's session, which needs a target with method session. "
                "Use --target embedded."
            )
        builder = SparkSession.builder.appName("tidemark").enableHiveSupport()
        if options.warehouse:
            builder = builder.config("spark.sql.warehouse.dir", options.warehouse)
        spark = builder.getOrCreate()
        there = str(spark.conf.get("spark.sql.warehouse.dir"))
        if options.warehouse and there.rstrip("/") != _as_uri(options.warehouse).rstrip("/"):
            raise ConfigError(
                f"--warehouse {options.warehouse} has no effect: the host's session has "
                f"spark.sql.warehouse.dir {there}. Set it where the session is created."
            )
        until_the_end.enter_context(session.settings_during(spark, session.essential()))
        cli.perform(shlex.split(options.command))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tidemark_job.py", allow_abbrev=False)
    parser.add_argument(
        "--project", help="required: the folder of dbt_project.yml or its zip, local or on S3"
    )
    parser.add_argument(
        "--command", default="run", help="the tidemark command to run (default: run)"
    )
    parser.add_argument(
        "--run-id", help="the run's id (default: the id of the Glue job run, or a generated one)"
    )
    parser.add_argument("--JOB_RUN_ID", help=argparse.SUPPRESS)
    for name, (variable, what) in _VARIABLES.items():
        parser.add_argument(f"--{name}", help=f"{what} ({variable})")
    # Glue adds arguments of its own.
    options, _ = parser.parse_known_args(arguments)
    if not options.project:
        raise ConfigError(
            "The job argument --project is missing. Set it to the project's folder or zip, such as "
            "s3://bucket/tidemark/project.zip."
        )
    return options


def _as_uri(place: str) -> str:
    """A location in the form that Spark's settings have."""
    return place if "://" in place else f"file:{Path(place).absolute()}"


def _unpack(place: str, to: Path) -> None:
    """Unpack the project's zip, local or on S3."""
    file = places.fetched(place, to.with_suffix(".zip"))
    try:
        with zipfile.ZipFile(file) as archive:
            archive.extractall(to)
    except (OSError, zipfile.BadZipFile) as error:
        raise ConfigError(f"--project {place} is not a readable zip file: {error}.") from error


if __name__ == "__main__":
    try:
        main()
    except TidemarkError as error:
        # Glue shows a script's exit message as the error of the job run.
        sys.exit(f"tidemark: {error}")
