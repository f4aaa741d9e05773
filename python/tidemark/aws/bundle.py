"""Package the project for a job on AWS: see docs/targets/aws.md."""

import re
import shutil
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement

import tidemark
from tidemark import paths, places, targets
from tidemark.errors import ConfigError, printable

_PACKAGE = Path(tidemark.__file__).parent
# What `tidemark init` copies; a job creates no projects.
_NOT_FOR_JOBS = (_PACKAGE / "scaffold" / "examples", _PACKAGE / "scaffold" / "template")

# The project files that dbt and landing read. The bundle contains no other files.
_PROJECT = (
    *("dbt_project.yml", "packages.yml", "dependencies.yml", "package-lock.yml", "selectors.yml"),
    *(".dbtignore", "profiles.yml", "profiles", "dbt_packages"),
)
_FOLDERS = {
    **{"model": "models", "macro": "macros", "snapshot": "snapshots", "seed": "seeds"},
    **{"analysis": "analyses", "docs": "docs", "function": "functions", "test": "tests"},
}
# Folders with settings, which may contain passwords. Other file types are left out.
_SETTINGS = ("profiles.yml", "profiles")
_OF_SETTINGS = (".yml", ".yaml", ".conf", ".properties")
_WORDS = r"secret|passw(or)?d|token|access[._-]?key|private[._-]?key|credential"
_SECRET = re.compile(rf"({_WORDS})(?!.*[._-](path|file)$)", re.IGNORECASE)
# A secret within another value: -Dpassword=..., or https://user:password@host.
_SECRET_INSIDE = re.compile(
    rf"({_WORDS})[\w.-]*\s*[=:]\s*[^\s,;$]|://[^/\s:@]+:[^/\s@]+@", re.IGNORECASE
)
_FROM_ENVIRONMENT = re.compile(
    r"\{\{\s*env_var\(\s*(['\"])[^'\"]*\1\s*(,\s*(['\"])\3\s*)?\)[^{}'\"]*\}\}|\$\{[^}]*\}"
)
# The files below tests/ that dbt reads. Tidemark's own tests are Python, with thousands of files.
_OF_DBT = (".sql", ".yml", ".yaml", ".md", ".csv")
# The packages to install. Without PySpark, which would replace the host's.
_MODULES = (
    *("dbt-core", "dbt-spark[PyHive]", "pandas", "pyarrow", "fastavro", "cramjam", "boto3"),
    *("pyyaml", "pygal", "tabulate", "tqdm", "deltalake"),
)
_NEVER = ("pyspark", "delta-spark")


def make(place: str) -> list[str]:
    """Write the job's files to a folder, local or on S3. Returns their locations.

    `project.zip` is the dbt project with its dbt packages, `tidemark.zip` this package,
    `tidemark_job.py` the script, `requirements.txt` the other packages in the versions installed
    here. Raises AwsError if S3 refuses a file, and ConfigError if the profile contains a password
    or a link leads out of the project.
    """
    with tempfile.TemporaryDirectory(prefix="tidemark-") as folder:
        return [places.put(file, place) for file in _written(Path(folder))]


def _written(folder: Path) -> list[Path]:
    project = paths.project_dir()
    settings = yaml.safe_load((project / "dbt_project.yml").read_text())
    own = {
        name: kind
        for kind, usual in _FOLDERS.items()
        for name in settings.get(f"{kind}-paths", [usual])
    }
    of_tests = [name for name, kind in own.items() if kind == "test"]
    _zip(folder / "project.zip", project, [*_PROJECT, *own], of_tests)
    _zip(folder / "tidemark.zip", _PACKAGE.parent, ["tidemark", "dbt_tidemark.py"])
    shutil.copy(_PACKAGE.parent / "tidemark_job.py", folder)
    (folder / "requirements.txt").write_text("".join(f"{line}\n" for line in sorted(modules())))
    order = ("tidemark_job.py", "tidemark.zip", "requirements.txt", "project.zip")
    return [folder / name for name in order]


def _zip(file: Path, root: Path, names: Sequence[str], of_tests: Collection[str] = ()) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in dict.fromkeys(names):
            for each in _files(root, root / name):
                path = str(each.relative_to(root))
                if name in of_tests and each.suffix not in _OF_DBT:
                    continue
                if name in _SETTINGS:
                    if each.suffix not in _OF_SETTINGS:
                        continue
                    _require_no_secret(each, path)
                if path != printable(path):
                    raise ConfigError(
                        f"{path}: the name has unprintable characters. Rename the file."
                    )
                archive.write(each, path)


def _files(root: Path, top: Path, above: Sequence[Path] = ()) -> Iterator[Path]:
    """The files at or below a path. Raises ConfigError if a link leads out of the project."""
    # Tidemark's own package contains links in its repository.
    if top.is_symlink() and not top.is_relative_to(_PACKAGE):
        _require_inside(root, top)
    if top.is_file():
        yield top
    # A link to a parent folder would never end.
    elif top.is_dir() and top.name != "__pycache__" and top.resolve() not in above:
        if top in _NOT_FOR_JOBS:
            return
        for each in sorted(top.iterdir()):
            yield from _files(root, each, [*above, top.resolve()])


def _require_inside(root: Path, link: Path) -> None:
    # dbt creates links for local packages.
    packages = root / "dbt_packages"
    installed = [*packages.iterdir()] if packages.is_dir() else []
    place = link.resolve()
    if not any(place.is_relative_to(each.resolve()) for each in (root, *installed)):
        raise ConfigError(
            f"{link.relative_to(root)} is a link to {place}, which is outside the project. A "
            "bundle contains only files of the project. Replace the link with a copy."
        )


def _require_no_secret(file: Path, path: str) -> None:
    text = file.read_text()
    try:
        is_yaml = file.suffix[1] == "y"
        pairs = _pairs("", yaml.safe_load(text)) if is_yaml else targets.spark_settings(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not readable YAML: {error}") from error
    for name, value in pairs:
        rest = _FROM_ENVIRONMENT.sub("", value).strip()
        if rest and (_SECRET.search(name) or _SECRET_INSIDE.search(rest)):
            raise ConfigError(
                f"{path} contains a secret in {name}, and a bundle must not contain secrets. Read "
                "it from the job's environment, with {{ env_var('DBT_ENV_SECRET_...') }}, or rely "
                "on the job's role."
            )


def _pairs(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """The names and values of all scalars in a YAML file."""
    if isinstance(value, Mapping):
        for inner, each in value.items():
            yield from _pairs(str(inner), each)
    elif isinstance(value, list):
        for each in value:
            yield from _pairs(name, each)
    elif value is not None and not isinstance(value, bool):
        yield name, str(value)


def modules() -> Iterator[str]:
    """The packages that a job installs, with their dependencies, as `name==version`."""
    seen: set[str] = set()
    ahead = [Requirement(name) for name in _MODULES]
    while ahead:
        wanted = ahead.pop()
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        if name in _NEVER:
            continue
        found = metadata.distribution(name)
        if name not in seen:
            seen.add(name)
            yield f"{name}=={found.version}"
        for extra in ("", *wanted.extras):
            mark = f"{name}[{extra}]"
            if mark in seen:
                continue
            seen.add(mark)
            needs = [Requirement(text) for text in found.requires or ()]
            ahead += [
                each
                for each in needs
                if each.marker is None or each.marker.evaluate({"extra": extra})
            ]
