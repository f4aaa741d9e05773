"""Land batches in one process, with one Spark, and print how many seconds each run takes.

`python -m bench.batches <folder of the batches> <first> <last>`, in the folder of the project.
"""

import json
import shutil
import sys
from datetime import date, timedelta
from pathlib import Path

from bench.side import timed
from tidemark import cli


def main(files: Path, first: int, last: int) -> None:
    """Land each batch as a file, and run."""
    seconds = []
    for number in range(first, last + 1):
        name = f"{date(2026, 2, 1) + timedelta(number):%Y%m%d}-000000000.parquet"
        shutil.copyfile(files / f"batch_{number}.parquet", Path("landing/shop/customers", name))
        seconds.append(timed(cli.perform, ["run"]))
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
