"""Iceberg tables on S3 in a REST catalog.

The server of Iceberg's tests passes on the store's credentials, which nobody else has. Nessie
requires a token, and the credentials are those of the environment.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests import rest_catalog, s3_server
from tests.functional import test_table_formats as table_formats
from tests.functional.test_rest_catalog import CURRENT, HISTORY, Club
from tests.project import Project
from tidemark.spark import spark_line

pytestmark = [
    pytest.mark.functional,
    pytest.mark.slow,
    pytest.mark.skipif(spark_line.name() == "3.5", reason="Spark 3.5 lacks the AWS SDK 2"),
]

BUCKET = "lakehouse"
READ = """
import json, sys
from pyiceberg.catalog.rest import RestCatalog

catalog = RestCatalog("rest", **{"uri": sys.argv[1], "s3.endpoint": sys.argv[2]})
rows = catalog.load_table(sys.argv[3]).scan().to_arrow().to_pylist()
print(json.dumps([[row["id"], row["name"]] for row in rows]))
"""


@pytest.fixture(scope="module", params=["iceberg", "nessie"])
def server(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def club(
    module_project: Callable[[], Project],
    tmp_path_factory: pytest.TempPathFactory,
    server: str,
) -> Iterator[Club]:
    if server == "nessie" and not rest_catalog.java_of_nessie():
        pytest.skip("Nessie needs Java 21")
    project = module_project()
    # Nessie does not know version 3 of Iceberg's format.
    table_formats.use_iceberg(project, deletion_vectors_from=1 if server == "iceberg" else 10**9)
    project.add("club.people", {"id": "int", "name": "string"}, "id")
    project.tag_subject("club.people", "member")
    folder = tmp_path_factory.mktemp("rest")
    store = folder / "store"
    (store / BUCKET).mkdir(parents=True)
    with ExitStack() as stack:
        s3 = stack.enter_context(s3_server.running(store=store))
        variables = {"AWS_ENDPOINT_URL": f"http://{s3.address}"}
        variables["AWS_EC2_METADATA_DISABLED"] = "true"
        if server == "iceberg":
            variables |= dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "")
            uri = stack.enter_context(rest_catalog.running(folder, s3, BUCKET))
        else:
            uri, tokens = stack.enter_context(rest_catalog.nessie(folder, s3, BUCKET))
            variables["TIDEMARK_CATALOG_CREDENTIAL"] = ":".join(rest_catalog.CLIENT)
            variables["AWS_ACCESS_KEY_ID"] = s3_server.KEY
            variables["AWS_SECRET_ACCESS_KEY"] = s3_server.SECRET
            project.write(
                "profiles/spark-defaults.conf",
                f"spark.sql.catalog.iceberg.oauth2-server-uri {tokens}\n",
            )
        yield (made := Club(project, folder, uri, variables))
        made.tell("tidemark", "down")


def test_tables_are_built_and_merged(club: Club) -> None:
    club.land(1, "I,1,a\nI,2,b\n")
    club.build_and_merge()
    assert [*(club.folder / "store" / BUCKET).rglob("*.parquet")]
    assert "Nothing to build" in club.run("run")


def test_pyiceberg_reads_them(
    club: Club, server: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if server == "nessie":
        pytest.skip("One catalog is enough")
    packages = table_formats.reader("pyiceberg", tmp_path_factory)
    for table in (CURRENT, HISTORY):
        expected = club.rows(f"select id, name from {table} order by 1, 2")
        assert expected
        found = table_formats.read_by(
            packages, READ, club.uri, club.variables["AWS_ENDPOINT_URL"], table.partition(".")[2]
        )
        assert [f"{id},{name}" for id, name in found] == expected


def test_maintain_and_erase(club: Club, server: str) -> None:
    club.land(6, "I,7,Zebulon\nI,8,Zoe\n")
    club.run("run")
    club.land(7, "U,7,Zebulonia\n")
    club.run("run")
    options = ("cur_club__people", "--vacuum-after", "1 second", "--force")
    assert CURRENT in club.run("maintain", *options) or server == "nessie"
    assert club.rows(f"select count(*) from {CURRENT}.snapshots") == ["1"]
    said = club.tell("tidemark", "erase", "member", "--key", "7")
    assert club.rows(f"select id from {CURRENT} order by id") == ["1", "3", "8"]
    left = table_formats.values(club.folder / "store" / BUCKET, "Zebulon")
    if server == "iceberg":
        assert "exit code" not in said
        assert not left
        # Only Iceberg has the credentials, and it does not list files.
        assert f"{CURRENT}: Spark could not list the files in s3://{BUCKET}/" in said
        club.run("down")
        data = club.folder / "store" / BUCKET / "current" / "cur_club__people" / "data"
        lost = data / "of-no-snapshot.parquet"
        lost.write_bytes(next(data.glob("*.parquet")).read_bytes())
        own = {"AWS_ACCESS_KEY_ID": s3_server.KEY, "AWS_SECRET_ACCESS_KEY": s3_server.SECRET}
        assert "could not list" not in club.run("erase", "member", "--key", "8", **own)
        assert not lost.exists()
    else:
        # It keeps all versions.
        assert "exit code 1" in said
        assert f"{CURRENT}: only the catalog deletes earlier versions" in said
        assert left
