"""The project's macros, rendered by Jinja alone: no dbt, no Spark, some milliseconds.

What dbt gives a macro is given here: `this`, `is_incremental`, `run_query` with answers that the
test knows. The macros are the files of `macros/`; what they call of each other is what they call
in dbt.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

import jinja2

MACROS = Path(__file__).parents[2] / "macros"
_DEFINITION = re.compile(r"(\{%-?\s*macro\s+)(\w+)(\s*\()")


class CompilerError(Exception):
    """What `exceptions.raise_compiler_error` raises."""


class Relation(str):
    """A table's name, as dbt gives it to macros."""

    @property
    def schema(self) -> str:
        return self.rpartition(".")[0]

    @property
    def identifier(self) -> str:
        return self.rpartition(".")[2]


class _Model(dict[str, Any]):
    """The model, as dbt gives it to macros: a mapping whose values are attributes, too."""

    def __init__(self, nodes: Sequence[str], compiled_code: str) -> None:
        super().__init__(compiled_code=compiled_code)
        self.depends_on = SimpleNamespace(nodes=nodes)
        self.compiled_code = compiled_code


class _ReturnedError(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


def _column(name: str, data_type: str) -> SimpleNamespace:
    return SimpleNamespace(name=name, quoted=f"`{name}`", dtype=data_type, data_type=data_type)


Answer = Mapping[str, Any] | Sequence[Mapping[str, Any] | Sequence[str]]


@dataclass
class Macros:
    """Calls macros: `Macros(...).history_rows(...)`.

    `answers` are the row, or the rows, of one query after the other; `asked` are the queries.
    The model reads all `nodes`. `columns` are those of the tables, each a name, with a type if it
    is not `string`; `columns_of` has those of other tables. Without `has_relations` nothing was
    built yet. `merge_of` is the package whose merge dbt would take. `compiled_code` is the model's
    SQL. `newest` is what Delta's log tells of the table, `format_problem` why the target cannot
    have a table format.
    """

    is_incremental: bool = False
    answers: Iterable[Answer] = ()
    columns: Iterable[str | tuple[str, str]] = ()
    columns_of: Mapping[str, Iterable[tuple[str, str]]] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    sources: Iterable[Any] = ()
    nodes: Mapping[str, Any] = field(default_factory=dict)
    has_relations: bool = True
    merge_of: str = "tidemark"
    newest: Mapping[str, Any] | None = None
    format_problem: str = ""
    compiled_code: str = ""
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        answers = iter(self.answers)

        def run_query(sql: str) -> Any:
            self.asked.append(sql)
            if sql.startswith("describe table "):
                table = get_columns(sql.removeprefix("describe table "))
                return SimpleNamespace(rows=[(each.name, each.dtype, "") for each in table])
            is_question = re.match(r"\s*(select|with|set [\w.]+$)", sql)
            answer = next(answers) if is_question else []
            return SimpleNamespace(rows=[answer] if isinstance(answer, Mapping) else answer)

        def refuse(message: str) -> None:
            raise CompilerError(message)

        def give(value: Any = None) -> None:
            raise _ReturnedError(value)

        def get_columns(relation: str) -> list[SimpleNamespace]:
            given = self.columns_of.get(relation)
            return columns if given is None else [_column(*each) for each in given]

        merge = SimpleNamespace(macro=SimpleNamespace(package_name=self.merge_of))
        columns = [
            _column(name, dtype)
            for name, dtype in (
                (each, "string") if isinstance(each, str) else each for each in self.columns
            )
        ]
        self._context = {
            "execute": True,
            "this": Relation("the.table"),
            "is_incremental": lambda: self.is_incremental,
            "run_query": run_query,
            "return": give,
            "exceptions": SimpleNamespace(raise_compiler_error=refuse),
            "config": SimpleNamespace(
                get=lambda name, default=None: self.config.get(name, default)
            ),
            "adapter": SimpleNamespace(
                get_columns_in_relation=get_columns,
                landing_failure=lambda _: "",
                newest_rows=lambda _: self.newest,
                declared=lambda table: {
                    "columns": {each.name: "" for each in get_columns(table)},
                    "types": {each.name.lower(): each.dtype for each in get_columns(table)},
                    "properties": {},
                },
                format_problem=lambda _: self.format_problem,
                dispatch=lambda *_: merge,
            ),
            "project_name": "own",
            "modules": SimpleNamespace(re=re),
            "tojson": lambda value, sort_keys=False: json.dumps(value, sort_keys=sort_keys),
            "model": _Model(list(self.nodes), self.compiled_code),
            "graph": SimpleNamespace(
                nodes=self.nodes,
                sources={str(at): it for at, it in enumerate(self.sources)},
            ),
            "target": SimpleNamespace(type="spark"),
            "dbt": SimpleNamespace(string_literal=lambda text: f"'{text}'"),
            "load_relation": lambda relation: relation if self.has_relations else None,
            "api": SimpleNamespace(
                Relation=SimpleNamespace(create=lambda **_: None),
                Column=SimpleNamespace(create=_column),
            ),
            "fromjson": json.loads,
            "env_var": lambda name, default="": os.environ.get(name, default),
            "default__process_schema_changes": lambda *_: {"schema_changed": False},
            "get_merge_update_columns": lambda *_: None,
        }
        self._context["tidemark"] = SimpleNamespace(
            **{name: self._macro(name) for name in _places()}
        )
        self._environment = jinja2.Environment(extensions=["jinja2.ext.do"])
        self._environment.globals |= self._context

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__") or name not in _places():
            raise AttributeError(name)
        return self._macro(name)

    def _macro(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            known = self._environment.make_globals(None)
            module = jinja2.Template.from_code(self._environment, _compiled(name), known).module
            try:
                return str(getattr(module, f"called_{name}")(*arguments, **named))
            except _ReturnedError as returned:
                return returned.value

        return call


@cache
def _compiled(name: str) -> CodeType:
    """The file of a macro. What it calls is looked up as dbt does it, and may return a value."""
    text = _DEFINITION.sub(r"\1called_\2\3", _places()[name].read_text())
    return jinja2.Environment(extensions=["jinja2.ext.do"]).compile(text)


def _places() -> dict[str, Path]:
    if not _FOUND:
        for file in sorted(MACROS.rglob("*.sql")):
            for _, name, _ in _DEFINITION.findall(file.read_text()):
                _FOUND[name] = file
    return _FOUND


_FOUND: dict[str, Path] = {}
