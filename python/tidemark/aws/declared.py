"""The tables that belong in the Data Catalog, as the dbt project declares them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidemark.aws import lake_formation
from tidemark.errors import ConfigError
from tidemark.feeds import tags_of

_IN_SPARK = ("model", "seed", "snapshot", "source")


@dataclass(frozen=True)
class Declared:
    """A model, snapshot, seed or source. Column names are in lower case."""

    schema: str
    name: str
    file: str
    description: str
    columns: Mapping[str, str]
    access: lake_formation.Access

    @property
    def full_name(self) -> str:
        """`schema.name`."""
        return f"{self.schema}.{self.name}"

    @property
    def relation(self) -> str:
        """The quoted name for Spark."""
        return f"`{self.schema}`.`{self.name}`"


def tables(nodes: Iterable[Mapping[str, Any]]) -> list[Declared]:
    """The distinct tables of dbt's nodes and sources, without excluded ones.

    Raises ConfigError with every problem in the declarations for Lake Formation.
    """
    found: dict[str, Declared] = {}
    problems = []
    for node in nodes:
        if node["resource_type"] not in _IN_SPARK or tags_of(node).get("catalog") is False:
            continue
        try:
            table = _declared(node)
        except ConfigError as error:
            problems.append(str(error))
            continue
        found.setdefault(table.full_name.lower(), table)
    if problems:
        raise ConfigError("\n".join(problems))
    return [found[name] for name in sorted(found)]


def _declared(node: Mapping[str, Any]) -> Declared:
    name = node.get("identifier") or node.get("alias") or node["name"]
    file = str(node.get("patch_path") or node["original_file_path"]).partition("://")
    columns = node.get("columns", {})
    return Declared(
        schema=node["schema"],
        name=name,
        file=file[2] or file[0],
        description=node.get("description", ""),
        columns={key.lower(): each.get("description", "") for key, each in columns.items()},
        access=lake_formation.declared(
            f"{file[2] or file[0]}, {node['name']}",
            tags_of(node).get("lake_formation"),
            {key.lower(): tags_of(each).get("lake_formation") for key, each in columns.items()},
        ),
    )
