"""What a view shows to a role, by the tags of the columns above it."""

import re
from typing import Any

import pytest

from tests.macros.rendered import CompilerError, Macros, Relation

COLUMNS = ["id", "Email", ("born_on", "date"), ("photo", "binary"), "version_key"]


def node(name: str, *parents: str, config: dict[str, Any] | None = None, **tags: Any) -> Any:
    """A table of the project and the tags of its columns."""
    return {
        **{
            "unique_id": name,
            "name": name,
            "resource_type": "model",
            "original_file_path": "x.yml",
        },
        **{"schema": "s", "alias": name, "config": config or {}},
        "depends_on": {"nodes": list(parents)},
        "columns": {
            column: {"name": column, "meta": {}, "config": {"meta": meta}}
            for column, meta in tags.items()
        },
    }


def shown(*nodes: Any, role: str = "analyst", columns: Any = COLUMNS) -> list[str]:
    """The columns of a view of the first of these tables."""
    macros = Macros(nodes={each["unique_id"]: each for each in nodes}, columns=columns)
    sql = macros.masked(Relation(f"s.{nodes[0]['name']}"), role)
    found = re.fullmatch(r"\s*select\s(.*)\sfrom s\.\w+\s*", sql, re.DOTALL)
    assert found, sql
    return [line.strip().rstrip(",") for line in found[1].splitlines() if line.strip()]


def test_each_mask() -> None:
    tags: dict[str, Any] = {
        "id": {"personal": "hash"},
        "EMAIL": {"personal": "partial"},
        "born_on": {"personal": None},
        "photo": {"personal": "hash"},
    }
    assert shown(node("t", **tags)) == [
        "sha2(`id`, 256) as `id`",
        "concat(left(`Email`, 1), '***') as `Email`",
        "cast(null as date) as `born_on`",
        "sha2(`photo`, 256) as `photo`",
        "`version_key`",
    ]
    assert shown(node("t", n={"personal": "hash"}), columns=[("n", "int")]) == [
        "sha2(cast(`n` as string), 256) as `n`"
    ]


def test_a_role_sees_what_its_tags_show() -> None:
    tags: dict[str, Any] = {
        "id": {"personal": "hash", "shown_to": "analyst"},
        "email": {"personal": "hash", "shown_to": ["support", "analyst"]},
    }
    assert shown(node("t", **tags)) == ["`id`", "`Email`", "`born_on`", "`photo`", "`version_key`"]
    assert shown(node("t", **tags), role="analysts")[1] == "sha2(`Email`, 256) as `Email`"


def test_the_strictest_tag_above_a_table_counts() -> None:
    mart = node("mart", "current", email={"personal": "hash"})
    current = node("current", "source", "loop", email={"personal": "null", "shown_to": ["analyst"]})
    source = node("source", email={"personal": "partial"}, born_on={"personal": "hash"})
    loop = node("loop", "current")
    for role, email in (("analyst", "sha2(`Email`, 256)"), ("other", "cast(null as string)")):
        masked = shown(mart, current, source, loop, role=role)
        assert masked[1:3] == [
            f"{email} as `Email`",
            "sha2(cast(`born_on` as string), 256) as `born_on`",
        ]


@pytest.mark.parametrize(
    ("mask", "version_key"),
    [("partial", "cast(null as string) as `version_key`"), ("hash", "`version_key`")],
)
@pytest.mark.parametrize("key", ["email", ["id", "EMAIL"]])
def test_a_hidden_key_is_not_in_the_surrogate_key(mask: str, version_key: str, key: Any) -> None:
    source = node("t", config={"meta": {"feed": {"key": key}}}, email={"personal": mask})
    assert shown(source)[4] == version_key


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        (
            {"id": {"personal": "yes"}},
            r"x.yml, t.id: `personal` is yes. Use partial, hash or 'null'",
        ),
        ({"id": {"shown_to": ["analyst"]}}, "t.id: `shown_to` needs a `personal`"),
        (
            {"born_on": {"personal": "partial"}},
            "born_on of s.t is a date. `personal: partial` is for",
        ),
    ],
)
def test_tags_that_do_not_fit(tags: dict[str, Any], said: str) -> None:
    with pytest.raises(CompilerError, match=said):
        shown(node("t", **tags))


def test_tables_that_cannot_be_masked() -> None:
    macros = Macros(nodes={"t": node("t", config={"materialized": "ephemeral"})})
    for name in ("s.t", "s.other"):
        with pytest.raises(CompilerError, match=f"the view does not select from {name}. Pass ref"):
            macros.masked(Relation(name), "analyst")


def test_a_deferred_table_is_in_another_schema() -> None:
    masked, other = node("t", email={"personal": "hash"}), node("t") | {"schema": "z"}
    columns: dict[str, Any] = {"columns": ["email"]}
    sql = Macros(nodes={"a": masked}, **columns).masked(Relation("production.t"), "analyst")
    assert "sha2(`email`, 256)" in sql
    both = Macros(nodes={"b": other, "a": masked}, **columns)
    assert "sha2" in both.masked(Relation("s.t"), "analyst")
    assert "sha2" not in both.masked(Relation("z.t"), "analyst")
    with pytest.raises(CompilerError, match="does not select from production.t"):
        both.masked(Relation("production.t"), "analyst")


def test_a_table_that_is_not_there_yet_has_no_rows() -> None:
    macros = Macros(nodes={"t": node("t")})
    assert macros.masked(Relation("s.t"), "analyst") == "select * from s.t where false"
