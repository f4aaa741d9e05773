"""What S3's connector is told, and what is made of its errors; the texts are the stores' own."""

from pathlib import Path

import pytest

from tests.free_port import free_port
from tidemark import paths, s3
from tidemark.errors import ConfigError
from tidemark.ingest import books
from tidemark.spark import jars

SECRET = "only-for-tests"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # The lake of the other tests has tables of other formats, with jars of their own.
    monkeypatch.setenv("TIDEMARK_LAKE", str(tmp_path))
    for name in ("LANDING", "WAREHOUSE"):
        monkeypatch.delenv(f"TIDEMARK_{name}", raising=False)
    for name in ("ENDPOINT_URL", "REGION", "DEFAULT_REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)


@pytest.mark.parametrize("variable", ["TIDEMARK_LANDING", "TIDEMARK_WAREHOUSE"])
def test_the_connector_is_there_when_files_or_tables_are_on_s3(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    assert not s3.settings()
    assert len(jars.session_locks()) == 1
    monkeypatch.setenv(variable, "s3a://bucket/folder/")
    assert jars.session_locks()[1].name == jars.S3_LOCK
    # AWS itself: the connector finds the region of the bucket.
    assert not s3.settings()


def test_the_tables_of_a_rest_catalog_may_be_on_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_CATALOG", "rest")
    assert jars.session_locks()[1].name == jars.S3_LOCK
    assert s3.of_iceberg() == {"http-client.type": "urlconnection"}
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    assert s3.of_iceberg() == {
        "http-client.type": "urlconnection",
        "s3.endpoint": "http://127.0.0.1:9000",
        "s3.path-style-access": "true",
        "client.region": "us-east-1",
    }


def test_another_store_is_told_by_its_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_WAREHOUSE", "s3a://bucket/folder/")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    found = s3.settings()
    assert found == {
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    assert s3.settings()["spark.hadoop.fs.s3a.endpoint.region"] == "eu-central-1"
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert s3.settings()["spark.hadoop.fs.s3a.endpoint.region"] == "eu-west-1"


def test_a_store_that_does_not_answer_is_left_to_spark_which_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(books, "_is_reached", lambda: True)
    monkeypatch.setenv("TIDEMARK_WAREHOUSE", "s3a://bucket/folder/")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anyone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    assert books.without_spark() is None


def test_places_are_paths_or_uris(monkeypatch: pytest.MonkeyPatch) -> None:
    assert paths.warehouse() == str(paths.lake_dir() / "warehouse")
    monkeypatch.setenv("TIDEMARK_WAREHOUSE", "elsewhere/tables")
    assert paths.warehouse() == str(paths.project_dir() / "elsewhere/tables")
    monkeypatch.setenv("TIDEMARK_LANDING", "s3a://bucket/folder/")
    assert paths.landing() == "s3a://bucket/folder"
    with pytest.raises(
        ConfigError, match="TIDEMARK_LANDING is s3a://bucket/folder, but this command"
    ):
        paths.landing_dir()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            "S3Exception: The provided token has expired. (Service: S3, Status Code: 400):"
            "ExpiredToken",
            "the credentials have expired",
        ),
        (
            "S3Exception: The AWS Access Key Id you provided does not exist in our records. "
            "(Service: S3, Status Code: 403):InvalidAccessKeyId",
            "the credentials are wrong",
        ),
        (
            "NoAuthWithAWSException: No AWS Credentials provided by SimpleAWSCredentialsProvider",
            "there are no credentials",
        ),
        ("S3Exception: Forbidden (Service: S3, Status Code: 403):null", "access is denied"),
        (
            "When getting information for key 'a' in bucket 'b': AWS Error ACCESS_DENIED during "
            "HeadObject operation: No response body.",
            "access is denied",
        ),
        ("java.net.UnknownHostException: b.s3.nowhere", "the store does not respond"),
        ("AWS Error NETWORK_CONNECTION during HeadObject operation", "the store does not respond"),
        ("PermanentRedirect", ""),
    ],
)
def test_an_answer_is_put_in_words(answer: str, words: str) -> None:
    assert s3.why(answer).startswith(words)
    assert bool(s3.why(answer)) == bool(words)
