"""Virtual environments of tests: Tidemark's wheel as a user installs it, and dbt without Tidemark.

All but `of_a_user` find the other packages where the tests' own Python has them: nothing is
fetched.
"""

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from tests.project import REPO

_PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


@dataclass(frozen=True)
class Environment:
    """A virtual environment in a folder."""

    folder: Path

    def run(self, *command: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """A command of the environment; its standard output has the errors, too."""
        bin_folder = self.folder / "bin"
        others = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TIDEMARK_", "DBT_", "PYTHON", "VIRTUAL_ENV"))
        }
        # Jars are kept for the user, not for an environment.
        kept = {name: os.environ[name] for name in ("TIDEMARK_JARS",) if name in os.environ}
        path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            [bin_folder / command[0], *command[1:]],
            cwd=cwd,
            env={**others, **kept, "PATH": path, **variables},
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=600,
            check=False,
        )

    def must(self, *command: str, cwd: Path, **variables: str) -> str:
        """A command that must succeed; gives what it prints."""
        done = self.run(*command, cwd=cwd, **variables)
        assert done.returncode == 0, done.stdout
        return done.stdout


def without_tidemark(folder: Path) -> Environment:
    """An environment with all packages of the tests but Tidemark."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "lib" / version / "site-packages"
    # A line of a .pth file is searched for modules; .pth files that lie there, such as the one by
    # which this repository is installed, are not read.
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    dbt = folder / "bin" / "dbt"
    dbt.write_text(
        f"#!{folder}/bin/python\nimport sys\nfrom dbt.cli.main import cli\nsys.exit(cli())\n"
    )
    dbt.chmod(0o755)
    return Environment(folder)


def with_wheel(folder: Path) -> Environment:
    """The same with the wheel of this repository, built and installed by pip."""
    environment = without_tidemark(folder)
    source, wheels = folder / "source", folder / "wheels"
    copied(source)
    subprocess.run([*_PIP, "wheel", "--no-deps", "--wheel-dir", wheels, source], check=True)
    python = folder / "bin" / "python"
    install = ("--python", python, "install", "--no-deps", wheel_of(environment))
    subprocess.run([*_PIP, *install], check=True)
    return environment


def wheel_of(environment: Environment) -> Path:
    """The wheel that `with_wheel` has built."""
    (wheel,) = (environment.folder / "wheels").glob("tidemark-*.whl")
    return wheel


def of_a_user(folder: Path, wheel: Path) -> Environment:
    """A wheel alone, with the extras of every target: pip fetches what the wheel asks for."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    environment = Environment(folder)
    quiet = ("--quiet", "--disable-pip-version-check")
    environment.must("pip", *quiet, "install", f"{wheel}[aws,thrift]", cwd=folder)
    return environment


def copied(folder: Path) -> None:
    """Copy this repository as it is now, except what git ignores and the largest tests."""
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    for name in filter(None, tracked):
        if not (REPO / name).exists() or name.startswith(("tests/scenarios", "tests/landings")):
            continue
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (REPO / name).is_symlink():
            (folder / name).symlink_to((REPO / name).readlink())
        else:
            (folder / name).write_bytes((REPO / name).read_bytes())
