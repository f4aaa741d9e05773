"""Reach files from this process: in a local folder, or on S3.

Landing lists and reads its files in another way (`storage.py`): they may be on a file system that
only Spark reaches.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyarrow import fs

from tidemark import s3
from tidemark.errors import ConfigError, SetupError

_ON_S3 = ("s3", "s3a")


def files_in(place: str) -> tuple[fs.FileSystem, str]:
    """What reaches the files in a place, and the path there. Raises OSError if nothing does."""
    scheme, path = _split(place)
    if scheme == "file":
        return fs.LocalFileSystem(), path
    if scheme in _ON_S3:
        return s3.client(), path
    raise OSError(f"Tidemark does not reach the files in {place}")


@contextmanager
def reaching(what: str) -> Iterator[None]:
    """Turn an OSError within the block into a SetupError: `what`, and why in one line."""
    try:
        yield
    except OSError as error:
        text = re.sub(r"\s+", " ", str(error))
        raise SetupError(f"{what}: {s3.why(text) or text}.") from error


def fetched(place: str, to: Path) -> Path:
    """The file in a place. One on S3 is copied to `to`. Raises AwsError with the object's name."""
    scheme, path = _split(place)
    if scheme == "file":
        return Path(path)
    with _object(place) as (client, name):
        client.download_file(Filename=str(to), **name)
    return to


def put(file: Path, folder: str) -> str:
    """Copy a file into a folder, local or `s3://bucket/folder`. Returns its new location.

    Raises AwsError with the object's name if S3 refuses it.
    """
    place = f"{folder.rstrip('/')}/{file.name}"
    scheme, path = _split(place)
    if scheme == "file":
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, path)
    else:
        with _object(place) as (client, name):
            client.upload_file(Filename=str(file), **name)
    return place


@contextmanager
def _object(place: str) -> Iterator[tuple[Any, dict[str, str]]]:
    """An object of a bundle or of a run's artifacts, and the client of boto3 for it.

    They are written from a laptop or a CI server, too. boto3 works there with a profile that
    assumes a role, through a proxy and with a bucket in another region; Arrow's client does not.
    """
    # Imported late, since nothing else on S3 needs boto3.
    from tidemark import aws

    scheme, path = _split(place)
    bucket, _, key = path.partition("/")
    if scheme not in _ON_S3 or not bucket or not key.strip("/"):
        raise ConfigError(f"{place} must have the form s3://bucket/folder.")
    with aws.asking(place):
        yield aws.client("s3"), {"Bucket": bucket, "Key": key.strip("/")}


def _split(place: str) -> tuple[str, str]:
    """A place's scheme, `file` for a path, and the rest, which may have a % or a # as it is."""
    uri = re.fullmatch(r"([\w+.-]+):(?://|(?=/))(.*)", place, re.DOTALL)
    return (uri[1], uri[2]) if uri else ("file", place)
