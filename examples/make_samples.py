"""Writes the sample files of all domains: the same bytes at every run.

`<domain>/day1`, `day2`, ... are what arrives in a landing folder day after day.
Run as `python examples/make_samples.py`.
"""

import importlib
import pkgutil
import shutil
from pathlib import Path

import generators

HERE = Path(__file__).parent


def main() -> None:
    """Write every domain's days anew."""
    for module in pkgutil.iter_modules(generators.__path__):
        days = importlib.import_module(f"generators.{module.name}").days()
        for day, files in days.items():
            folder = HERE / module.name / f"day{day}"
            shutil.rmtree(folder, ignore_errors=True)
            for path, content in files.items():
                file = folder / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)


if __name__ == "__main__":
    main()
