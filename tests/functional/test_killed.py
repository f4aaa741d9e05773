"""kill -9 at any time, then run again: the tables are as if nothing had happened."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

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


def contents(lake: Path) -> dict[str, list[Any]]:
    found = {}
    for table, columns in TABLES.items():
        query = f"select {columns} from {table}"
        output, _ = start(lake, "sql", query, "--format", "json").communicate()
        found[table] = sorted(json.dumps(json.loads(line)) for line in output.splitlines())
    return found


def test_a_demo_that_is_killed_again_and_again_ends_right(tmp_path: Path) -> None:
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    output, _ = start(undisturbed, "demo").communicate()
    assert "Where to look next" in output
    at = random.Random(os.environ.get("TIDEMARK_SEED", "7"))
    for _ in range(int(os.environ.get("TIDEMARK_KILLS", "5"))):
        process = start(killed, "demo")
        time.sleep(at.uniform(8, 60))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    output, _ = start(killed, "demo").communicate()
    assert "Where to look next" in output
    assert contents(killed) == contents(undisturbed)
