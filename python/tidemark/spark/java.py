"""Which Java to run. Only the standard library: `make setup` asks before it installs anything."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

NEEDED = 17


def problem() -> str | None:
    """One sentence when Spark cannot run for want of Java 17 or newer, else None."""
    java = command()
    if java is None:
        return (
            f"Java was not found: install Java {NEEDED} or newer (on Debian: `apt-get install "
            f"openjdk-{NEEDED}-jre-headless`), or point JAVA_HOME at it."
        )
    quoted = version().split('"')
    major = quoted[1].split(".")[0].split("-")[0] if len(quoted) > 1 else "unreadable"
    if not major.isdigit() or int(major) < NEEDED:
        return (
            f"Java {NEEDED} or newer is needed, and {java} is version {major}: install a newer one."
        )
    return None


def version() -> str:
    """What `java -version` says; '' without Java."""
    java = command()
    return _version(java) if java else ""


@cache
def _version(java: str) -> str:
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    return done.stderr


def command() -> str | None:
    """The path of `java`: JAVA_HOME's, or the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return java if java and Path(java).exists() else None


if __name__ == "__main__":
    sys.exit(problem())
