"""Glue's interactive sessions and Data Catalog for tests, on the tests' own Spark.

moto knows sessions, but runs nothing in them. Here each is a session of the tests' Spark, with the
settings that its arguments name; statements are Python code, which it carries out one by one, and
the catalog's databases and tables are those of Spark. This is not AWS: no rights, no workers, and
Spark's own metastore in place of the Data Catalog.
"""

import functools
import io
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest
from moto.core.responses import ActionResult, EmptyResult
from moto.glue.exceptions import DatabaseNotFoundException, TableNotFoundException
from moto.glue.responses import GlueResponse
from pyspark.sql import SparkSession

from tidemark.spark import session

# A client asks again by itself; an answer that waits spares it the pause.
_SECONDS_TO_WAIT = 20
_TABLE_TYPES = {"MANAGED": "MANAGED_TABLE", "EXTERNAL": "EXTERNAL_TABLE", "VIEW": "VIRTUAL_VIEW"}


class _GlueSession:
    """One interactive session: statements wait for one another, and share their names."""

    def __init__(self, spark: SparkSession, arguments: dict[str, str]) -> None:
        self.spark = spark.newSession()
        # As Glue's Spark comes; only what the profile says may count.
        for name in session.ESSENTIAL:
            self.spark.conf.unset(name)
        for setting in arguments.get("--conf", "").split("--conf"):
            name, _, value = setting.strip().partition("=")
            if self.spark.conf.isModifiable(name):
                self.spark.conf.set(name, value)
            elif self.spark.conf.get(name, "") != value:
                raise ValueError(f"This Spark was not started with {name}={value}")
        self.names: dict[str, Any] = {"__name__": "__main__", "spark": self.spark}
        self.worker = ThreadPoolExecutor(1)
        self.statements: list[Future[dict[str, Any]]] = []

    def begin(self, code: str) -> int:
        number = len(self.statements)
        self.statements.append(self.worker.submit(self._run, number, code))
        return number

    def _run(self, number: int, code: str) -> dict[str, Any]:
        printed = io.StringIO()
        self.names["print"] = functools.partial(print, file=printed)
        try:
            exec(compile(code, "<statement>", "exec"), self.names)
            output: dict[str, Any] = {"Status": "ok"}
        except Exception as error:
            output = {
                "Status": "error",
                "ErrorName": type(error).__name__,
                "ErrorValue": str(error),
                "Traceback": traceback.format_exc().splitlines(),
            }
        output["Data"] = {"TextPlain": printed.getvalue()}
        return {"Id": number, "Code": code, "State": "AVAILABLE", "Output": output}

    def statement(self, number: int) -> dict[str, Any]:
        try:
            return self.statements[number].result(timeout=_SECONDS_TO_WAIT)
        except TimeoutError:
            return {"Id": number, "State": "RUNNING"}


@dataclass
class GlueServer:
    """The sessions that were asked for, and the `arguments` of each, by name."""

    spark: SparkSession
    sessions: dict[str, _GlueSession] = field(default_factory=dict)
    arguments: dict[str, dict[str, str]] = field(default_factory=dict)

    def create(self, name: str, arguments: dict[str, str]) -> None:
        self.sessions[name] = _GlueSession(self.spark, arguments)
        self.arguments[name] = arguments

    def databases(self) -> list[str]:
        return [row[0] for row in self.spark.sql("show databases").collect()]

    def tables(self, database: str) -> list[dict[str, Any]]:
        if database not in self.databases():
            raise DatabaseNotFoundException(database)
        rows = self.spark.sql(f"show tables in `{database}`").where("not isTemporary").collect()
        return [self.table(database, row.tableName) for row in rows]

    def table(self, database: str, name: str) -> dict[str, Any]:
        if not self.spark.catalog.tableExists(f"`{database}`.`{name}`"):
            raise TableNotFoundException(name)
        rows = self.spark.sql(f"describe extended `{database}`.`{name}`").collect()
        start = next(place for place, row in enumerate(rows) if row.col_name.startswith("# Det"))
        details = {row.col_name: row.data_type for row in rows[start:]}
        names = [row.col_name for row in rows]
        end = next(place for place, each in enumerate(names) if not each or each.startswith("#"))
        found = {
            "Name": name,
            "DatabaseName": database,
            "TableType": _TABLE_TYPES[details["Type"]],
            "StorageDescriptor": {
                "Columns": [{"Name": row.col_name, "Type": row.data_type} for row in rows[:end]],
                "Location": details.get("Location", ""),
            },
        }
        if "Provider" in details:
            found["Parameters"] = {"spark.sql.sources.provider": details["Provider"]}
        return found


@contextmanager
def running(spark: SparkSession) -> Iterator[GlueServer]:
    """moto's Glue with sessions that work, for as long as the context lasts."""
    server = GlueServer(spark)
    moto_creates = GlueResponse.create_session

    def create_session(self: GlueResponse) -> ActionResult:
        moto_creates(self)
        asked = {name: value for name, value in self.parameters.items() if name != "RequestOrigin"}
        server.create(asked["Id"], asked.get("DefaultArguments", {}))
        return ActionResult({"Session": {**asked, "Status": "READY"}})

    def run_statement(self: GlueResponse) -> ActionResult:
        found = server.sessions[self.parameters["SessionId"]]
        return ActionResult({"Id": found.begin(self.parameters["Code"])})

    def get_statement(self: GlueResponse) -> ActionResult:
        found = server.sessions[self.parameters["SessionId"]]
        return ActionResult({"Statement": found.statement(int(self.parameters["Id"]))})

    def list_statements(self: GlueResponse) -> ActionResult:
        found = server.sessions[self.parameters["SessionId"]]
        numbers = range(len(found.statements))
        return ActionResult({"Statements": [found.statement(number) for number in numbers]})

    def cancel_statement(self: GlueResponse) -> ActionResult:
        found = server.sessions[self.parameters["SessionId"]]
        found.statements[int(self.parameters["Id"])].cancel()
        return EmptyResult()

    def create_database(self: GlueResponse) -> ActionResult:
        wanted = self.parameters["DatabaseInput"]
        place = wanted["LocationUri"]
        server.spark.sql(f"create database `{wanted['Name']}` location '{place}'")
        return EmptyResult()

    def get_databases(self: GlueResponse) -> ActionResult:
        return ActionResult({"DatabaseList": [{"Name": name} for name in server.databases()]})

    def get_table(self: GlueResponse) -> ActionResult:
        asked = self.parameters
        return ActionResult({"Table": server.table(asked["DatabaseName"], asked["Name"])})

    def get_tables(self: GlueResponse) -> ActionResult:
        return ActionResult({"TableList": server.tables(self.parameters["DatabaseName"])})

    ours = [create_session, run_statement, get_statement, list_statements, cancel_statement]
    ours += [create_database, get_databases, get_table, get_tables]
    with pytest.MonkeyPatch.context() as patched:
        for function in ours:
            patched.setattr(GlueResponse, function.__name__, function, raising=False)
        patched.setitem(sys.modules, "awsglue", ModuleType("awsglue"))
        patched.setitem(sys.modules, "awsglue.utils", _utils())
        yield server
        for each in server.sessions.values():
            each.worker.shutdown()


def _utils() -> ModuleType:
    """What dbt-glue's code asks Glue's own package for: a job's options, of which it has none."""
    module = ModuleType("awsglue.utils")
    module.getResolvedOptions = lambda arguments, names: {}  # type: ignore[attr-defined]
    return module
