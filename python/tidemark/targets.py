"""The target that a command works on: how it reaches Spark, from dbt's profile, and its catalog."""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import yaml

from tidemark import paths
from tidemark.errors import ConfigError
from tidemark.shared import shared

TARGET_VARIABLE = "DBT_TARGET"
CATALOG_VARIABLE = "TIDEMARK_CATALOG"
FORMAT_VARIABLE = "TIDEMARK_FORMAT"
# The formats that a lake can have.
_FORMATS = ("delta", "iceberg")


def use(name: str) -> None:
    """Use this target from now on, like dbt's `--target`.

    Raises ConfigError if it does not exist, or Tidemark's own commands do not support it.
    """
    os.environ[TARGET_VARIABLE] = name
    require_spark()


def require_spark() -> None:
    """Raise ConfigError on a target of dbt-glue, whose Spark only dbt can reach."""
    if method() == "glue":
        raise ConfigError(
            "The target glue only builds: run `dbt build --target glue`. Landing is done by the "
            "Glue job, python/tidemark_job.py; see docs/targets/aws.md."
        )


def catalog() -> str:
    """The catalog besides Spark's own metastore: `glue`, `rest` or ''.

    Raises ConfigError for another one.
    """
    named = os.environ.get(CATALOG_VARIABLE, "")
    if named not in ("", "glue", "rest"):
        raise ConfigError(
            f"{CATALOG_VARIABLE} is '{named}': it must be glue or rest, or not be set."
        )
    return named


def lake_format() -> str:
    """The format of the change logs and Tidemark's own tables: TIDEMARK_FORMAT, by default `delta`.

    Raises ConfigError for an unknown one, and for one that the target or the catalog cannot have.
    """
    named = os.environ.get(FORMAT_VARIABLE, "") or "delta"
    if named not in _FORMATS:
        raise ConfigError(f"{FORMAT_VARIABLE} is '{named}': it must be {' or '.join(_FORMATS)}.")
    if named == "delta":
        return named
    if method() not in ("session", "thrift"):
        raise ConfigError(
            f"{FORMAT_VARIABLE} is {named}, which needs embedded Spark or a Thrift server."
        )
    if catalog():
        raise ConfigError(
            f"{FORMAT_VARIABLE} is {named} and {CATALOG_VARIABLE} is {catalog()}. Set only one of "
            "them: such a lake has all its tables in Spark's own metastore."
        )
    return named


def use_method(name: str) -> None:
    """Use this method from now on, whatever the profile says."""
    shared.method = name


def method() -> str:
    """The target's `method`: `session` (Spark in this process) or `thrift` (a server).

    A target of dbt-glue has no method; it returns `glue`.
    """
    return shared.method or _method(
        profiles_dir() / "profiles.yml", os.environ.get(TARGET_VARIABLE, "")
    )


def spark_settings(text: str) -> Iterator[tuple[str, str]]:
    """The settings in the text of a spark-defaults.conf: `name value`, `name=value`, `name: value`.

    As Spark itself reads it.
    """
    for line in map(str.strip, text.splitlines()):
        if line and line[0] not in "#!":
            name, value = re.split(r"\s*[=:]\s*|\s+", f"{line} ", maxsplit=1)
            yield name, value.strip()


def profiles_dir() -> Path:
    """The folder of profiles.yml: DBT_PROFILES_DIR, the working directory, the project, or ~/.dbt.

    dbt itself does not search the project folder if it is started elsewhere.
    """
    named = os.environ.get("DBT_PROFILES_DIR")
    if named:
        return Path(named)
    folders = [Path.cwd(), paths.project_dir(), Path.home() / ".dbt"]
    return next((folder for folder in folders if (folder / "profiles.yml").exists()), folders[-1])


def with_schema(file: Path, schema: str) -> None:
    """Write the profile into a file, with another schema for the target.

    The target's schema `default` is replaced; another one gets the new one as a suffix.
    """
    profiles, output = _output(profiles_dir() / "profiles.yml", os.environ.get(TARGET_VARIABLE, ""))
    own = str(output.get("schema", "default"))
    output["schema"] = schema if own == "default" else f"{own}_{schema}"
    file.write_text(yaml.safe_dump(profiles))


@cache
def _method(file: Path, name: str) -> str:
    _, output = _output(file, name)
    return "glue" if output.get("type") == "glue" else _rendered(output.get("method", ""))


def _output(file: Path, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The profiles of a file, and in them the settings of the target."""
    if not file.exists():
        raise ConfigError(f"{file} is missing. dbt needs it to know where to run.")
    project = yaml.safe_load((paths.project_dir() / "dbt_project.yml").read_text())
    profiles = yaml.safe_load(file.read_text())
    profile = profiles.get(project.get("profile"), {})
    outputs = profile.get("outputs", {})
    target = name or _rendered(profile.get("target", "default"))
    if target not in outputs:
        raise ConfigError(f"{file} has no target {target}: use one of {', '.join(outputs)}.")
    return profiles, outputs[target]


def _rendered(text: str) -> str:
    """A setting of the profile, rendered as dbt does."""
    return jinja2.Template(str(text)).render(env_var=os.environ.get)
