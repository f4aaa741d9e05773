"""Virtual environments of tests: Tidemark's wheel as a user installs it, and dbt without Tidemark.

Both find the other packages where the tests' own Python has them: nothing is fetched.
"""

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from tests.project import REPO


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
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        if (REPO / name).is_symlink():
            (source / name).symlink_to((REPO / name).readlink())
        else:
            (source / name).write_bytes((REPO / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", wheels, source], check=True)
    (wheel,) = wheels.glob("tidemark-*.whl")
    python = folder / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "--no-deps", wheel], check=True)
    return environment
