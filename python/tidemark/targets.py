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
    """Work on this target from now on, as dbt's `--target` does. Raises ConfigError for none."""
    os.environ[TARGET_VARIABLE] = name
    method()


def use_method(name: str) -> None:
    """Work on a target of this method from now on, whatever the profile says."""
    _told[:] = [name]


def method() -> str:
    """The target's `method`: `session` (Spark in this process) or `thrift` (a server's)."""
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
    return _rendered(outputs[target].get("method", ""))


def _rendered(text: str) -> str:
    """A setting of the profile, as dbt would read it."""
    return jinja2.Template(str(text)).render(env_var=os.environ.get)
