"""A process that has the imports, and forks for commands: here, beside one that is no Spark."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.project import REPO
from tidemark.spark import lock, processes, ready

CommandOutput = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project, with a process that waits for commands of its lake."""
    folder = tmp_path_factory.mktemp("ready")
    (folder / "dbt_project.yml").write_text("name: p\nprofile: tidemark\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setenv("DBT_PROJECT_DIR", str(folder))
        patched.setenv("DBT_PROFILES_DIR", str(REPO / "profiles"))
        patched.setenv("PYTHONPATH", f"{REPO / 'python'}")
        for name in ("LANDING", "WAREHOUSE"):
            patched.delenv(f"TIDEMARK_{name}", raising=False)
        # Relative to the project, and outside it.
        patched.setenv("TIDEMARK_LAKE", "../of_ready")
        processes.folder().mkdir(parents=True)
        sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]
        other = subprocess.Popen([*sleeping, str(processes.JAVA_SOURCES), f"{processes.folder()}/"])
        try:
            process = ready.start(other.pid)
            ready.wait(process)
            yield folder
        finally:
            other.kill()
            other.wait()
        until = time.monotonic() + 10
        while processes.is_ours(process) and time.monotonic() < until:
            time.sleep(0.1)
        assert not processes.is_ours(process)
        assert not (processes.folder() / "commands.json").exists()


@pytest.fixture
def run(project: Path, capfd: pytest.CaptureFixture[str]) -> CommandOutput:
    def ended(*arguments: str) -> tuple[int, str]:
        command = ready.begin(arguments)
        assert command
        code = ready.end(command)
        return code, "".join(capfd.readouterr())

    return ended


def test_a_process_is_known_at_once(project: Path) -> None:
    # Linux shows no command line until a process has started its program.
    waits = f"{processes.READY}; import time; time.sleep(600)"
    command = [sys.executable, "-c", waits, f"{processes.folder()}/"]
    for _ in range(50):
        process = processes.spawn(command, project / "started.log", {})
        try:
            assert processes.is_ours(process)
        finally:
            os.kill(process, signal.SIGKILL)
    until = time.monotonic() + 10
    while processes.is_ours(process) and time.monotonic() < until:
        time.sleep(0.01)
    assert not processes.is_ours(process)


def test_a_command_has_the_streams_folder_and_variables_of_who_started_it(
    project: Path, run: CommandOutput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("--version")[1].startswith("tidemark ")
    nothing = f"Nothing has landed in {project.parent / 'of_ready'} yet: tidemark run.\n"
    assert run("status") == (0, nothing)
    monkeypatch.chdir(tmp_path)
    assert run("init", "made")[0] == 0
    assert (tmp_path / "made/dbt_project.yml").exists()
    monkeypatch.setenv("DBT_PROFILES_DIR", str(tmp_path))
    code, told = run("status")
    assert (code, f"{tmp_path}/profiles.yml is missing" in told) == (1, True)
    code, told = run("no-command")
    assert (code, "No such command 'no-command'" in told) == (2, True)


def test_forks_need_not_compile_macros_and_read_files_anew(tmp_path: Path) -> None:
    code = """
from dbt_common.clients.jinja import template_cache
from tidemark import formats, paths, targets
from tidemark.shared import shared
from tidemark.spark import ready

targets.method()
formats._asked_for(paths.project_dir())
ready._rehearse()
assert len(template_cache.file_cache) > 500, len(template_cache.file_cache)
for function in (targets._method, formats._asked_for):
    assert not function.cache_info().currsize, function
assert not shared.method
"""
    subprocess.run([Path(sys.executable).with_name("tidemark"), "init", tmp_path / "p"], check=True)
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "p", check=True)


def test_the_program_passes_a_command_on(project: Path) -> None:
    program = "from tidemark.spark import ready; raise SystemExit(ready.main())"
    # Pipes, which are not like the file that the process has for its own output.
    told = subprocess.run(
        [sys.executable, "-c", program, "status"], capture_output=True, text=True, check=True
    )
    assert (
        told.stdout == f"Nothing has landed in {project.parent / 'of_ready'} yet: tidemark run.\n"
    )
    assert told.stderr == ""
    # Only a fork has what commands need.
    code = f"import sys; sys.argv[1:] = ['status']; {program.replace('raise SystemExit', 'print')}"
    ended = subprocess.run(
        [sys.executable, "-c", f"{code}; print('tidemark.cli' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.splitlines()[1:] == ["0", "False"]


def _waiting(capfd: pytest.CaptureFixture[str]) -> str:
    told = ""
    while "Waiting for process" not in told:
        time.sleep(0.1)
        told += capfd.readouterr().err
    return told


def test_a_command_ends_as_the_one_who_started_it_says(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lake = project.parent / "of_ready"
    lock.hold(lake)
    interrupted = ready.begin(["land"])
    assert interrupted
    _waiting(capfd)
    interrupted.sendall(b"i")
    assert ready.end(interrupted) == 130
    assert "KeyboardInterrupt" in capfd.readouterr().err
    killed = ready.begin(["land"])
    assert killed
    _waiting(capfd)
    # As the kernel does for a process that is killed.
    killed.close()
    lock.done(lake)
    time.sleep(1)
    # Nobody has taken the lock, and nobody waits for it.
    assert not (lake / "lock").read_text()


def test_other_versions_run_no_command(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    del project
    command = ready.begin(["--version"])
    assert command
    ready.end(command)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert ready.begin(["--version"]) is None
