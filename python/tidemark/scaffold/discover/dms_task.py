"""Derive an AWS DMS task's tables from its rules and its target's settings.

Only parses JSON. `aws/dms.py` calls AWS, and `task_tables.py` reads files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tidemark.errors import ConfigError
from tidemark.feed_values import unescaped
from tidemark.feeds import Feed
from tidemark.scaffold.discover.dms import Dialect
from tidemark.scaffold.discover.dms_rules import Rule, literal, locator, matches, parsed, rules_of

CHANGE_SEQUENCE = "$AR_H_CHANGE_SEQ"
_TYPES = {
    **{"int1": "tinyint", "int2": "smallint", "int4": "int", "int8": "bigint"},
    **{"uint1": "smallint", "uint2": "int", "uint4": "bigint", "uint8": "decimal(20,0)"},
    **{"real4": "float", "real8": "double", "boolean": "boolean", "date": "date"},
    **{"datetime": "timestamp", "bytes": "binary", "blob": "binary"},
}


@dataclass(frozen=True)
class Task:
    """A task with an S3 target. `target` has its S3Settings, `settings` the task's settings.

    `known` has the (schema, table) pairs of its statistics, as in the source. `engine` is the
    source's, `migration` is full-load, cdc or full-load-and-cdc. They are empty if not known.
    """

    name: str
    rules: Sequence[Rule]
    target: Mapping[str, Any]
    known: Sequence[tuple[str, str]] = ()
    engine: str = ""
    migration: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    # --- which tables ---------------------------------------------------------------------------

    def selects(self, schema: str, table: str) -> bool:
        """Whether it selects a table of the source."""
        found = {rule.action for rule in self._selections if rule.selects(schema, table)}
        return "explicit" in found or ("include" in found and "exclude" not in found)

    def named(self) -> list[tuple[str, str]]:
        """The tables that the rules include without wildcards and do not exclude."""
        names = [
            (literal(rule.schema), literal(rule.table))
            if rule.action == "include"
            else (rule.schema, rule.table)
            for rule in self._selections
            if rule.action != "exclude"
        ]
        found = [(schema, table) for schema, table in names if schema and table]
        return [each for each in dict.fromkeys(found) if self.selects(*each)]

    @property
    def has_wildcards(self) -> bool:
        """Whether the rules have wildcards, so that they do not list all tables."""
        return any(
            rule.action == "include" and not (literal(rule.schema) and literal(rule.table))
            for rule in self._selections
        )

    def of_folder(self, folder: tuple[str, str]) -> tuple[str, str] | None:
        """The source table whose files are in a (schema, table) folder."""
        origins = (
            (schema, table)
            for schema in self._origins(folder[0], "schema")
            for table in self._origins(folder[1], "table")
        )
        return next(
            (each for each in origins if self.selects(*each) and self.folder(*each) == folder), None
        )

    @cached_property
    def _selections(self) -> list[Rule]:
        return [rule for rule in self.rules if rule.kind == "selection"]

    def _origins(self, name: str, target: str) -> list[str]:
        names = []
        for rule in self.rules:
            if rule.renames and rule.target == target:
                own = literal(rule.schema if target == "schema" else rule.table)
                origin = own if rule.action == "rename" and own else rule.origin(name)
                names += [origin] if rule.renamed(origin) == name else []
        return list(dict.fromkeys([*names, name]))

    # --- what becomes of their names ------------------------------------------------------------

    def folder(self, schema: str, table: str) -> tuple[str, str]:
        """The folders of schema and table, after renames by the rules."""
        found = {"schema": schema, "table": table}
        for target, name in found.items():
            rules = self._renames(target, schema, table)
            found[target] = rules[0].renamed(name) if rules else name
        return found["schema"], found["table"]

    def doubts(self, schema: str, table: str) -> list[str]:
        """Ambiguities of a table's folder in the rules."""
        return [
            f"{' and '.join(rule.told for rule in rules)} rename its {target}, but AWS DMS allows "
            "only one such rule: check path"
            for target in ("schema", "table")
            if len(rules := self._renames(target, schema, table)) > 1
        ]

    def column(self, schema: str, table: str, column: str) -> str:
        """A column's name in the files."""
        name = column
        for rule in self._of(schema, table, "column"):
            if rule.renames and matches(locator(rule.content, "column-name"), column):
                name = rule.renamed(name)
        return name

    def key(self, schema: str, table: str) -> list[str]:
        """The key's columns from a define-primary-key rule."""
        for rule in self._of(schema, table, "table"):
            if rule.action == "define-primary-key":
                defined = rule.content.get("primary-key-def")
                columns = defined.get("columns") if isinstance(defined, Mapping) else None
                return [str(each) for each in columns] if isinstance(columns, list) else []
        return []

    def added(self, schema: str, table: str) -> dict[str, str]:
        """The columns that rules add, with their Spark types."""
        return {
            str(rule.content.get("value")): _spark_type(rule.content.get("data-type"))
            for rule in self._of(schema, table, "column")
            if rule.action == "add-column"
        }

    def sequence(self, schema: str, table: str) -> str | None:
        """The column that a rule fills with $AR_H_CHANGE_SEQ."""
        for rule in self._of(schema, table, "column"):
            expression = str(rule.content.get("expression") or "").strip()
            if rule.action == "add-column" and expression == CHANGE_SEQUENCE:
                return str(rule.content.get("value"))
        return None

    def before_image_prefix(self, schema: str, table: str) -> str | None:
        """The prefix of before images, if a rule adds them."""
        images = self.images(schema, table)
        return None if images is None else str(images.get("column-prefix", "BI_") or "") or None

    def images(self, schema: str, table: str) -> Mapping[str, Any] | None:
        """The content of an add-before-image-columns rule for a table, or None."""
        for rule in self._of(schema, table, "column"):
            if rule.action == "add-before-image-columns":
                found = rule.content.get("before-image-def")
                return found if isinstance(found, Mapping) else {}
        return None

    def _of(self, schema: str, table: str, target: str) -> list[Rule]:
        return [
            rule
            for rule in self.rules
            if rule.kind == "transformation"
            and rule.target == target
            and matches(rule.schema, schema)
            and (target == "schema" or matches(rule.table, table))
        ]

    def _renames(self, target: str, schema: str, table: str) -> list[Rule]:
        return [rule for rule in self._of(schema, table, target) if rule.renames]

    # --- what the files look like ---------------------------------------------------------------

    def place(self) -> tuple[str, str]:
        """Its bucket, and the folder in it or ''."""
        return str(self.target["BucketName"]), str(self.target.get("BucketFolder") or "").strip("/")

    @property
    def is_parquet(self) -> bool:
        """Whether its files contain column names and types."""
        return self.text("DataFormat").lower() == "parquet"

    @property
    def has_names(self) -> bool:
        """Whether its files contain column names."""
        return self.is_parquet or self.is_on("AddColumnName")

    @property
    def is_op_doubtful(self) -> bool:
        """Whether AWS's documentation is ambiguous on Op in its change files."""
        return self.is_on("CdcInsertsAndUpdates") and not self.is_on("IncludeOpForFullLoad")

    @property
    def has_transactions(self) -> bool:
        """Whether the changes of all tables are in common files, in the order of transactions."""
        return self.is_on("PreserveTransactions") and bool(self.text("CdcPath"))

    def feed(self, schema: str, table: str) -> dict[str, Any]:
        """The feed settings that differ from the defaults, except paths."""
        found: dict[str, Any] = {}
        if not self.is_parquet and self.is_on("AddColumnName"):
            found["header"] = "all"
        if not self.is_parquet or self.has_transactions:
            found |= self._csv()
        if self.is_on("IncludeOpForFullLoad"):
            found["op_in_load"] = True
        elif self.is_on("CdcInsertsOnly"):
            found["op_in_changes"] = False
        if self.text("TimestampColumnName"):
            found["timestamp_column"] = self.text("TimestampColumnName")
        zone = self.text("DatePartitionTimezone")
        if zone and zone != "UTC" and self.is_on("DatePartitionEnabled"):
            found["file_time_zone"] = zone
        prefix = self.before_image_prefix(schema, table)
        if prefix:
            found["before_image_prefix"] = prefix
        return found

    def _csv(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.text("CsvDelimiter") not in ("", ","):
            found["delimiter"] = _escaped(self.text("CsvDelimiter"))
        if _escaped(self.text("CsvRowDelimiter")) not in ("", r"\n", r"\r\n"):
            found["row_delimiter"] = _escaped(self.text("CsvRowDelimiter"))
        # By default AWS DMS writes NULL or nothing. Tidemark reads both.
        if self.target.get("CsvNullValue") not in (None, "NULL"):
            found["null_text"] = self.text("CsvNullValue")
        if "Rfc4180" in self.target and not self.is_on("Rfc4180"):
            found["quote"] = "none"
        if self.is_on("UseCsvNoSupValue") and self.text("CsvNoSupValue"):
            found["unavailable_value"] = self.text("CsvNoSupValue")
        return found

    def dialect(self, schema: str, table: str) -> Dialect:
        """The feed settings for reading samples."""
        found = self.feed(schema, table)
        for name in {"delimiter", "row_delimiter"} & found.keys():
            found[name] = unescaped(found[name])
        if "null_text" in found:
            found["null_text"] = (found["null_text"],)
        reads = Feed("", "", "", "", format="dms", **found)
        images = self.images(schema, table) or {}
        return Dialect(
            reads,
            is_op_known=not self.is_op_doubtful,
            # Without names in the files, `reads` cannot tell images from columns.
            images_are_of_key=self.has_names and images.get("column-filter") == "pk-only",
        )

    def text(self, name: str) -> str:
        """A setting of the target, or ''."""
        value = self.target.get(name)
        return "" if value is None else str(value)

    def is_on(self, name: str) -> bool:
        """Whether a setting of the target is on. Older endpoints use y for true."""
        return self.text(name).lower() in ("true", "y", "yes", "1")


# --- reading --------------------------------------------------------------------------------------


def from_files(mappings: Path, endpoint: Path) -> Task:
    """A task from files exported by AWS's console or command line."""
    found = _json(mappings)
    if isinstance(found, Mapping) and isinstance(found.get("TableMappings"), str):
        found = parsed(found["TableMappings"], str(mappings))
    return Task(
        f"{mappings} and {endpoint}",
        rules_of(found, str(mappings)),
        target_of(_json(endpoint), str(endpoint)),
    )


def _json(file: Path) -> Any:
    try:
        return parsed(file.read_text(encoding="utf-8-sig"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}.") from error


def target_of(found: Any, where: str) -> dict[str, Any]:
    """The S3Settings in an endpoint's settings, or in the output of describe-endpoints.

    Older endpoints have extra connection attributes instead. Raises ConfigError without a bucket.
    """
    endpoints = found.get("Endpoints") if isinstance(found, Mapping) else None
    if isinstance(endpoints, list):
        on_s3 = [each for each in endpoints if isinstance(each, Mapping) and "S3Settings" in each]
        if len(on_s3) > 1:
            names = ", ".join(str(each.get("EndpointIdentifier")) for each in on_s3)
            raise ConfigError(f"{where} has several endpoints with S3Settings ({names}). Keep one.")
        found = on_s3[0] if on_s3 else found
    if isinstance(found, Mapping) and isinstance(found.get("Endpoint"), Mapping):
        found = found["Endpoint"]
    attributes = found.get("ExtraConnectionAttributes") if isinstance(found, Mapping) else None
    settings = found.get("S3Settings", found) if isinstance(found, Mapping) else None
    if not isinstance(settings, Mapping) or not settings.get("BucketName"):
        raise ConfigError(
            f"{where} has no S3Settings with a BucketName. It must be the target endpoint's "
            "settings as JSON, or the output of aws dms describe-endpoints."
        )
    return {**_attributes(str(attributes or "")), **settings}


def _attributes(text: str) -> dict[str, str]:
    pairs = (each.partition("=") for each in text.split(";") if "=" in each)
    return {name.strip()[:1].upper() + name.strip()[1:]: value for name, _, value in pairs}


# --- texts ----------------------------------------------------------------------------------------


def _escaped(text: str) -> str:
    """A delimiter escaped for the YAML, because dbt strips line ends."""
    named = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
    return "".join(
        named.get(each) or (f"\\x{ord(each):02x}" if each < " " or each == "\x7f" else each)
        for each in text
    )


def _spark_type(data_type: Any) -> str:
    """The Spark type for a type of AWS DMS. `string` if there is no better type."""
    of = data_type if isinstance(data_type, Mapping) else {}
    kind = str(of.get("type") or "").lower()
    if kind == "numeric":
        return f"decimal({of.get('precision') or 38},{of.get('scale') or 0})"
    return _TYPES.get(kind, "string")
