"""A REST catalog for tests: the server of Iceberg's own tests, as a child process on loopback.

Its jars come from the Maven repository, like Spark's.
"""

import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.free_port import free_port
from tidemark.spark import jars, processes

LOCK = Path(__file__).with_suffix(".lock")


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """A server for as long as the context lasts, its URI. Its tables are in the folder."""
    class_path = [str(jar) for jar in jars.install([LOCK])]
    class_path.append(f"{processes.spark_home()}/jars/*")
    command = [jars.require_java(), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command += ["-cp", os.pathsep.join(class_path), "org.apache.iceberg.rest.RESTCatalogServer"]
    uri = f"http://127.0.0.1:{(port := free_port())}"
    settings = {
        "CATALOG_REST_PORT": str(port),
        "CATALOG_WAREHOUSE": str(folder / "tables"),
        "CATALOG_URI": f"jdbc:sqlite:{folder / 'catalog.db'}",
    }
    log = folder / "log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            command, env={**os.environ, **settings}, stdout=output, stderr=output
        ) as server,
    ):
        try:
            _wait(server, uri, log)
            yield uri
        finally:
            server.terminate()


def _wait(server: subprocess.Popen[bytes], uri: str, log: Path) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and server.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"{uri}/v1/config"):
            return
        time.sleep(0.1)
    raise RuntimeError(f"The REST catalog did not start: {log.read_text()[-2000:]}")
