"""kill -9 at any time, then run again: the tables are as if nothing had happened."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import REPO

pytestmark = [pytest.mark.functional, pytest.mark.slow]

TABLES = {
    "log_insurance.policies": "* except (_load_id, _landed_at, _file_at)",
    "current.cur_insurance__policies": "* except (_order, _load_id)",
    "current.cur_inventory__products": "* except (_order, _load_id)",
    "history.hist_insurance__policies": "* except (_order, _load_id)",
    "history.hist_inventory__products": "* except (_order, _load_id)",
    "tidemark.dead_letter": "file, position, reason",
}


def start(lake: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {"TIDEMARK_LAKE": str(lake), "DBT_PROJECT_DIR": str(REPO)}
    environment.pop("TIDEMARK_LANDING", None)
    return subprocess.Popen(
        [sys.executable, "-m", "tidemark.cli", *arguments],
        env=environment,
        cwd=REPO,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def contents(lake: Path) -> list[str]:
    """The rows of all tables, as text."""
    query = " union all ".join(
        f"select '{table}' as name, to_json(struct(rows.*)) as row "
        f"from (select {columns} from {table}) as rows"
        for table, columns in TABLES.items()
    )
    output, _ = start(lake, "sql", query, "--format", "json").communicate()
    rows = sorted(output.splitlines())
    assert len(rows) > len(TABLES), output
    return rows


def test_runs_that_are_killed_at_any_point_end_right(tmp_path: Path) -> None:
    output, _ = start(tmp_path / "undisturbed", "demo").communicate()
    assert "Where to look next" in output
    expected = contents(tmp_path / "undisturbed")
    at = random.Random(os.environ.get("TIDEMARK_SEED", "7"))
    longest = float(os.environ.get("TIDEMARK_KILL_SECONDS", "60"))
    lakes, kills = 1, 0
    while kills < int(os.environ.get("TIDEMARK_KILLS", "50")):
        lake = tmp_path / str(lakes)
        process = start(lake, "demo")
        try:
            process.communicate(timeout=at.uniform(8, longest))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            kills += 1
            print(f"kill {kills}, lake {lakes}", flush=True)
        else:
            # It has come to its end in spite of all: the next one begins anew.
            assert contents(lake) == expected, f"lake {lakes}, after {kills} kills"
            print(f"lake {lakes} came to its end, and is right", flush=True)
            lakes += 1
    output, _ = start(tmp_path / str(lakes), "demo").communicate()
    assert "Where to look next" in output
    assert contents(tmp_path / str(lakes)) == expected
