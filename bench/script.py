"""The hand-written job that most people have: `python -m bench.script TABLE FILE`.

It keeps the last change of each key of a file and merges it with deletes. So it keeps the current
table only, and is wrong on late changes. Without a table yet, FILE is its load.
"""

import sys
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tidemark.spark import jars


def main() -> None:
    """Load or merge one file, with Spark's default settings."""
    table, file = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.jars", ",".join(map(str, jars.installed_jars())))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config(
            "spark.sql.catalog.spark_catalog",
            "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        )
        .getOrCreate()
    )
    changes = spark.read.parquet(file)
    if not Path(table).exists():
        changes.write.format("delta").save(table)
        return
    newest = Window.partitionBy("id").orderBy(F.desc("change_seq"))
    changes = changes.withColumn("nth", F.row_number().over(newest)).where("nth = 1").drop("nth")
    (
        DeltaTable.forPath(spark, table)
        .alias("t")
        .merge(changes.alias("s"), "t.id = s.id")
        .whenMatchedDelete("s.Op = 'D'")
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll("s.Op <> 'D'")
        .execute()
    )


if __name__ == "__main__":
    main()
