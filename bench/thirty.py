"""30 tables of 100 rows: `tidemark run`, and `dbt run` of dbt-spark's own merge.

dbt-spark gets a model for each table that merges the last change of each key from the new file. It
has no log, no history and no deletes, and it runs without Tidemark's plugin and settings.
"""

import shutil
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import yaml
from tabulate import tabulate

from bench import data
from bench.side import FEED, Side, run
from tidemark.scaffold import add
from tidemark.spark import jars

TABLES = 30
_ROWS = 100
_MODEL = """{{{{ config(
    materialized="incremental", incremental_strategy="merge", unique_key="id", file_format="delta"
) }}}}
with changes as (
    select *, row_number() over (partition by id order by change_seq desc) as nth
    from parquet.`{files}/t{number}.parquet`
)
select {columns} from changes where nth = 1
"""
# Without the plugins that dbt finds by their name, of which Tidemark's is one.
_STOCK = (
    "import sys; from dbt.plugins import manager; manager._get_dbt_modules = dict; "
    "from dbt.cli.main import cli; cli(sys.argv[1:])"
)


def _ticks() -> float:
    """The seconds that all cores of this machine have worked."""
    words = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    # user, nice, system, idle, iowait, irq, softirq
    return sum(int(word) for at, word in enumerate(words[:7]) if at not in (3, 4)) / 100


def _stock(folder: Path, files: Path) -> None:
    models = folder / "models"
    models.mkdir(parents=True)
    for number in range(TABLES):
        text = _MODEL.format(files=files, number=number, columns=", ".join(data.COLUMNS))
        (models / f"t{number}.sql").write_text(text)
    settings = {
        "spark.jars": ",".join(map(str, jars.installed_jars())),
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={folder}/metastore;create=true"
        ),
    }
    target = {"type": "spark", "method": "session", "schema": "shop", "host": "none", "threads": 4}
    profile = {"stock": {"target": "dev", "outputs": {"dev": target}}}
    project = {"name": "stock", "version": "1.0", "profile": "stock", "config-version": 2}
    conf = folder / "conf" / "spark-defaults.conf"
    conf.parent.mkdir()
    conf.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    (folder / "profiles.yml").write_text(yaml.safe_dump(profile))
    (folder / "dbt_project.yml").write_text(yaml.safe_dump(project))


def measure(work: Path) -> str:
    """A table of the page: seconds, and CPU seconds per table, of a load and a batch."""
    made = work / "thirty"
    data.make(made, _ROWS, _ROWS, 1)
    side = Side(work / "tables")
    names = [f"t{number}" for number in range(TABLES)]
    for name in names:
        add.write(side.folder, add.NewTable("many", name, dict(data.COLUMNS), FEED))
    shutil.rmtree(side.landing)
    files, stock = work / "stock_files", work / "stock"
    files.mkdir()
    _stock(stock, files)
    rows = []
    steps = (("first load", "load", "LOAD00000001"), ("a batch", "batch_1", "20260201-000000000"))
    for what, file, landed in steps:
        for name in names:
            folder = side.folder / "landing" / "many" / name
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(made / f"{file}.parquet", folder / f"{landed}.parquet")
            shutil.copyfile(made / f"{file}.parquet", files / f"{name}.parquet")
        figures = []
        dbt = [sys.executable, "-c", _STOCK, "run"]
        tidemark = [str(Path(sys.executable).with_name("tidemark")), "run"]
        for command, place in ((dbt, stock), (tidemark, side.folder)):
            start, worked = time.perf_counter(), _ticks()
            run(command, place, SPARK_CONF_DIR=str(place / "conf") if place == stock else "")
            figures += [time.perf_counter() - start, (_ticks() - worked) / TABLES]
        print("thirty", what, [round(each, 1) for each in figures], flush=True)
        rows.append([what, *(f"{each:.1f}" for each in figures)])
    truth = pq.read_table(made / "truth.parquet").num_rows
    counts = " union all ".join(f"select count(*) as n from current.cur_many__{n}" for n in names)
    told = side.tidemark("sql", f"select min(n), max(n) from ({counts})", "--format", "csv")
    if told.splitlines()[1] != f"{truth},{truth}":
        sys.exit(f"The tables do not have {truth} rows:\n{told}")
    headers = [
        f"{TABLES} tables of {_ROWS} rows",
        "dbt-spark, seconds",
        "CPU seconds per table",
        "Tidemark, seconds",
        "CPU seconds per table",
    ]
    return str(tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True))
