"""Which changes a build looks at, and how little it asks to know it."""

import re
from typing import Any

import pytest

from tests.macros.rendered import CompilerError, Macros, Relation

FEED: dict[str, Any] = {
    "key": ["id"],
    "sequence": ["seq"],
    "is_placed": False,
    "columns": {"id": "int", "name": "string", "seq": "bigint"},
    "kept": {"id": "int", "name": "string", "seq": "bigint"},
    "partial": {},
    "epochs": [],
    "format": "dms",
    "has_generations": False,
}
KNOWN = {"applied": 7, "row_count": 3}
NEW = {
    **{"of_keys": 4, "late": 0, "late_or_not_later": 0},
    **{"truncates": 0, "new_truncates": 0, "unknown_reloads": 0},
}
BOUNDS = {
    "applied": 7,
    "row_count": 3,
    "known_until": "named_struct('phase', cast(1 as integer), 'sequence', cast(9 as long))",
    "known_at": "timestamp'2024-01-01 00:00:00'",
}


def scope(
    *answers: dict[str, Any],
    newest: dict[str, Any] | None = None,
    feed: dict[str, Any] = FEED,
    **options: Any,
) -> tuple[dict[str, Any], list[str]]:
    """The scope of a later build, and what was asked to know it."""
    macros = Macros(is_incremental=True, answers=answers, newest=newest)
    found = macros.scope_of_changes("the_changes", feed, Relation("a.the_table"), **options)
    return found, macros.asked


@pytest.mark.parametrize(
    ("changes", "keys", "truncates", "one_each"),
    [(5, 5, 0, True), (5, 4, 0, False), (5, 4, 1, False)],
)
def test_a_first_build_asks_whether_there_is_anything_to_derive(
    changes: int, keys: int, truncates: int, one_each: bool
) -> None:
    counts = {"changes": changes, "changed_keys": keys, "truncates": truncates}
    macros = Macros(answers=[{**counts, "unknown_reloads": 0, "without_key": 0}])
    found = macros.scope_of_changes("the_changes", FEED, "the_table")
    assert found["kind"] == "everything"
    assert found["one_each"] is one_each
    assert found["truncates"] is (truncates > 0)


@pytest.mark.parametrize(
    ("is_incremental", "row_count", "generates"),
    [(False, 9_999, False), (False, 10_000, True), (True, 99_999, False), (True, 100_000, True)],
)
def test_a_build_that_reads_many_rows_generates_code_whatever_is_new(
    is_incremental: bool, row_count: int, generates: bool
) -> None:
    """Only the size of new files decided: a rebuild of a million rows took over ten minutes."""
    counts = {"changes": 5, "changed_keys": 5, "truncates": 0, "unknown_reloads": 0}
    answer = NEW if is_incremental else {**counts, "without_key": 0}
    newest = {**BOUNDS, "row_count": row_count}
    macros = Macros(is_incremental=is_incremental, answers=[answer], newest=newest)
    feed = {**FEED, "logs": [Relation("log_a.the_table")]}
    macros.scope_of_changes("the_changes", feed, Relation("a.the_table"))
    assert ("set spark.sql.codegen.wholeStage = true" in macros.asked) is generates


def test_changes_that_landed_with_another_key_stop_a_rebuild() -> None:
    """A delete may have only the old key: without it, the row that it deleted would come back."""
    counts = {"changes": 5, "changed_keys": 5, "truncates": 0, "unknown_reloads": 0}
    macros = Macros(answers=[{**counts, "without_key": 2}])
    told = "2 changes do not have the key a, b: they landed when the key was another one"
    with pytest.raises(CompilerError, match=told):
        macros.scope_of_changes("the_changes", {**FEED, "key": ["a", "b"]}, "the_table")
    assert "_op <> 'T' and (`a` is null or `b` is null)" in macros.asked[0]


@pytest.mark.parametrize(
    ("changes", "macros"),
    [("__dbt__cte__stg", Macros()), ("the_changes", Macros(has_relations=False))],
    ids=["in_a_unit_test", "before_the_first_build"],
)
def test_changes_that_are_no_relation_are_not_asked(changes: str, macros: Macros) -> None:
    found = macros.scope_of_changes(changes, FEED, "the_table")
    assert (found["kind"], "one_each" in found, macros.asked) == ("everything", False, [])


def test_a_build_reads_only_the_loads_that_it_has_judged() -> None:
    """Somebody else appends to the table meanwhile: nobody asked whether these rows are late."""
    feed = {**FEED, "format": "table", "table": {"changed_at": "at"}}
    counts = {"changes": 5, "changed_keys": 5, "truncates": 0, "unknown_reloads": 0}
    first = Macros(answers=[{**counts, "without_key": 0, "newest": 9}])
    found = first.scope_of_changes("the_changes", feed, "the_table")
    assert "and _load_id <= 9" in first.changes_in_scope("the_changes", feed, "the_table", found)
    found, asked = scope(KNOWN, {**NEW, "newest": 9}, feed=feed)
    assert "max(_load_id) as newest" in asked[1]
    sql = Macros().changes_in_scope("the_changes", feed, "the_table", found)
    assert "and _load_id > 7 and _load_id <= 9" in sql


def test_changes_in_order_are_not_judged_key_by_key() -> None:
    found, asked = scope(KNOWN, NEW)
    assert (found["kind"], found["goes_on"], found["watermark"]) == ("newer", True, 7)
    assert "new_keys" not in found
    assert len(asked) == 2
    assert "group by" not in asked[1]


def test_without_new_changes_there_is_nothing_to_do() -> None:
    found, asked = scope(
        KNOWN,
        {**NEW, "of_keys": 0, "truncates": None, "new_truncates": None, "unknown_reloads": None},
    )
    assert (found["kind"], found["goes_on"], len(asked)) == ("nothing", False, 2)


def test_a_change_out_of_order_may_be_of_a_key_that_is_in_order() -> None:
    found, asked = scope(KNOWN, {**NEW, "late": 1}, {"late_keys": 0, "settled_keys": 0})
    assert (found["kind"], found["goes_on"]) == ("newer", True)
    assert "new_keys" not in found
    assert len([sql for sql in asked if sql.startswith(("select", "with"))]) == 3


def test_what_the_log_of_delta_tells_is_not_asked() -> None:
    found, asked = scope(NEW, newest=BOUNDS)
    assert (found["kind"], found["goes_on"], found["watermark"]) == ("newer", True, 7)
    assert len(asked) == 1
    assert f"{BOUNDS['known_until']} as known_until" in asked[0]
    assert "a.the_table" not in asked[0]


@pytest.mark.parametrize(
    ("newest", "epochs"), [({**BOUNDS, "known_until": None}, []), (BOUNDS, ["2024-01-01"])]
)
def test_a_bound_that_nobody_knows_is_asked(newest: dict[str, Any], epochs: list[str]) -> None:
    found, asked = scope(NEW, newest=newest, feed={**FEED, "epochs": epochs})
    assert (found["kind"], found["watermark"], len(asked)) == ("newer", 7, 1)
    assert "from a.the_table" in asked[0]


@pytest.mark.parametrize(("is_current", "is_late"), [(None, False), ("is_current", True)])
def test_times_must_move_forward_only_in_a_history(is_current: str | None, is_late: bool) -> None:
    late = {"late_keys": 1, "settled_keys": 0}
    found, _ = scope(KNOWN, {**NEW, "late_or_not_later": 1}, late, is_current=is_current)
    assert found.get("late_keys", False) is is_late


def test_late_keys_are_a_view_that_is_kept_during_the_build() -> None:
    found, asked = scope(KNOWN, {**NEW, "late": 1}, {"late_keys": 1, "settled_keys": 0})
    assert (found["late_keys"], found["settled_keys"]) == (True, False)
    assert found["new_keys"] == "the_table__new_keys"
    assert [sql.split(" ")[0] for sql in asked[2:]] == ["uncache", "create", "cache", "select"]


def test_what_cannot_go_on_derives_all_new_keys() -> None:
    found, asked = scope(KNOWN, NEW, {"late_keys": 4, "settled_keys": 0}, can_go_on=False)
    assert (found["late_keys"], found["goes_on"]) == (True, False)
    assert "true as is_late" in asked[3]


@pytest.mark.parametrize(("late", "kind"), [(0, "newer"), (1, "everything")])
def test_a_new_truncate_concerns_every_key_unless_it_is_in_order(late: int, kind: str) -> None:
    found, _ = scope(KNOWN, {**NEW, "truncates": 1, "new_truncates": 1, "late": late})
    assert (found["kind"], found["truncates"]) == (kind, True)


def test_a_staging_view_that_is_older_than_a_reload_stops_the_build() -> None:
    with pytest.raises(CompilerError, match="created before the reload"):
        scope(KNOWN, {**NEW, "unknown_reloads": 1})


def test_a_load_with_one_change_a_key_goes_straight_through() -> None:
    one_each = {"kind": "everything", "watermark": 0, "truncates": False, "one_each": True}
    macros = Macros()
    shape = macros.history_shape(FEED, None, None, {}, None, False, False)
    for sql in (
        macros.history_rows("the_changes", FEED, shape, one_each, merges=False),
        macros.current_rows("the_changes", FEED, one_each, merges=False),
    ):
        assert " over (" not in sql
        assert "group by" not in sql
        assert "_op <> 'D'" in sql
    partial = {**FEED, "partial": {"name": "`name` is null"}}
    for feed, of_shape in ((partial, shape), (FEED, {**shape, "bitemporal": True})):
        assert " over (" in macros.history_rows(
            "the_changes", feed, of_shape, one_each, merges=False
        )


def test_keys_in_order_do_not_read_the_log_of_before() -> None:
    goes_on = {"kind": "newer", "watermark": 7, "truncates": False, "goes_on": True}
    # Spark ignores the letter case of names.
    macros = Macros(is_incremental=True, columns=["id", "Name", "seq"])
    shape = macros.history_shape(FEED, None, None, {}, None, False, False)
    sql = macros.history_rows("the_changes", FEED, shape, goes_on, merges=True)
    assert "_version.`name`," in sql
    assert sql.count("from the_changes") == 1
    assert "_load_id > 7" in sql
    assert "late_keys" not in sql


STAGED = "set spark.databricks.delta.merge.materializeSource"
THRESHOLD = "set spark.sql.autoBroadcastJoinThreshold"


@pytest.mark.parametrize(
    ("is_staged", "answers", "asked"),
    [
        (False, (), []),
        (
            True,
            ("auto", "10485760b"),
            [STAGED, f"{STAGED} = all", THRESHOLD, f"{THRESHOLD} = 64m"],
        ),
        # What the user has set.
        (True, ("auto", "-1"), [STAGED, f"{STAGED} = all", THRESHOLD]),
        # Tidemark's settings have both, or the merge before has set them.
        (True, ("all",), [STAGED]),
    ],
)
def test_a_staged_source_is_computed_once_and_broadcast(
    is_staged: bool, answers: tuple[str, ...], asked: list[str]
) -> None:
    macros = Macros(
        config={"stage_source": is_staged},
        columns=["id", "name"],
        answers=[[("the.setting", answer)] for answer in answers],
    )
    sql = macros.spark__get_merge_sql("the_table", "new_rows", "id", [], None)
    assert sql.count("new_rows") == 1
    assert macros.asked == asked


def test_a_history_sorts_its_changes_once() -> None:
    goes_on = {"kind": "newer", "watermark": 7, "truncates": False, "goes_on": True}
    macros = Macros(is_incremental=True, columns=["id", "name", "seq"])
    shape = macros.history_shape(FEED, None, None, {}, None, False, False)
    sql = macros.history_rows("the_changes", FEED, shape, goes_on, merges=True)
    orders = set(re.findall(r"over \(\s*partition by ([^)]*?)(?:\s+rows between [^)]*)?\s*\)", sql))
    assert orders == {"`id`", "`id` order by _order"}


COLUMNS = [*FEED["kept"].items(), ("_op", "string"), ("_load_id", "bigint")]
IN_LAST_LINE = '-- tidemark.same_columns: ["id", "name", "seq", "_op", "_load_id", "valid_from"]'


@pytest.mark.parametrize(
    ("changed", "is_noted"),
    [
        ({}, True),
        # Spark ignores the letter case of names.
        ({"of_table": [("ID", "int"), *COLUMNS[1:], ("valid_from", "timestamp")]}, True),
        # A column that is no longer declared stays in the table.
        ({"of_table": [*COLUMNS, ("valid_from", "timestamp"), ("old", "string")]}, True),
        ({"of_changes": [*COLUMNS, ("_is_delete", "boolean")]}, True),
        ({"of_changes": [("id", "bigint"), *COLUMNS[1:]]}, False),
        ({"of_changes": [*COLUMNS[:-1], ("_load_id", "string")]}, False),
        ({"of_changes": [COLUMNS[0], *COLUMNS[2:]]}, False),
        ({"of_changes": []}, False),
        ({"of_table": [*COLUMNS[1:], ("valid_from", "timestamp")]}, False),
        ({"of_table": COLUMNS}, False),
        ({"is_incremental": False}, False),
        ({"on_schema_change": "sync_all_columns"}, False),
        ({"file_format": "iceberg"}, False),
        ({"feed": {**FEED, "relations": ["a", "b"]}}, False),
        ({"changes": "(select * from a union all select * from b)"}, False),
        ({"changes": Relation("__dbt__cte__stg")}, False),
    ],
)
def test_a_build_notes_that_its_columns_are_those_of_the_table(
    changed: dict[str, Any], is_noted: bool
) -> None:
    changes = changed.get("changes", Relation("staging.stg"))
    macros = Macros(
        is_incremental=changed.get("is_incremental", True),
        config={
            "on_schema_change": changed.get("on_schema_change", "append_new_columns"),
            "file_format": changed.get("file_format", "delta"),
        },
        columns_of={
            changes: changed.get("of_changes", COLUMNS),
            "the.table": changed.get("of_table", [*COLUMNS, ("valid_from", "timestamp")]),
        },
    )
    own = ["_op", "_load_id", "valid_from"]
    noted = macros.note_same_columns(changes, changed.get("feed", FEED), own)
    assert noted.strip() == (IN_LAST_LINE if is_noted else "")


def noting(sql: str) -> Macros:
    config = {"on_schema_change": "append_new_columns"}
    return Macros(compiled_code=sql, columns=["id", "name"], config=config)


def test_a_merge_contains_the_rows_whose_columns_are_noted() -> None:
    sql = f"\n-- tidemark.derived_from: {{}}\n\nselect * from shaped\n{IN_LAST_LINE}\n\n"
    macros = noting(sql)
    assert "the_sql" not in macros.spark__create_temporary_view("the_view", "the_sql")
    assert macros.spark__process_schema_changes("append_new_columns", "the_view", "t") == {}
    merge = macros.spark__get_merge_sql("the_table", "the_view", "id", [], None)
    assert f"using (\n{sql.strip()}\n) as DBT_INTERNAL_SOURCE" in merge
    assert "the_view" not in merge
    assert "`valid_from`" in merge


@pytest.mark.parametrize(
    "sql",
    [
        "-- tidemark.derived_from: {}\nselect 1",
        # What is around the macro may change the columns.
        f"select * from (\n-- tidemark.derived_from: {{}}\nselect 1\n{IN_LAST_LINE}\n)",
        f"-- tidemark.derived_from: {{}}\nselect 1\n{IN_LAST_LINE}\ncross join other",
        f"with a as (select 1)\n-- tidemark.derived_from: {{}}\nselect 1\n{IN_LAST_LINE}",
        "",
    ],
)
def test_the_rows_of_another_model_are_a_view(sql: str) -> None:
    macros = noting(sql)
    view = macros.spark__create_temporary_view("the_view", "the_sql")
    assert " ".join(view.split()) == "create or replace temporary view the_view as the_sql"
    assert macros.spark__process_schema_changes("append_new_columns", "the_view", "t")
    merge = macros.spark__get_merge_sql("the_table", "the_view", "id", [], None)
    assert "using the_view as DBT_INTERNAL_SOURCE" in merge
