"""The project's dbt packages, Tidemark's own among them.

dbt installs packages only from a hub, a git repository or a folder. Tidemark's dbt package is a
folder of this Python package, whose location depends on the machine. So `packages.yml` refers to a
link.
"""

import os
from pathlib import Path

import yaml

import tidemark
from tidemark.errors import ConfigError, SetupError

PACKAGE = Path(tidemark.__file__).parent / "dbt_package"
LINK = ".tidemark-package"


def install(project: Path) -> None:
    """Install the packages of packages.yml with `dbt deps`.

    Raises SetupError with dbt's message if a package cannot be installed. In this case `dbt deps`
    has emptied dbt_packages.
    """
    from dbt.cli.main import dbtRunner

    if uses_link(project):
        _link(project)
    # dbt changes the working directory, and prints a stack trace for each attempt.
    here = Path.cwd()
    try:
        result = dbtRunner().invoke(["--log-level", "none", "deps", "--project-dir", str(project)])
    finally:
        os.chdir(here)
    if not result.success:
        reason = " ".join(str(result.exception).split())
        raise SetupError(f"`dbt deps` could not install the dbt packages: {reason}")


def ensure(project: Path) -> None:
    """Install the packages if one is missing, in projects that use the link.

    Raises SetupError, like `install`.
    """
    if not uses_link(project):
        return
    settings = yaml.safe_load((project / "dbt_project.yml").read_text()) or {}
    installed = project / settings.get("packages-install-path", "dbt_packages")
    _link(project)
    if not (installed / "tidemark" / "dbt_project.yml").exists():
        print("Installing the dbt packages")
        install(project)


def uses_link(project: Path) -> bool:
    """Whether the project refers to Tidemark's dbt package through the link."""
    return any(
        each.get("local") == LINK
        for name in ("packages.yml", "dependencies.yml")
        if (project / name).exists()
        for each in (yaml.safe_load((project / name).read_text()) or {}).get("packages") or []
    )


def _link(project: Path) -> None:
    """Create the link, or update it to the installed Tidemark."""
    place = project / LINK
    if place.is_symlink() and place.resolve() == PACKAGE.resolve():
        return
    if place.exists() and not place.is_symlink():
        raise ConfigError(
            f"{place} is not a link, but Tidemark needs to create one. Move it away, then run: "
            "tidemark deps"
        )
    new = project / f"{LINK}.{os.getpid()}"
    new.symlink_to(PACKAGE)
    new.replace(place)
