"""`tidemark init`: what a new project has, and what is added to one that exists."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.project import REPO
from tidemark.errors import ConfigError
from tidemark.scaffold import init

TEMPLATE = REPO / "python" / "tidemark" / "scaffold" / "template" / "dbt_project.yml"
PACKAGE = {"local": ".tidemark-package"}


def test_the_layers_of_a_new_project_are_those_of_the_showcase() -> None:
    showcase = yaml.safe_load((REPO / "dbt_project.yml").read_text())
    new = yaml.safe_load(TEMPLATE.read_text().replace("__NAME__", "showcase"))
    showcase["models"]["showcase"].setdefault("+file_format", "delta")
    for setting in ("models", "snapshots", "seeds", "flags", "on-run-start", "on-run-end"):
        assert new[setting] == showcase[setting], setting
    assert new["dispatch"][0] == showcase["dispatch"][0]


def test_the_package_has_every_folder_of_macros_but_the_showcases_own() -> None:
    package = yaml.safe_load((REPO / "python/tidemark/dbt_package/dbt_project.yml").read_text())
    folders = {f"macros/{each.name}" for each in (REPO / "macros").iterdir() if each.is_dir()}
    assert set(package["macro-paths"]) == folders - {"macros/project"}


def changed(folder: Path, settings: str, packages: str = "") -> tuple[dict[str, Any], Any]:
    """dbt_project.yml and packages.yml as they would be, and a look that nothing else follows."""
    (folder / "dbt_project.yml").write_text(settings)
    if packages:
        (folder / "packages.yml").write_text(packages)
    for file, (_, after) in init.changes_into(folder).items():
        file.write_text(after)
    assert init.changes_into(folder) == {}
    text = (folder / "dbt_project.yml").read_text()
    keys = [key.value for key, _ in yaml.compose(text).value]  # type: ignore[union-attr]
    assert len(keys) == len(set(keys)), text
    return yaml.safe_load(text), yaml.safe_load((folder / "packages.yml").read_text())


@pytest.mark.parametrize(
    "more",
    [
        "",
        "models:\n",
        "models:   # none yet\n",
        "models: {}\n",
        "models:\n  shop:\n",
        "models:\n  shop: {}\n",
        "models:\n  other:\n    +enabled: false",
        "models:\n  shop:\n    +schema: x # theirs\n\n\n# seeds\nseeds:\n  shop: {+schema: s}\n",
        "dispatch: []\non-run-start: []\non-run-end:\n",
        "dispatch:\n- macro_namespace: dbt\n  search_order:\n  - shop\n  - dbt\n",
        "dispatch:\n  - {macro_namespace: dbt_utils, search_order: [shop, dbt_utils]}\n",
        "on-run-start:\n  - \"{{ a() }}\"\n  - '{{ b() }}'\non-run-end: '{{ c() }}'",
    ],
)
def test_a_project_gets_what_it_lacks_and_keeps_what_it_has(tmp_path: Path, more: str) -> None:
    before = f"name: shop\n{more}"
    told, packages = changed(tmp_path, before, "packages: []\n")
    assert packages == {"packages": [PACKAGE]}
    theirs = yaml.safe_load(before)
    (of_dbt,) = [each for each in told["dispatch"] if each["macro_namespace"] == "dbt"]
    assert of_dbt["search_order"] == ["shop", "tidemark", "dbt"]
    starts = theirs.get("on-run-start") or []
    assert told["on-run-start"] == ["{{ tidemark.land_new_files() }}", *starts]
    ends = theirs.get("on-run-end") or []
    ends = [ends] if isinstance(ends, str) else ends
    assert told["on-run-end"] == [*ends, "{{ tidemark.give_back_lake() }}"]
    layers = told["models"]["shop"]
    assert layers["current"]["+delete_condition"] == "DBT_INTERNAL_SOURCE._op = 'D'"
    assert layers["history"]["+unique_key"] == "version_key"
    for name, value in (theirs.get("models") or {}).items():
        assert (value or {}).items() <= told["models"][name].items()
    for name in ("name", "seeds"):
        assert told.get(name) == theirs.get(name)


def test_packages_are_added_where_the_project_has_them(tmp_path: Path) -> None:
    hub = {"package": "dbt-labs/dbt_utils", "version": "1.3.0"}
    _, packages = changed(tmp_path, "name: shop\n", yaml.safe_dump({"packages": [hub]}))
    assert packages == {"packages": [hub, PACKAGE]}


def test_what_is_not_in_lines_is_for_a_person_to_change(tmp_path: Path) -> None:
    (tmp_path / "dbt_project.yml").write_text("name: shop\nmodels: {shop: {+schema: x}}\n")
    with pytest.raises(ConfigError, match=r"write models.shop in block style, then try again"):
        init.changes_into(tmp_path)
