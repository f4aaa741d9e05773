"""`tidemark init`: a new project, or Tidemark in a dbt project that exists."""

import difflib
import io
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.util import load_yaml_guess_indent

from tidemark.dbt_plugin import packages
from tidemark.errors import ConfigError

_TEMPLATE = Path(__file__).parent / "template"
_EXAMPLES = Path(__file__).parent / "examples"
# Folders of the layout that have no file yet.
_EMPTY = (
    *("models/staging", "models/current", "models/history", "models/marts"),
    *("snapshots", "seeds", "tests", "python", "landing"),
)
_NAME = "__NAME__"


def new(folder: Path, example: str | None = None) -> list[Path]:
    """Write a new project into a folder, with an example domain if one is named; gives the files.

    Nothing is overwritten. Raises ConfigError when there is a project already, or no such example.
    """
    if (folder / "dbt_project.yml").exists() and not example:
        raise ConfigError(
            f"{folder} has a dbt_project.yml. To add Tidemark to that project: "
            f"tidemark init --into {folder}"
        )
    if example and example not in examples():
        raise ConfigError(f"There is no example {example}: use one of {', '.join(examples())}.")
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
        name = "lakehouse"  # the dbt package has the name
    files = _files(_TEMPLATE)
    there = [file for file in files if (folder / file.relative_to(_TEMPLATE)).exists()]
    if there:
        raise ConfigError(
            f"{folder / there[0].relative_to(_TEMPLATE)} exists already: nothing was written."
        )
    for each in _EMPTY:
        (folder / each).mkdir(parents=True, exist_ok=True)
        if each != "landing":
            (folder / each / ".gitkeep").touch()
    written = [
        _copied(file, folder / file.relative_to(_TEMPLATE), lambda text: text.replace(_NAME, name))
        for file in files
    ]
    # dbt looks for the profile beside dbt_project.yml.
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
    """The files below a folder; in this package's repository some folders are links."""
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
    """YAML without the data tests of dbt_expectations: a new project does not have the package."""
    lines: list[str] = []
    depth: int | None = None
    for line in text.splitlines(keepends=True):
        indent = len(line) - len(line.lstrip())
        if depth is not None and (not line.strip() or indent > depth):
            continue
        depth = indent if line.lstrip().startswith("- dbt_expectations.") else None
        if depth is None:
            lines.append(line)
    # A list that has lost all that it had.
    kept = [
        line
        for line, after in zip(lines, [*lines[1:], ""], strict=True)
        if line.strip() != "data_tests:"
        or len(after) - len(after.lstrip()) > len(line) - len(line.lstrip())
    ]
    return "".join(kept)


# --- into a project that exists -------------------------------------------------------------------


def changes_into(project: Path) -> dict[Path, tuple[str, str]]:
    """The files that Tidemark needs changed in a dbt project, each as it is and as it would be.

    Empty when the project has all of it. Raises ConfigError when there is no dbt project.
    """
    file = project / "dbt_project.yml"
    if not file.exists():
        raise ConfigError(
            f"There is no dbt_project.yml in {project}. For a new project: tidemark init DIR"
        )
    named = "dependencies.yml" if (project / "dependencies.yml").exists() else "packages.yml"
    if (project / "packages.yml").exists():
        named = "packages.yml"
    wanted = {
        file: _changed(file, _with_settings),
        project / named: _changed(project / named, _with_package),
        project / ".gitignore": _with_ignored(project / ".gitignore"),
    }
    return {
        place: (before, after)
        for place, after in wanted.items()
        if (before := place.read_text() if place.exists() else "") != after
    }


def told(project: Path, changes: Mapping[Path, tuple[str, str]]) -> str:
    """The changes as a diff, for a person to look at."""
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
    """What a person must see to: the profile, which may be outside of the project."""
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
        return [f"Tidemark works on the target {', '.join(fit)} of {file}."]
    example = "{type: spark, method: session, host: embedded, schema: default, threads: 4}"
    return [
        f"Add a target to the profile {name} in {file or found[0]}, such as: embedded: {example}"
    ]


def _changed(file: Path, change: Callable[[Any], bool]) -> str:
    """A YAML file with a change; comments and order stay, and without a change every byte."""
    text = file.read_text() if file.exists() else ""
    content, indent, offset = load_yaml_guess_indent(text)
    content = {} if content is None else content
    if not change(content):
        return text
    writer = YAML()
    writer.preserve_quotes = True
    writer.width = 4096
    writer.indent(mapping=indent or 2, sequence=(offset or 0) + 2, offset=offset or 0)
    written = io.StringIO()
    writer.dump(content, written)
    return written.getvalue()


def _with_package(content: Any) -> bool:
    entries = content.setdefault("packages", [])
    if any(each.get("local") == packages.LINK for each in entries):
        return False
    entries.append({"local": packages.LINK})
    return True


def _with_settings(content: Any) -> bool:
    """Add dispatch, hooks and the folders' settings, as a new project has them."""
    name = content["name"]
    template = (_TEMPLATE / "dbt_project.yml").read_text().replace(_NAME, name)
    ours = yaml.safe_load(template)
    changed = False
    orders = content.setdefault("dispatch", [])
    ours_of_dbt = ours["dispatch"][0]
    of_dbt = next((each for each in orders if each["macro_namespace"] == "dbt"), None)
    if of_dbt is None:
        orders.append(ours_of_dbt)
        changed = True
    elif "tidemark" not in of_dbt["search_order"]:
        order = of_dbt["search_order"]
        order.insert(order.index("dbt") if "dbt" in order else len(order), "tidemark")
        changed = True
    for hook in ("on-run-start", "on-run-end"):
        before = content.get(hook) or []
        before = [before] if isinstance(before, str) else before
        if not any("tidemark." in each for each in before):
            # Land before their hooks begin, give the lake back when all have ended.
            content[hook] = ours[hook] + before if hook == "on-run-start" else before + ours[hook]
            changed = True
    folders = content.setdefault("models", {}).setdefault(name, {})
    for layer in ("staging", "current", "history"):
        settings = ours["models"][name][layer]
        if layer != "staging":
            settings = {"+file_format": "delta", **settings}
        if layer not in folders:
            folders[layer] = settings
            changed = True
    return changed


def _with_ignored(file: Path) -> str:
    text = file.read_text() if file.exists() else ""
    lines = [line.strip() for line in text.splitlines()]
    wanted = ["/.tidemark/", f"/{packages.LINK}", "/landing/"]
    missing = [line for line in wanted if line not in lines]
    if not missing:
        return text
    return text + ("" if not text or text.endswith("\n") else "\n") + "\n".join(missing) + "\n"
