"""The rules of an AWS DMS task's table mappings: selected tables and renamed objects."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tidemark.errors import ConfigError

# The actions that change names.
_RENAMES: dict[str, Callable[[str, str, str], str]] = {
    "rename": lambda name, value, old: value,
    "add-prefix": lambda name, value, old: f"{value}{name}",
    "remove-prefix": lambda name, value, old: name.removeprefix(value),
    "replace-prefix": lambda name, value, old: (
        f"{value}{name.removeprefix(old)}" if name.startswith(old) else name
    ),
    "add-suffix": lambda name, value, old: f"{name}{value}",
    "remove-suffix": lambda name, value, old: name.removesuffix(value),
    "replace-suffix": lambda name, value, old: (
        f"{name.removesuffix(old)}{value}" if name.endswith(old) else name
    ),
    "convert-lowercase": lambda name, value, old: name.lower(),
    "convert-uppercase": lambda name, value, old: name.upper(),
}
# The inverse: the name before the rule changed it.
_ORIGINS: dict[str, Callable[[str, str, str], str]] = {
    "add-prefix": lambda name, value, old: name.removeprefix(value),
    "remove-prefix": lambda name, value, old: f"{value}{name}",
    "replace-prefix": lambda name, value, old: f"{old}{name.removeprefix(value)}",
    "add-suffix": lambda name, value, old: name.removesuffix(value),
    "remove-suffix": lambda name, value, old: f"{name}{value}",
    "replace-suffix": lambda name, value, old: f"{name.removesuffix(value)}{old}",
    "convert-lowercase": lambda name, value, old: name.upper(),
    "convert-uppercase": lambda name, value, old: name.lower(),
}
_TAKING = ("include", "explicit")
_SELECTIONS = (*_TAKING, "exclude")
_OF_COLUMNS = (
    *("add-column", "remove-column", "include-column", "change-data-type"),
    "add-before-image-columns",
)


@dataclass(frozen=True)
class Rule:
    """One rule of the table mappings."""

    id: str
    kind: str
    action: str
    target: str
    schema: str
    table: str
    content: Mapping[str, Any]

    @property
    def told(self) -> str:
        """The rule's id and action, for messages."""
        return f"rule {self.id} ({self.action or self.kind})"

    def selects(self, schema: str, table: str) -> bool:
        """Whether its object locator matches a source table. Case-sensitive."""
        if self.action == "explicit":
            return (self.schema, self.table) == (schema, table)
        return matches(self.schema, schema) and matches(self.table, table)

    @property
    def renames(self) -> bool:
        """Whether it changes names."""
        return self.kind == "transformation" and self.action in _RENAMES

    @property
    def is_understood(self) -> bool:
        """Whether Tidemark knows the rule."""
        if self.kind == "selection":
            return self.action in _SELECTIONS
        if self.kind != "transformation":
            # It affects how a table is loaded, not the files.
            return self.kind == "table-settings"
        if self.target == "column":
            return self.renames or self.action in _OF_COLUMNS
        if self.target == "table" and self.action == "define-primary-key":
            return True
        # Files have no tablespaces.
        is_tablespace = self.target.endswith("-tablespace")
        return is_tablespace or (self.target in ("schema", "table") and self.renames)

    def renamed(self, name: str) -> str:
        """The name after the rule."""
        return _RENAMES[self.action](name, *self._values)

    def origin(self, name: str) -> str:
        """A possible name before the rule."""
        return _ORIGINS[self.action](name, *self._values) if self.action in _ORIGINS else name

    @property
    def _values(self) -> tuple[str, str]:
        return str(self.content.get("value") or ""), str(self.content.get("old-value") or "")


def parsed(text: str, where: str) -> Any:
    """Parse JSON. Raises ConfigError with the location of the error."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where} is not JSON: {error}. Export it again.") from error


def rules_of(mappings: Any, where: str) -> list[Rule]:
    """The rules of table mappings. Raises ConfigError if they are invalid or select no table."""
    entries = mappings.get("rules") if isinstance(mappings, Mapping) else None
    if not isinstance(entries, list) or not all(isinstance(each, Mapping) for each in entries):
        raise ConfigError(
            f'{where} has no table mappings: it must be JSON such as {{"rules": [...]}}, as the '
            "JSON editor of the task's table mappings shows it."
        )
    rules = [_rule(entry, at) for at, entry in enumerate(entries, 1)]
    for rule in rules:
        if rule.kind == "selection" and not (rule.schema and rule.table):
            raise ConfigError(
                f"{where}, {rule.told}: its object-locator must have schema-name and table-name."
            )
    if not any(rule.kind == "selection" and rule.action in _TAKING for rule in rules):
        raise ConfigError(f"{where} selects no table: there is no selection rule with include.")
    return rules


def _rule(entry: Mapping[str, Any], at: int) -> Rule:
    schema, table = locator(entry, "schema-name"), locator(entry, "table-name")
    kind = str(entry.get("rule-type") or "")
    if kind == "transformation":
        # Rules for a schema have no table, and some omit wildcards.
        schema, table = schema or "%", table or "%"
    return Rule(
        str(entry.get("rule-id") or at),
        kind,
        str(entry.get("rule-action") or ""),
        str(entry.get("rule-target") or ""),
        schema,
        table,
        entry,
    )


def locator(entry: Mapping[str, Any], name: str) -> str:
    """A name in the rule's object locator, or ''."""
    found = entry.get("object-locator")
    return str(found.get(name) or "") if isinstance(found, Mapping) else ""


def literal(pattern: str) -> str | None:
    """The only name that a pattern without % and sets matches. `_` counts as a literal."""
    plain = re.sub(r"\[(.)\]", r"\1", pattern)
    return plain if plain and not re.search(r"%|\[.+\]", plain) else None


def matches(pattern: str, name: str) -> bool:
    """Whether a name matches: % is any text, _ any character, [ab] and [a-d] one of a set."""
    return _compiled(pattern).fullmatch(name) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(%+|_|\[[^\]]+\])", pattern)
    found = "".join(_wildcard(part) if at % 2 else re.escape(part) for at, part in enumerate(parts))
    try:
        return re.compile(found, re.DOTALL)
    except re.error:
        return re.compile(re.escape(pattern))


def _wildcard(part: str) -> str:
    if part.startswith("["):
        return "[" + re.sub(r"([\\^[])", r"\\\1", part[1:-1]) + "]"
    return "." if part == "_" else ".*"
