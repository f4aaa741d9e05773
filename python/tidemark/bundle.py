"""What a job needs of this project, in one folder, for S3: see docs/targets/aws.md."""

import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Sequence
from importlib import metadata
from pathlib import Path

import yaml
from packaging.requirements import Requirement

from tidemark import paths
from tidemark.aws import transfer

# Of the project: what dbt and landing read. Whatever else stands in its folder stays there.
_PROJECT = (
    *("dbt_project.yml", "packages.yml", "dependencies.yml", "package-lock.yml", "selectors.yml"),
    *(".dbtignore", "profiles.yml", "profiles", "dbt_packages"),
)
_FOLDERS = {
    **{"model": "models", "macro": "macros", "snapshot": "snapshots", "seed": "seeds"},
    **{"analysis": "analyses", "docs": "docs", "function": "functions", "test": "tests"},
}
# dbt's own among the tests; this package's are Python, with thousands of small files.
_OF_DBT = (".sql", ".yml", ".yaml", ".md", ".csv")
# What the package imports. A job brings no PySpark: it would take the place of the host's.
_MODULES = (
    *("dbt-core", "dbt-spark[PyHive]", "pandas", "pyarrow", "fastavro", "cramjam", "boto3"),
    *("pyyaml", "tabulate", "tqdm"),
)
_NEVER = ("pyspark", "delta-spark")


def make(place: str) -> list[str]:
    """Write the job's files to a folder, local or on S3; gives their places.

    `project.zip` is the dbt project with its dbt packages, `tidemark.zip` this package for the
    host's Python, `tidemark_job.py` the script, `requirements.txt` the other modules as they are
    installed here. Raises AwsError when S3 refuses.
    """
    with tempfile.TemporaryDirectory(prefix="tidemark-") as folder:
        return [transfer.put(file, place) for file in _written(Path(folder))]


def _written(folder: Path) -> list[Path]:
    package, project = Path(__file__).parent, paths.project_dir()
    settings = yaml.safe_load((project / "dbt_project.yml").read_text())
    own = {
        name: kind
        for kind, usual in _FOLDERS.items()
        for name in settings.get(f"{kind}-paths", [usual])
    }
    of_tests = [name for name, kind in own.items() if kind == "test"]
    _zip(folder / "project.zip", project, [*_PROJECT, *own], of_tests)
    _zip(folder / "tidemark.zip", package.parent, ["tidemark", "dbt_tidemark.py"])
    shutil.copy(package.parent / "tidemark_job.py", folder)
    (folder / "requirements.txt").write_text("".join(f"{line}\n" for line in sorted(modules())))
    order = ("tidemark_job.py", "tidemark.zip", "requirements.txt", "project.zip")
    return [folder / name for name in order]


def _zip(file: Path, root: Path, names: Sequence[str], of_tests: Collection[str] = ()) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in dict.fromkeys(names):
            for each in _files(root / name):
                if name not in of_tests or each.suffix in _OF_DBT:
                    archive.write(each, each.relative_to(root))


def _files(top: Path) -> list[Path]:
    """The files below a folder, or the file; dbt makes links of packages that are local."""
    if top.is_file():
        return [top]
    return sorted(
        Path(folder, name)
        for folder, _, names in os.walk(top, followlinks=True)
        for name in names
        if Path(folder).name != "__pycache__"
    )


def modules() -> Iterator[str]:
    """The modules that a job installs, `name==version` each, with all that these need."""
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
