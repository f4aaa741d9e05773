"""`tidemark init`: create a project, or add Tidemark to an existing dbt project."""

import difflib
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

from tidemark.dbt_plugin import packages
from tidemark.errors import ConfigError
from tidemark.scaffold import edits

_TEMPLATE = Path(__file__).parent / "template"
_EXAMPLES = Path(__file__).parent / "examples"
# Folders that are empty in a new project.
_EMPTY = (
    *("models/staging", "models/current", "models/history", "models/marts"),
    *("snapshots", "seeds", "tests", "python", "landing"),
)
_NAME = "__NAME__"


def new(folder: Path, example: str | None = None) -> list[Path]:
    """Write a new project into a folder, with an example domain if given. Returns the files.

    Never overwrites. Raises ConfigError if there already is a project, or no such example.
    """
    if (folder / "dbt_project.yml").exists() and not example:
        raise ConfigError(
            f"{folder} already has a dbt_project.yml. To add Tidemark to this project, run: "
            f"tidemark init --into {folder}"
        )
    if example and example not in examples():
        raise ConfigError(f"There is no example {example}. Use one of {', '.join(examples())}.")
    written = []
    if not (folder / "dbt_project.yml").exists():
        written += _project(folder)
    if example:
        written += _example(folder, example)
    packages.install(folder)
    return written


def examples() -> list[str]:
    """The example domains that `new` can copy."""
    return sorted(tour.parent.name for tour in (_EXAMPLES / "examples").glob("*/tour.yml"))


def _project(folder: Path) -> list[Path]:
    name = re.sub(r"\W+", "_", folder.resolve().name.lower()).strip("_") or "lakehouse"
    name = f"_{name}" if name[0].isdigit() else name
    if name == "tidemark":
        name = "lakehouse"  # the dbt package is called tidemark
    files = _files(_TEMPLATE)
    there = [file for file in files if (folder / file.relative_to(_TEMPLATE)).exists()]
    if there:
        raise ConfigError(
            f"{folder / there[0].relative_to(_TEMPLATE)} already exists. Nothing was written."
        )
    for each in _EMPTY:
        (folder / each).mkdir(parents=True, exist_ok=True)
        if each != "landing":
            (folder / each / ".gitkeep").touch()
    written = [
        _copied(file, folder / file.relative_to(_TEMPLATE), lambda text: text.replace(_NAME, name))
        for file in files
    ]
    # dbt looks for the profile next to dbt_project.yml.
    (folder / "profiles.yml").symlink_to("profiles/profiles.yml")
    return written


def _example(folder: Path, domain: str) -> list[Path]:
    files = [file for file in _files(_EXAMPLES) if domain in file.relative_to(_EXAMPLES).parts[:-1]]
    files.append(_EXAMPLES / "models" / "_groups.yml")
    written = []
    for file in files:
        target = folder / file.relative_to(_EXAMPLES)
        if not target.exists():
            written.append(_copied(file, target))
    return written


def _files(folder: Path) -> list[Path]:
    """The files below a folder. In Tidemark's repository, some folders are links."""
    found = os.walk(folder, followlinks=True)
    return sorted(Path(place, name) for place, _, names in found for name in names)


def _copied(file: Path, target: Path, change: Callable[[str], str] = lambda text: text) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix in (".yml", ".md", ".sql"):
        target.write_text(change(_without_expectations(file.read_text())))
    else:
        shutil.copyfile(file, target)
    return target


def _without_expectations(text: str) -> str:
    """Remove the data tests of dbt_expectations, which a new project does not have."""
    lines: list[str] = []
    depth: int | None = None
    for line in text.splitlines(keepends=True):
        indent = len(line) - len(line.lstrip())
        if depth is not None and (not line.strip() or indent > depth):
            continue
        depth = indent if line.lstrip().startswith("- dbt_expectations.") else None
        if depth is None:
            lines.append(line)
    # Remove `data_tests:` if its list is now empty.
    kept = [
        line
        for line, after in zip(lines, [*lines[1:], ""], strict=True)
        if line.strip() != "data_tests:"
        or len(after) - len(after.lstrip()) > len(line) - len(line.lstrip())
    ]
    return "".join(kept)


# --- add to an existing project -------------------------------------------------------------------


def changes_into(project: Path) -> dict[Path, tuple[str, str]]:
    """The changes that a dbt project needs for Tidemark: each file's text before and after.

    Only adds lines and list entries. Empty if the project needs no changes. Raises ConfigError if
    there is no dbt project, or a file cannot be changed in this way.
    """
    file = project / "dbt_project.yml"
    if not file.exists():
        raise ConfigError(
            f"There is no dbt_project.yml in {project}. To create a project: tidemark init DIR"
        )
    in_dependencies = (
        not (project / "packages.yml").exists() and (project / "dependencies.yml").exists()
    )
    packages_file = project / ("dependencies.yml" if in_dependencies else "packages.yml")
    changed = {
        file: _with_settings,
        packages_file: _with_package,
        project / ".gitignore": _with_ignored,
    }
    found = {}
    for place, change in changed.items():
        before = place.read_text() if place.exists() else ""
        try:
            after = change(before)
        except (yaml.YAMLError, edits.NoPlaceError) as error:
            raise ConfigError(f"{place} could not be changed: {error}") from error
        if after != before:
            found[place] = (before, after)
    return found


def told(project: Path, changes: Mapping[Path, tuple[str, str]]) -> str:
    """The changes as a diff."""
    return "".join(
        line
        for place, (before, after) in changes.items()
        for line in difflib.unified_diff(
            before.splitlines(keepends=True),
            after.splitlines(keepends=True),
            f"a/{place.relative_to(project)}",
            f"b/{place.relative_to(project)}",
        )
    )


def write_into(project: Path, changes: Mapping[Path, tuple[str, str]]) -> None:
    """Write the changes, and install the package."""
    for place, (_, after) in changes.items():
        place.write_text(after)
    packages.install(project)


def hints(project: Path) -> list[str]:
    """What the user has to do: change the profile, which may be outside of the project."""
    name = yaml.safe_load((project / "dbt_project.yml").read_text()).get("profile")
    found = [project / "profiles.yml", Path.home() / ".dbt" / "profiles.yml"]
    file = next((each for each in found if each.exists()), None)
    profile = (yaml.safe_load(file.read_text()) or {}).get(name) if file else None
    outputs = (profile or {}).get("outputs", {})
    fit = [
        target
        for target, output in outputs.items()
        if output.get("type") == "spark" and output.get("method") in ("session", "thrift")
    ]
    if fit:
        return [f"Tidemark works with the target {', '.join(fit)} of {file}."]
    example = "{type: spark, method: session, host: embedded, schema: default, threads: 4}"
    return [
        f"Add a target to the profile {name} in {file or found[0]}, such as: embedded: {example}"
    ]


def _with_package(text: str) -> str:
    entries = (yaml.safe_load(text) or {}).get("packages") or []
    if any(each.get("local") == packages.LINK for each in entries):
        return text
    return edits.added(text, ["packages"], [{"local": packages.LINK}])


def _with_ignored(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    wanted = ["/.tidemark/", f"/{packages.LINK}", "/landing/"]
    missing = [f"{line}\n" for line in wanted if line not in lines]
    return (text and edits.ended(text)) + "".join(missing) if missing else text


def _with_settings(text: str) -> str:
    """Add dispatch, hooks and the layers' settings to dbt_project.yml."""
    content = yaml.safe_load(text)
    name = content["name"]
    ours = yaml.safe_load((_TEMPLATE / "dbt_project.yml").read_text().replace(_NAME, name))
    orders = content.get("dispatch") or []
    at = next((i for i, each in enumerate(orders) if each["macro_namespace"] == "dbt"), None)
    if at is None:
        text = edits.added(text, ["dispatch"], ours["dispatch"])
    elif "tidemark" not in (order := orders[at]["search_order"]):
        before = order.index("dbt") if "dbt" in order else 0
        text = edits.listed(text, ["dispatch", at, "search_order"], "tidemark", before)
    for hook in ("on-run-start", "on-run-end"):
        theirs = content.get(hook) or []
        if "tidemark." in str(theirs):
            continue
        (statement,) = ours[hook]
        if not theirs:
            text = edits.added(text, [hook], [statement])
            continue
        if isinstance(theirs, str):
            text = edits.as_list(text, [hook])
            theirs = [theirs]
        # Land before the project's own hooks, and release the lake after them.
        text = edits.listed(
            text, [hook], f'"{statement}"', 0 if hook == "on-run-start" else len(theirs)
        )
    folders = (content.get("models") or {}).get(name) or {}
    for layer in ("staging", "current", "history"):
        settings = ours["models"][name][layer]
        if layer not in folders:
            usual = {} if layer == "staging" else {"+file_format": "delta"}
            text = edits.added(text, ["models", name, layer], {**usual, **settings})
    return text
