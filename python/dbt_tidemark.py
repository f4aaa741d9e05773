"""Patches dbt-spark 1.11 for Tidemark. dbt imports this module because of its name.

Each function in tidemark/dbt_plugin that replaces a part of dbt-spark or PySpark names that part
and gives the reason. tests/python/test_replaced_parts.py fails if a replaced part changes
upstream.
"""

import logging
from importlib.util import find_spec

from tidemark.dbt_plugin import methods, python_models, relations, sessions

logging.getLogger("py4j").setLevel(logging.ERROR)

sessions.install()
relations.install()
python_models.install()
methods.install()
if find_spec("pyhive"):
    from tidemark.dbt_plugin import thrift

    thrift.install()
if find_spec("dbt.adapters.glue"):
    from tidemark.aws import glue_adapter

    glue_adapter.install()
