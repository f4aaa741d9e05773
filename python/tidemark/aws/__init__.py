"""AWS: DMS tasks, the Data Catalog, Lake Formation, SNS. All calls with boto3 go through here.

boto3 finds the credentials. They never appear in Tidemark's settings, logs or messages.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from boto3.exceptions import Boto3Error
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
)

from tidemark import s3
from tidemark.errors import TidemarkError

# Retries throttled and interrupted calls with exponential backoff.
_CONFIG = Config(
    retries={"mode": "standard", "total_max_attempts": 8}, connect_timeout=10, read_timeout=60
)
_DENIED = (
    *("AccessDenied", "AccessDeniedException", "AccessDeniedFault", "AuthorizationError"),
    *("UnauthorizedOperation", "S3AccessDeniedFault", "KMSAccessDeniedFault", "403"),
)
_THROTTLED = ("Throttl", "TooManyRequests", "LimitExceeded", "RequestLimit", "SlowDown")


class AwsError(TidemarkError):
    """A call to AWS failed."""

    @property
    def code(self) -> str:
        """AWS's error code, such as EntityNotFoundException, or ''."""
        return code(self.__cause__)


def client(service: str, region: str = "") -> Any:
    """A client of one service, in this region or the one of AWS_REGION.

    AWS_ENDPOINT_URL, or AWS_ENDPOINT_URL_<SERVICE>, overrides the endpoint.
    """
    with asking(f"AWS {service}"):
        try:
            return boto3.client(service, region_name=region or s3.region() or None, config=_CONFIG)
        except ValueError as error:
            raise AwsError(f"AWS {service}: {error}. Check AWS_ENDPOINT_URL.") from error


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Turn boto3's errors within the block into an AwsError that starts with `what`."""
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise AwsError(f"{what}: {why(error)}.") from error
    except Boto3Error as error:
        # A transfer's error wraps the error of the call.
        within = error.__context__
        cause = within if isinstance(within, BotoCoreError | ClientError) else error
        raise AwsError(f"{what}: {why(cause)}.") from error


def code(error: BaseException | None) -> str:
    """The AWS code of an error, such as EntityNotFoundException, or ''."""
    response = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def why(error: Exception) -> str:
    """What went wrong and what to do about it, without a full stop at the end."""
    name = code(error)
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return (
            "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or "
            "AWS_PROFILE, or run where the machine has a role"
        )
    if isinstance(error, NoRegionError):
        return "no region is set: set AWS_REGION"
    if isinstance(error, EndpointConnectionError):
        return f"it does not respond: check AWS_REGION and the network ({_one_line(error)})"
    if name in _DENIED:
        return (
            "the role lacks permission: grant it the permissions in docs/targets/aws.md "
            f"({_one_line(error)})"
        )
    if name.startswith(_THROTTLED):
        return f"AWS still throttles after {_retries(error)} retries: try again later ({name})"
    return s3.why(name) or _one_line(error)


def _retries(error: Exception) -> int:
    response = getattr(error, "response", None) or {}
    return int(response.get("ResponseMetadata", {}).get("RetryAttempts", 0))


def _one_line(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error)).rstrip(".")
