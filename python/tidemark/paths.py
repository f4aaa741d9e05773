"""Paths: the project, its lake, its landing folder, the jar cache."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from tidemark.errors import ConfigError
from tidemark.spark import spark_line


def project_dir() -> Path:
    """The folder with dbt_project.yml: at or above DBT_PROJECT_DIR, else the working directory."""
    named = os.environ.get("DBT_PROJECT_DIR")
    start = Path(named).resolve() if named else Path.cwd().resolve()
    for folder in [start, *start.parents]:
        if (folder / "dbt_project.yml").exists():
            return folder
    raise ConfigError(
        f"There is no dbt_project.yml in {start} or above it. "
        "Run from the project folder, or set DBT_PROJECT_DIR."
    )


def _from_env(variable: str, default: Path) -> Path:
    """The variable as a path. A relative path is resolved against the project folder."""
    value = os.environ.get(variable)
    return (project_dir() / value).resolve() if value else default


def _place(variable: str, default: Path) -> str:
    value = os.environ.get(variable, "")
    return value.rstrip("/") if "://" in value else str(_from_env(variable, default))


def lake_dir() -> Path:
    """The folder of metastore, lock, logs and usually tables: TIDEMARK_LAKE or a default."""
    return _from_env("TIDEMARK_LAKE", project_dir() / spark_line.lake_folder())


def make_lake(lake: Path | None = None) -> Path:
    """Create the lake's folder, readable only by this user, unless it exists."""
    lake = lake or lake_dir()
    if not lake.exists():
        lake.parent.mkdir(parents=True, exist_ok=True)
        lake.mkdir(mode=0o700, exist_ok=True)
    return lake


def opened_in_lake(name: str, mode: str, *, lake: Path | None = None) -> IO[str]:
    """Open a text file in the lake. A new file gets the permissions of the lake's folder."""
    lake = make_lake(lake)
    rights = lake.stat().st_mode & 0o666
    return open(
        lake / name,
        mode,
        encoding="utf-8",
        opener=lambda path, flags: os.open(path, flags, rights),
    )


def note(name: str) -> dict[str, Any]:
    """What a JSON file in the lake says; nothing if it is missing or damaged."""
    try:
        return dict(json.loads((lake_dir() / name).read_text()))
    except (OSError, ValueError):
        return {}


def write_note(name: str, what: Mapping[str, Any]) -> None:
    """Replace a JSON file in the lake, in one step."""
    with opened_in_lake(f"{name}.{os.getpid()}", "w") as file:
        json.dump(what, file, default=str)
    Path(file.name).replace(lake_dir() / name)


def landing() -> str:
    """Where change files arrive: TIDEMARK_LANDING, a path or a URI, or `landing` in the project."""
    return _place("TIDEMARK_LANDING", project_dir() / "landing")


def landing_dir() -> Path:
    """The landing folder, for code that needs local files. Raises ConfigError if it is a URI."""
    place = landing()
    if "://" in place:
        raise ConfigError(
            f"TIDEMARK_LANDING is {place}, but this command reads only local files. "
            "Copy some of the files to a local folder and point TIDEMARK_LANDING at it."
        )
    return Path(place)


def warehouse() -> str:
    """Where tables are: TIDEMARK_WAREHOUSE, a path or a URI, or `warehouse` in the lake."""
    return _place("TIDEMARK_WAREHOUSE", lake_dir() / "warehouse")


def jar_dir() -> Path:
    """The machine-wide jar cache: TIDEMARK_JARS, or `tidemark/jars` in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return _from_env("TIDEMARK_JARS", cache / "tidemark" / "jars")


def states(folder: str) -> Iterator[tuple[str, int, int]]:
    """The `state` of every file below a folder, in a fixed order."""
    for place, names, files in os.walk(folder, followlinks=True):
        names.sort()
        for name in sorted(files):
            yield state(f"{place}/{name}")


def state(file: str) -> tuple[str, int, int]:
    """A file's path, size and modification time in nanoseconds, which change with the file."""
    try:
        status = Path(file).stat()
    except OSError:  # a broken link, or just deleted
        return file, -1, -1
    return file, status.st_size, status.st_mtime_ns
