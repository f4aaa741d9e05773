"""`tidemark report`: the state of the lake as one HTML page that needs no network and no script.

`status.py` gathers what it shows. The charts are pygal's: it writes them as SVG, in 0.1 MB of pure
Python (LGPL, used as it is). Plotly, Bokeh and Vega (Altair) draw in the browser instead, and would
add 1 to 5 MB of JavaScript to each page. Each chart has its numbers in a table beside it.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from tidemark import formats, maintain, paths, report, status
from tidemark.dbt_plugin import project
from tidemark.errors import ConfigError, printable
from tidemark.ingest import books
from tidemark.spark.machine import side_by_side
from tidemark.status import Status

# The page is beside dbt's documentation, and `tidemark docs` serves both.
DEFAULT = "target/report.html"
_DOCS = "target/static_index.html"
_RUNS, _SLOWEST, _REASONS, _DAYS, _LABEL = 30, 20, 20, 30, 48
_COLORS = tuple(f"var(--chart-{number})" for number in range(1, 6))
_LOGS = "change logs"


@dataclass(frozen=True)
class Size:
    """A table: its rows and files, and its number of rows at the end of each day.

    `is_kept` is false for tables that each build replaces, such as marts.
    """

    relation: str
    node: str
    layer: str
    rows: int
    files: int
    size: int
    small: int
    by_day: Sequence[int]
    is_kept: bool


def write(to: str | None, docs: str | None) -> Path:
    """Write the page to a file, by default target/report.html in the project.

    `docs` is the address of dbt's documentation; by default, target/static_index.html if it exists.
    Raises ConfigError if nothing has landed yet, or the file cannot be written.
    """
    found = status.gather()
    if found is None:
        raise ConfigError(f"Nothing has landed in {paths.lake_dir()} yet: tidemark run")
    file = Path(to) if to else paths.project_dir() / DEFAULT
    page = render(found, _docs_of(file) if docs is None else docs)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigError(f"The report cannot be written: {error}") from None
    return file


def _docs_of(file: Path) -> str:
    """dbt's documentation as a relative link from the page; '' without it."""
    docs = paths.project_dir() / _DOCS
    return quote(os.path.relpath(docs, file.resolve().parent)) if docs.exists() else ""


def render(found: Status, docs: str = "") -> str:
    """The page. All values are escaped: names and reasons come from files of others."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: printable(value, keep="\n\t") if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": lambda value: f"{value:,}",
        "more": lambda value: f"{value:+,}" if value else "0",
        "seconds": lambda value: f"{value:,.1f}",
        "bytes": maintain.size_of,
        "time": report.time_of,
        "span": report.span_of,
    }
    now = datetime.now(UTC)
    sizes, runs, reasons = sizes_of(found.parsed, now.date()), _runs(found), _reasons(found)
    nodes = sorted(found.results.items(), key=lambda each: -each[1].seconds)
    tests = [each for each in nodes if each[0] in set(found.parsed.tests)]
    built = [each for each in nodes if each[0] in found.parsed.nodes]
    return environment.get_template("page.html").render(
        found=found,
        project=project.name(),
        now=now,
        lake=paths.lake_dir(),
        link=lambda node: f"{docs}#!/{node.split('.')[0]}/{node}" if docs else "",
        name_of=_name_of,
        source_of={node.feed: name for name, node in found.parsed.nodes.items() if node.feed},
        runs=runs,
        reasons=reasons,
        sizes=sizes,
        built=built[:_SLOWEST],
        spent=sum(each.seconds for _, each in built),
        tests=tests,
        charts={
            "changes": _changes(runs),
            "reasons": _bars(
                "Open dead letters by reason",
                [(f"{name}: {reason}", count) for name, reason, count in reasons[:10]],
            ),
            "growth": _growth(sizes, now.date()),
            "slowest": _bars(
                "Seconds of the slowest nodes",
                [(_name_of(name), round(each.seconds, 1)) for name, each in built[:10]],
            ),
        },
        has_docs=bool(docs),
    )


def _name_of(node: str) -> str:
    """The name in a node's id: `model.project.name`, `source.project.source.table`."""
    kind, _, *rest = node.split(".")
    return ".".join(rest) if kind == "source" else rest[0]


def _runs(found: Status) -> list[dict[str, Any]]:
    """The newest runs that landed files, the newest first, over all their tables."""
    names = ("files", "rows", "inserted", "updated", "deleted", "rejected", "seconds")
    sums = [(name, "sum") for name in names]
    runs = found.runs.group_by("run_id").aggregate([*sums, ("at", "max"), ("failure", "count")])
    newest = runs.sort_by([("at_max", "descending")]).slice(0, _RUNS).to_pylist()
    return [
        {name: run[f"{name}_sum"] or 0 for name in names}
        | {"run_id": run["run_id"], "at": run["at_max"], "failed": run["failure_count"]}
        for run in newest
    ]


def _reasons(found: Status) -> list[tuple[str, str, int]]:
    """The open dead letters of the project's tables by table and reason, most frequent first."""
    names = ("source_name", "table_name", "reason")
    rows = status.counted(found.own.read_table(books.DEAD_LETTER, names, status.OPEN))
    named = [(books.table_of(row), row["reason"] or "", row["count_all"]) for row in rows]
    known = {table.feed.name for table in found.tables}
    ours = [row for row in named if row[0] in known]
    return sorted(ours, key=lambda row: (-row[2], row[0], row[1]))[:_REASONS]


def sizes_of(parsed: project.Project, today: date) -> list[Size]:
    """The change logs and the tables of the models, the largest first."""
    relations = {
        node.table: (name, node.table.split(".")[-2])
        for name, node in parsed.nodes.items()
        if node.table
    }
    sources = {node.feed: name for name, node in parsed.nodes.items() if node.feed}
    relations |= {feed.log_relation: (sources[feed.name], _LOGS) for feed in parsed.feeds}
    looks = side_by_side(lambda each: _size(each[0], today, *each[1]), relations.items())
    return sorted(filter(None, looks), key=lambda each: -each.size)


def _size(relation: str, today: date, node: str, layer: str) -> Size | None:
    """None if the table is not built, or cannot be read here."""
    content = formats.of(relation).content(relation)
    if content is None:
        return None
    table, grown = content.table, content.rows
    is_kept = layer == _LOGS or books.DERIVED in content.properties
    sizes = (grown[0][1] if grown else 0, table.files, table.size, table.most_small)
    return Size(relation, node, layer, *sizes, _by_day(grown, today), is_kept)


def _by_day(grown: Iterable[tuple[datetime, int]], today: date) -> list[int]:
    """The number of rows at the end of each of the last days, today last."""
    ends = [today - timedelta(days=days) for days in range(_DAYS)]
    found: list[int] = []
    for at, rows in grown:
        while len(found) < len(ends) and ends[len(found)] >= at.date():
            found.append(rows)
    return [*reversed(found + [0] * (len(ends) - len(found)))]


def _changes(runs: Sequence[Mapping[str, Any]]) -> Markup:
    """What each run landed, the oldest first."""
    labels = [f"{run['at']:%d %b %H:%M}" for run in reversed(runs)]
    kinds = ("inserted", "updated", "deleted")
    series = {kind: [run[kind] for run in reversed(runs)] for kind in kinds}
    return _chart("StackedBar", "Changes of each run, by kind", labels, series)


def _growth(sizes: Iterable[Size], today: date) -> Markup:
    """The rows of each layer on each day."""
    layers: dict[str, list[int]] = {}
    for each in filter(lambda size: size.is_kept, sizes):
        before = layers.get(each.layer, [0] * _DAYS)
        layers[each.layer] = [a + b for a, b in zip(before, each.by_day, strict=True)]
    labels = [f"{today - timedelta(days=days):%d %b}" for days in reversed(range(_DAYS))]
    largest = sorted(layers.items(), key=lambda each: -each[1][-1])[: len(_COLORS)]
    return _chart("Line", "Rows at the end of each day, by layer", labels, dict(largest))


def _bars(title: str, values: Sequence[tuple[str, float]]) -> Markup:
    """One bar for each value, the first on top."""
    labels = [name if len(name) <= _LABEL else f"{name[:_LABEL]}…" for name, _ in reversed(values)]
    series = {title: [value for _, value in reversed(values)]}
    return _chart("HorizontalBar", title, labels, series, height=60 + 26 * len(values))


def _chart(
    kind: str,
    title: str,
    labels: Sequence[str],
    series: Mapping[str, Sequence[float]],
    height: int = 260,
) -> Markup:
    """An SVG in the colors of the page; '' without any value."""
    if not any(any(values) for values in series.values()):
        return Markup()
    # Imported late: only the report needs it.
    import pygal
    from pygal.style import Style

    text = "var(--text)"
    style = Style(
        **dict.fromkeys(("background", "plot_background"), "transparent"),
        **dict.fromkeys(("foreground", "foreground_strong"), text),
        **dict.fromkeys(("label_font_size", "major_label_font_size"), 13),
        foreground_subtle="var(--line)",
        colors=_COLORS,
        value_colors=[text] * len(_COLORS),
        font_family="inherit",
        opacity="1",
        legend_font_size=14,
    )
    chart = getattr(pygal, kind)(
        style=style,
        js=[],
        width=900,
        height=height,
        show_legend=len(series) > 1,
        legend_at_bottom=True,
        legend_at_bottom_columns=len(series),
        x_labels_major_count=6 if kind != "HorizontalBar" else None,
        show_minor_x_labels=kind == "HorizontalBar",
        disable_xml_declaration=True,
        dots_size=2,
        # Steps of whole numbers, and not too many.
        order_min=0,
        min_scale=2,
        max_scale=6,
        margin=8,
        margin_right=40,
        truncate_label=-1,
        formatter=lambda value: f"{value:,.10g}",
    )
    chart.uuid = re.sub(r"\W+", "-", title.lower())
    chart.x_labels = [printable(label) for label in labels]
    for name, values in series.items():
        chart.add(name, values)
    chart.add_xml_filter(lambda svg: _named(svg, title))
    return Markup(chart.render(is_unicode=True))


def _named(svg: Any, title: str) -> Any:
    """The chart with a name for screen readers, and without pygal's script and comments."""
    for parent in svg.iter():
        for child in [each for each in parent if each.tag == "script" or callable(each.tag)]:
            parent.remove(child)
    svg.set("role", "img")
    svg.set("aria-label", title)
    return svg
