"""What Python must know of Spark's two lines, 4.1 (the default) and 3.5: it is here alone.

The installed PySpark decides: one virtual environment is one line. docs/targets/spark-3.5.md
"""

from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.errors import SetupError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


@cache
def name() -> str:
    """The line of the installed PySpark: "4.1" or "3.5"."""
    # Not by importing it, which takes a second.
    return "3.5" if version("pyspark").startswith("3.") else "4.1"


def lock_folder() -> Path:
    """The folder that holds this line's lock files of jars."""
    return Path(__file__).parent / "locks" / name()


def lake_folder() -> str:
    """The lake's name where TIDEMARK_LAKE gives none."""
    return ".tidemark" if name() == "4.1" else f".tidemark-spark{name()}"


def claim(lake: Path) -> None:
    """Make the lake this line's; raises SetupError when it is the other's.

    Spark 3.5's Derby refuses a metastore of Spark 4.1's, in three pages of Java. Spark 4.1 would
    open one of Spark 3.5's, and write what that cannot read.
    """
    note = lake / "spark_line"
    if note.exists():
        owner = note.read_text().strip()
    else:
        # Lakes had no such note before there was a second line.
        owner = "4.1" if (lake / "metastore").exists() else name()
    if owner != name():
        raise SetupError(
            f"The lake {lake} was made by Spark {owner}, and this is Spark {name()}. "
            "Name another folder in TIDEMARK_LAKE."
        )
    if not note.exists():
        note.write_text(name() + "\n")


def to_arrow(frame: "DataFrame", schema: "pa.Schema") -> "pa.Table":
    """The rows of a DataFrame, as Arrow columns of these types."""
    import pyarrow as pa

    if name() == "4.1":
        return frame.toArrow().cast(schema)
    batches = frame._collect_as_arrow()  # type: ignore[operator]
    return pa.Table.from_batches(batches, schema=None if batches else schema).cast(schema)
