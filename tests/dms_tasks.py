"""AWS DMS tasks for tests, by moto; what it lacks is the statistics of tables, which are added.

They come two a page, and none before the task was started, as of AWS.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from moto.dms.exceptions import InvalidResourceStateFault, ResourceNotFoundFault
from moto.dms.responses import DatabaseMigrationServiceResponse

from tests.aws_server import AwsServer

# By the task's ARN.
STATISTICS: dict[str, list[dict[str, Any]]] = {}
_PAGE = 2


def _describe_table_statistics(self: Any) -> str:
    arn = self._get_param("ReplicationTaskArn")
    task = self.dms_backend.replication_tasks.get(arn)
    if task is None:
        raise ResourceNotFoundFault("Replication task could not be found.")
    if task.start_date is None:
        raise InvalidResourceStateFault("Replication task has not been started.")
    start = int(self._get_param("Marker") or 0)
    found = STATISTICS.get(arn, [])
    answer = {"ReplicationTaskArn": arn, "TableStatistics": found[start : start + _PAGE]}
    if start + _PAGE < len(found):
        answer["Marker"] = str(start + _PAGE)
    return json.dumps(answer)


DatabaseMigrationServiceResponse.describe_table_statistics = _describe_table_statistics


def include(schema: str, table: str, action: str = "include", **more: Any) -> dict[str, Any]:
    """A selection rule."""
    return {
        "rule-type": "selection",
        "rule-id": "1",
        "rule-name": "1",
        "object-locator": {"schema-name": schema, "table-name": table},
        "rule-action": action,
        **more,
    }


def transform(
    target: str,
    action: str,
    value: str = "",
    where: str = "%.%",
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A transformation rule; `where` is schema.table or schema.table.column."""
    names = zip(("schema-name", "table-name", "column-name"), where.split("."), strict=False)
    return {
        "rule-type": "transformation",
        "rule-id": "2",
        "rule-name": "2",
        "rule-target": target,
        "object-locator": dict(names),
        "rule-action": action,
        "value": value,
        **(more or {}),
    }


def create(
    aws: AwsServer,
    name: str,
    rules: Sequence[Mapping[str, Any]],
    s3: Mapping[str, Any] | None,
    *,
    engine: str = "mysql",
    settings: Mapping[str, Any] | None = None,
    migration: str = "full-load-and-cdc",
    statistics: Sequence[Mapping[str, Any]] | None = None,
) -> str:
    """A task from a database to S3, started if it has statistics; gives its ARN."""
    client = aws.client("dms")
    source = client.create_endpoint(
        EndpointIdentifier=f"{name}-source", EndpointType="source", EngineName=engine
    )
    target: dict[str, Any] = {"S3Settings": s3} if s3 else {}
    target = client.create_endpoint(
        EndpointIdentifier=f"{name}-target",
        EndpointType="target",
        EngineName="s3" if s3 else "redshift",
        **target,
    )
    arn: str = client.create_replication_task(
        ReplicationTaskIdentifier=name,
        SourceEndpointArn=source["Endpoint"]["EndpointArn"],
        TargetEndpointArn=target["Endpoint"]["EndpointArn"],
        ReplicationInstanceArn="arn:aws:dms:us-east-1:123456789012:rep:test",
        MigrationType=migration,
        TableMappings=json.dumps({"rules": list(rules)}),
        ReplicationTaskSettings=json.dumps(settings or {}),
    )["ReplicationTask"]["ReplicationTaskArn"]
    if statistics is not None:
        client.start_replication_task(
            ReplicationTaskArn=arn, StartReplicationTaskType="start-replication"
        )
        count(arn, *statistics)
    return arn


def count(arn: str, *tables: Mapping[str, Any]) -> None:
    """Give a task these statistics; what is left out of one is 0."""
    nothing = dict.fromkeys(("FullLoadRows", "FullLoadErrorRows", "Inserts", "Updates"), 0)
    STATISTICS[arn] = [
        {**nothing, "Deletes": 0, "TableState": "Table completed", **each} for each in tables
    ]


def counted(schema: str, table: str, **counts: Any) -> dict[str, Any]:
    """The statistics of one table."""
    return {"SchemaName": schema, "TableName": table, **counts}
