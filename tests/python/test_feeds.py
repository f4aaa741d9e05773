"""A wrong declaration is one message that names the file, the table and every problem."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tidemark.errors import ConfigError
from tidemark.feeds import Feed, feed_from_source


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
        ({"key": "order_id"}, r"the key column 'order_id' is not among the columns \(id, name\)"),
        ({"key": []}, r"no key"),
        ({"sequence": ["lsn"]}, r"the sequence column 'lsn' is not among"),
        ({"path": "../elsewhere"}, r"must stay below the landing folder"),
        ({"header": "yes"}, r"header 'yes' is unknown"),
        ({"delimeter": ";"}, r"setting 'delimeter' is unknown.*Did you mean 'delimiter'"),
        ({"columns": {"id": "integr"}}, r"column id has the unknown data_type integr"),
        ({"columns": {"id": "int", "_op": "string"}}, r"names with _ in front are Tidemark's"),
        ({"columns": {"id": "int", "order id": "int"}}, r"column 'order id': a name starts with"),
        ({"columns": {"id": "int", "valid_to": "date"}}, r"'valid_to': Tidemark's own columns"),
        ({"timestamp_column": "name"}, r"timestamp_column 'name' is what DMS adds"),
        ({"columns": {}}, r"no columns are declared"),
        ({"format": "extract", "sequence": "id"}, r"sequence is not for format extract"),
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
            r"epochs must ascend: 2024-03-01 00:00:00\+00:00 stands behind 2024-03-02",
        ),
        ({"epochs": ["2024-03-01"]}, r"epochs needs a sequence: without one the files order"),
        ({"format": "extract", "epochs": "2024-03-01"}, r"epochs is not for format extract: their"),
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
