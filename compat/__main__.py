"""Install this repository's dbt packages: from the hub, or our stand-in where no hub answers.

TIDEMARK_DBT_PACKAGES says which: `auto` (the hub if it answers, the default), `hub` (nothing else
will do), `compat` (the stand-in, no network). `packages.yml` is the same for all three.
Never run a bare `dbt deps` on a closed network: it empties the folder first, and then fails.
"""

import argparse
import filecmp
import os
import re
import shutil
import sys
from pathlib import Path

import yaml

from tidemark.dbt_plugin import packages
from tidemark.errors import ConfigError, SetupError, TidemarkError

REPO = Path(__file__).parent.parent
MODE_VARIABLE = "TIDEMARK_DBT_PACKAGES"
HUB_TIMEOUT_SECONDS = 5
PACKAGE = "dbt_expectations"
# Only our package has this file.
STAND_IN_MARK = "macros/shared/is_stand_in.sql"


def install(project_dir: Path, *, refresh: bool = False) -> str:
    """Fill the project's `dbt_packages` and say what is there: `hub` or `stand-in`.

    What is installed already is kept, without a look at the network, unless `refresh` is set.
    Raises SetupError when the hub is demanded and cannot be had.
    """
    mode = os.environ.get(MODE_VARIABLE) or "auto"
    if mode not in ("auto", "hub", "compat"):
        raise ConfigError(f"{MODE_VARIABLE} must be auto, hub or compat, not {mode!r}.")
    present = None if refresh else installed(project_dir)
    if present and (mode == "auto" or present == {"hub": "hub", "compat": "stand-in"}[mode]):
        return present
    if mode == "compat":
        _install_stand_in(project_dir)
        return "stand-in"
    problem = _hub_problem() or _install_from_hub(project_dir)
    if problem is None:
        return "hub"
    if mode == "hub":
        raise SetupError(f"The dbt packages cannot be installed from the hub: {problem}.")
    _install_stand_in(project_dir)
    print(f"Notice: {problem}; {PACKAGE} is our stand-in from compat/ until the hub answers.")
    return "stand-in"


def installed(project_dir: Path) -> str | None:
    """What `dbt_packages` holds: `hub`, `stand-in`, or None if neither is whole and current."""
    folder = project_dir / "dbt_packages"
    if not all((folder / name).exists() for name in _local(project_dir)):
        return None
    if (folder / PACKAGE / STAND_IN_MARK).exists():
        same = _is_same_tree(project_dir / "compat" / PACKAGE, folder / PACKAGE)
        return "stand-in" if same else None
    locked = re.findall(r"name: (\w+)", (project_dir / "package-lock.yml").read_text())
    return "hub" if all((folder / name / "dbt_project.yml").exists() for name in locked) else None


def missing_tests(project_dir: Path) -> list[str]:
    """The tests of dbt_expectations that the project's YAML uses and the stand-in lacks.

    `dbt parse` does not notice them.
    """
    macros = (project_dir / "compat" / PACKAGE / "macros").rglob("*.sql")
    known = {name for file in macros for name in re.findall(r"{%-? test (\w+)", file.read_text())}
    folders = [project_dir / name for name in ("models", "snapshots", "seeds")]
    files = [file for folder in folders for file in folder.rglob("*.y*ml")]
    pattern = rf"\b{PACKAGE}\.(\w+)"
    used = {name for file in files for name in re.findall(pattern, file.read_text())}
    return sorted(used - known)


def _local(project_dir: Path) -> dict[str, Path]:
    """The packages of packages.yml that are folders, by their names."""
    named = yaml.safe_load((project_dir / "packages.yml").read_text())["packages"]
    folders = [project_dir / each["local"] for each in named if "local" in each]
    return {
        yaml.safe_load((folder / "dbt_project.yml").read_text())["name"]: folder
        for folder in folders
    }


def _is_same_tree(left: Path, right: Path) -> bool:
    """The same files with the same bytes, in all folders below."""
    names = [
        sorted(file.relative_to(root) for file in root.rglob("*") if file.is_file())
        for root in (left, right)
    ]
    return names[0] == names[1] and all(
        filecmp.cmp(left / name, right / name, shallow=False) for name in names[0]
    )


def _hub_problem() -> str | None:
    """Why the hub cannot be asked, or None if it answers. The address is dbt's own."""
    import requests
    from dbt.clients.registry import DEFAULT_REGISTRY_BASE_URL as HUB

    if not HUB.endswith("/"):
        raise ConfigError(
            f"DBT_PACKAGE_HUB_URL must end with a slash, for dbt appends to it: {HUB}"
        )
    try:
        answer = requests.get(f"{HUB}api/v1/index.json", timeout=HUB_TIMEOUT_SECONDS)
    except requests.RequestException as error:
        return f"the dbt package hub does not answer ({type(error).__name__})"
    if answer.status_code != 200:
        return f"the dbt package hub answers with status {answer.status_code}"
    return None


def _install_from_hub(project_dir: Path) -> str | None:
    """Run `dbt deps`; why it failed, or None. After a failure `dbt_packages` may be gone."""
    try:
        packages.install(project_dir)
    except SetupError as error:
        return f"the dbt package hub answers, but {str(error)[:200]}"
    return None if installed(project_dir) == "hub" else f"the hub brings no {PACKAGE}"


def _install_stand_in(project_dir: Path) -> None:
    """Make `dbt_packages` a copy of compat/, never half of one."""
    target = project_dir / "dbt_packages"
    staging = project_dir / "target" / f"dbt_packages.{os.getpid()}"
    shutil.copytree(project_dir / "compat" / PACKAGE, staging / PACKAGE)
    for name, folder in _local(project_dir).items():
        # As dbt does it.
        (staging / name).symlink_to(folder)
    shutil.rmtree(target, ignore_errors=True)
    staging.rename(target)


def main() -> int:
    """Install the packages of this repository's project."""
    parser = argparse.ArgumentParser(prog="python -m compat", description=__doc__)
    parser.add_argument("--refresh", action="store_true", help="install again what is there")
    arguments = parser.parse_args()
    try:
        install(REPO, refresh=arguments.refresh)
    except TidemarkError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
