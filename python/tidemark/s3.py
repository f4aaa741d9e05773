"""S3: settings for Hadoop's connector, and its errors in one sentence.

The connector finds credentials by itself. They never appear in Tidemark's settings or messages.
"""

import os
import re

from pyarrow import fs

from tidemark import paths, targets

# For the first access to a location: a separate client that gives up within seconds. All other
# clients retry for minutes, as a run that has started should.
ONE_TRY = {
    "fs.s3a.impl.disable.cache": "true",
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "1",
}

# Patterns of errors of a store and of AWS, and what to do about them. The first match counts.
_CAUSES = (
    (
        r"NoSuchBucket|UnknownStoreException|bucket does not exist|Bucket \S+ does not exist",
        "the bucket does not exist",
    ),
    (
        r"ExpiredToken|TokenRefreshRequired|token\S* (has|is|included in the request is) expired"
        r"|RequestExpired",
        "the credentials have expired: get new ones, AWS_SESSION_TOKEN included",
    ),
    (
        r"SignatureDoesNotMatch|InvalidAccessKeyId|InvalidToken|Status Code: 401"
        r"|InvalidClientTokenId|UnrecognizedClient|InvalidSignature|AuthFailure"
        r"|SIGNATURE_DOES_NOT_MATCH|INVALID_ACCESS_KEY_ID",
        "the credentials are wrong: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and "
        "AWS_SESSION_TOKEN",
    ),
    (
        r"NoAuthWithAWSException|NoAwsCredentialsException|Unable to load credentials",
        "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run where "
        "the machine has a role",
    ),
    (
        r"AccessDenied|ACCESS_DENIED|Status Code: 403|Forbidden",
        "access is denied: the credentials are wrong, have expired, or lack permissions",
    ),
    (
        r"UnknownHost|Connection refused|ConnectException|ConnectTimeout|Connect to "
        r"|NETWORK_CONNECTION",
        "the store does not respond: check AWS_ENDPOINT_URL and AWS_REGION",
    ),
)


def is_used() -> bool:
    """Whether the landing folder or the warehouse is on S3, or tables of a REST catalog may be."""
    places = (paths.landing(), paths.warehouse())
    return targets.catalog() == "rest" or any(place.startswith("s3a://") for place in places)


def region() -> str:
    """The region that requests are signed for, or ''."""
    # Most other stores ignore the region, but requests are always signed for one.
    usual = "us-east-1" if os.environ.get("AWS_ENDPOINT_URL") else ""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or usual


def settings() -> dict[str, str]:
    """The Spark settings that locate the store, from the variables that AWS's tools read."""
    if not is_used():
        return {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    found = {"endpoint": endpoint, "endpoint.region": region()}
    if endpoint:
        # Most other stores have no host name per bucket.
        found["path.style.access"] = "true"
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in found.items() if value}


def of_iceberg() -> dict[str, str]:
    """The same for Iceberg's own client. It finds credentials, and on AWS the region, by itself."""
    # Its default needs a client that this version of the AWS SDK does not have.
    found = {"http-client.type": "urlconnection"}
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    if endpoint:
        found |= {"s3.endpoint": endpoint, "s3.path-style-access": "true"}
        found["client.region"] = region()
    return found


def client() -> fs.FileSystem:
    """Arrow's S3 client for the same store. It looks for credentials where the connector does."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    return fs.S3FileSystem(endpoint_override=endpoint, region=region() or None)


def why(message: str) -> str:
    """The cause and the remedy of a store's error, or '' if the error is not known."""
    return next((words for pattern, words in _CAUSES if re.search(pattern, message)), "")
