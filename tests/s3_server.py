"""An S3 server for tests: S3Proxy as a child process on loopback, its objects in memory or files.

It speaks the protocol and checks signatures. Its jars come from the Maven repository, like Spark's.
"""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyarrow import fs

from tests.free_port import free_port
from tidemark.spark import jars, processes

LOCK = Path(__file__).with_suffix(".lock")
KEY, SECRET, REGION = "tidemark", "only-for-tests", "us-east-1"


@dataclass(frozen=True)
class S3Server:
    """A running server."""

    address: str
    log: Path
    process: int = 0

    def requests(self) -> list[str]:
        """What was asked since the start, such as `GET /bucket/key`, from the server's own log."""
        found = re.findall(r"\{(\w+)@\w+ \w+://[^/]+(\S*) HTTP", self.log.read_text())
        return [f"{method} {path}" for method, path in found]

    @property
    def settings(self) -> dict[str, str]:
        """What Hadoop's S3A must be told, as Spark settings without `spark.hadoop.`."""
        return {
            "fs.s3a.endpoint": f"http://{self.address}",
            "fs.s3a.endpoint.region": REGION,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": KEY,
            "fs.s3a.secret.key": SECRET,
        }

    def put(self, path: str, content: str | bytes) -> None:
        """Write the object `bucket/key`; the bucket is created when it is missing."""
        client = self._client()
        client.create_dir(path.split("/")[0], recursive=False)
        with client.open_output_stream(path) as stream:
            stream.write(content.encode() if isinstance(content, str) else content)

    def text(self, path: str) -> str:
        """What the object `bucket/key` holds."""
        with self._client().open_input_stream(path) as stream:
            return str(stream.read().decode())

    def get(self, path: str, to: Path) -> None:
        """Copy the object `bucket/key` to a file."""
        with self._client().open_input_stream(path) as stream:
            to.write_bytes(stream.read())

    def put_marker(self, path: str) -> None:
        """Write the empty object `bucket/key/` that some tools leave for a folder."""
        self._client().create_dir(path)

    def delete(self, path: str) -> None:
        """Delete the object `bucket/key`."""
        self._client().delete_file(path)

    def copy(self, path: str, to: Path) -> None:
        """Copy the objects below `bucket/key` to a folder."""
        fs.copy_files(path, str(to), source_filesystem=self._client())

    def delete_below(self, path: str) -> None:
        """Delete the objects below `bucket/key`."""
        self._client().delete_dir_contents(path)

    def _client(self) -> fs.S3FileSystem:
        # Arrow's own client: another implementation of the protocol than the one under test.
        return fs.S3FileSystem(
            endpoint_override=self.address,
            scheme="http",
            region=REGION,
            access_key=KEY,
            secret_key=SECRET,
            allow_bucket_creation=True,
        )


def settings_of_bucket(bucket: str, port: int) -> dict[str, str]:
    """What Spark must be told at its start for one bucket, on a server that comes later.

    The metastore's part of Spark reads its settings once.
    """
    settings = S3Server(f"127.0.0.1:{port}", Path()).settings
    return {
        f"spark.hadoop.fs.s3a.bucket.{bucket}.{name.removeprefix('fs.s3a.')}": value
        for name, value in settings.items()
    }


@contextmanager
def running(port: int | None = None, store: Path | None = None) -> Iterator[S3Server]:
    """A server on this port, or a free one, for as long as the context lasts.

    Its objects are in the folder `store`, or in memory.
    """
    class_path = os.pathsep.join(str(jar) for jar in jars.install([LOCK]))
    port = port or free_port()
    with tempfile.TemporaryDirectory(prefix="tidemark-s3-") as folder:
        settings, log, requests = (
            Path(folder, name) for name in ("s3proxy.conf", "log", "requests")
        )
        settings.write_text(
            f"s3proxy.endpoint=http://127.0.0.1:{port}\n"
            "s3proxy.authorization=aws-v2-or-v4\n"
            f"s3proxy.identity={KEY}\n"
            f"s3proxy.credential={SECRET}\n"
            + (
                f"jclouds.provider=filesystem-nio2\njclouds.filesystem.basedir={store}\n"
                if store
                else "jclouds.provider=transient-nio2\n"
            )
        )
        command = [jars.require_java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        # A file of its own: the server takes what is printed for its log.
        command += [f"-Dorg.slf4j.simpleLogger.logFile={requests}"]
        command += ["-Dorg.slf4j.simpleLogger.log.org.gaul.s3proxy.S3ProxyHandler=debug"]
        command += ["-cp", class_path, "org.gaul.s3proxy.Main", "--properties", str(settings)]
        with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as it:
            try:
                _wait(it, port, log)
                yield S3Server(f"127.0.0.1:{port}", requests, it.pid)
            finally:
                it.terminate()


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and server.poll() is None:
        if processes.answers("127.0.0.1", port):
            return
        time.sleep(0.05)
    raise RuntimeError(f"S3Proxy did not start: {log.read_text()[-2000:]}")
