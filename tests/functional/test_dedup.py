"""Entity resolution on Spark: which entry survives, and who is the same person."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidemark.dedup import MissingColumnError, survivors

pytestmark = pytest.mark.functional

NAMES: dict[str, Any] = {
    "key": "id",
    "audited_at": "at",
    "email": "email",
    "name": ("first", "last"),
    "place": "city",
}


def master(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(rows, "id int, first string, last string, job string, at string")


def address(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(rows, "id int, email string, city string, at string, _load_id int")


def found(people: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in people.select("id", *columns).orderBy("id").collect()]


def test_the_newest_entry_survives_whole_and_ties_are_settled(spark: SparkSession) -> None:
    entries = [
        (1, "Ann", "Lee", "Baker", "2024-01-01"),
        (1, "Ann", "Lee-Roy", None, "2024-02-01"),
        (2, "Bob", "Ray", None, "2024-01-01"),
        (2, "Bob", "Ray", "", "2024-01-01"),
        (3, "Cy", "Fox", "Aide", "2024-01-01"),
        (3, "Cy", "Fox", "Cook", "2024-01-01"),
    ]
    addresses = [(1, " ANN@X.ORG ", "Rome", "2024-03-01", 7), (2, "  ", None, "2023-01-01", 7)]
    for order in (1, -1):
        people = survivors(
            master(spark, *entries[::order]), address(spark, *addresses[::order]), **NAMES
        )
        assert people.columns == ["id", "person_id", "first", "last", "job", "email", "city", "at"]
        assert found(people, "last", "job", "email", "city", "at") == [
            (1, "Lee-Roy", None, "ann@x.org", "Rome", "2024-03-01"),
            (2, "Ray", "", None, None, "2024-01-01"),
            (3, "Fox", "Cook", None, None, "2024-01-01"),
        ]


def test_the_same_person_has_the_same_email_or_nearly_the_same_name_there(
    spark: SparkSession,
) -> None:
    entries = [
        (number, first, last, None, "2024-01-01")
        for number, (first, last) in enumerate(
            [
                ("Ann", "Leander"),
                ("A.", "L."),
                ("Ann", "Leandre"),
                ("Ann", "Leander"),
                ("Bo", "Leander"),
            ],
            1,
        )
    ]
    addresses = [
        (1, "ann@x.org", "Rome", "2024-01-01", 7),
        (2, "Ann@X.org", "Oslo", "2024-01-01", 7),
        (3, None, "Rome", "2024-01-01", 7),
        (4, None, "Oslo", "2024-01-01", 7),
        (5, None, "Rome", "2024-01-01", 7),
    ]
    people = survivors(master(spark, *entries), address(spark, *addresses), **NAMES)
    assert found(people, "person_id") == [(1, 1), (2, 1), (3, 1), (4, 4), (5, 5)]


def test_a_frame_without_a_column_is_an_error_that_names_it(spark: SparkSession) -> None:
    with pytest.raises(MissingColumnError, match="address lacks the columns city; it has id"):
        survivors(
            master(spark, (1, "A", "B", None, "x")),
            address(spark, (1, "e", "c", "x", 1)).drop("city"),
            **NAMES,
        )
