"""A project with one table, and how its commands are run and timed."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import data
from tidemark.scaffold import add

FEED = {
    "format": "dms",
    "key": "id",
    "sequence": "change_seq",
    "timestamp_column": "commit_ts",
}


class Side:
    """A project with one table, in a folder of its own."""

    def __init__(
        self, folder: Path, feed: Mapping[str, Any] = FEED, *, has_history: bool = True
    ) -> None:
        self.folder = folder
        # Before the names of current and history, for another table format than Delta.
        self.catalog = ""
        self.tidemark("init", str(folder))
        self.landing = folder / "landing" / "shop" / "customers"
        self.landing.mkdir(parents=True)
        add.write(folder, add.NewTable("shop", "customers", dict(data.COLUMNS), dict(feed)))
        if not has_history:
            shutil.rmtree(folder / "models" / "history")

    def tidemark(self, *arguments: str) -> str:
        """Run a command in the project."""
        return self._run("tidemark", *arguments)

    def dbt(self, *arguments: str) -> str:
        """Run a command of dbt in the project."""
        return self._run("dbt", *arguments)

    def _run(self, program: str, *arguments: str) -> str:
        there = self.folder if self.folder.exists() else self.folder.parent
        return run([str(Path(sys.executable).with_name(program)), *arguments], there)

    def lands(self, file: Path, name: str) -> float:
        """The seconds of a run with this new file."""
        shutil.copyfile(file, self.landing / f"{name}.parquet")
        return timed(self.tidemark, "run")

    def require_truth(self, truth: Path) -> None:
        """Stop if the current table differs from the truth."""
        names = ", ".join(data.COLUMNS)
        tables = [
            f"(select {names} from {each})"
            for each in (f"{self.catalog}current.cur_shop__customers", f"parquet.`{truth}`")
        ]
        sides = (tables, tables[::-1])
        counts = [f"(select count(*) from ({a} except all {b}))" for a, b in sides]
        told = self.tidemark("sql", f"select {', '.join(counts)}", "--format", "csv")
        if told.splitlines()[1] != "0,0":
            sys.exit(f"The table differs from the truth:\n{told}")


def run(command: Sequence[str], folder: Path, **variables: str) -> str:
    """The output of a command. Stops with it if the command fails."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("TIDEMARK_LAKE", "TIDEMARK_LANDING", "DBT_PROJECT_DIR")
    }
    environment |= {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    environment |= {name: value for name, value in variables.items() if value}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def timed(step: Callable[..., object], *arguments: object) -> float:
    """The seconds of a step."""
    start = time.perf_counter()
    step(*arguments)
    return time.perf_counter() - start
