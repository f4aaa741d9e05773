"""Table formats. Each has a file here, and one in macros/formats with what dbt must do for it.

The lake's own format is Delta, or that of TIDEMARK_FORMAT. It is the format of the change logs, and
its tables are in Spark's own catalog. Delta's can only be there, so a lake of another format has no
Delta tables. In a Delta lake, the tables of another format are in a catalog of its name, usually on
the same metastore; those of Hudi are in Spark's own, beside the Delta tables. A Spark gets the jars
and settings of another format when it starts, if the project asks for the format or the lake has
tables in it.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tidemark import paths, targets
from tidemark.errors import ConfigError
from tidemark.formats.delta import Delta
from tidemark.formats.format import OF_SPARK, Format
from tidemark.formats.hudi import Hudi
from tidemark.formats.iceberg import Iceberg
from tidemark.ingest import books

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The Spark setting with the classes of `extensions`.
EXTENSIONS = "spark.sql.extensions"

DELTA = Delta()
# The formats besides Delta, by their names, which are also those of their catalogs in a Delta lake.
# Spark asks the last extension first: Iceberg's takes only its own procedures, Hudi's all.
OTHERS: dict[str, Format] = {format.name: format for format in (Hudi(), Iceberg())}

# The formats besides Delta that the lake may have: a line has a name and the catalog, if it
# is another one than the format's own on the metastore. The lake's own format has Spark's.
_NOTE = "formats"
_FOLDERS = ("model", "seed", "snapshot")


def of_lake() -> Format:
    """The lake's own format. Raises ConfigError as `targets.lake_format`."""
    return ({DELTA.name: DELTA} | OTHERS)[targets.lake_format()]


def of(relation: str) -> Format:
    """The format of a table by its name, or by its folder if it is in Spark's own catalog."""
    if relation.count(".") > 1:
        return OTHERS[relation.split(".")[0]]
    beside = (each for each in used() if not each.has_catalog)
    return next((each for each in beside if each.is_in(books.place(relation))), of_lake())


def is_beside(name: str | None) -> bool:
    """Whether tables with this `file_format` are in Spark's own catalog, beside Delta tables."""
    return (name or "") in OTHERS and not OTHERS[name or ""].has_catalog


def of_listed(information: str) -> Format | None:
    """The other format of a table by the answer of `show table extended`; None if it has none."""
    return next((each for each in OTHERS.values() if each.mark.search(information)), None)


def used() -> list[Format]:
    """The formats besides Delta that Spark needs for this lake and this project."""
    names = _noted().keys() | _asked_for(paths.project_dir()) | {targets.lake_format()}
    # Without a lock file, this Spark version cannot have the format, and dbt refuses it.
    return [each for each in OTHERS.values() if each.name in names and each.lock.exists()]


def _with_own() -> list[Format]:
    """The formats that are used, the lake's own first."""
    return list(dict.fromkeys([of_lake(), *used()]))


def claim() -> None:
    """Record the format of a new lake. Raises ConfigError as `require_catalogs`."""
    require_catalogs()
    if of_lake() is not DELTA:
        note([of_lake()])


def require_catalogs() -> None:
    """Raise ConfigError if the lake's tables are in another catalog than that of the variables.

    They would be missing there, and a snapshot would begin anew.
    """
    noted = _noted()
    is_there = noted or (paths.lake_dir() / "metastore").exists()
    own = next((name for name, place in noted.items() if place == OF_SPARK), DELTA.name)
    if is_there and own != of_lake().name:
        raise ConfigError(
            f"The lake {paths.lake_dir()} has the format {own}, but {targets.FORMAT_VARIABLE} "
            f"says {of_lake().name}. A lake keeps its format: set the variable to {own}, or "
            "TIDEMARK_LAKE to another folder."
        )
    for name, before in noted.items():
        format = OTHERS.get(name)
        if format is None or _place(format) == before:
            continue
        way = "" if before else ", or add the tables to the new catalog: tidemark register"
        raise ConfigError(
            f"The {format.title} tables of this lake are in {before or 'the metastore'}, but "
            f"{targets.CATALOG_VARIABLE} and its URI now name {format.catalog or 'the metastore'}. "
            f"Nothing was done. Set the variables as before{way}."
        )


def require_catalogs_of(spark: "SparkSession") -> None:
    """The same for a Spark that another command has started, maybe with other variables."""
    for each in OTHERS.values():
        has_catalog = _setting(spark, each, "") == each.settings().get("")
        for name, value in each.settings().items() if has_catalog else ():
            if name in (".type", ".uri", ".warehouse") and _setting(spark, each, name) != value:
                raise ConfigError(
                    f"The Spark that is up has another catalog for {each.title} tables than "
                    f"{each.catalog or 'the metastore'}. Stop it: tidemark down"
                )


def require_host(spark: "SparkSession") -> None:
    """Raise ConfigError if a host's session cannot have the tables of this lake."""
    own, there = of_lake(), _setting(spark, of_lake(), "") or ""
    for each in OTHERS.values() if own is DELTA else ():
        if each.for_host.get("") == there:
            raise ConfigError(
                f"The tables of this Spark session are {each.title} tables, but "
                f"{targets.FORMAT_VARIABLE} is not set. Set it to {each.name} (a job's --format)."
            )
    missing = {
        f"spark.sql.catalog.{own.spark_catalog}{name}": value
        for name, value in own.for_host.items()
        if _setting(spark, own, name) != value
    }
    if own.for_host and own.extension not in (spark.conf.get(EXTENSIONS, None) or ""):
        missing[EXTENSIONS] = own.extension
    if missing:
        told = " and ".join(f"{name}={value}" for name, value in missing.items())
        raise ConfigError(
            f"{targets.FORMAT_VARIABLE} is {own.name}, but this Spark session lacks {told}. Set it "
            f"where the session is created, and add {own.title}'s jar. See docs/targets/aws.md"
        )


def _setting(spark: "SparkSession", format: Format, name: str) -> str | None:
    return spark.conf.get(f"spark.sql.catalog.{format.spark_catalog}{name}", None)


def _place(format: Format) -> str:
    """Where a format's tables are, as the lake notes it."""
    return OF_SPARK if format.is_of_lake else format.catalog


def settings() -> dict[str, str]:
    """The Spark settings of the formats besides Delta. Raises as `require_catalogs`."""
    require_catalogs()
    of_catalogs = {
        f"spark.sql.catalog.{each.spark_catalog}{name}": value
        for each in used()
        for name, value in each.settings().items()
    }
    return {name: value for each in used() for name, value in each.of_session.items()} | of_catalogs


def extensions() -> list[str]:
    """The classes that extend Spark's SQL for the formats that are used."""
    return [each.extension for each in _with_own() if each.extension]


def commits_tell(run_id: str) -> dict[str, str]:
    """The settings with which the commits of tables have the run's id."""
    return {
        name: value for each in _with_own() for name, value in each.commits_tell(run_id).items()
    }


def note(formats: list[Format], lake: Path | None = None) -> None:
    """Record that the lake may have tables in these formats, and the catalogs of these tables."""
    noted = _noted(lake)
    told = noted | {each.name: _place(each) for each in formats}
    if told != noted:
        with paths.opened_in_lake(_NOTE, "w", lake=lake) as file:
            file.writelines(f"{name} {catalog}".rstrip() + "\n" for name, catalog in told.items())


def move() -> None:
    """Record that what the metastore had is from now on in the catalog of the variables."""
    for name, before in _noted().items():
        if not before:
            note([OTHERS[name]])


def lost(schema: str, folder: Path) -> Iterator[tuple[str, str]]:
    """The tables in a schema's folder that a new metastore lacks, and what registers each."""
    for each in (DELTA, *OTHERS.values()):
        yield from each.lost(schema, folder)


def is_kept_in(folder: Path) -> bool:
    """Whether a folder that no catalog has is a table of another format, and not just begun."""
    return any(each.is_kept_in(folder) for each in OTHERS.values())


def _noted(lake: Path | None = None) -> dict[str, str]:
    file = (lake or paths.lake_dir()) / _NOTE
    lines = file.read_text().splitlines() if file.exists() else []
    return {name: catalog for line in lines for name, _, catalog in [line.partition(" ")]}


@cache
def _asked_for(root: Path) -> set[str]:
    """The other formats that the project's files name, without dbt, which needs seconds to parse.

    Not those that a variable names: see `relations._require_format`.
    """
    pattern = re.compile(rf"file_format['\"]?\s*[:=]\s*['\"]?({'|'.join(OTHERS)})\b")
    comment = re.compile(r"(^|\s)(#|--).*")
    texts = ("\n".join(comment.sub("", line) for line in _lines(text)) for text in _texts(root))
    return {found for text in texts for found in pattern.findall(text)}


def _lines(text: str) -> list[str]:
    return text.splitlines() if "file_format" in text else []


def _texts(root: Path) -> Iterator[str]:
    settings = (root / "dbt_project.yml").read_text()
    yield settings
    told = yaml.safe_load(settings) or {}
    for name in _FOLDERS:
        folders = told.get(f"{name}-paths") or [f"{name}s"]
        for folder in [folders] if isinstance(folders, str) else folders:
            for file in (root / folder).rglob("*.*"):
                # An editor's hidden copies may be links to nothing.
                if file.suffix in (".yml", ".yaml", ".sql", ".py") and file.name[0] not in ".#~":
                    with suppress(OSError):
                        yield file.read_text(errors="replace")
