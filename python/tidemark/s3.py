"""S3: what Hadoop's connector is told, and its errors in a sentence.

Credentials are left to it and to the environment: they are in no setting and in no text of ours.
"""

import os
import re

from pyarrow import fs

from tidemark import paths

# For the first look at a place: a client of its own, which gives up in seconds. All others keep
# trying for minutes, as a run that has begun should.
ONE_TRY = {
    "fs.s3a.impl.disable.cache": "true",
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "1",
}

# What a store answers, and what a person can do. The first that fits is taken.
_CAUSES = (
    (
        r"NoSuchBucket|UnknownStoreException|bucket does not exist|Bucket \S+ does not exist",
        "there is no such bucket",
    ),
    (
        r"ExpiredToken|TokenRefreshRequired|token\S* (has|is|included in the request is) expired",
        "the credentials have expired: get new ones, AWS_SESSION_TOKEN included",
    ),
    (
        r"SignatureDoesNotMatch|InvalidAccessKeyId|InvalidToken|Status Code: 401"
        r"|SIGNATURE_DOES_NOT_MATCH|INVALID_ACCESS_KEY_ID",
        "the credentials are wrong: see AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and "
        "AWS_SESSION_TOKEN",
    ),
    (
        r"NoAuthWithAWSException|NoAwsCredentialsException|Unable to load credentials",
        "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run where "
        "the machine has a role",
    ),
    (
        r"AccessDenied|ACCESS_DENIED|Status Code: 403|Forbidden",
        "access is denied: the credentials are wrong or expired, or lack rights on it",
    ),
    (
        r"UnknownHost|Connection refused|ConnectException|ConnectTimeout|Connect to ",
        "the store does not answer: see AWS_ENDPOINT_URL and AWS_REGION",
    ),
)


def is_used() -> bool:
    """Whether the landing folder or the warehouse is on S3."""
    return any(place.startswith("s3a://") for place in (paths.landing(), paths.warehouse()))


def region() -> str:
    """The region that requests are signed for; '' when nothing names one."""
    # Other stores seldom care, but each request is signed for one.
    usual = "us-east-1" if os.environ.get("AWS_ENDPOINT_URL") else ""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or usual


def settings() -> dict[str, str]:
    """Where the store is, as Spark settings, from the variables that AWS's own tools read."""
    if not is_used():
        return {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    found = {"endpoint": endpoint, "endpoint.region": region()}
    if endpoint:
        # Other stores seldom have a host name for each bucket.
        found["path.style.access"] = "true"
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in found.items() if value}


def client() -> fs.FileSystem:
    """Arrow's S3 client, for the same store; it looks for credentials where the connector does."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    return fs.S3FileSystem(endpoint_override=endpoint, region=region() or None)


def why(message: str) -> str:
    """Why a place cannot be reached, in words, from an error's text; '' when that is not known."""
    return next((words for pattern, words in _CAUSES if re.search(pattern, message)), "")
