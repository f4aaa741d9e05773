"""Java and jars: what set-up asks of a machine, and what it refuses."""

import hashlib
import os
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.project import REPO
from tidemark import paths
from tidemark.errors import SetupError
from tidemark.spark import class_archive, jars, java, machine, session, spark_line, warm


@pytest.mark.parametrize("is_warm", [False, True])
def test_a_run_says_that_spark_starts_if_it_does(
    monkeypatch: pytest.MonkeyPatch, *, is_warm: bool
) -> None:
    told: list[str] = []
    monkeypatch.setattr(session, "_running", lambda: None)
    monkeypatch.setattr(session, "_Later", lambda: None)
    monkeypatch.setattr(session, "_cancel_jobs_when_interrupted", lambda: None)
    monkeypatch.setattr(session, "_require_what_spark_needs", lambda: told.append("lock"))
    monkeypatch.setattr(warm, "running", lambda: is_warm)
    monkeypatch.setattr(warm, "hold", lambda: None)
    session.later(told.append)
    # If the lake is in use, nothing starts.
    assert told == ([] if is_warm else ["lock", "Starting Spark."])


def test_without_java_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, REPO / "python/tidemark/spark/java.py"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 1
    assert answer.stderr.startswith("Java was not found. Install Java 17 or 21 (on Debian:")
    assert len(answer.stderr.splitlines()) == 1


@pytest.mark.parametrize("version", ["11.0.2", "25.0.3"])
def test_a_java_that_spark_cannot_use_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    sentence = f"is Java {version[:2]}, but Spark needs Java 17 to 22. Install Java 17 or 21"
    with pytest.raises(SetupError, match=sentence):
        jars.require_java()


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven repository in a folder, with one small jar, and an empty cache."""
    jar = tmp_path / "maven/org/example/thing/1.0/thing-1.0.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"a jar")
    pom = jar.with_suffix(".pom")
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
        "<artifactId>thing</artifactId><version>1.0</version></project>"
    )
    monkeypatch.setenv("TIDEMARK_MAVEN_MIRROR", (tmp_path / "maven").as_uri() + "/")
    monkeypatch.setenv("TIDEMARK_JARS", str(tmp_path / "cache"))
    return jar


def lock(monkeypatch: pytest.MonkeyPatch, folder: Path, content: bytes) -> None:
    (folder / "dbt_project.yml").touch()
    digest = hashlib.sha256(content).hexdigest()
    (folder / "jars.lock").write_text(f"# a comment\n{digest}  org.example:thing:1.0\n")
    monkeypatch.setattr(spark_line, "lock_folder", lambda: folder)
    # The lake of other tests has tables in other formats, which need jars of their own.
    monkeypatch.setenv("TIDEMARK_LAKE", str(folder / "lake"))
    monkeypatch.setenv("DBT_PROJECT_DIR", str(folder))


def test_a_jar_comes_from_the_mirror_once(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock(monkeypatch, tmp_path, b"a jar")
    (file,) = jars.install()
    assert file.read_bytes() == b"a jar"
    mirror.unlink()
    assert jars.install() == [file]
    assert [found.name for found in file.parent.iterdir()] == ["thing-1.0.jar"]


def test_a_jar_with_another_checksum_never_enters_the_cache(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock(monkeypatch, tmp_path, b"another jar")
    with pytest.raises(SetupError, match="has the checksum .* but jars.lock has"):
        jars.install()
    with pytest.raises(SetupError, match="The jar cache .* lacks thing-1.0.jar"):
        jars.installed_jars()


def test_an_unreachable_repository_is_said_so(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock(monkeypatch, tmp_path, b"a jar")
    monkeypatch.setenv("TIDEMARK_MAVEN_MIRROR", (tmp_path / "nowhere").as_uri() + "/")
    with pytest.raises(SetupError, match="Could not fetch thing-1.0.jar"):
        jars.install()


@pytest.fixture
def archive(mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the archive belongs for Spark with the one jar."""
    lock(monkeypatch, tmp_path, b"a jar")
    jars.install()
    return class_archive.file(jars.session_locks())


def test_set_up_has_archived_the_classes_of_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # That of the other tests has tables of other formats, with jars of their own.
    monkeypatch.setenv("TIDEMARK_LAKE", str(tmp_path))
    assert class_archive.file(jars.session_locks()).exists()


def test_an_archive_is_of_these_jars_and_this_java(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert archive.parent == archive.parents[1] / "cache"
    assert class_archive.java_options() == ""
    archive.write_text("an archive")
    assert str(archive) in class_archive.java_options()
    (archive.parent / "thing-1.0.jar").write_bytes(b"changed")
    assert class_archive.java_options() == ""
    (archive.parent / "thing-1.0.jar").unlink()
    (archive.parent / "thing-1.0.jar").write_bytes(b"a jar")
    monkeypatch.setattr(java, "version", lambda: 'openjdk version "99"')
    assert class_archive.java_options() == ""


def test_java_does_without_an_archive_that_it_cannot_take(archive: Path) -> None:
    archive.write_text("no archive")
    options = shlex.split(class_archive.java_options())
    started = subprocess.run(
        [jars.require_java(), *options, "-version"], capture_output=True, text=True, check=False
    )
    assert started.returncode == 0
    assert started.stdout == ""


def test_set_up_goes_on_when_there_can_be_no_archive(
    archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    class_archive.make(jars.session_locks())
    assert "Spark will start more slowly: Java wrote nothing" in capsys.readouterr().err
    assert class_archive.java_options() == ""
    assert class_archive.is_tried(jars.session_locks())
    jars.prepare()
    assert capsys.readouterr().err == ""
    failed = archive.with_suffix(".failed")
    assert "Java wrote nothing" in failed.read_text()
    os.utime(failed, (0, 0))
    assert not class_archive.is_tried(jars.session_locks())
    monkeypatch.setattr(paths, "jar_dir", lambda: Path("/proc/none"))
    monkeypatch.setattr(jars, "installed_jars", lambda locks: [])
    class_archive.make(jars.session_locks())
    assert "Spark will start more slowly" in capsys.readouterr().err
    assert not [*archive.parent.glob("*.jsa")]


def test_an_archive_replaces_those_that_are_not_used(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(command: list[str], env: dict[str, str], **_: object) -> CompletedProcess[str]:
        Path(shlex.split(env["SPARK_SUBMIT_OPTS"])[0].partition("=")[2]).write_text("made")
        return CompletedProcess(command, 0)

    unused, used = (archive.with_name(f"classes-{name}-0.jsa") for name in ("gone", "other"))
    unused.touch()
    used.touch()
    os.utime(unused, (0, 0))
    # The second one is of an earlier version.
    for failed in (archive.with_suffix(".failed"), archive):
        failed.touch()
    monkeypatch.setattr(subprocess, "run", made)
    class_archive.make(jars.session_locks())
    assert archive.read_text() == "made"
    assert sorted(archive.parent.glob("classes-*")) == sorted([archive, used])


def _in_new_environment(lake: Path, cache: Path) -> str:
    """What a program of ours prints at the end of which an archive is to be created."""
    code = "from tidemark.spark import jars; jars.prepare(); jars.prepare(); print('done')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TIDEMARK_LAKE": str(lake), "TIDEMARK_JARS": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout + done.stderr


@pytest.mark.slow
def test_a_new_environment_gets_its_archive_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_LAKE", str(tmp_path))
    cache = tmp_path / "another"
    cache.mkdir()
    for jar in jars.installed_jars(jars.session_locks()):
        (cache / jar.name).symlink_to(jar)
    making = cache / "making"
    making.mkdir()
    (making / "left by a killed process").touch()

    def begun() -> bool:
        return (making / "lake").exists()

    assert "Spark will start faster in about a minute" in _in_new_environment(tmp_path, cache)
    while not begun():
        time.sleep(0.1)
    # It is being created.
    assert _in_new_environment(tmp_path, cache) == "done\n"
    until = time.monotonic() + 300
    while begun() and time.monotonic() < until:
        time.sleep(0.5)
    (made,) = cache.glob("classes-*")
    assert made.suffix == ".jsa"
    assert not [*making.iterdir()]
    assert _in_new_environment(tmp_path, cache) == "done\n"


@pytest.mark.parametrize(("note", "metastore"), [("3.5", True), (None, True), (None, False)])
def test_a_lake_is_of_one_line_of_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note: str | None, metastore: bool
) -> None:
    monkeypatch.setattr(spark_line, "name", lambda: "3.5")
    if note:
        (tmp_path / "spark_line").write_text(note)
    if metastore:
        (tmp_path / "metastore").mkdir()
    if metastore and not note:
        # A lake from before there was a second line.
        with pytest.raises(SetupError, match=r"was created by Spark 4.1, but this is Spark 3.5"):
            spark_line.claim(tmp_path)
        return
    spark_line.claim(tmp_path)
    monkeypatch.setattr(spark_line, "name", lambda: "4.1")
    with pytest.raises(SetupError, match=r"was created by Spark 3.5, but this is Spark 4.1"):
        spark_line.claim(tmp_path)


@pytest.mark.parametrize(
    ("files", "cores", "memory"),
    [
        ({"cpu.max": "100000 100000\n", "memory.max": "1073741824\n"}, 1, 1 << 30),
        ({"cpu.max": "50000 100000\n", "memory.max": "max\n"}, 1, None),
        ({"cpu.max": "max 100000\n"}, None, None),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None, None),
        ({"cpu/cpu.cfs_quota_us": "150000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1, None),
        ({"memory/memory.limit_in_bytes": f"{1 << 30}\n"}, None, 1 << 30),
        ({"memory/memory.limit_in_bytes": f"{(1 << 63) - 4096}\n"}, None, None),
        ({}, None, None),
    ],
)
def test_a_container_may_have_less_than_the_machine(
    tmp_path: Path, files: dict[str, str], cores: int | None, memory: int | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert machine.cores(tmp_path) == (cores or machine.cores(tmp_path / "none"))
    assert machine.memory(tmp_path) == (memory or machine.memory(tmp_path / "none"))
    assert machine.cores(tmp_path / "none") >= 1
    assert machine.memory(tmp_path / "none") > 1 << 30


def test_work_side_by_side_takes_the_cores_that_the_container_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 1)

    def thread(_: int) -> int:
        time.sleep(0.01)
        return threading.get_ident()

    assert len(set(machine.side_by_side(thread, range(3)))) == 1
