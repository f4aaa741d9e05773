"""dbt, called in this process, so that it shares the Spark session."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from dbt.cli.main import dbtRunner, dbtRunnerResult

from tidemark import hook, paths, targets
from tidemark.errors import ConfigError, TidemarkError
from tidemark.feeds import Feed, feeds_of
from tidemark.variables import during


class BuildError(TidemarkError):
    """dbt has built or tested something that failed."""


def invoke(arguments: Sequence[str]) -> dbtRunnerResult:
    """Run a dbt command in the project's folder."""
    places = ["--project-dir", paths.project_dir(), "--profiles-dir", targets.profiles_dir()]
    return dbtRunner().invoke([*arguments, *map(str, places)])


def parse() -> Any:
    """The project's manifest. Raises ConfigError with dbt's message when it does not parse."""
    result = invoke(["--quiet", "parse"])
    if result.exception or not result.result:
        raise ConfigError(f"The dbt project does not parse: {result.exception}")
    return result.result


def feeds(manifest: Any) -> list[Feed]:
    """The feeds that the project declares."""
    return feeds_of(source.to_dict() for source in manifest.sources.values())


def nodes(manifest: Any) -> list[dict[str, Any]]:
    """The project's nodes and sources, as dbt's `graph` has them."""
    return [each.to_dict() for each in (*manifest.nodes.values(), *manifest.sources.values())]


def fingerprint(manifest: Any) -> str:
    """A short text that changes when a model, macro, test or setting of the project does."""
    nodes = [
        (name, node.checksum.checksum, node.config.to_dict())
        for name, node in sorted(manifest.nodes.items())
    ]
    macros = [(name, macro.macro_sql) for name, macro in sorted(manifest.macros.items())]
    sources = [
        (name, source.to_dict()["columns"], source.source_meta, source.config.meta)
        for name, source in manifest.sources.items()
    ]
    text = json.dumps([nodes, macros, sorted(sources, key=str)], default=str, sort_keys=True)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def as_part_of(run_id: str) -> AbstractContextManager[None]:
    """While dbt runs in here, its hook leaves the landing folder alone.

    The run's id is in the environment: dbt puts it into each line of its JSON logs.
    """
    mine = {hook.LANDED_VARIABLE: "1", "DBT_ENV_CUSTOM_ENV_TIDEMARK_RUN_ID": run_id}
    return during(mine)


def idle(manifest: Any, feeds: Sequence[Feed], with_files: Collection[str]) -> list[str]:
    """Selectors of the sources, models and snapshots that only feeds without any file concern.

    `with_files` names the other ones of the `feeds`. What depends on one of those, all that this
    reads, and what reads no feed at all, are not idle.
    """
    declared = {feed.name for feed in feeds}
    sources = {
        unique_id: name
        for unique_id, source in manifest.sources.items()
        if (name := f"{source.source_name}.{source.name}") in declared
    }
    active = [unique_id for unique_id, name in sources.items() if name in with_files]
    needed = _reached(manifest.parent_map, _reached(manifest.child_map, active))
    waiting = _reached(manifest.child_map, sources.keys() - set(active)) - needed
    nodes = (manifest.nodes.get(unique_id) for unique_id in waiting)
    models = {node.name for node in nodes if node and node.resource_type in ("model", "snapshot")}
    return sorted(models | {f"source:{sources[each]}" for each in waiting & sources.keys()})


def _reached(edges: Mapping[str, Sequence[str]], start: Iterable[str]) -> set[str]:
    found: set[str] = set()
    ahead = list(start)
    while ahead:
        node = ahead.pop()
        if node not in found:
            found.add(node)
            ahead += edges.get(node, ())
    return found


def build(
    run_id: str, select: Sequence[str] = (), exclude: Sequence[str] = (), *, quiet: bool = False
) -> None:
    """`dbt build`, of everything, or of what `select` gives without what `exclude` does.

    Both are lists of dbt's selectors. Raises BuildError with the names of what failed.
    """
    arguments = (["--quiet"] if quiet else []) + ["build"]
    for option, selectors in (("--select", select), ("--exclude", exclude)):
        if selectors:
            arguments += [option, *selectors]
    with as_part_of(run_id):
        result = invoke(arguments)
    if result.success:
        return
    if result.exception:
        raise BuildError(f"dbt build stopped: {result.exception}")
    failed = [
        f"{item.node.name} ({item.status})"
        for item in getattr(result.result, "results", [])
        if item.status in ("error", "fail", "runtime error")
    ]
    raise BuildError(f"dbt build failed: {', '.join(failed)}. dbt's lines above say why.")
