"""Run dbt in this process, so that it shares the Spark session."""

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, redirect_stdout
from io import StringIO
from typing import Any

from dbt.cli.main import dbtRunner, dbtRunnerResult

from tidemark import paths, targets
from tidemark.dbt_plugin import hook, packages
from tidemark.dbt_plugin.project import FAILURES, Result
from tidemark.errors import ConfigError, TidemarkError
from tidemark.variables import during

_LONGEST_MESSAGE = 1000


class BuildError(TidemarkError):
    """A dbt build or test failed."""


def invoke(
    arguments: Sequence[str], callbacks: Sequence[Callable[[Any], None]] = ()
) -> dbtRunnerResult:
    """Run a dbt command in the project's folder. The callbacks receive dbt's events."""
    packages.ensure(paths.project_dir())
    places = ["--project-dir", paths.project_dir(), "--profiles-dir", targets.profiles_dir()]
    return dbtRunner(callbacks=list(callbacks)).invoke([*arguments, *map(str, places)])


def parse() -> Any:
    """The project's manifest. Raises ConfigError with dbt's message if it does not parse."""
    result = invoke(["--quiet", "parse"])
    if result.exception or not result.result:
        raise ConfigError(f"The dbt project does not parse: {result.exception}")
    return result.result


def listed(options: Sequence[str]) -> list[str]:
    """The ids of the nodes that these options of dbt select."""
    # dbt prints them, whatever its options say.
    with redirect_stdout(StringIO()):
        result = invoke(
            ["--quiet", "ls", "--output", "json", "--output-keys", "unique_id", *options]
        )
    if not result.success:
        raise ConfigError(f"dbt could not select what to build: {result.exception}")
    return [json.loads(line)["unique_id"] for line in result.result]


def nodes(manifest: Any) -> list[dict[str, Any]]:
    """The project's nodes and sources, in the form of dbt's `graph`."""
    return [each.to_dict() for each in (*manifest.nodes.values(), *manifest.sources.values())]


def as_part_of(run_id: str) -> AbstractContextManager[None]:
    """Within the block, dbt's hook does not land files.

    dbt writes the run's id, from the environment, into each line of its JSON logs.
    """
    mine = {hook.LANDED_VARIABLE: "1", "DBT_ENV_CUSTOM_ENV_TIDEMARK_RUN_ID": run_id}
    return during(mine)


def succeeded(results: Iterable[Any]) -> set[str]:
    """The models, seeds and snapshots that were built and have no failed tests."""
    return {
        each.node.unique_id for each in results if each.status in ("success", "no-op")
    } - failed(results)


def failed(results: Iterable[Any]) -> set[str]:
    """The nodes that failed, or have a failed test."""
    bad = [each.node for each in results if each.status in FAILURES]
    return {name for node in bad for name in (node.unique_id, *_tested(node))}


def ended(results: Iterable[Any]) -> dict[str, Result]:
    """How dbt ended with each node and test. Messages may be long, so they are cut."""
    return {
        each.node.unique_id: Result(
            str(each.status), each.execution_time, (each.message or "").strip()[:_LONGEST_MESSAGE]
        )
        for each in results
        if each.node.resource_type != "operation"
    }


def _tested(node: Any) -> Sequence[str]:
    is_test = node.resource_type in ("test", "unit_test")
    return node.depends_on.nodes if is_test else ()


def _counting(progress: Callable[[int, int], None]) -> Callable[[Any], None]:
    done: set[str] = set()
    total = 0

    def count(event: Any) -> None:
        nonlocal total
        if event.info.name == "LogStartLine":
            total = max(total, event.data.total)
        elif event.info.name == "NodeFinished":
            done.add(event.data.node_info.unique_id)
            progress(len(done), max(total, len(done)))

    return count


def _warning(warn: Callable[[str], None]) -> Callable[[Any], None]:
    """Give each warning of a macro once: dbt renders a macro several times."""
    told: set[str] = set()

    def hear(event: Any) -> None:
        if event.info.name == "JinjaLogWarning" and event.info.msg not in told:
            told.add(event.info.msg)
            warn(event.info.msg)

    return hear


def build(
    run_id: str,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    *,
    verbose: bool = False,
    full_refresh: bool = False,
    options: Sequence[str] = (),
    results: list[Any],
    progress: Callable[[int, int], None] = lambda done, total: None,
    warn: Callable[[str], None] = lambda warning: None,
) -> None:
    """Run `dbt build` for everything, or for `select` without `exclude`.

    Both are lists of dbt selectors. `full_refresh` rebuilds incremental tables. `options` are more
    options of `dbt build`. `results` receives dbt's result of each node, also on failure.
    `progress` is called with the number of finished nodes and the total. dbt prints its errors, or
    with `verbose` all lines; its log file has all lines. `warn` gets the warnings that macros raise
    and that dbt does not print. Raises BuildError with the names of the failed nodes.
    """
    arguments = ([] if verbose else ["--quiet"]) + ["build"]
    arguments += ["--full-refresh"] if full_refresh else []
    arguments += options
    for option, selectors in (("--select", select), ("--exclude", exclude)):
        if selectors:
            arguments += [option, *selectors]
    with as_part_of(run_id):
        result = invoke(arguments, [_counting(progress), *([] if verbose else [_warning(warn)])])
    results += getattr(result.result, "results", [])
    if result.success:
        return
    if result.exception:
        raise BuildError(f"dbt build stopped: {result.exception}")
    failed = [
        f"{item.node.name} ({item.status})"
        for item in getattr(result.result, "results", [])
        if item.status in FAILURES
    ]
    raise BuildError(f"dbt build failed: {', '.join(failed)}. See dbt's output above.")
