"""Tidemark as a job of a cluster: `spark-submit python/tidemark_job.py --project DIR [command]`.

The session is the one that spark-submit describes, with the cluster's metastore and jars. The
command is one of `tidemark`, `run` unless named; its exit code is the job's. What it changes of
the session's settings is put back, so that a host which goes on finds its own.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from tidemark import cli, session, targets


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command in the host's session; gives the exit code."""
    parser = argparse.ArgumentParser(prog="tidemark_job.py")
    parser.add_argument("--project", required=True, help="the folder of dbt_project.yml")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="default: run")
    options = parser.parse_args(arguments)
    os.environ["DBT_PROJECT_DIR"] = options.project
    if targets.method() != "session":
        parser.error(
            "the job works in its own session, so on a target with method session: set "
            f"{targets.TARGET_VARIABLE}=embedded."
        )
    spark = SparkSession.builder.appName("tidemark").enableHiveSupport().getOrCreate()
    wanted = session.ESSENTIAL
    before = {name: spark.conf.get(name, None) for name in wanted}
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
        return cli.main(options.command or ["run"])
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


if __name__ == "__main__":
    sys.exit(main())
