"""The tables of settings in docs/feeds.md, rendered from python/tidemark/feed_settings.py.

`python -m tests.settings_in_docs` writes them into the page.
"""

import re
from typing import Any

import yaml

from tests.project import REPO
from tidemark.feed_settings import SETTINGS, Setting

PAGE = REPO / "docs" / "feeds.md"
BEGIN = "<!-- settings: `python -m tests.settings_in_docs` writes these tables -->\n"
END = "<!-- end of settings -->\n"
HEAD = "| name | values | default | meaning |\n|---|---|---|---|"


def page() -> str:
    """The page with a row for each setting, in one table for the formats that it is for."""
    tables: dict[str, list[str]] = {}
    for setting in SETTINGS.values():
        tables.setdefault(setting.formats.words, [HEAD]).append(_row(setting))
    text = "\n\n".join(f"{words}:\n\n" + "\n".join(rows) for words, rows in tables.items())
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{text}\n\n{END}{after}"


def _row(setting: Setting) -> str:
    # Examples stand in single quotes, or are mappings.
    wanted = re.sub(
        "'([^']*)'|{[^}]*}",
        lambda found: _code(found[1]) if found[1] else f"`{found[0]}`",
        setting.values.wanted,
    )
    has_default = setting.default not in (None, (), "")
    defaults = [_code(setting.default) if has_default else setting.unset]
    defaults += [f"{format_}: {_code(value)}" for format_, value in setting.defaults.items()]
    cells = (f"`{setting.name}`", wanted, "; ".join(defaults), setting.doc)
    # In a table, a | ends the cell even in code.
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _code(value: Any) -> str:
    """A value as YAML has it; a list of one is the one."""
    if isinstance(value, tuple):
        value = value[0] if len(value) == 1 else list(value)
    text = yaml.safe_dump(value, default_flow_style=True)
    return "`" + text.removesuffix("...\n").strip() + "`"


if __name__ == "__main__":
    PAGE.write_text(page())
