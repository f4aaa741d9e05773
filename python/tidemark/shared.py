"""What parts of a process leave for each other where dbt is between them.

dbt calls Tidemark in its own threads and passes on nothing of ours. All else is an argument.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Shared:
    """One object per process, `shared`. Set by `targets`, `spark` and `dbt_plugin.hook`."""

    # The method that dbt reports once it runs. Its command line overrides the files.
    method: str = ""
    # The current run's id, and the bytes that it reads of each table.
    run_id: str = ""
    sizes: Sequence[int] = ()
    # The base sessions over Connect, by the target's method: `session` is that of `tidemark up`.
    remote: dict[str, "SparkSession"] = field(default_factory=dict)
    # Landing failures by `source.table`. Their models fail, the others are built.
    landing_failures: Mapping[str, str] = field(default_factory=dict)
    # The failure with which the run-end hook must fail. See the macro `give_back_lake`.
    failure_at_end: str = ""
    # The lease of the lake. It is held until dbt ends, because dbt writes after landing.
    lease: ExitStack = field(default_factory=ExitStack)
    # The open lock files, by lake, and who held each before. The kernel releases the locks when the
    # process ends, also after kill -9.
    locks: dict[Path, IO[str]] = field(default_factory=dict)
    holders_before: dict[Path, str] = field(default_factory=dict)


shared = Shared()
