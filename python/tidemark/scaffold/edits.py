"""Additions to a YAML file that keep its comments, quotes and order.

The YAML parser gives the positions at which text is inserted.
"""

import textwrap
from collections.abc import Sequence
from typing import Any

import yaml


class _IndentedDumper(yaml.SafeDumper):
    """Indents lists below their name, as everywhere in the project."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def dump(value: Any, width: int = 100) -> str:
    """A value as YAML, in the project's style."""
    return yaml.dump(
        value,
        Dumper=_IndentedDumper,
        sort_keys=False,
        width=width,
        allow_unicode=True,
        default_flow_style=False,
    )


class NoPlaceError(Exception):
    """The place for an addition is not in YAML's block style."""


def _node(text: str, path: Sequence[str | int]) -> Any:
    """The node at a path, or None."""
    node = yaml.compose(text)
    for step in path:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
            continue
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        node = next((value for key, value in pairs if key.value == step), None)
    return node


def ended(text: str) -> str:
    """A text that ends with a newline."""
    return text if text.endswith("\n") else text + "\n"


def _end(node: Any) -> int:
    """The number of the line after a node, without the blank lines and comments that follow it."""
    while isinstance(node.value, list) and node.value and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    line: int = node.end_mark.line
    return line if node.end_mark.column == 0 and line > node.start_mark.line else line + 1


def added(text: str, path: Sequence[str], value: Any) -> str:
    """Add a value at a path of mappings, creating missing ones. Extends a list."""
    depth = len(path)
    while depth and _node(text, path[:depth]) is None:
        depth -= 1
    for step in reversed(path[depth:]):
        value = {step: value}
    block = dump(value, width=1000)
    if depth == 0:
        return f"{ended(text)}\n{block}" if text else block
    node = _node(text, path[:depth])
    if not node.value or node.tag == "tag:yaml.org,2002:null":
        # An empty value, such as [], makes room for the block below its key.
        start, end = node.start_mark, node.end_mark
        text = text[: start.index].rstrip(" ") + text[end.index :]
        column, line = _indent(text, start.line) + 2, start.line + 1
    elif node.flow_style or isinstance(node, yaml.ScalarNode):
        raise NoPlaceError(f"write {'.'.join(path[:depth])} in block style, then try again")
    else:
        column, line = node.start_mark.column, _end(node)
    lines = ended(text).splitlines(keepends=True)
    lines.insert(line, textwrap.indent(block, " " * column))
    return "".join(lines)


def _indent(text: str, line: int) -> int:
    found = text.splitlines()[line]
    return len(found) - len(found.lstrip(" "))


def listed(text: str, path: Sequence[str | int], entry: str, before: int) -> str:
    """Insert an entry into a list before another one, or append it."""
    node = _node(text, path)
    at_end = before >= len(node.value)
    if node.flow_style:
        place = node.end_mark.index - 1 if at_end else node.value[before].start_mark.index
        return text[:place] + (f", {entry}" if at_end else f"{entry}, ") + text[place:]
    lines = ended(text).splitlines(keepends=True)
    number = _end(node) if at_end else node.value[before].start_mark.line
    lines.insert(number, f"{' ' * node.start_mark.column}- {entry}\n")
    return "".join(lines)


def as_list(text: str, path: Sequence[str]) -> str:
    """Turn a single text into a list with one entry."""
    node = _node(text, path)
    start, end = node.start_mark.index, node.end_mark.index
    return f"{text[:start].rstrip(' ')}\n  - {text[start:end].rstrip()}{text[end:]}"
