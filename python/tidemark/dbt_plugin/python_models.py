"""Run Python models on embedded Spark and over Spark Connect."""

import traceback
from typing import Any

from dbt.adapters.base import PythonJobHelper
from dbt.adapters.spark.impl import SparkAdapter
from dbt_common.exceptions import DbtRuntimeError

from tidemark import targets
from tidemark.errors import TidemarkError
from tidemark.spark import session


class PythonModelHelper(PythonJobHelper):  # type: ignore[misc]
    """Runs a Python model in this process, on embedded Spark or over Spark Connect.

    dbt-spark supports only Databricks.
    """

    def __init__(self, parsed_model: dict[str, Any], credentials: Any) -> None:
        self.model = parsed_model
        targets.use_method(credentials.method)
        if credentials.method not in ("session", "thrift"):
            raise DbtRuntimeError(
                f"{parsed_model['original_file_path']}: Python models need a target with method "
                f"session or thrift, but this target has method {credentials.method}."
            )

    def submit(self, compiled_code: str) -> None:
        """Run the model's code. An error names the model's file and, if possible, the line.

        dbt adds blank lines before the model's code, and its own code after it.
        """
        path = self.model["original_file_path"]
        try:
            spark = session.fresh()
        except TidemarkError as error:
            raise DbtRuntimeError(f"{path}: {error}") from error
        try:
            code = compile(compiled_code.lstrip(), path, "exec")
            exec(code, {"__name__": path, "spark": spark})
        except Exception as error:
            trace = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno or 0 for frame in trace if frame.filename == path]
            if not lines and isinstance(error, SyntaxError):
                lines = [error.lineno or 0]
            own = lines and lines[-1] <= len(self.model["raw_code"].strip().splitlines())
            place = f"{path}, line {lines[-1]}" if own else path
            raise DbtRuntimeError(f"{place}: {session.readable(error)}") from error
        finally:
            if session.is_remote():
                spark.stop()


def install() -> None:
    """Install the replacements."""
    SparkAdapter.python_submission_helpers = property(
        lambda self: {"session": PythonModelHelper, "connect": PythonModelHelper}
    )
    SparkAdapter.default_python_submission_method = property(
        lambda self: "connect" if self.config.credentials.method == "thrift" else "session"
    )
