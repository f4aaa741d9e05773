"""Tidemark as others have it: installed from its wheel, in a project of their own."""

import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests import environments, jaffle_shop
from tests.environments import Environment
from tests.jaffle_shop import PEOPLE, JaffleShop
from tidemark.spark import spark_line

pytestmark = pytest.mark.functional


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return environments.with_wheel(tmp_path_factory.mktemp("wheel") / "venv")


def csv_of(wheel: Environment, project: Path, query: str) -> list[str]:
    told = wheel.must("tidemark", "sql", "--format", "csv", query, cwd=project)
    return told.splitlines()[1:]


def rows(project: Path, relation: str, columns: str) -> list[tuple[str, ...]]:
    """Some columns of a table as texts, read without another Spark."""
    schema, table = relation.split(".")
    place = project / ".tidemark/warehouse" / f"{schema}.db" / table
    found = DeltaTable(place).to_pyarrow_table(columns=columns.split(", ")).to_pylist()
    return sorted(tuple(map(str, row.values())) for row in found)


def put(project: Path, path: str, text: str) -> None:
    file = project / "landing" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_new_project_from_nothing(wheel: Environment, tmp_path: Path) -> None:
    place = wheel.must(
        "python", "-c", "import tidemark; print(tidemark.__file__)", cwd=tmp_path
    ).strip()
    assert place.startswith(str(wheel.folder)), place
    # The slow test below copies it.
    assert (Path(place).parent / "scaffold/examples/examples/crm/tour.yml").is_file()
    assert "Next: cd club" in wheel.must("tidemark", "init", "club", cwd=tmp_path)
    club = tmp_path / "club"
    wanted = "dbt_project.yml models macros snapshots seeds tests profiles python README.md"
    assert {*wanted.split()} <= {each.name for each in club.iterdir()}

    put(club, "club/people/people.csv", PEOPLE)
    wheel.must("tidemark", "add", "club.people", "--key", "id", cwd=club)
    can_be_warm = spark_line.name() == "4.1"
    if can_be_warm:
        assert "Spark is up." in wheel.must("tidemark", "up", cwd=club)
    told = wheel.must("tidemark", "run", cwd=club)
    assert "Landed 2 rows from 1 file." in told
    assert "3 models built, 1 test passed" in told
    assert "Nothing to build" in wheel.must("tidemark", "run", cwd=club)
    assert sorted(csv_of(wheel, club, "select id, name, born from current.cur_club__people")) == [
        "1,Ada,1815-12-10",
        "2,Grace,1906-12-09",
    ]
    if can_be_warm:
        assert wheel.must("tidemark", "down", cwd=club) == "Stopped.\n"

    again = wheel.run("tidemark", "init", "club", cwd=tmp_path)
    assert again.returncode == 1
    assert "To add Tidemark to this project, run: tidemark init --into club" in again.stdout


@pytest.mark.slow
def test_an_example_parses_in_a_new_project(wheel: Environment, tmp_path: Path) -> None:
    wheel.must("tidemark", "init", "trial", "--example", "crm", cwd=tmp_path)
    trial = tmp_path / "trial"
    assert (trial / "examples" / "crm" / "tour.yml").exists()
    wheel.must("dbt", "--quiet", "parse", cwd=trial)
    unknown = wheel.run("tidemark", "init", "other", "--example", "none", cwd=tmp_path)
    assert "There is no example none. Use one of bistro, crm" in unknown.stdout
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_pip_finds_all_that_the_wheel_needs(wheel: Environment, tmp_path: Path) -> None:
    """The environments of the other tests have what requirements.lock has."""
    file = environments.wheel_of(wheel)
    alone = environments.of_a_user(tmp_path / "venv", file)
    # What ends with an error if packages do not fit each other.
    alone.must("pip", "check", cwd=tmp_path)
    version = file.name.split("-")[1]
    assert alone.must("tidemark", "--version", cwd=tmp_path) == f"tidemark {version}\n"
    alone.must("python", "-c", "import boto3, tidemark.dbt_plugin.thrift", cwd=tmp_path)

    alone.must("tidemark", "init", "club", cwd=tmp_path)
    club = tmp_path / "club"
    put(club, "club/people/people.csv", PEOPLE)
    alone.must("tidemark", "add", "club.people", "--key", "id", cwd=club)
    alone.must("dbt", "--quiet", "parse", cwd=club)
    listed = alone.must("dbt", "--quiet", "ls", "--resource-type", "model", cwd=club)
    assert "club.current.club.cur_club__people" in listed.splitlines()


@pytest.mark.slow
def test_a_commit_gives_the_same_wheel_everywhere(tmp_path: Path) -> None:
    """In another folder, from files that another umask has left unreadable for others."""
    here, there = tmp_path / "here", tmp_path / "another folder" / "there"
    environments.copied(here)
    someone = ("-c", "user.name=Jo", "-c", "user.email=jo@example.com")
    git = ("git", "-C", str(here))
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, *someone, "commit", "--quiet", "--message", "All"], check=True)
    subprocess.run(["git", "clone", "--quiet", here, there], check=True, umask=0o077)
    found = []
    for folder, umask in ((here, 0o022), (there, 0o077)):
        make = ["make", "wheel", f"BIN={Path(sys.executable).parent}"]
        subprocess.run(make, cwd=folder, check=True, umask=umask)
        (wheel,) = (folder / "dist").iterdir()
        found.append((wheel.name, wheel.read_bytes()))
        status = subprocess.run(["git", "status", "--short"], cwd=folder, capture_output=True)
        assert not status.stdout
    assert found[0] == found[1]


@pytest.fixture(scope="module")
def jaffle(tmp_path_factory: pytest.TempPathFactory) -> JaffleShop:
    return jaffle_shop.copied_to(tmp_path_factory.mktemp("theirs") / "jaffle_shop")


# test_thrift.py has the same on a Thrift server.
def test_tidemark_in_a_project_that_exists(wheel: Environment, jaffle: JaffleShop) -> None:
    shop = jaffle.folder
    before = {file: file.read_text() for file in shop.rglob("*") if file.is_file()}

    asked = wheel.run("tidemark", "init", "--into", ".", cwd=shop)
    assert asked.returncode == 1
    assert "+    search_order: ['jaffle_shop', tidemark, 'dbt']" in asked.stdout
    assert "Nothing was written. To write these changes, add --yes." in asked.stdout
    assert before == {file: file.read_text() for file in shop.rglob("*") if file.is_file()}
    told = wheel.must("tidemark", "init", "--into", ".", "--yes", cwd=shop)
    assert "Tidemark works with the target dev, thrift" in told
    # Lines were added, and a list has more entries: whatever else stood there stands there.
    lines = (shop / "dbt_project.yml").read_text().splitlines()
    theirs = before[shop / "dbt_project.yml"].splitlines()
    changed = ("on-run-start", "    search_order")
    assert [line for line in theirs if not line.startswith(changed) and line not in lines] == []
    again = wheel.must("tidemark", "init", "--into", ".", cwd=shop)
    assert "Nothing to change" in again

    jaffle.land_people(PEOPLE)
    wheel.must("tidemark", "add", "club.people", "--key", "id", cwd=shop)
    told = wheel.must("dbt", "build", cwd=shop)
    assert "Landed 2 rows from 1 file." in told
    jaffle_shop.require_first_build(lambda relation, columns: rows(shop, relation, columns))


@pytest.mark.slow
def test_nothing_is_built_wrong_without_a_word(wheel: Environment, jaffle: JaffleShop) -> None:
    """Someone takes the merge out of the settings of the project above. See also test_guards."""
    jaffle.land_people("id,name,born\n1,Ada,1815-12-10\n")
    wheel.must("tidemark", "run", cwd=jaffle.folder)
    assert rows(jaffle.folder, "jaffle_current.cur_club__people", "name") == [("Ada",)]
    file = jaffle.folder / "dbt_project.yml"
    file.write_text(file.read_text().replace("tidemark, 'dbt'", "'dbt'"))
    jaffle.land_people("id,name,born\n1,Ada L.,1815-12-10\n")
    refused = wheel.run("tidemark", "run", cwd=jaffle.folder)
    assert refused.returncode == 1
    assert "would not delete rows: its macro comes from the package dbt_spark" in refused.stdout
    file.write_text(
        file.read_text().replace("'jaffle_shop', 'dbt'", "'jaffle_shop', tidemark, 'dbt'")
    )
    wheel.must("tidemark", "run", cwd=jaffle.folder)
    assert rows(jaffle.folder, "jaffle_current.cur_club__people", "name") == [("Ada L.",)]
