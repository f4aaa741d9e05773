"""Jars that PySpark does not include: fetched once with its Ivy, verified, then cached.

`python -m tidemark.spark.jars` fetches the jars of jars.lock into the cache, and those of
jars-s3.lock if files or tables are on S3 or the argument is `s3`, and those of table formats that
the project uses (formats.py). Then it creates the class archive (class_archive.py).

`tidemark thrift start` fetches the jars of jars-thrift.lock. Each Spark version has its own lock
files (spark_line.py).
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tidemark import formats, paths, s3
from tidemark.errors import SetupError, TidemarkError
from tidemark.spark import java, spark_line

MIRROR_VARIABLE = "TIDEMARK_MAVEN_MIRROR"
S3_LOCK = "jars-s3.lock"
THRIFT_LOCK = "jars-thrift.lock"


@dataclass(frozen=True)
class Jar:
    """One line of a lock file."""

    lock: str
    sha256: str
    group: str
    artifact: str
    version: str
    classifier: str = ""

    @property
    def file_name(self) -> str:
        """The file's name in the cache, as in the repository."""
        return "-".join(filter(None, (self.artifact, self.version, self.classifier))) + ".jar"


def session_locks() -> list[Path]:
    """The lock files of the session's jars. S3 and table formats besides Delta have their own."""
    names = ["jars.lock"]
    if s3.is_used():
        names.append(S3_LOCK)
    locks = [spark_line.lock_folder() / name for name in names]
    return locks + [format.lock for format in formats.used()]


def locked_jars(locks: Iterable[Path]) -> list[Jar]:
    """The jars in the lock files, in order."""
    return [
        Jar(lock.name, sha256, *coordinate.split(":"))
        for lock in locks
        for line in lock.read_text().splitlines()
        if line.strip() and not line.startswith("#")
        for sha256, coordinate in [line.split()]
    ]


def installed_jars(locks: Iterable[Path] | None = None) -> list[Path]:
    """The cached jars of the session or of these lock files, for a class path.

    Uses no network and checks no checksums. Raises SetupError if a jar is missing.
    """
    locks = list(locks or session_locks())
    if missing := _missing(locks):
        names = ", ".join(jar.file_name for jar in missing)
        raise SetupError(
            f"The jar cache {paths.jar_dir()} lacks {names}. "
            "Run `tidemark run`, which fetches them."
        )
    return [paths.jar_dir() / jar.file_name for jar in locked_jars(locks)]


def _missing(locks: Iterable[Path]) -> list[Jar]:
    """The jars in the lock files that the cache lacks."""
    return [jar for jar in locked_jars(locks) if not (paths.jar_dir() / jar.file_name).exists()]


def prepare() -> None:
    """Fetch jars that the session lacks, and have a class archive created that was never tried.

    That is so in the first run on a machine or in a new environment.
    """
    from tidemark.spark import class_archive

    locks = session_locks()
    if _missing(locks):
        install(locks)
    if os.access(paths.jar_dir(), os.W_OK) and not class_archive.is_tried(locks):
        class_archive.make_later(tuple(locks))


def require_java() -> str:
    """The `java` command. Raises SetupError if Java is missing or too old."""
    problem = java.problem()
    if problem:
        raise SetupError(problem)
    return str(java.command())


def _ivy_xml(jars: list[Jar]) -> str:
    # Ivy takes only one dependency of a module.
    modules: dict[str, str] = {}
    for jar in jars:
        module = (
            f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} "
            f'rev={quoteattr(jar.version)} transitive="false" conf="default->master">'
        )
        classifier = f" m:classifier={quoteattr(jar.classifier)}" if jar.classifier else ""
        artifact = f'<artifact name={quoteattr(jar.artifact)} type="jar" ext="jar"{classifier}/>'
        modules[module] = modules.get(module, "") + artifact
    dependencies = "".join(f"{each}{modules[each]}</dependency>" for each in modules)
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="tidemark" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _mirror_settings(root: str) -> str:
    return (
        '<ivysettings><settings defaultResolver="mirror"/><resolvers>'
        f'<ibiblio name="mirror" m2compatible="true" root={quoteattr(root)}/>'
        "</resolvers></ivysettings>"
    )


def install(locks: Iterable[Path] | None = None) -> list[Path]:
    """Fetch missing jars of the session or of these lock files into the cache.

    Verifies each file's checksum. The repository is Maven Central or TIDEMARK_MAVEN_MIRROR.
    """
    import pyspark

    java_command = require_java()
    cache = paths.jar_dir()
    locks = list(locks or session_locks())
    missing = _missing(locks)
    if not missing:
        return installed_jars(locks)
    print(f"Fetching {len(missing)} jars into {cache}", file=sys.stderr)
    cache.mkdir(parents=True, exist_ok=True)
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        work = Path(scratch)
        (work / "ivy.xml").write_text(_ivy_xml(missing))
        command = [java_command, "-jar", str(ivy), "-ivy", str(work / "ivy.xml")]
        command += ["-cache", str(work / "ivy-cache")]
        command += ["-retrieve", str(work / "[artifact]-[revision](-[classifier]).[ext]")]
        mirror = os.environ.get(MIRROR_VARIABLE)
        if mirror:
            (work / "settings.xml").write_text(_mirror_settings(mirror))
            command += ["-settings", str(work / "settings.xml")]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        for jar in missing:
            _admit(work / jar.file_name, cache / jar.file_name, jar, answer.stdout)
    return installed_jars(locks)


def _admit(fetched: Path, target: Path, jar: Jar, log: str) -> None:
    if not fetched.exists():
        tail = "\n".join(log.splitlines()[-12:])
        raise SetupError(
            f"Could not fetch {jar.file_name}. Check that Maven Central is reachable, "
            f"or set a mirror in {MIRROR_VARIABLE}. Ivy's output:\n{tail}"
        )
    found = hashlib.sha256(fetched.read_bytes()).hexdigest()
    if found != jar.sha256:
        raise SetupError(
            f"{jar.file_name} has the checksum {found}, but {jar.lock} has {jar.sha256}. "
            "The file was not used. Check the mirror."
        )
    fetched.replace(target)


if __name__ == "__main__":
    from tidemark.spark import class_archive

    try:
        wanted = session_locks()
        if sys.argv[1:] == ["s3"] and not s3.is_used():
            wanted.append(wanted[0].with_name(S3_LOCK))
        install(wanted)
        class_archive.make(wanted)
    except TidemarkError as error:
        sys.exit(f"tidemark: {error}")
