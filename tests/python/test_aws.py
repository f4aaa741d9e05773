"""What AWS answers, by a real HTTP server: retried where that helps, else one sentence."""

import pytest
from botocore.exceptions import NoCredentialsError

from tests.aws_server import CREDENTIALS, AwsServer
from tidemark import aws as product
from tidemark.aws import AwsError


def _databases() -> list[str]:
    with product.asking("The Data Catalog"):
        found = product.client("glue").get_databases()
    return [each["Name"] for each in found["DatabaseList"]]


def test_throttled_calls_are_made_again(aws: AwsServer) -> None:
    aws.client("glue").create_database(DatabaseInput={"Name": "one"})
    aws.calls.clear()
    aws.answers["GetDatabases"] = ["ThrottlingException"] * 2
    assert _databases() == ["one"]
    assert len(aws.calls) == 3


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "AccessDeniedException",
            "the role lacks permission: grant it the permissions in docs/targets",
        ),
        ("UnrecognizedClientException", "the credentials are wrong"),
        ("ExpiredTokenException", "the credentials have expired: get new ones"),
    ],
)
def test_an_error_says_what_to_do(aws: AwsServer, code: str, words: str) -> None:
    aws.answers["GetDatabases"] = [code]
    with pytest.raises(AwsError, match=f"^The Data Catalog: {words}") as told:
        _databases()
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in str(told.value)


def test_without_a_region_the_variable_is_named(
    aws: AwsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    with pytest.raises(AwsError, match="no region is set: set AWS_REGION"):
        _databases()


def test_without_credentials_the_variables_are_named() -> None:
    assert "set AWS_ACCESS_KEY_ID" in product.why(NoCredentialsError())
