"""The demo: the sample files of one or more domains arrive day by day, and update the tables."""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from pyarrow import fs

from tidemark import paths, places, query, runs, storage
from tidemark.errors import ConfigError

USUAL = ("insurance", "inventory")
REJECTED = (
    "select source_name as source, regexp_extract(file, '[^/]+$', 0) as file, position as row, "
    "column, value, reason from tidemark.dead_letter "
    "where source_name in ({sources}) order by at, file, position"
)


@dataclass(frozen=True)
class Tour:
    """A domain's tour, from examples/<domain>/tour.yml: the events of each day, and what to show.

    `shows` are titles and queries for the end of each day, `at_the_end` for the end of the tour.
    """

    domain: str
    scenario: str
    story: str
    days: Mapping[int, str]
    shows: Mapping[str, str]
    look_at: str
    at_the_end: Mapping[str, str] = field(default_factory=dict)


def tours() -> dict[str, Tour]:
    """All tours, by domain."""
    files = sorted((paths.project_dir() / "examples").glob("*/tour.yml"))
    return {
        file.parent.name: Tour(file.parent.name, **yaml.safe_load(file.read_text()))
        for file in files
    }


def run(domains: Sequence[str] = (), *, all_of_them: bool = False) -> None:
    """Play the days of some domains, and show the same queries after each day.

    Raises ConfigError for a domain without a tour.
    """
    known = tours()
    wanted = list(known) if all_of_them else domains or USUAL
    for domain in wanted:
        if domain not in known:
            raise ConfigError(f"There is no tour of {domain}: use one of {', '.join(known)}.")
    chosen = [known[domain] for domain in wanted]
    # The samples do not go into the folder for the user's own files.
    os.environ.setdefault("TIDEMARK_LANDING", str(paths.make_lake() / "landing"))
    print("Tidemark demo")
    for tour in chosen:
        print(f"  {tour.domain}: {tour.story} ({tour.scenario}).")
    tables = paths.warehouse() if "://" in paths.warehouse() else paths.lake_dir()
    print(f"The files arrive in {paths.landing()}, the tables are kept in {tables}.")
    if "://" in paths.landing():
        storage.landing_folder().require()
    for day in sorted({day for tour in chosen for day in tour.days}):
        _day(day, [tour for tour in chosen if day in tour.days])
    for tour in chosen:
        _show(tour.at_the_end)
    sources = ", ".join(f"'{tour.domain}'" for tour in chosen)
    _show({"Rejected rows, and why": REJECTED.format(sources=sources)})
    others = " ".join(domain for domain in known if domain not in {tour.domain for tour in chosen})
    command = "tidemark" if shutil.which("tidemark") else ".venv/bin/tidemark"
    looks = {f'{command} sql "{tour.look_at}"': "" for tour in chosen}
    if others:
        looks[f"{command} demo"] = f"other examples: {others}"
    looks[f"{command} docs"] = "every table, column and test, with its lineage"
    looks["models/"] = "the SQL, in the order in which the data flows"
    looks["README.md"] = "add a table of your own in a minute"
    print("\nWhere to look next")
    for look, what in looks.items():
        print(f"  {look:<28} {what}".rstrip())


def _day(number: int, those: Iterable[Tour]) -> None:
    print(f"\n=== Day {number}")
    arrived = 0
    those = list(those)
    for tour in those:
        print(f"  {tour.domain}: {tour.days[number]}")
        samples = paths.project_dir() / "examples" / tour.domain / f"day{number}"
        arrived += arrive(samples, paths.landing())
    print(f"{arrived} new files arrived." if arrived else "No new files arrived.")
    runs.run()
    for tour in those:
        _show(tour.shows)


def arrive(samples: Path, landing: str | Path) -> int:
    """Copy samples that are not in the landing folder yet; gives their number."""
    arrived = 0
    with places.reaching(f"The landing folder {landing} cannot be written to"):
        # Not by Spark, which chooses the names of the files that it writes.
        files, root = places.files_in(str(landing))
        for sample in sorted(each for each in samples.rglob("*") if each.is_file()):
            target = f"{root}/{sample.relative_to(samples).as_posix()}"
            if files.get_file_info(target).type != fs.FileType.NotFound:
                continue
            if isinstance(files, fs.LocalFileSystem):
                Path(target).parent.mkdir(parents=True, exist_ok=True)
            with files.open_output_stream(target) as stream:
                stream.write(sample.read_bytes())
            arrived += 1
    return arrived


def _show(queries: Mapping[str, str]) -> None:
    for title, statement in queries.items():
        print(f"\n{title}\n{query.as_table(query.rows(statement))}")
