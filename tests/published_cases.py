"""The cases of AUTO CDC that others have published: their results beside Tidemark's.

A case is a scenario with `published` in its scenario.yml. `python -m tests.published_cases` writes
the table of docs/published_cases.md. Tidemark's side of it is the scenario's expected tables, which
functional/test_scenarios.py compares with what Tidemark builds.
"""

import re
from collections.abc import Iterator
from datetime import datetime

from tests import scenario
from tests.project import REPO
from tests.scenario import Published, Scenario

PAGE = REPO / "docs" / "published_cases.md"
BEGIN, END = "<!-- cases -->\n", "<!-- end of cases -->"
TABLES = ("current", "history")
ORIGIN = datetime(2024, 1, 1)
SECONDS = {"second": 1, "hour": 3600}
SHOWN = 9


def cases() -> list[tuple[Scenario, Published]]:
    return [(one, one.published) for one in scenario.load() if one.published]


def is_same(one: Scenario, published: Published) -> bool:
    """Whether Tidemark's tables have the published rows, in all tables that are published."""
    theirs = published.theirs
    return "instead" not in theirs and all(
        sorted(theirs[table]) == sorted(_ours(one, published, table))
        for table in _tables(published)
    )


def page() -> str:
    """The page as it should be: the words that are there, around the table."""
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    return before + begin + "\n" + "\n".join(_lines()) + "\n\n" + end + after


def _lines() -> Iterator[str]:
    found = cases()
    same = sum(is_same(*each) for each in found)
    yield f"{len(found)} cases: {same} have the same result, {len(found) - same} a different one."
    yield ""
    yield "| case | published in | events, by load | published result | Tidemark | same? |"
    yield "|---|---|---|---|---|---|"
    for one, published in found:
        ours = {table: _ours(one, published, table) for table in _tables(published) or ["history"]}
        verdict = "same" if is_same(one, published) else "**different**"
        cells = [
            f"[{published.case}](../tests/scenarios/{one.name})",
            f"`{published.source}`",
            "<br>".join(_events(one, published)),
            "<br>".join([*_rows(published.theirs), *_text(published.theirs.get("instead"))]),
            "<br>".join([*_rows(ours), *_dead_letters(one)]),
            ": ".join([verdict, *_text(published.note)]),
        ]
        yield f"| {' | '.join(cells)} |"


def _tables(published: Published) -> list[str]:
    return [table for table in TABLES if table in published.theirs]


def _ours(one: Scenario, published: Published, table: str) -> list[str]:
    """What Tidemark gives, in the notation of the published rows."""
    rows = []
    for row in one.expected(table)[1]:
        words = _values(one, published, row)
        if table == "history":
            start, end = (_number(row[name], published) for name in ("valid_from", "valid_to"))
            words.append(f"{start}-{end}")
        rows.append(" ".join(words))
    return rows


def _values(one: Scenario, published: Published, row: scenario.Row) -> list[str]:
    # A shared table has ids such as 60-124: the scenario's number, then the published key.
    keys = [_word(row[name]).rpartition("-")[2] for name in one.key]
    return keys + [_word(row[name]) for name in published.columns]


def _word(value: str | None) -> str:
    return value or "NULL"


def _number(time: str | None, published: Published) -> str:
    if time is None:
        return ""
    seconds = (datetime.fromisoformat(time) - ORIGIN).total_seconds()
    number, rest = divmod(int(seconds), SECONDS[published.unit])
    if rest:
        raise ValueError(f"{time} is not a whole {published.unit}")
    return str(number)


def _events(one: Scenario, published: Published) -> Iterator[str]:
    for batch in one.batches():
        events = []
        for name, file in one.files(batch).items():
            modified = one.modified_at(batch, name)
            for row in one.records(name, file, batch):
                if modified is None:
                    order = ".".join(_word(row[column]) for column in one.feed["sequence"])
                else:
                    order = f"{(modified - _epoch()) / SECONDS[published.unit]:g}"
                events.append(f"`{_event(one, published, row)}@{order}`")
        yield f"{batch}: {_list(events)}"


def _event(one: Scenario, published: Published, row: dict[str, str]) -> str:
    words = _values(one, published, dict(row))
    if "truncate_when" in one.feed and words[0] == "NULL":
        return "truncate"
    return f"delete {words[0]}" if row.get("Op") == "D" else " ".join(words)


def _epoch() -> float:
    return (ORIGIN - datetime(1970, 1, 1)).total_seconds()


def _rows(tables: dict[str, list[str]]) -> Iterator[str]:
    for table in TABLES:
        if table in tables:
            rows = [f"`{row}`" for row in sorted(tables[table], key=_place)]
            yield f"{table}: {_list(rows) or 'empty'}"


def _place(row: str) -> tuple[str, int]:
    """Where a row stands in its table: by key, then by start."""
    version = re.search(r" (\d+)-\d*$", row)
    return row.split()[0], int(version[1]) if version else 0


def _list(items: list[str]) -> str:
    if len(items) > SHOWN:
        items = [*items[:2], "...", f"{items[-1]} ({len(items)} in all)"]
    return ", ".join(items)


def _dead_letters(one: Scenario) -> Iterator[str]:
    for row in one.expected("dead_letter")[1]:
        yield f"dead letter: `{row['column']}`, {row['reason']}"


def _text(text: str | None) -> list[str]:
    return [text.strip()] if text else []


if __name__ == "__main__":
    PAGE.write_text(page())
