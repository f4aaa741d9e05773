"""The dbt project from the view of a run: its feeds, its nodes, and which nodes are due.

A node is due if its fingerprint or its newest load has changed since it was built. The fingerprint
covers its code, settings, macros and tests, and those of its ancestors. The newest load is that of
the feeds that it depends on.

dbt takes seconds to parse a project, so the lake caches the result until a file changes.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import yaml

from tidemark import formats, paths, targets
from tidemark.feeds import Feed, feeds_of, is_table, tags_of
from tidemark.ingest import books
from tidemark.ingest.books import Books

_CACHE = "project.json"
# The variable of the package `tidemark` with the policy of `tidemark maintain`.
POLICY = "maintain"
# dbt's statuses of nodes and tests that failed.
FAILURES = ("error", "fail", "partial success", "runtime error")
# dbt's value for a variable that is not set and has a default.
_NOT_SET = "DBT_DEFAULT_PLACEHOLDER"
_FOLDERS = {
    "model-paths": ["models"],
    "macro-paths": ["macros"],
    "seed-paths": ["seeds"],
    "snapshot-paths": ["snapshots"],
    "test-paths": ["tests"],
    "packages-install-path": "dbt_packages",
}
_VARIABLE = re.compile(r"""env_var\(\s*['"](\w+)""")
# Macros that dbt or the adapter calls. No node declares a dependency on them.
_CALLED_BY_DBT = ("spark__", "default__", "materialization_", "generate_", "give_back", "land_new")


@dataclass(frozen=True)
class Node:
    """A source, model, seed or snapshot. `select` is its dbt selector, `feed` a source's name.

    `relation` is the `schema.table` of a Delta table that dbt writes, '' for a view; `other` is the
    name of a table in another format, with its catalog before the schema if that is not Spark's
    own. `is_table` marks a source that others append to, `keeps_rows` what a full refresh does not
    build anew.
    """

    fingerprint: str
    parents: tuple[str, ...] = ()
    select: str = ""
    feed: str = ""
    is_table: bool = False
    relation: str = ""
    keeps_rows: bool = False
    other: str = ""

    @property
    def name(self) -> str:
        """The name of what dbt builds, the last part of its selector."""
        return self.select.rsplit(".", 1)[-1]

    @property
    def table(self) -> str:
        """The table that dbt builds, in whatever format; '' for a view."""
        return self.relation or self.other


@dataclass(frozen=True)
class Built:
    """The fingerprint and the newest load from which a node was built."""

    fingerprint: str
    load_id: int


@dataclass(frozen=True)
class Result:
    """How dbt ended with a node or a test: its status, its seconds, and what it said."""

    status: str
    seconds: float
    message: str


@dataclass(frozen=True)
class Project:
    """The parts of dbt's manifest that a run needs. `sources` is the input of `feeds_of`.

    `of_failures` are the `schema.table` in which dbt stores the rows of failed tests, if it does.
    """

    sources: list[dict[str, Any]]
    nodes: dict[str, Node]
    tests: list[str]
    of_failures: list[str]

    @cached_property
    def feeds(self) -> list[Feed]:
        """The feeds that the project declares."""
        return feeds_of(self.sources)

    def due(self, newest: Mapping[str, int], built: Mapping[str, Built]) -> set[str]:
        """The nodes to build. `newest` has each table's newest load."""
        idle = self.idle(newest)
        loads = self._newest_loads(newest)
        return {
            name
            for name, node in self.nodes.items()
            if node.select
            and name not in idle
            and (
                # Nobody tells when rows are appended to a table of somebody else.
                name in self._of_tables
                or (was := built.get(name)) is None
                or was.fingerprint != node.fingerprint
                or was.load_id < loads[name]
            )
        }

    def idle(self, with_files: Collection[str]) -> set[str]:
        """The nodes that depend only on feeds without files, including sources.

        `with_files` names the other feeds. Their descendants, the ancestors of these, and nodes
        that do not depend on any feed are not idle.
        """
        names = {name: node.feed for name, node in self.nodes.items() if node.feed}
        active = [name for name, feed in names.items() if feed in with_files]
        active += [name for name, node in self.nodes.items() if node.is_table]
        needed = self.above(self.below(active))
        return self.below(names.keys() - {*active}) - needed

    def below(self, start: Iterable[str]) -> set[str]:
        """These nodes and their descendants."""
        return _reached(self._children, start)

    def built_from(self, names: Iterable[str], newest: Mapping[str, int]) -> dict[str, Built]:
        """The fingerprints and loads that these nodes would be built from now."""
        loads = self._newest_loads(newest)
        return {name: Built(self.nodes[name].fingerprint, loads[name]) for name in names}

    def sources_of(self, feeds: Collection[str]) -> list[str]:
        """The source nodes of these feeds."""
        return [name for name, node in self.nodes.items() if node.feed in feeds]

    def above(self, start: Iterable[str]) -> set[str]:
        """These nodes and their ancestors."""
        return _reached({name: node.parents for name, node in self.nodes.items()}, start)

    def _newest_loads(self, newest: Mapping[str, int]) -> dict[str, int]:
        return {
            name: max((newest.get(self.nodes[each].feed, 0) for each in above), default=0)
            for name in self.nodes
            if (above := self.above([name]))
        }

    @cached_property
    def _of_tables(self) -> set[str]:
        """The nodes that depend on tables that others append to."""
        return self.below(name for name, node in self.nodes.items() if node.is_table)

    @cached_property
    def _children(self) -> dict[str, list[str]]:
        children: dict[str, list[str]] = {}
        for name, node in self.nodes.items():
            for parent in node.parents:
                children.setdefault(parent, []).append(name)
        return children


def of(manifest: Any) -> Project:
    """Extract from dbt's manifest what a run needs."""
    tests = _tests(manifest)
    shared = [
        macro.macro_sql
        for name, macro in sorted(manifest.macros.items())
        if name.rsplit(".", 1)[-1].startswith(_CALLED_BY_DBT)
    ]
    everywhere = digest_of([shared, _variables()])
    macros = _Macros(manifest)
    own: dict[str, tuple[str, list[str]]] = {}
    for name, source in manifest.sources.items():
        columns = {each: column.data_type for each, column in source.columns.items()}
        told = [columns, source.source_meta, source.config.to_dict(), source.schema]
        own[name] = (digest_of([told, sorted(tests.get(name, []))]), [])
    for name, node in manifest.nodes.items():
        if node.resource_type in ("model", "seed", "snapshot"):
            columns = {each: column.data_type for each, column in node.columns.items()}
            told = [node.checksum.checksum, node.alias, node.schema, node.config.to_dict(), columns]
            parts = [everywhere, told, sorted(tests.get(name, [])), macros.of(node)]
            own[name] = (digest_of(parts), list(getattr(node.depends_on, "nodes", [])))

    @cache
    def fingerprint(name: str) -> str:
        digest, parents = own[name]
        return digest_of([digest, [fingerprint(each) for each in sorted(parents) if each in own]])

    sources = {name: _as_declared(source) for name, source in manifest.sources.items()}
    declared = {feed.name for feed in feeds_of(sources.values())}
    nodes = {}
    for name, (_, parents) in own.items():
        known = tuple(sorted(parent for parent in parents if parent in own))
        node = Node(fingerprint(name), known)
        if name in sources:
            feed = f"{sources[name]['source_name']}.{sources[name]['name']}"
            feed = feed if feed in declared else ""
            nodes[name] = replace(node, feed=feed, is_table=is_table(sources[name]))
        else:
            of_dbt = manifest.nodes[name]
            relation = f"{of_dbt.schema}.{of_dbt.alias}"
            catalog = f"{of_dbt.database}." if of_dbt.database in formats.OTHERS else ""
            is_other = bool(catalog) or formats.is_beside(of_dbt.config.get("file_format"))
            is_written = of_dbt.config.materialized not in ("view", "ephemeral")
            keeps = of_dbt.resource_type == "snapshot" or of_dbt.config.get("full_refresh") is False
            nodes[name] = replace(
                node,
                select=".".join(of_dbt.fqn),
                relation=relation if is_written and not is_other else "",
                other=f"{catalog}{relation}" if is_written and is_other else "",
                keeps_rows=is_written and keeps,
            )
    data_tests = {
        name: node for name, node in manifest.nodes.items() if node.resource_type == "test"
    }
    of_failures = [f"{test.schema}.{test.alias}" for test in data_tests.values()]
    return Project([*sources.values()], nodes, [*data_tests, *manifest.unit_tests], of_failures)


def current() -> Project:
    """The cached project, or as dbt parses it. Raises ConfigError if it does not parse."""
    return cached() or parse()[0]


def parse() -> tuple[Project, Any]:
    """The project as dbt parses it, and dbt's manifest. Caches the project."""
    # Imported here because dbt takes seconds.
    from tidemark.dbt_plugin import dbt

    before = stamp()
    manifest = dbt.parse()
    parsed = of(manifest)
    keep(parsed, manifest, before)
    return parsed, manifest


def cached() -> Project | None:
    """The cached project, or None if one of its files or variables has changed."""
    try:
        kept = paths.note(_CACHE)
        if kept["stamp"] != stamp() or not _are_set(kept["variables"]):
            return None
        nodes = {
            name: Node(**{**node, "parents": tuple(node["parents"])})
            for name, node in kept["nodes"].items()
        }
        # The cache of an older Tidemark lacks some of these: a KeyError.
        return Project(kept["sources"], nodes, kept["tests"], kept["of_failures"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(project: Project, manifest: Any, stamp: str) -> None:
    """Cache the project. Its stamp was taken before dbt read it."""
    kept = {
        "stamp": stamp,
        # Store only digests, since a variable may be a secret.
        "variables": {name: digest_of(value) for name, value in manifest.env_vars.items()},
        "sources": project.sources,
        "nodes": {name: asdict(node) for name, node in project.nodes.items()},
        "tests": project.tests,
        "of_failures": project.of_failures,
    }
    paths.write_note(_CACHE, kept)


def read_builds(own: Books) -> tuple[dict[str, Built], dict[str, Result]]:
    """What the nodes were built from, and the newest result of each node and test.

    As in `tidemark.builds`.
    """
    rows = books.rows(
        own.read(books.BUILDS, ("node", "fingerprint", "load_id", "status", "seconds", "message"))
    )
    return (
        {
            row["node"]: Built(row["fingerprint"], row["load_id"])
            for row in rows
            if row["fingerprint"]
        },
        {
            row["node"]: Result(row["status"], row["seconds"], row["message"])
            for row in rows
            if row["status"]
        },
    )


def write_builds(
    own: Books, built: Mapping[str, Built], results: Mapping[str, Result], run_id: str
) -> None:
    """Replace the contents of `tidemark.builds`."""
    own.replace(
        books.BUILDS,
        [
            {"node": name, "run_id": run_id}
            | (asdict(built[name]) if name in built else {})
            | (asdict(results[name]) if name in results else {})
            for name in sorted({*built, *results})
        ],
    )


class _Macros:
    """A digest of all macros that a node calls, directly or indirectly."""

    def __init__(self, manifest: Any) -> None:
        self.macros = manifest.macros
        self.calls = {name: macro.depends_on.macros for name, macro in manifest.macros.items()}
        self.digests: dict[frozenset[str], str] = {}

    def of(self, node: Any) -> str:
        called = frozenset(_reached(self.calls, node.depends_on.macros))
        if called not in self.digests:
            texts = [self.macros[name].macro_sql for name in sorted(called & self.macros.keys())]
            self.digests[called] = digest_of(texts)
        return self.digests[called]


def _tests(manifest: Any) -> dict[str, list[str]]:
    """The digests of each node's tests."""
    found: dict[str, list[str]] = {}
    for test in (*manifest.nodes.values(), *manifest.unit_tests.values()):
        if test.resource_type in ("test", "unit_test"):
            told = test.to_dict()
            names = ("raw_code", "test_metadata", "config", "given", "expect", "overrides")
            text = digest_of([test.unique_id, {name: told.get(name) for name in names}])
            for parent in test.depends_on.nodes:
                found.setdefault(parent, []).append(text)
    return found


def _as_declared(source: Any) -> dict[str, Any]:
    """The parts of a source that `feeds_of` reads."""
    told = source.to_dict()
    names = (
        *("source_name", "name", "schema", "original_file_path", "config", "meta", "source_meta"),
        *("freshness", "loaded_at_field"),
    )
    columns = {
        name: {"data_type": column.get("data_type"), "meta": tags_of(column)}
        for name, column in told["columns"].items()
    }
    return {**{name: told.get(name) for name in names}, "columns": columns}


def _reached(edges: Mapping[str, Iterable[str]], start: Iterable[str]) -> set[str]:
    found: set[str] = set()
    ahead = list(start)
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += edges.get(name, ())
    return found


def digest_of(value: Any) -> str:
    """A short text that differs if the value, as JSON, does."""
    text = json.dumps(value, default=str, sort_keys=True)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _settings() -> dict[str, Any]:
    return dict(yaml.safe_load((paths.project_dir() / "dbt_project.yml").read_text()))


def _variables() -> dict[str, Any] | None:
    """The project's variables that models can depend on: not the policy of `tidemark maintain`."""
    told = dict(_settings().get("vars") or {})
    own = {name: value for name, value in told.pop("tidemark", {}).items() if name != POLICY}
    return (told | ({"tidemark": own} if own else {})) or None


def name() -> str:
    """The project's name."""
    return str(_settings()["name"])


def policy() -> dict[str, Any] | None:
    """The policy of `tidemark maintain` in dbt_project.yml, None without one."""
    told = ((_settings().get("vars") or {}).get("tidemark") or {}).get(POLICY)
    return None if told is None else dict(told or {})


def stamp() -> str:
    """A digest that changes with any file that dbt reads, and with dbt's version."""
    settings = _settings()
    root = paths.project_dir()
    folders: list[str] = []
    for name, usual in _FOLDERS.items():
        told = settings.get(name, usual)
        folders += [told] if isinstance(told, str) else told
    # dbt does not report the variables that these two files use.
    texts = [root / "dbt_project.yml", targets.profiles_dir() / "profiles.yml"]
    text = "".join(each.read_text() for each in texts if each.exists())
    named = _VARIABLE.findall(text)
    values = {name: os.environ.get(name) for name in {*named, targets.TARGET_VARIABLE}}
    seen = [str(root), values, *map(_version, ("dbt-core", "dbt-spark", "tidemark"))]
    files = [each for folder in folders for each in paths.states(str(root / folder))]
    files += [paths.state(str(each)) for each in sorted(root.glob("*.yml"))]
    return digest_of([seen, files])


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # a job has this package as a zip
        return ""


def _are_set(variables: Mapping[str, str]) -> bool:
    return all(
        digest_of(os.environ.get(name, _NOT_SET)) == digest for name, digest in variables.items()
    )
