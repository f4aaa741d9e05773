"""Copy a run's artifacts and a project's zip to and from folders, local or on S3. Not for data.

Only S3 needs boto3, so it is imported late.
"""

import shutil
from pathlib import Path
from urllib.parse import urlsplit

from tidemark.errors import ConfigError


def is_on_s3(place: str) -> bool:
    """Whether this is an S3 URI, not a path."""
    return place.startswith(("s3://", "s3a://"))


def download(place: str, to: Path) -> None:
    """Copy the object `s3://bucket/key` to a file. Raises AwsError with the object's name."""
    from tidemark import aws

    bucket, key = _bucket_and_key(place)
    with aws.asking(place):
        aws.client("s3").download_file(bucket, key, str(to))


def put(file: Path, folder: str) -> str:
    """Copy a file into a folder, local or `s3://bucket/folder`. Returns its new location.

    Raises AwsError with the object's name if S3 refuses it.
    """
    place = f"{folder.rstrip('/')}/{file.name}"
    if is_on_s3(folder):
        from tidemark import aws

        bucket, key = _bucket_and_key(place)
        with aws.asking(place):
            aws.client("s3").upload_file(str(file), bucket, key)
    else:
        Path(folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder)
    return place


def _bucket_and_key(place: str) -> tuple[str, str]:
    found = urlsplit(place)
    key = found.path.strip("/")
    if not found.netloc or not key:
        raise ConfigError(f"{place} must have the form s3://bucket/folder.")
    return found.netloc, key
