"""All differences in Python between the Spark versions 4.1 (the default) and 3.5.

The installed PySpark decides. Each version has its own virtual environment. See
docs/targets/spark-3.5.md.
"""

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.errors import SetupError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


@cache
def name() -> str:
    """The version of the installed PySpark: "4.1" or "3.5"."""
    try:
        # Importing PySpark would take a second.
        found = version("pyspark")
    except PackageNotFoundError:
        # A cluster brings its own PySpark, which pip did not install.
        from pyspark import __version__ as found
    return "3.5" if found.startswith("3.") else "4.1"


def lock_folder() -> Path:
    """The folder with the jar lock files of this version."""
    return Path(__file__).parent / "locks" / name()


def lake_folder() -> str:
    """The lake's default folder name."""
    return ".tidemark" if name() == "4.1" else f".tidemark-spark{name()}"


def claim(lake: Path) -> None:
    """Mark the lake as created by this Spark version. Raises SetupError if another one created it.

    Spark 3.5's Derby rejects a metastore of Spark 4.1 with a long stack trace. Spark 4.1 opens one
    of Spark 3.5, but then writes data that Spark 3.5 cannot read.
    """
    note = lake / "spark_line"
    if note.exists():
        owner = note.read_text().strip()
    else:
        # Old lakes, before Spark 3.5 was supported, have no such file.
        owner = "4.1" if (lake / "metastore").exists() else name()
    if owner != name():
        raise SetupError(
            f"The lake {lake} was created by Spark {owner}, but this is Spark {name()}. "
            "Set TIDEMARK_LAKE to another folder."
        )
    if not note.exists():
        note.write_text(name() + "\n")


def to_arrow(frame: "DataFrame", schema: "pa.Schema") -> "pa.Table":
    """The rows of a DataFrame as an Arrow table with this schema."""
    import pyarrow as pa

    if name() == "4.1":
        return frame.toArrow().cast(schema)
    batches = frame._collect_as_arrow()  # type: ignore[operator]
    return pa.Table.from_batches(batches, schema=None if batches else schema).cast(schema)
