"""A landing folder on S3: a real server, reached through Hadoop's S3A."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests import s3_server
from tests.project import Project
from tidemark import storage
from tidemark.errors import SetupError
from tidemark.ingest import books, landing, reading
from tidemark.ingest.landed import Landed

pytestmark = pytest.mark.functional

COLUMNS = {"id": "int", "name": "string"}


@pytest.fixture(scope="module")
def server(spark: SparkSession) -> Iterator[s3_server.S3Server]:
    with s3_server.running() as found:
        # What spark-defaults.conf or the environment say to a session that starts.
        hadoop = spark.sparkContext._jsc.hadoopConfiguration()
        for name, value in found.settings.items():
            hadoop.set(name, value)
        yield found


def land(project: Project, folder: str) -> list[Landed]:
    feeds = project.feeds()
    with project.here():
        return landing.land(project.spark, feeds, storage.at(folder), run_id="test")


def test_objects_land_once_whatever_their_names_and_a_folder_waits_for_its_marker(
    project: Project, server: s3_server.S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every other object, and a later version, is large, and comes by lines.
    monkeypatch.setattr(reading, "LARGE", 20)
    project.declare("s3odd.t", COLUMNS, "id", format="extract", max_deleted_share=1)
    project.declare(
        "s3days.t",
        COLUMNS,
        "id",
        format="extract",
        extract_is="folder",
        time_in_name="%Y-%m-%d",
        complete_marker="_SUCCESS",
    )
    for part in (1, 2):
        server.put(f"odd/land/s3days/t/2024-01-01/part-{part}.csv", f"id,name\n{part},x\n")
    names = ["a b.csv", "ünï.csv", "100%.csv", "per%20cent.csv", "k=v+1.csv", "[x]{1}*?.csv"]
    names += ["back\\slash.csv", "quote'\".csv", "right\u202e.csv", "line\nend.csv"]
    for number, name in enumerate(names):
        text = "x" * (1 + number % 2 * 20)
        server.put(f"odd/land/s3odd/t/day/{name}", f"id,name\n{number},{text}\n")
    server.put_marker("odd/land/s3odd/t/day")
    server.put("odd/land/s3odd/t/_SUCCESS", "")
    server.put("odd/land/s3odd/t/empty.csv", "")
    waiting, landed = land(project, "s3a://odd/land")
    assert not waiting.is_new
    assert (landed.failure, landed.files, landed.rows) == ("", len(names), len(names))
    assert landed.reasons == {"s3odd/t/empty.csv": "the file is empty (0 bytes)"}
    server.put("odd/land/s3days/t/2024-01-01/_SUCCESS", "")
    whole, again = land(project, "s3a://odd/land")
    assert (whole.failure, whole.files, whole.rows) == ("", 2, 2)
    assert not again.is_new

    server.put("odd/land/s3odd/t/day/a b.csv", "id,name\n0,written anew\n")
    server.put("odd/land/s3odd/t/later.csv", "id,name\n9,x\n")
    whole, changed = land(project, "s3a://odd/land")
    assert not whole.is_new
    assert (changed.files, changed.rows) == (2, 2)
    values = project.spark.table("log_s3odd.t").where("_op = 'R'")
    assert values.count() == len(names) + 2
    assert values.where("name in ('x', repeat('x', 21), 'written anew')").count() == len(names) + 2


@pytest.mark.slow
def test_a_run_without_new_files_asks_by_the_page_not_by_the_file(
    project: Project, server: s3_server.S3Server
) -> None:
    project.add("s3many.t", COLUMNS, "id")

    def asked_when_idle() -> list[str]:
        before = len(server.requests())
        (idle,) = land(project, "s3a://many")
        assert not idle.is_new
        return server.requests()[before:]

    names = [f"20240101-{number:09}.csv" for number in range(1, 1101)]
    server.put(f"many/s3many/t/{names[0]}", "I,1,x\n")
    assert land(project, "s3a://many")[0].rows == 1
    of_one = asked_when_idle()
    for name in names[1:]:
        server.put(f"many/s3many/t/{name}", "I,1,x\n")
    assert land(project, "s3a://many")[0].files == len(names) - 1
    of_many = asked_when_idle()
    # 1,100 names are two pages; nothing is asked of a file that is as it is known.
    assert {request.split()[0] for request in of_many} <= {"HEAD", "GET"}
    assert not [request for request in of_many if names[0] in request or names[-1] in request]
    assert len(of_many) - len(of_one) <= 2, of_many

    # Written anew on the same day, a file is seen among the others.
    server.put(f"many/s3many/t/{names[5]}", "I,1,again\n")
    assert land(project, "s3a://many")[0].rows == 1


def test_a_bucket_that_is_not_there_is_said_in_words(
    project: Project, server: s3_server.S3Server
) -> None:
    project.declare("s3none.t", COLUMNS, "id")
    with pytest.raises(SetupError, match="The landing folder s3a://nowhere cannot be reached"):
        land(project, "s3a://nowhere")
    books.of(project.spark).create()
    ledger_rows = "tidemark.ledger where source_name = 's3none'"
    assert project.rows(ledger_rows, ["file"]) == []
