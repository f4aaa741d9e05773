"""A wrong declaration is one message that names the file, the table and every problem."""

import re
from datetime import UTC, date, datetime
from typing import Any

import pytest
import yaml

from tests import settings_in_docs
from tests.project import REPO
from tidemark.errors import ConfigError
from tidemark.feed_settings import FORMATS, SETTINGS
from tidemark.feeds import Feed, feed_from_source, feeds_of


def source(columns: dict[str, str] | None = None, **feed: Any) -> dict[str, Any]:
    types = columns if columns is not None else {"id": "int", "name": "string"}
    return {
        "source_name": "shop",
        "name": "orders",
        "schema": "log_shop",
        "original_file_path": "models/staging/shop/_shop__sources.yml",
        "meta": {},
        "source_meta": {},
        "config": {"meta": {"feed": {"format": "dms", "key": "id", **feed}}},
        "columns": {name: {"data_type": data_type} for name, data_type in types.items()},
    }


def declared(**feed: Any) -> Feed:
    found = feed_from_source(source(**feed))
    assert found is not None
    return found


def test_a_default_dms_feed_needs_two_settings() -> None:
    feed = declared()
    assert (feed.name, feed.log, feed.path) == ("shop.orders", "`log_shop`.`orders`", "shop/orders")
    assert (feed.key, feed.header, feed.op_in_load) == (("id",), "none", False)


def test_settings_of_the_source_are_defaults_for_its_tables() -> None:
    node = source(header="load") | {"source_meta": {"feed": {"header": "all", "delimiter": ";"}}}
    feed = feed_from_source(node)
    assert feed is not None
    assert (feed.header, feed.delimiter) == ("load", ";")


def test_a_source_without_a_feed_is_none_of_our_business() -> None:
    assert feed_from_source(source() | {"config": {"meta": {}}}) is None


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        (
            {"format": "dsm"},
            r"format 'dsm' is unknown: use one of dms, debezium, extract. Did you mean 'dms'",
        ),
        ({"key": "order_id"}, r"key: 'order_id' is not among the columns \(id, name\)"),
        ({"key": []}, r"no key"),
        ({"sequence": ["lsn"]}, r"sequence: 'lsn' is not among"),
        ({"path": "../elsewhere"}, r"must stay below the landing folder"),
        ({"header": "yes"}, r"header 'yes' is unknown"),
        ({"delimeter": ";"}, r"setting 'delimeter' is unknown.*Did you mean 'delimiter'"),
        ({"columns": {"id": "integr"}}, r"column id has the unknown data_type integr"),
        ({"columns": {"id": "int", "_op": "string"}}, r"names with _ in front are Tidemark's"),
        ({"columns": {"id": "int", "order id": "int"}}, r"column 'order id': a name starts with"),
        ({"columns": {"id": "int", "valid_to": "date"}}, r"'valid_to': Tidemark's own columns"),
        ({"timestamp_column": "name"}, r"timestamp_column 'name' is what DMS adds"),
        ({"columns": {}}, r"no columns are declared"),
        ({"format": "extract", "sequence": "id"}, r"sequence is not for full extracts"),
        ({"format": "extract", "changed_columns": "name"}, r"their rows are whole"),
        ({"time_in_name": "%Y-%m-%d"}, r"only extracts have it"),
        ({"format": "extract", "time_in_name": "%Y-%d"}, r"must have %Y, %m and %d"),
        ({"format": "extract", "max_deleted_share": 2}, r"must be a number from 0 to 1"),
        ({"lateness": "a week"}, r"lateness 'a week' must be such as '7 days'"),
        (
            {"epochs": "March"},
            r"epochs 'March' must be a time \(UTC\), such as 2024-03-01 12:00:00",
        ),
        ({"epochs": ["2024-03-01 25:00:00"]}, r"epochs '2024-03-01 25:00:00' must be a time"),
        ({"epochs": [20240301]}, r"epochs '20240301' must be a time"),
        (
            {"sequence": "id", "epochs": ["2024-03-02", "2024-03-01"]},
            r"epochs must ascend: 2024-03-01 00:00:00 comes after 2024-03-02 00",
        ),
        ({"epochs": ["2024-03-01"]}, r"epochs needs a sequence: without one the files order"),
        ({"format": "extract", "epochs": "2024-03-01"}, r"epochs is not for full extracts: their"),
        ({"exclude_columns": ["id"]}, r"'id' is the key, which a table needs"),
        ({"exclude_columns": "nmae"}, r"exclude_columns: 'nmae' is not among the columns"),
        ({"include_columns": "name", "exclude_columns": "name"}, r"not both"),
        ({"ignore_null_updates": ["nmae"]}, r"ignore_null_updates: 'nmae' is not among"),
        ({"changed_columns": "chg"}, r"changed_columns: 'chg' is not among"),
    ],
)
def test_a_wrong_setting_is_refused_in_words(feed: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        declared(**feed)
    assert str(caught.value).startswith("models/staging/shop/_shop__sources.yml, shop.orders: ")


# For each kind of value what is wrong, and a setting with its format.
WRONG = [
    ("format", ["dms"], "is unknown: use one of dms, debezium, extract"),
    ("key", 5, "must be a column or a list of columns"),
    ("key", {"id": "name"}, "must be a column or a list of columns"),
    ("key", [["id"]], "must be a column or a list of columns"),
    ("key", ["id", "id"], "names a column twice"),
    ("key", None, "no key: name the column"),
    ("path", 2024, "must be text: write it in quotes"),
    ("path", "", "is empty: give it a value, or leave it out"),
    ("path", ["a"], "must be text: write it in quotes"),
    ("sequence", True, "must be a column or a list of columns"),
    ("header", ["load"], "is unknown: use one of none, load, all"),
    ("header", True, "is unknown: use one of none, load, all"),
    ("op_in_load", "false", "must be true or false, without quotes"),
    ("op_in_changes", 0, "must be true or false, without quotes"),
    ("strict", "false", "must be true or false, without quotes"),
    ("timestamp_column", ["ts"], "must be the name of one column"),
    ("loaded_at", "1.1.2023", r"must be a time \(UTC\), such as 2024-03-01 12:00:00"),
    ("loaded_at", "yesterday", "must be a time"),
    ("loaded_at", 20230101, "must be a time"),
    ("loaded_at", "2023-02-30", "must be a time"),
    ("loaded_at", "0001-01-01 00:00:00+10:00", "must be a time"),
    ("loaded_at", ["2023-01-01"], "must be a time"),
    ("loaded_at", True, "must be a time"),
    ("delimiter", 1, "must be text: write it in quotes"),
    ("delimiter", "", "is empty: write a line end as"),
    ("row_delimiter", "", "is empty: write a line end as"),
    ("quote", "'", "is unknown"),
    ("null_text", 0, "must be a text or a list of texts"),
    ("null_text", None, "write each in quotes, NULL too"),
    ("null_text", ["", None], "write each in quotes, NULL too"),
    ("include_columns", [1], "must be a column or a list of columns"),
    ("delete_when", True, "must be text: write it in quotes"),
    ("delete_when", " ", "is empty"),
    ("truncate_when", ["x"], "must be text"),
    ("checks", ["name = 'a'"], "must be a mapping such as {price_is_positive: price > 0}"),
    ("checks", {"a": None}, "must be a mapping such as"),
    ("checks", {"a": True}, "must be a mapping such as"),
    ("checks", {1: "name = 'a'"}, "must be a mapping such as"),
    ("ignore_null_updates", "true", "'true' is not among the columns"),
    ("ignore_null_updates", 1, "must be true, or a column or a list of columns"),
    ("changed_columns", ["name"], "must be the name of one column"),
    ("unavailable_value", 0, "must be text: write it in quotes"),
    ("unavailable_value", "", "is empty"),
    ("unavailable_value", r"\N", "must be text without a backslash"),
    ("lateness", 7, "must be such as '7 days'"),
    ("lateness", "-7 days", "must be such as '7 days'"),
    ("lateness", "999999999 weeks", "must be such as '7 days'"),
    ("max_rejected_share", -0.1, "must be a number from 0 to 1"),
    ("max_rejected_share", "0.1", "must be a number from 0 to 1"),
    ("max_rejected_share", True, "must be a number from 0 to 1"),
    ("max_rejected_share", float("nan"), "must be a number from 0 to 1"),
    ("new_columns", False, "is unknown: use one of add, refuse"),
    ("encoding", "latin-9999", "is none that Python knows"),
    ("encoding", "base64", "is none that Python knows"),
    ("encoding", "utf-8\0", "is none that Python knows"),
    ("encoding", 8859, "must be text: write it in quotes"),
    ("operations", ["N"], r"must be a mapping such as {N: I, R: D, X: skip}"),
    ("operations", {False: "D"}, "write numbers and no, yes, on, off in quotes"),
    ("operations", {"N": ["I"]}, r"the operation '\['I'\]' of 'N' is unknown"),
    ("operations", {"N": "J"}, "the operation 'J' of 'N' is unknown: use one of I, U, D, T, skip"),
    ("file_time_zone", "Europe/Berlín", "is unknown: such as Europe/Berlin"),
    ("file_time_zone", "Europe", "is unknown: such as Europe/Berlin"),
    ("file_time_zone", "../etc", "is unknown: such as Europe/Berlin"),
    ("file_time_zone", 1, "must be text"),
    ("transactions_path", "/cdc", "must stay below the landing folder"),
    ("source_table", ["a"], "must be text"),
    ("before_image_prefix", "", "is empty"),
    ("debezium: field_prefix", 1, "must be text"),
    ("debezium: field_prefix", "", "is empty"),
    ("debezium: timestamp_unit", "seconds", "is unknown: use one of milliseconds"),
    ("debezium: timestamp_unit", {"name": "weeks"}, "is unknown: use one of milliseconds"),
    ("debezium: timestamp_unit", {1: "milliseconds"}, "must be 'milliseconds', 'microseconds'"),
    ("debezium: timestamp_unit", {"nmae": "milliseconds"}, "'nmae' is not among the columns"),
    ("debezium: decimals", ["text"], "is unknown: use one of base64, text"),
    ("extract: status_column", ["state"], "must be the name of one column"),
    ("extract: max_deleted_share", "half", "must be a number from 0 to 1"),
    ("extract: time_in_name", 2024, "must have %Y, %m and %d"),
    ("extract: extract_is", "dir", "is unknown: use one of file, folder"),
    ("extract: complete_marker", "done/_SUCCESS", "must be the name of a file"),
    ("op_in_changes", None, None),
    ("unavailable_value", None, None),
    ("extract: op_in_changes", False, "is not for format extract: only AWS DMS has it"),
    ("debezium: quote", "none", "is not for format debezium: only CSV files have it"),
    ("debezium: null_text", "n/a", "is not for format debezium: only CSV files have it"),
    ("max_deleted_share", 0, "is not for format dms: only extracts have it"),
    (5, 1, "the feed's setting '5' is unknown"),
]


@pytest.mark.parametrize(("name", "value", "message"), WRONG)
def test_a_value_that_a_setting_does_not_take_is_one_sentence(
    name: Any, value: Any, message: str | None
) -> None:
    format_, _, setting = str(name).rpartition(": ")
    feed = {"format": format_ or "dms", setting if isinstance(name, str) else name: value}
    node = source()
    node["config"]["meta"]["feed"] |= feed
    if message is None:
        assert feed_from_source(node)
        return
    with pytest.raises(ConfigError, match=message) as caught:
        feed_from_source(node)
    where = "models/staging/shop/_shop__sources.yml, shop.orders: "
    assert str(caught.value).startswith(where)
    assert setting.split(" ")[0] in str(caught.value).removeprefix(where)


ODD = [
    *(0, -1, 7.5, True, False, "", " ", "\0", "\n", "x", b"x", "9" * 400, float("inf")),
    *([], [[]], [{}], [None], {}, {"a": {}}, {None: None}, {(1,): []}, datetime(2024, 1, 1)),
]


@pytest.mark.parametrize("name", SETTINGS)
def test_no_value_of_a_setting_is_a_crash(name: str) -> None:
    for format_ in FORMATS:
        for value in ODD:
            node = source()
            node["config"]["meta"]["feed"] |= {"format": format_, name: value}
            try:
                found = feed_from_source(node)
            except ConfigError:
                continue
            assert isinstance(found, Feed)
            hash(found)


@pytest.mark.parametrize("place", ["own", "shared"])
@pytest.mark.parametrize("told", [["dms"], "dms", 5, True])
def test_a_feed_that_is_no_mapping_is_refused_in_words(place: str, told: Any) -> None:
    own = {"config": {"meta": {"feed": told}}}
    node = source() | (own if place == "own" else {"source_meta": {"feed": told}})
    with pytest.raises(ConfigError, match="must be a mapping such as {format: dms, key: id}"):
        feed_from_source(node)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": "decimal(99,2)"}, r"id has the data_type decimal\(99,2\): a decimal has 1 to 38"),
        ({"id": "decimal(5, 9)"}, "at most as many after the point"),
        ({"id": "decimal(0,0)"}, "a decimal has 1 to 38 digits"),
        ({"id": "decimal"}, "unknown data_type decimal"),
        ({"id": "int", "Id": "int"}, "the columns 'id' and 'Id' differ only in letter case"),
        ({"id": "int", "seq": None}, "the sequence column 'seq' has no data_type"),
        ({"id": "int", "seq": ""}, "the sequence column 'seq' has no data_type"),
        ({"id": "int", "Seq": "int"}, r"'seq' is not among the columns .* Did you mean 'Seq'\?"),
    ],
)
def test_a_wrong_column_is_refused_in_words(columns: dict[str, Any], message: str) -> None:
    settings = {"sequence": "seq"} if {"seq", "Seq"} & set(columns) else {}
    with pytest.raises(ConfigError, match=message):
        feed_from_source(source(columns, **settings))


def test_null_is_the_default_again() -> None:
    node = source(header=None, sequence=None) | {"source_meta": {"feed": {"header": "all"}}}
    feed = feed_from_source(node)
    assert feed is not None
    assert (feed.header, feed.sequence) == ("none", ())
    debezium = declared(format="debezium", sequence=None, unavailable_value=None)
    assert (debezium.sequence, debezium.unavailable_value) == (("source",), None)
    assert declared(format="debezium").unavailable_value == "__debezium_unavailable_value"


def test_the_docs_have_the_tables_of_settings() -> None:
    told = "Run `python -m tests.settings_in_docs`, and commit docs/feeds.md."
    assert settings_in_docs.PAGE.read_text() == settings_in_docs.page(), told


def test_a_setting_takes_its_examples_and_its_defaults() -> None:
    for name, setting in SETTINGS.items():
        for example in re.findall("'([^']*)'", setting.values.wanted):
            setting.values.read(name, example)
        for default in (setting.default, *setting.defaults.values()):
            if default not in (None, (), ""):
                assert setting.values.read(name, default) == default, name


def test_the_smallest_declarations_of_the_docs_are_valid() -> None:
    text = (REPO / "docs" / "feeds.md").read_text()
    formats = text.partition("## Formats")[2].partition("## Settings")[0]
    feeds = [yaml.safe_load(each) for each in re.findall(r"`({format: .*})`", formats)]
    assert {declared(**feed).format for feed in feeds} == set(FORMATS) - {"table"}


def test_loaded_at_is_a_time_in_utc() -> None:
    for told in ("2023-01-01", date(2023, 1, 1), "2023-01-01T01:00:00+01:00", "2023-01-01 00:00"):
        assert declared(loaded_at=told).loaded_at == "2023-01-01 00:00:00"


def test_epochs_are_times_in_utc_however_yaml_writes_them() -> None:
    noon = datetime(2024, 3, 1, 12, tzinfo=UTC)
    for told in (noon, noon.replace(tzinfo=None), "2024-03-01T12:00:00Z", "2024-03-01 12:00:00"):
        assert declared(format="debezium", epochs=told).epochs == ("2024-03-01 12:00:00",)
    several = declared(sequence="id", epochs=[noon.date(), "2024-03-01 14:00:00.5+01:00"])
    assert several.epochs == ("2024-03-01 00:00:00", "2024-03-01 13:00:00.500000")
    assert declared().epochs == ()


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        declared(format="csv", key="nr")
    assert "format 'csv'" in str(caught.value)
    assert "'nr'" in str(caught.value)


def tagged(table: str, key: Any, tags: dict[str, dict[str, str]]) -> dict[str, Any]:
    """A source table whose columns have these tags."""
    columns = {name: {"data_type": "int", "meta": meta} for name, meta in tags.items()}
    return {**source(key=key), "name": table, "columns": columns}


def test_tags_say_to_whom_a_row_belongs() -> None:
    orders = tagged("orders", ["shop_id", "no"], {"shop_id": {}, "no": {}})
    of_order = {
        "order_no": {"subject": "shop.orders.no"},
        "order_shop": {"subject": "shop.orders.shop_id", "on_erase": "mask"},
        "payer": {"subject": "customer"},
        "name": {"personal": "null"},
    }
    lines, parent = feeds_of([tagged("lines", "order_no", of_order), orders])
    told = [(each.subject, [c.name for c in each.columns], each.masks) for each in lines.references]
    assert told == [
        ("customer", ["payer"], False),
        ("shop.orders", ["order_no", "order_shop"], True),
    ]
    # The columns of a key are in one order on both sides.
    assert [column.name for column in parent.own_key.columns] == ["no", "shop_id"]
    assert [column.name for column in lines.columns if column.is_personal] == ["name"]
    ends = {"id": {}, **{end: {"subject": "shop.people.id"} for end in ("giver", "taker")}}
    found = feeds_of([tagged("gifts", "id", ends), tagged("people", "id", {"id": {}})])
    assert [[column.name for column in each.columns] for each in found[0].references] == [
        ["giver"],
        ["taker"],
    ]


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ({"subject": "orders.no"}, "column to: the subject 'orders.no' must be a name such as"),
        ({"subject": ["customer"]}, "the subject .* must be a name"),
        (
            {"subject": "customer", "on_erase": "hide"},
            "on_erase 'hide' must be one of delete, mask",
        ),
        ({"on_erase": "mask"}, "on_erase 'mask' must be .* on a column with a subject"),
        (
            {"subject": "shop.order.no"},
            "lines: .* of the column to must be .*there is no such feed",
        ),
        ({"subject": "shop.orders.total"}, "its key is shop_id, no"),
        ({"subject": "shop.orders.no"}, "to is not the whole key of shop.orders. Tag one column"),
    ],
)
def test_a_wrong_subject_is_refused_in_words(tags: dict[str, Any], message: str) -> None:
    orders = tagged("orders", ["shop_id", "no"], {"shop_id": {}, "no": {}, "total": {}})
    with pytest.raises(ConfigError, match=message):
        feeds_of([tagged("lines", "id", {"id": {}, "to": tags}), orders])
