"""Which target a command works on, and how that reaches Spark: dbt's own profile says it."""

import os
from functools import cache
from pathlib import Path

import jinja2
import yaml

from tidemark import paths
from tidemark.errors import ConfigError

TARGET_VARIABLE = "DBT_TARGET"

# What dbt says itself, once it runs: its command line counts for more than the files.
_told: list[str] = []


def use(name: str) -> None:
    """Work on this target from now on, as dbt's `--target` does.

    Raises ConfigError when there is none, or none that Tidemark's own commands can work on.
    """
    os.environ[TARGET_VARIABLE] = name
    require_spark()


def require_spark() -> None:
    """Raises ConfigError on a target of dbt-glue: only dbt reaches its Spark."""
    if method() == "glue":
        raise ConfigError(
            "The target glue only builds: run `dbt build --target glue`. Landing is done by the "
            "Glue job, python/tidemark_job.py; see docs/targets/aws.md."
        )


def use_method(name: str) -> None:
    """Work on a target of this method from now on, whatever the profile says."""
    _told[:] = [name]


def method() -> str:
    """The target's `method`: `session` (Spark in this process) or `thrift` (a server's).

    A target of dbt-glue has none; it is `glue`.
    """
    return (
        _told[0]
        if _told
        else _method(profiles_dir() / "profiles.yml", os.environ.get(TARGET_VARIABLE, ""))
    )


def profiles_dir() -> Path:
    """The folder of profiles.yml: DBT_PROFILES_DIR, here, the project's, or `~/.dbt`.

    dbt itself does not look into the project when it is started elsewhere.
    """
    named = os.environ.get("DBT_PROFILES_DIR")
    if named:
        return Path(named)
    folders = [Path.cwd(), paths.project_dir(), Path.home() / ".dbt"]
    return next((folder for folder in folders if (folder / "profiles.yml").exists()), folders[-1])


@cache
def _method(file: Path, name: str) -> str:
    if not file.exists():
        raise ConfigError(f"{file} is missing: it says where dbt runs.")
    project = yaml.safe_load((paths.project_dir() / "dbt_project.yml").read_text())
    profile = yaml.safe_load(file.read_text()).get(project.get("profile"), {})
    outputs = profile.get("outputs", {})
    target = name or _rendered(profile.get("target", "default"))
    if target not in outputs:
        raise ConfigError(f"{file} has no target {target}: use one of {', '.join(outputs)}.")
    output = outputs[target]
    return "glue" if output.get("type") == "glue" else _rendered(output.get("method", ""))


def _rendered(text: str) -> str:
    """A setting of the profile, as dbt would read it."""
    return jinja2.Template(str(text)).render(env_var=os.environ.get)
