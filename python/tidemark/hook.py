"""What dbt calls before its first model, so that a plain `dbt build` lands new files too."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tidemark import landing, paths, report, session
from tidemark.feeds import feeds_of

# Set by `tidemark run`, which has landed by itself before it calls dbt.
LANDED_VARIABLE = "TIDEMARK_LANDED"


def land_for_dbt(sources: Sequence[Mapping[str, Any]]) -> str:
    """Land the new files of the project's feeds; gives one line for dbt's log, or ''."""
    if os.environ.get(LANDED_VARIABLE):
        return ""
    feeds = feeds_of(sources)
    if not feeds:
        return ""
    run_id = landing.new_run_id()
    landed = landing.land(session.get(), feeds, paths.landing_dir(), run_id=run_id)
    return report.one_line(landed)
