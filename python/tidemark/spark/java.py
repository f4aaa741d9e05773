"""Find Java. Imports only the standard library, since `make setup` runs this before installing."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

# From Java 23 on, Hadoop 3.4 fails with "getSubject is not supported".
OLDEST, NEWEST = 17, 22
_INSTALL = (
    f"Install Java {OLDEST} or 21 (on Debian: `apt-get install openjdk-{OLDEST}-jre-headless`), or "
    "point JAVA_HOME at it."
)


def problem() -> str | None:
    """The error message if there is no Java that Spark can use, or None."""
    java = command()
    if java is None:
        return f"Java was not found. {_INSTALL}"
    quoted = version().split('"')
    major = quoted[1].split(".")[0].split("-")[0] if len(quoted) > 1 else "unreadable"
    if not major.isdigit() or not OLDEST <= int(major) <= NEWEST:
        return f"{java} is Java {major}, but Spark needs Java {OLDEST} to {NEWEST}. {_INSTALL}"
    return None


def version() -> str:
    """The output of `java -version`, or '' without Java."""
    java = command()
    return _version(java) if java else ""


@cache
def _version(java: str) -> str:
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    return done.stderr


def command() -> str | None:
    """The path of `java`: in JAVA_HOME, or the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return java if java and Path(java).exists() else None


if __name__ == "__main__":
    sys.exit(problem())
