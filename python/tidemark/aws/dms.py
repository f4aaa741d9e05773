"""AWS DMS: the configuration of a task, and its table statistics."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from tidemark import aws
from tidemark.aws import AwsError
from tidemark.errors import ConfigError
from tidemark.scaffold.discover import dms_rules, dms_task
from tidemark.scaffold.discover.dms_task import Task

_COUNTS = ("FullLoadRows", "FullLoadErrorRows", "Inserts", "Updates", "Deletes")


@dataclass(frozen=True)
class TableStatistics:
    """A task's statistics of one table, under its name in the source."""

    schema: str
    table: str
    state: str
    loaded: int
    load_errors: int
    inserts: int
    updates: int
    deletes: int


def task_and_statistics(name: str) -> tuple[Task, list[TableStatistics]]:
    """A task by its ARN or identifier, and its table statistics, which are empty before its start.

    Raises ConfigError if it does not exist or its target is not S3, AwsError if AWS refuses.
    """
    found = _description(name)
    target = _endpoint(found["TargetEndpointArn"], name)
    if target.get("EngineName") != "s3":
        raise ConfigError(
            f"The task {name} writes to {target.get('EndpointIdentifier')}, which is "
            f"{target.get('EngineName')}. Tidemark supports only tasks that write to S3."
        )
    source = _endpoint(found["SourceEndpointArn"], name)
    settings = found.get("ReplicationTaskSettings") or "{}"
    parsed = dms_rules.parsed(settings, f"The settings of the task {name}")
    mappings = f"The table mappings of the task {name}"
    tables = _statistics(found["ReplicationTaskArn"], name)
    of_task = Task(
        f"{found['ReplicationTaskIdentifier']}",
        dms_rules.rules_of(dms_rules.parsed(found["TableMappings"], mappings), mappings),
        dms_task.target_of(target, f"The target of the task {name}"),
        [(each.schema, each.table) for each in tables],
        str(source.get("EngineName") or ""),
        str(found.get("MigrationType") or ""),
        parsed if isinstance(parsed, dict) else {},
    )
    return of_task, tables


def _description(name: str) -> dict[str, Any]:
    if ":replication-config:" in name:
        raise ConfigError(
            f"{name} is a serverless replication, but only tasks are supported. Export its table "
            "mappings and the settings of its target, and pass them with --table-mappings and "
            "--endpoint-settings."
        )
    kind = "replication-task-arn" if name.startswith("arn:") else "replication-task-id"
    with _asking(name) as client:
        pages = client.get_paginator("describe_replication_tasks").paginate(
            Filters=[{"Name": kind, "Values": [name]}]
        )
        for page in pages:
            for found in page["ReplicationTasks"]:
                return dict(found)
    raise ConfigError(_unknown(name))


def _endpoint(arn: str, name: str) -> dict[str, Any]:
    with _asking(name) as client:
        pages = client.get_paginator("describe_endpoints").paginate(
            Filters=[{"Name": "endpoint-arn", "Values": [arn]}]
        )
        for page in pages:
            for found in page["Endpoints"]:
                return dict(found)
    raise ConfigError(f"The task {name} has an endpoint that does not exist: {arn}.")


def _statistics(arn: str, name: str) -> list[TableStatistics]:
    try:
        with _asking(name) as client:
            pages = client.get_paginator("describe_table_statistics").paginate(
                ReplicationTaskArn=arn
            )
            return [
                TableStatistics(
                    each["SchemaName"],
                    each["TableName"],
                    each.get("TableState", ""),
                    *(each.get(count, 0) for count in _COUNTS),
                )
                for page in pages
                for each in page["TableStatistics"]
            ]
    except AwsError as error:
        # The task has not been started.
        if error.code == "InvalidResourceStateFault":
            return []
        raise


@contextmanager
def _asking(name: str) -> Iterator[Any]:
    client = aws.client("dms")
    with aws.asking(f"AWS DMS, task {name}"):
        try:
            yield client
        except ClientError as error:
            if aws.code(error) == "ResourceNotFoundFault":
                raise ConfigError(_unknown(name)) from error
            raise


def _unknown(name: str) -> str:
    region = aws.client("dms").meta.region_name
    return (
        f"There is no AWS DMS task {name} in the region {region}. Pass its identifier or ARN, "
        "and check AWS_REGION."
    )
