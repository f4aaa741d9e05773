"""Register the lake's Delta tables in the AWS Glue Data Catalog, for Athena and others."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tidemark import aws, paths, report, s3
from tidemark.aws import glue_table, lake_formation
from tidemark.aws.declared import Declared, tables
from tidemark.dbt_plugin import project
from tidemark.errors import ConfigError, TidemarkError
from tidemark.spark import session

PREFIX_VARIABLE = "TIDEMARK_CATALOG_PREFIX"
_REGISTERED = "registered.json"
# A table parameter with the tags and grants that Tidemark has given.
_GIVEN = "tidemark.lake_formation"
# The maximum number of names in a message.
_SOME = 10


class CatalogError(TidemarkError):
    """Some tables could not be registered. The others are."""


@dataclass
class Outcome:
    """The result per table name. `digests` covers the tables that are registered correctly."""

    new: list[str] = field(default_factory=list)
    refreshed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    views: list[str] = field(default_factory=list)
    not_delta: list[str] = field(default_factory=list)
    not_on_s3: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The changes in the Data Catalog and the remarks on Lake Formation."""
        found = []
        if self.new or self.refreshed:
            counts = f"{len(self.new)} new tables, {len(self.refreshed)} updated"
            names = report.some([*self.new, *self.refreshed], _SOME)
            found.append(f"Data Catalog: {counts}: {names}.")
        return [*found, *self.remarks]

    def require_success(self) -> None:
        """Raise CatalogError with one sentence per problem, if there are any."""
        problems = list(self.problems)
        if self.not_on_s3:
            problems.append(
                "Athena reads only from S3, but these tables are elsewhere: "
                f"{report.some(self.not_on_s3, _SOME)}. Set TIDEMARK_WAREHOUSE to s3a://bucket/folder."
            )
        if problems:
            more = [f"And {len(problems) - _SOME} more."] if len(problems) > _SOME else []
            what = "Some tables could not be registered in the Data Catalog."
            raise CatalogError("\n".join([what, *problems[:_SOME], *more]))


def register(spark: SparkSession, nodes: Iterable[Mapping[str, Any]]) -> None:
    """Register every table of dbt's nodes and sources again.

    Raises ConfigError if a declaration is wrong, AwsError if AWS cannot be reached, and
    CatalogError, after registering all others, if some tables could not be registered.
    """
    at_end = AtEnd(nodes)
    found = Registration(spark, at_end.tables, {}).done()
    at_end.remember(found)
    for line in found.lines():
        print(line)
    print(f"{len(found.unchanged)} tables were already up to date.")
    if found.views:
        print(
            f"Skipped, because Athena cannot run Spark's views: {report.some(found.views, _SOME)}."
        )
    if found.not_delta:
        print(f"Skipped, because they are not Delta tables: {report.some(found.not_delta, _SOME)}.")
    found.require_success()


class AtEnd:
    """Registration at the end of a run: changed tables, and those that failed before.

    `was_idle` can be set if the run has changed no table.
    """

    def __init__(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        self.tables = tables(nodes)
        self.was_idle = False
        place = (prefix(), s3.region(), os.environ.get("AWS_ENDPOINT_URL", ""))
        said = [
            (each.full_name, each.description, dict(each.columns), sorted(each.access.entries()))
            for each in self.tables
        ]
        self._identity = project.digest_of([place, said])
        known = paths.note(_REGISTERED)
        self._known = known if known.get("as") == self._identity else {}

    def register(self, spark: SparkSession, say: Callable[[str], None]) -> None:
        """Register what is due, and report it. Raises CatalogError or AwsError at the end."""
        if self.was_idle and self._known.get("is_complete"):
            paths.write_note(_REGISTERED, self._known)
            return
        found = Registration(spark, self.tables, self._known.get("digests", {})).done()
        self.remember(found)
        for line in found.lines():
            say(line)
        found.require_success()

    def remember(self, found: Outcome) -> None:
        """Remember what is registered, so that the next run need not ask AWS."""
        is_complete = not found.problems and not found.not_on_s3
        told = {"as": self._identity, "is_complete": is_complete, "digests": found.digests}
        paths.write_note(_REGISTERED, told)


def begin() -> None:
    """Mark the start of a run. If the run dies, the next one registers its changes."""
    paths.write_note(_REGISTERED, {**paths.note(_REGISTERED), "is_complete": False})


def prefix() -> str:
    """The prefix of the databases' names. Raises ConfigError if Glue does not allow it."""
    found = os.environ.get(PREFIX_VARIABLE, "")
    if not re.fullmatch(r"[a-z0-9_]*", found):
        raise ConfigError(
            f"{PREFIX_VARIABLE} is '{found}'. Use only lower-case letters, digits and _."
        )
    return found


class Registration:
    """One pass over all tables. `known` has the digests of registered tables."""

    def __init__(
        self, spark: SparkSession, declared: Iterable[Declared], known: Mapping[str, str]
    ) -> None:
        self._spark = spark
        self._declared = list(declared)
        self._known = known
        self._prefix = prefix()
        self._outcome = Outcome()
        # Whether each database existed.
        self._databases: dict[str, bool] = {}
        self._permissions: lake_formation.Permissions | None = None
        self._glue: Any = None

    def done(self) -> Outcome:
        """Register, and return the result for each table."""
        there = self._there()
        # In parallel, because each one waits briefly for Spark.
        with ThreadPoolExecutor(max_workers=4) as side_by_side:
            schemas = list(side_by_side.map(self._schema, there))
        for table, schema in zip(there, schemas, strict=True):
            if schema is None:
                continue
            digest = project.digest_of([schema.json()])
            if self._known.get(table.full_name) == digest:
                self._outcome.unchanged.append(table.full_name)
                self._outcome.digests[table.full_name] = digest
                continue
            try:
                if self._register(table, schema):
                    self._outcome.digests[table.full_name] = digest
            except (aws.AwsError, glue_table.RefusedError) as error:
                # All other calls would fail as well.
                if isinstance(error.__cause__, BotoCoreError):
                    raise
                if str(error) not in self._outcome.problems:
                    self._outcome.problems.append(str(error))
            except PySparkException as error:
                self._cannot_read(table, error)
        return self._outcome

    def _there(self) -> list[Declared]:
        """The declared tables that exist in Spark, without views."""
        schemas = {row[0].lower() for row in self._spark.sql("show schemas").collect()}
        names, views = set(), set()
        for schema in {each.schema.lower() for each in self._declared} & schemas:
            for row in self._spark.sql(f"show tables in `{schema}`").collect():
                if not row.isTemporary:
                    names.add(f"{schema}.{row.tableName}".lower())
            for row in self._spark.sql(f"show views in `{schema}`").collect():
                views.add(f"{schema}.{row.viewName}".lower())
        found = [each for each in self._declared if each.full_name.lower() in names]
        self._outcome.views = [each.full_name for each in found if each.full_name.lower() in views]
        return [each for each in found if each.full_name.lower() not in views]

    def _schema(self, table: Declared) -> StructType | None:
        try:
            return self._spark.table(table.relation).schema
        except PySparkException as error:
            self._cannot_read(table, error)
            return None

    def _cannot_read(self, table: Declared, error: PySparkException) -> None:
        why = session.readable(error)
        self._outcome.problems.append(f"{table.full_name}: Spark cannot read the table: {why}")

    def _register(self, declared: Declared, schema: StructType) -> bool:
        (detail,) = self._spark.sql(f"describe detail {declared.relation}").collect()
        if detail["format"] != "delta":
            self._outcome.not_delta.append(declared.full_name)
            return False
        if not glue_table.athena_location(detail["location"]):
            self._outcome.not_on_s3.append(declared.full_name)
            return False
        table = glue_table.Table(
            full_name=declared.full_name,
            database=f"{self._prefix}{declared.schema}".lower(),
            name=declared.name,
            location=detail["location"],
            schema=schema,
            partitions=detail["partitionColumns"],
            description=declared.description or detail["description"] or "",
            columns=declared.columns,
        )
        self._write(table, declared.access)
        return True

    def _write(self, table: glue_table.Table, access: lake_formation.Access) -> None:
        database, name = table.database, table.name.lower()
        what = f"The Data Catalog, {database}.{name}"
        there = self._database(database) and _or_none(
            what, self._client().get_table, DatabaseName=database, Name=name
        )
        current = self._input(there["Table"]) if there else {}
        earlier = lake_formation.entries_of(current.get("Parameters", {}).get(_GIVEN, ""))
        if there:
            _require_ours(table, current)
            table_input = glue_table.refreshed(table, current)
        else:
            table_input = glue_table.fresh(table)
        if given := access.entries() | earlier:
            table_input["Parameters"][_GIVEN] = lake_formation.as_text(given)
        with aws.asking(what):
            if not there:
                self._client().create_table(DatabaseName=database, TableInput=table_input)
                self._outcome.new.append(table.full_name)
            elif table_input != current:
                # Otherwise Glue keeps each version, and their number is limited.
                self._client().update_table(
                    DatabaseName=database, TableInput=table_input, SkipArchive=True
                )
                self._outcome.refreshed.append(table.full_name)
            else:
                self._outcome.unchanged.append(table.full_name)
        if given:
            self._permissions = self._permissions or lake_formation.Permissions()
            columns = {each.name.lower() for each in table.schema.fields}
            place = lake_formation.Place(database, name, columns)
            self._outcome.remarks += self._permissions.give(place, access, earlier)

    def _database(self, name: str) -> bool:
        """Create the database unless it exists. Returns whether it existed."""
        if name not in self._databases:
            what = f"The Data Catalog, database {name}"
            found = _or_none(what, self._client().get_database, Name=name)
            if found is None:
                with aws.asking(what):
                    self._client().create_database(DatabaseInput={"Name": name})
            self._databases[name] = bool(found)
        return self._databases[name]

    def _client(self) -> Any:
        self._glue = self._glue or aws.client("glue")
        return self._glue

    def _input(self, there: Mapping[str, Any]) -> dict[str, Any]:
        """The parts of Glue's answer that it accepts as input."""
        taken = self._client().meta.service_model.shape_for("TableInput").members
        return {key: value for key, value in there.items() if key in taken}


def _require_ours(table: glue_table.Table, there: Mapping[str, Any]) -> None:
    theirs = glue_table.location_of(there)
    ours = glue_table.athena_location(table.location)
    if theirs != ours:
        raise glue_table.RefusedError(
            f"{table.full_name} is already in the Data Catalog, at {theirs or 'no place on S3'}, "
            f"but this lake's table is at {ours}. If the entry belongs to another lake, set "
            f"{PREFIX_VARIABLE}, otherwise delete the entry."
        )


def _or_none(what: str, call: Callable[..., Any], **arguments: str) -> Any:
    """Glue's answer, or None if the entity does not exist."""
    try:
        with aws.asking(what):
            return call(**arguments)
    except aws.AwsError as error:
        if error.code == "EntityNotFoundException":
            return None
        raise
