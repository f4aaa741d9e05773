"""`tidemark diff`: what a change to the project changes in the tables.

dbt builds the changed models and what depends on them (`state:modified+`) into schemas of their
own, and reads everything else where it is (`--defer`). This module compares the results with the
tables of the lake.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from tabulate import tabulate

from tidemark import formats, paths, report, retention, runs, targets
from tidemark.dbt_plugin import dbt
from tidemark.dbt_plugin import project as dbt_project
from tidemark.errors import ConfigError, printable
from tidemark.ingest import books
from tidemark.spark import session
from tidemark.variables import during

_EXAMPLES = 3
_CHANGED = "state:modified+"


@dataclass
class _Compared:
    """One model: its rows in both tables, and how they differ. Without a key no row is changed."""

    name: str
    rows: int = 0
    rows_before: int | None = None
    added: int = 0
    gone: int = 0
    changed: int = 0
    columns: list[str] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)

    def cells(self) -> Sequence[Any]:
        """The model's row of the table."""
        if self.rows_before is None:
            return (self.name, "", self.rows, "", "", "", "new")
        counts = (self.rows_before, self.rows, self.added, self.gone, self.changed)
        return (self.name, *counts, ", ".join(self.columns))


def diff(ref: str, *, keep: bool = False) -> None:
    """Build what differs from a git commit, and print how the tables differ, as Markdown.

    `ref` is a branch, tag or commit; its merge base with HEAD counts. `keep` keeps the schemas of
    the results. Raises ConfigError, before anything is built, if the commit is unknown or a result
    would replace a table; BuildError, after the comparison, if a model or test failed.
    """
    base = _merge_base(ref)
    spark = session.get()
    run_id = runs.new_run_id()
    scratch = f"diff_{base[:7]}_{os.getpid()}"
    with TemporaryDirectory(prefix="tidemark-diff-") as name:
        folder = Path(name)
        _check_out(base, folder / "base")
        with _parsed_into(folder / "before", project=folder / "base"):
            before = dbt.parse()
        targets.with_schema(folder / "profiles.yml", scratch)
        with _parsed_into(folder / "after", profiles=folder):
            after = dbt.parse()
            options = ["--select", _CHANGED, "--state", str(folder / "before")]
            options += ["--exclude-resource-type", "snapshot"]
            tables = _tables(after)
            wanted = {name: tables[name] for name in dbt.listed(options) if name in tables}
            _require_own_schemas(spark, wanted)
            gone = [node.name for name, node in _tables(before).items() if name not in tables]
            print(f"Compared with `{printable(ref)}` ({base[:7]}): {_told(wanted, gone)}")
            if not wanted:
                return
            known = [before.nodes[name] for name in wanted if name in before.nodes]
            suited = session.suited_to(books.sizes(f"{each.schema}.{each.alias}" for each in known))
            results: list[Any] = []
            try:
                with report.progress(print, "Building", "models and tests") as progress:
                    dbt.build(
                        run_id, options=[*options, "--defer"], results=results, progress=progress
                    )
            finally:
                built = dbt.succeeded(results) | dbt.failed(results)
                with session.settings_during(spark, suited):
                    compared = [
                        _compare(spark, node, before.nodes.get(name))
                        for name, node in wanted.items()
                        if name in built and spark.catalog.tableExists(_table(node))
                    ]
                print(_as_markdown(compared))
                own, parsed = books.of(spark), dbt_project.of(after)
                anew = [
                    node.name
                    for name, node in wanted.items()
                    if name in built and retention.keeps_versions(own, parsed, name)
                ]
                if anew:
                    print(
                        "\nBuilt from a log that was cut (keep_changes), so versions from before "
                        f"the cut count as gone: {', '.join(anew)}."
                    )
                if not keep:
                    _drop(spark, wanted.values())


def _merge_base(ref: str) -> str:
    """The commit to compare with: where HEAD left `ref`."""
    commit = _git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    if commit is None:
        raise ConfigError(
            f"'{printable(ref)}' is not a branch, tag or commit of the git repository of "
            f"{paths.project_dir()}."
        )
    return (_git("merge-base", "HEAD", commit.decode().strip()) or commit).decode().strip()


def _git(*arguments: str) -> bytes | None:
    """The output of a git command in the project's folder; None if it fails."""
    command = ["git", "-C", str(paths.project_dir()), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        raise ConfigError("tidemark diff needs git, which is not installed.") from None
    return done.stdout if done.returncode == 0 else None


def _check_out(commit: str, folder: Path) -> None:
    """Write the project as of a commit, with the packages that are installed now."""
    project = paths.project_dir()
    below = (_git("rev-parse", "--show-prefix") or b"").decode().strip()
    archive = folder.with_suffix(".tar")
    if _git("archive", f"--output={archive}", f"{commit}:{below}") is None:
        raise ConfigError(
            f"The commit {commit[:7]} has no folder {below}: nothing to compare with."
        )
    shutil.unpack_archive(archive, folder, filter="tar")
    settings = folder / "dbt_project.yml"
    if not settings.exists():
        raise ConfigError(
            f"The commit {commit[:7]} has no dbt_project.yml: nothing to compare with."
        )
    packages = yaml.safe_load(settings.read_text()).get("packages-install-path", "dbt_packages")
    there = project / packages
    if there.is_dir() and not (folder / packages).exists():
        (folder / packages).symlink_to(there)


@contextmanager
def _parsed_into(
    target: Path, *, project: Path | None = None, profiles: Path | None = None
) -> Iterator[None]:
    """Within the block, dbt reads this project and profile, and its artifacts are in `target`.

    The project's own artifacts stay, so the next run need not parse everything.
    """
    places = {
        "DBT_PROJECT_DIR": project or paths.project_dir(),
        "DBT_PROFILES_DIR": profiles or targets.profiles_dir(),
        "DBT_TARGET_PATH": target,
        "TIDEMARK_LAKE": paths.lake_dir(),
    }
    with during({name: str(place) for name, place in places.items()}):
        yield


def _tables(manifest: Any) -> dict[str, Any]:
    """The models and seeds that are tables or views."""
    return {
        name: node
        for name, node in manifest.nodes.items()
        if node.resource_type in ("model", "seed") and node.relation_name
    }


def _require_own_schemas(spark: SparkSession, wanted: Mapping[str, Any]) -> None:
    """Refuse a schema that exists: the results would be among its tables, and it is dropped."""
    for node in wanted.values():
        if any(spark.catalog.databaseExists(each) for each in _schemas(node.schema)):
            raise ConfigError(
                f"The result of {node.name} would replace {node.relation_name} or be beside other "
                f"tables: the schema {node.schema} exists. tidemark diff changes the schema of the "
                "target, and your macro generate_schema_name does not use target.schema for this "
                "model. Nothing was built."
            )


def _schemas(name: str) -> list[str]:
    """A schema in the metastore, and in each catalog that has its own."""
    own = [f"{each.name}.`{name}`" for each in formats.used() if each.catalog]
    return [f"`{name}`", *own]


def _table(node: Any) -> str:
    catalog = [node.database] if node.database in formats.OTHERS else []
    return books.quoted(".".join([*catalog, node.schema, node.alias]))


def _told(wanted: Mapping[str, Any], gone: Sequence[str]) -> str:
    found = report.counted(len(wanted), "model") if wanted else "no model"
    verb = "differ or depend" if len(wanted) > 1 else "differs or depends"
    text = f"{found} {verb} on what differs." if wanted else "no model differs."
    return text + (f" Deleted: {', '.join(gone)}; their tables stay." if gone else "")


def _compare(spark: SparkSession, node: Any, before: Any) -> _Compared:
    """Compare a model's result with its table in the lake."""
    new = spark.table(_table(node))
    found = _Compared(node.name)
    if before is None or not spark.catalog.tableExists(_table(before)):
        found.rows = new.count()
        return found
    old = spark.table(_table(before))
    types_before, types = (
        {name: kind for name, kind in frame.dtypes if not name.startswith("_")}
        for frame in (old, new)
    )
    found.columns += [f"+ {name} {types[name]}" for name in types if name not in types_before]
    found.columns += [f"- {name}" for name in types_before if name not in types]
    both = [name for name in types if name in types_before]
    retyped = [name for name in both if types[name] != types_before[name]]
    found.columns += [f"{name} {types_before[name]} to {types[name]}" for name in retyped]
    old, new = (_comparable(frame, both, retyped) for frame in (old, new))
    key = node.config.get("unique_key") or []
    key = [key] if isinstance(key, str) else list(key)
    if key and {*key} <= {*both} and _is_unique(old, key) and _is_unique(new, key):
        _compare_by_key(found, old, new, key, [name for name in both if name not in key])
    else:
        found.rows_before, found.rows = old.count(), new.count()
        found.added, found.gone = new.exceptAll(old).count(), old.exceptAll(new).count()
    return found


def _comparable(frame: DataFrame, names: Sequence[str], as_text: Sequence[str]) -> DataFrame:
    """These columns, with those as text that Spark cannot compare, or that have another type."""
    kinds = dict(frame.dtypes)
    return frame.select(
        [
            F.to_json(f"`{name}`").alias(name)
            if "map<" in kinds[name]
            else F.col(f"`{name}`").cast("string").alias(name)
            if name in as_text or kinds[name] == "variant"
            else F.col(f"`{name}`")
            for name in names
        ]
    )


def _is_unique(frame: DataFrame, key: Sequence[str]) -> bool:
    columns = [f"`{name}`" for name in key]
    return not frame.groupBy(*columns).count().where("count > 1").take(1)


def _compare_by_key(
    found: _Compared, old: DataFrame, new: DataFrame, key: Sequence[str], names: Sequence[str]
) -> None:
    def struct(frame: DataFrame, alias: str) -> DataFrame:
        keys = [F.col(f"`{name}`").alias(f"{alias}{at}") for at, name in enumerate(key)]
        return frame.select(*keys, F.struct(*[f"`{name}`" for name in (*key, *names)]).alias(alias))

    is_same_key = [F.col(f"old{at}").eqNullSafe(F.col(f"new{at}")) for at in range(len(key))]
    pairs = struct(old, "old").join(struct(new, "new"), is_same_key, "full_outer")
    differs = [~F.col(f"old.`{name}`").eqNullSafe(F.col(f"new.`{name}`")) for name in names]
    is_pair = F.col("old").isNotNull() & F.col("new").isNotNull()
    is_changed = is_pair & F.greatest(F.lit(False), F.lit(False), *differs)
    counts = pairs.agg(
        F.count("old"),
        F.count("new"),
        F.count_if(F.col("old").isNull()),
        F.count_if(F.col("new").isNull()),
        F.count_if(is_changed),
        *[F.count_if(is_pair & each) for each in differs],
    ).collect()[0]
    found.rows_before, found.rows, found.added, found.gone, found.changed = counts[:5]
    of_columns = dict(zip(names, counts[5:], strict=True))
    found.columns += [f"{name} ({count})" for name, count in of_columns.items() if count]
    order = [F.coalesce(f"old{at}", f"new{at}") for at in range(len(key))]
    for is_wanted, what in (
        (is_changed, ""),
        (F.col("old").isNull(), "added"),
        (F.col("new").isNull(), "gone"),
    ):
        rows = (
            pairs.where(is_wanted).orderBy(*order).limit(_EXAMPLES).select("old", "new").collect()
        )
        found.examples += [_example(row, key, names, what) for row in rows]


def _example(row: Any, key: Sequence[str], names: Sequence[str], what: str) -> str:
    old, new = row
    there = new or old
    which = ", ".join(f"{name} = {_text(there[name])}" for name in key)
    changes = [
        f"{name}: {_text(old[name])} to {_text(new[name])}"
        for name in names
        if not what and old[name] != new[name]
    ]
    return f"{which}: {what or '; '.join(changes)}"


def _text(value: Any) -> str:
    text = printable(str(value) if value is not None else "NULL")
    text = text if len(text) <= 40 else f"{text[:39]}…"
    return "`" + text.replace("`", "'") + "`"


def _as_markdown(compared: Sequence[_Compared]) -> str:
    headers = ("model", "rows before", "rows now", "added", "gone", "changed", "columns")
    cells = [[str(cell).replace("|", "\\|") for cell in each.cells()] for each in compared]
    table = tabulate(cells, headers, tablefmt="github", disable_numparse=True)
    lines = ["", table]
    for each in compared:
        if each.examples:
            lines += ["", f"Rows of {each.name}, for example:", ""]
            lines += [f"- {example}" for example in each.examples]
    return "\n".join(lines)


def _drop(spark: SparkSession, nodes: Iterable[Any]) -> None:
    nodes = list(nodes)
    for node in nodes:
        if node.database in formats.OTHERS:
            # Otherwise its files would stay.
            spark.sql(f"drop table if exists {_table(node)} purge")
    for name in sorted({node.schema for node in nodes}):
        for schema in _schemas(name):
            spark.sql(f"drop schema if exists {schema} cascade")
