"""`make demo`: the samples arrive in two days, and the tables follow."""

import os
import shutil
from pathlib import Path

from tidemark import paths, query, runs

POLICIES = (
    "select policy_id, expiry_date, region_name, insured_value, flood_coverage "
    "from current.cur_insurance__policies "
    "where policy_id in (100462, 100463, 100475, 110001, 110002) order by policy_id"
)
PRODUCTS = (
    "select product_id, product_name, quantity_available, last_update_time "
    "from current.cur_inventory__products where product_id in (102, 103) order by product_id"
)
COUNT = "select count(*) as policies from current.cur_insurance__policies"
HISTORY = (
    "select policy_id, insured_value, valid_from, valid_to, is_current, version_number "
    "from history.hist_insurance__policies where policy_id = 100463 order by valid_from"
)
REJECTED = (
    "select file, position as row, column, value, reason from tidemark.dead_letter "
    "where source_name in ('insurance', 'inventory') order by at, file, position"
)


def run() -> None:
    """Play both days, showing the same rows after each."""
    # The samples stay out of the folder where the user's own files arrive.
    os.environ.setdefault("TIDEMARK_LANDING", str(paths.lake_dir() / "landing"))
    print(
        "Tidemark demo: insurance policies and product inventory, as AWS DMS would write them.\n"
        f"The files arrive in {paths.landing_dir()}, the tables are kept in {paths.lake_dir()}."
    )
    _day(1, "the full load of both tables")
    _day(2, "inserts, updates, a delete, two changes of one key, and a broken row")
    _show("The history of policy 100463, whose insured value changed", HISTORY)
    _show("What could not be taken, and why", REJECTED)
    print(
        "\nWhere to look next\n"
        '  .venv/bin/tidemark sql "select * from marts.agg_exposure_by_region"\n'
        "  .venv/bin/tidemark docs      every table, column and test, with its lineage\n"
        "  models/                      the SQL, in the order in which the data flows\n"
        "  README.md                    add a table of your own in a minute"
    )


def _day(number: int, what: str) -> None:
    print(f"\n=== Day {number}: {what}")
    arrived = _arrive(paths.project_dir() / "examples" / f"day{number}", paths.landing_dir())
    print(f"{arrived} new files arrived." if arrived else "No file arrived that was not there.")
    runs.run(quiet=True)
    _show("Policies", POLICIES)
    _show("How many policies", COUNT)
    _show("Products 102 and 103", PRODUCTS)


def _arrive(samples: Path, landing: Path) -> int:
    """Copy the samples that are not in the landing folder yet; gives how many."""
    arrived = 0
    for sample in sorted(file for file in samples.rglob("*") if file.is_file()):
        target = landing / sample.relative_to(samples)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(sample, target)
            arrived += 1
    return arrived


def _show(title: str, statement: str) -> None:
    print(f"\n{title}\n{query.as_table(query.rows(statement))}")
