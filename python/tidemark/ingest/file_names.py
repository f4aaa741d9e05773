"""The names of files that producers write, for landing and for `tidemark discover`."""

import re

# AWS DMS: LOAD and a hexadecimal counter for the full load; the time at which the file was closed
# for changes. The digits after the seconds are a decimal fraction.
_DMS_TYPE = r"\.(csv|parquet)(\.gz)?$"
# Groups of DMS_LOAD: the series, of a segment or partition, and the counter. They have no names,
# so that Spark reads the pattern too.
DMS_LOAD = re.compile(
    rf"^((?:SEGMENT[0-9A-Za-z]+_)?LOAD(?:_\d+_)?)([0-9A-F]{{1,16}}){_DMS_TYPE}", re.IGNORECASE
)
DMS_CHANGES = re.compile(
    rf"^(?P<time>\d{{8}}-\d{{6}})(?P<fraction>\d{{1,9}}){_DMS_TYPE}", re.IGNORECASE
)
DMS_TRANSACTIONS = re.compile(
    r"^CDC_TXN-(?P<time>\d{14})(?P<fraction>\d{1,9})\.csv(\.gz)?$", re.IGNORECASE
)
# Files and folders that producers and copy tools leave beside the data.
SIDE = re.compile(
    r"^[._]|\.(dfm|crc|tmp|md)$|\.(keys|headers)\.[a-z.]+$|^awsdms_|^s3_validation_failures$",
    re.IGNORECASE,
)


def is_load(path: str) -> bool:
    """Whether a file is of a DMS task's full load, by its name."""
    return bool(DMS_LOAD.match(path.rpartition("/")[2]))


def is_load_in_sql(column: str) -> str:
    """The SQL condition that a column has the path of such a file."""
    return f"regexp_extract({column}, '[^/]*$', 0) rlike r'(?i){DMS_LOAD.pattern}'"


def is_change(path: str) -> bool:
    """Whether a file has a DMS task's changes of one table, by its name."""
    return bool(DMS_CHANGES.match(path.rpartition("/")[2]))
