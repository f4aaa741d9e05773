"""Places: which of them Tidemark reaches, and the path there, as it is."""

from pathlib import Path

import pytest
from pyarrow import fs

from tests.free_port import free_port
from tidemark import places
from tidemark.errors import ConfigError, SetupError


@pytest.mark.parametrize(
    ("place", "kind", "path"),
    [
        ("/a/b 50%#1", fs.LocalFileSystem, "/a/b 50%#1"),
        ("/a/at:/b", fs.LocalFileSystem, "/a/at:/b"),
        ("runs/of a", fs.LocalFileSystem, "runs/of a"),
        ("file:/a/b%20c", fs.LocalFileSystem, "/a/b%20c"),
        ("file:///a/b", fs.LocalFileSystem, "/a/b"),
        ("s3://bucket/a#b?c", fs.S3FileSystem, "bucket/a#b?c"),
        ("s3a://bucket/a", fs.S3FileSystem, "bucket/a"),
    ],
)
def test_a_place_has_a_file_system_and_a_path(place: str, kind: type, path: str) -> None:
    files, found = places.files_in(place)
    assert (type(files), found) == (kind, path)


@pytest.mark.parametrize("place", ["hdfs://name/a", "dbfs:/user/a", "gs://bucket/a", "s3n://b/a"])
def test_other_places_are_refused(place: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=f"Tidemark does not reach the files in {place}"):
        places.files_in(place)
    with pytest.raises(ConfigError, match=f"{place}/x must have the form s3://bucket/folder"):
        places.put(tmp_path / "x", place)


@pytest.mark.parametrize("folder", ["s3://", "s3a:///folder"])
def test_a_bucket_has_a_name(folder: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must have the form s3://bucket/folder"):
        places.put(tmp_path / "x", folder)


def test_a_store_that_does_not_answer_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anyone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "only-for-tests")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    told = "s3a://b/x cannot be read: the store does not respond: check AWS_ENDPOINT_URL and"
    files, path = places.files_in("s3a://b/x")
    with pytest.raises(SetupError, match=told), places.reaching("s3a://b/x cannot be read"):
        files.open_input_file(path)
