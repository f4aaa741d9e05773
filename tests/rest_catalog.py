"""REST catalogs for tests, as child processes on loopback. Their jars come from Maven Central.

`running` is the server of Iceberg's own tests, `nessie` is Project Nessie's, which requires a token
of an OAuth2 server.
"""

import base64
import json
import os
import re
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests import s3_server
from tests.free_port import free_port
from tests.s3_server import S3Server
from tidemark.spark import jars, processes, spark_line

LOCK = Path(__file__).with_suffix(".lock")
S3_LOCK = LOCK.with_name("rest_catalog_s3.lock")
NESSIE_LOCK = LOCK.with_name("nessie.lock")
JAVA = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
CLIENT = ("tidemark", "only-for-tests")


@contextmanager
def running(folder: Path, s3: S3Server | None = None, bucket: str = "") -> Iterator[str]:
    """A server for as long as the context lasts, its URI.

    Its tables are in the folder; with `s3` in the bucket, and it passes on the store's credentials.
    """
    locks = [LOCK]
    settings = {
        "CATALOG_REST_PORT": str(port := free_port()),
        "CATALOG_WAREHOUSE": str(folder / "tables"),
        "CATALOG_URI": f"jdbc:sqlite:{folder / 'catalog.db'}",
    }
    if s3:
        locks += [S3_LOCK, spark_line.lock_folder() / jars.S3_LOCK]
        settings |= {
            "CATALOG_WAREHOUSE": f"s3://{bucket}",
            "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
            "CATALOG_S3_ENDPOINT": f"http://{s3.address}",
            "CATALOG_S3_PATH__STYLE__ACCESS": "true",
            "CATALOG_S3_ACCESS__KEY__ID": s3_server.KEY,
            "CATALOG_S3_SECRET__ACCESS__KEY": s3_server.SECRET,
            "CATALOG_INCLUDE__CREDENTIALS": "true",
            "AWS_REGION": s3_server.REGION,
        }
    class_path = [str(jar) for jar in jars.install(locks)]
    class_path.append(f"{processes.spark_home()}/jars/*")
    command = [jars.require_java(), *JAVA, "-cp", os.pathsep.join(class_path)]
    command.append("org.apache.iceberg.rest.RESTCatalogServer")
    uri = f"http://127.0.0.1:{port}"
    with _started(folder / "log", command, f"{uri}/v1/config", settings):
        yield uri


def java_of_nessie() -> str:
    """A Java 21 or newer: Spark's, or one beside it; '' if there is none."""
    own = Path(jars.require_java()).resolve()
    for java in [own, *sorted(own.parents[2].glob("*/bin/java"))]:
        told = java.parents[1] / "release"
        found = re.search(r'JAVA_VERSION="(\d+)', told.read_text()) if told.exists() else None
        if found and int(found[1]) >= 21:
            return str(java)
    return ""


@contextmanager
def nessie(folder: Path, s3: S3Server, bucket: str) -> Iterator[tuple[str, str]]:
    """Nessie for as long as the context lasts: its URI, and that of its OAuth2 server.

    Its tables are in the bucket. Clients need credentials of their own.
    """
    key = rsa.generate_private_key(65537, 2048)
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    store = "nessie.catalog.service.s3.default-options"
    (jar,) = jars.install([NESSIE_LOCK])
    settings = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": (port := free_port()),
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": free_port(),
        "quarkus.oidc.public-key": base64.b64encode(public).decode(),
        "quarkus.oidc.client-id": CLIENT[0],
        "nessie.server.authentication.enabled": "true",
        "nessie.version.store.type": "IN_MEMORY",
        "nessie.catalog.default-warehouse": "lakehouse",
        "nessie.catalog.warehouses.lakehouse.location": f"s3://{bucket}",
        f"{store}.endpoint": f"http://{s3.address}",
        f"{store}.region": s3_server.REGION,
        f"{store}.path-style-access": "true",
        f"{store}.access-key": "urn:nessie-secret:quarkus:of-store",
        "of-store.name": s3_server.KEY,
        "of-store.secret": s3_server.SECRET,
    }
    told = (f"-D{name}={value}" for name, value in settings.items())
    command = [java_of_nessie(), *JAVA, *told, "-jar", str(jar)]
    uri = f"http://127.0.0.1:{port}/iceberg"
    with (
        _started(folder / "nessie.log", command, f"{uri}/v1/config", {}),
        ThreadingHTTPServer(("127.0.0.1", 0), _Tokens) as tokens,
    ):
        _Tokens.key = key
        threading.Thread(target=tokens.serve_forever, daemon=True).start()
        yield uri, f"http://127.0.0.1:{tokens.server_port}/token"
        tokens.shutdown()


class _Tokens(BaseHTTPRequestHandler):
    """An OAuth2 server: a token for a client that says its secret."""

    key: rsa.RSAPrivateKey

    def do_POST(self) -> None:
        asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        said = tuple(asked.get(name, [""])[0] for name in ("client_id", "client_secret"))
        is_right = said == CLIENT and asked["grant_type"] == ["client_credentials"]
        told = {"access_token": self._token(), "token_type": "Bearer", "expires_in": 3600}
        body = json.dumps(told if is_right else {"error": "invalid_client"}).encode()
        self.send_response(200 if is_right else 401)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def _token(self) -> str:
        now = int(time.time())
        claims = {"iss": "tests", "sub": CLIENT[0], "iat": now, "exp": now + 3600}
        parts = [_encoded(json.dumps(part).encode()) for part in ({"alg": "RS256"}, claims)]
        signed = self.key.sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
        return ".".join([*parts, _encoded(signed)])


def _encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


@contextmanager
def _started(
    log: Path, command: Sequence[str], address: str, settings: Mapping[str, str]
) -> Iterator[None]:
    environment = {**os.environ, **settings}
    with (
        log.open("w") as output,
        subprocess.Popen(command, env=environment, stdout=output, stderr=output) as server,
    ):
        try:
            _wait(server, address, log)
            yield
        finally:
            server.terminate()


def _wait(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(address):
                return
        except HTTPError as error:
            if error.code == 401:  # it wants a token
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"The REST catalog did not start: {log.read_text()[-2000:]}")
