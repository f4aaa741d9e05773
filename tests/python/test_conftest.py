"""The tests themselves, in two processes."""

import os
import re
import subprocess
import sys

import pytest

from tests.project import REPO

# Without Spark, and with more tests than xdist gives a process at first.
MODULES = [f"tests/macros/test_{name}.py" for name in ("feed", "guards", "masking")]


@pytest.mark.slow
def test_a_module_runs_in_one_process() -> None:
    makefile = (REPO / "Makefile").read_text()
    (of_make,) = re.findall(r"--numprocesses \$\(TESTERS\) (.*)\)", makefile)
    options = ["--numprocesses", "2", *of_make.split(), "-vv"]
    told = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *MODULES],
        env={name: value for name, value in os.environ.items() if "PYTEST" not in name},
        cwd=REPO,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = set(re.findall(r"\[(gw\d)\].* PASSED (\S+?\.py)::", told))
    assert sorted(module for _, module in found) == sorted(MODULES)
    assert {process for process, _ in found} == {"gw0", "gw1"}
