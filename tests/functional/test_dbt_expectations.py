"""The data tests count as the hub package does, whichever package is installed."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.cli.main import dbtRunner
from dbt.config.project import load_yml_dict, package_config_from_data
from dbt.task.deps import _create_sha1_hash

from compat import __main__ as packages
from tidemark.spark import spark_line

ROOT = Path(__file__).parents[2]
CASES_PROJECT = Path(__file__).parent / "expectations"

Case = dict[str, Any]


def known_cases() -> dict[str, tuple[str, Case]]:
    """Every case of cases.yml as (model, case), by a short name in the order of the file."""
    by_model: dict[str, list[Case]] = yaml.safe_load((CASES_PROJECT / "cases.yml").read_text())
    pairs = [(model, case) for model, cases in by_model.items() for case in cases]
    return {f"case_{number:03}": pair for number, pair in enumerate(pairs, start=1)}


def schema_yml(cases: dict[str, tuple[str, Case]]) -> str:
    """The YAML that declares the cases as data tests of their models."""
    tests: dict[str, list[object]] = {}
    for name, (model, case) in cases.items():
        test = {"name": name, "arguments": case["arguments"]}
        tests.setdefault(model, []).append({f"dbt_expectations.{case['test']}": test})
    models = [{"name": model, "data_tests": declared} for model, declared in tests.items()]
    return yaml.safe_dump({"models": models})


@pytest.fixture
def cases_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the small dbt project, with the package and the overrides of the real one."""
    packages.install(ROOT)
    monkeypatch.setenv("EXPECTATIONS_PACKAGES", str(ROOT / "dbt_packages"))
    project = tmp_path / "expectations"
    shutil.copytree(CASES_PROJECT, project, ignore=shutil.ignore_patterns("cases.yml"))
    return project


def run_dbt(command: str, project: Path, profiles_dir: Path, *options: str) -> Any:
    return dbtRunner().invoke(
        [
            *("--quiet", "--log-path", str(project / "logs")),
            command,
            *("--project-dir", str(project), "--profiles-dir", str(profiles_dir)),
            *options,
        ]
    )


# On Spark 3.5, CI runs this in `make test-core`.
@(pytest.mark.slow if spark_line.name() == "4.1" else pytest.mark.functional)
def test_counts_are_the_known_ones(cases_project: Path, profiles_dir: Path) -> None:
    cases = known_cases()
    (cases_project / "models" / "schema.yml").write_text(schema_yml(cases))

    run = run_dbt("build", cases_project, profiles_dir, "--threads", "4")

    assert run.result is not None, run.exception
    results = {result.node.name: result for result in run.result}
    differences = []
    for name, (model, case) in cases.items():
        result = results[name]
        if result.failures != case["failures"]:
            differences.append(
                f"{case['test']} on {model} {case['arguments']}: {result.failures} failures, "
                f"known answer {case['failures']} ({result.status}: {result.message})"
            )
    assert not differences, "\n".join([f"{len(differences)} of {len(cases)} differ", *differences])


@pytest.mark.slow
@pytest.mark.functional
@pytest.mark.parametrize(
    ("test", "arguments", "sentence"),
    [
        ("expect_column_values_to_be_in_set", {"value_set": []}, "is an empty list"),
        ("expect_column_values_to_be_in_set", {"value_set": ["it's"]}, "with a single quote"),
        ("expect_column_values_to_be_in_set", {"value_set": "ab"}, "must be a list"),
        (
            "expect_column_values_to_be_between",
            {"strictly": True},
            "a min_value, max_value or both",
        ),
        ("expect_column_values_to_be_unique", {"group_by": ["grp"]}, "takes no keyword argument"),
        ("expect_column_values_to_match_regex", {"regex": "it's"}, "a single quote would end"),
    ],
)
def test_wrong_arguments_are_refused_while_parsing(
    cases_project: Path,
    profiles_dir: Path,
    test: str,
    arguments: Case,
    sentence: str,
) -> None:
    if packages.installed(ROOT) == "hub":
        pytest.skip("the hub package has its own words")
    case = {"test": test, "arguments": {"column_name": "s", **arguments}}
    (cases_project / "models" / "schema.yml").write_text(schema_yml({"wrong": ("ev", case)}))

    run = run_dbt("parse", cases_project, profiles_dir)

    assert sentence in str(run.exception)


def test_every_case_has_a_test_in_the_stand_in(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "compat").symlink_to(ROOT / "compat")
    (tmp_path / "models" / "schema.yml").write_text(schema_yml(known_cases()))

    assert packages.missing_tests(tmp_path) == []


def test_the_lock_file_fits_packages_yml() -> None:
    # Otherwise `dbt deps` resolves the versions anew.
    wanted = load_yml_dict(str(ROOT / "packages.yml"))
    lock = load_yml_dict(str(ROOT / "package-lock.yml"))

    assert lock["sha1_hash"] == _create_sha1_hash(package_config_from_data(wanted, wanted).packages)
