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
    "changed_at": "_changed_at",
}


def master(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(
        [(*row, "2024-05-01") for row in rows],
        "id int, first string, last string, job string, at string, _changed_at string",
    )


def address(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(
        rows, "id int, email string, city string, at string, _changed_at string"
    )


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
    addresses = [
        (1, " ANN@X.ORG ", "Rome", "2024-03-01", "2024-06-01"),
        (2, "  ", None, "2023-01-01", "2024-04-01"),
    ]
    for order in (1, -1):
        people = survivors(
            master(spark, *entries[::order]), address(spark, *addresses[::order]), **NAMES
        )
        own = ["first", "last", "job", "email", "city"]
        assert people.columns == ["id", "person_id", *own, "at", "known_at"]
        june = "2024-06-01"
        assert found(people, "last", "job", "email", "city", "at", "known_at") == [
            (1, "Lee-Roy", None, "ann@x.org", "Rome", "2024-03-01", june),
            (2, "Ray", "", None, None, "2024-01-01", june),
            (3, "Fox", "Cook", None, None, "2024-01-01", june),
        ]


def test_the_same_person_has_the_same_email_or_nearly_the_same_name_there(
    spark: SparkSession,
) -> None:
    names = {
        1: ("Ann", "Leander"),
        2: ("A.", "L."),
        3: ("Ann", "Leandre"),
        4: ("Ann", "Leander"),
        5: ("Bo", "Leander"),
        6: ("\u041c\u0430\u0440\u0438\u044f", "\u0418\u0432\u0430\u043d\u043e\u0432\u0430"),
        7: ("\u041f\u0451\u0442\u0440", "\u0421\u0438\u0434\u043e\u0440\u043e\u0432"),
        8: (None, None),
        9: (None, None),
        10: ("Ann", "Leander"),
        11: ("Ann", "Leander"),
        **dict.fromkeys((12, 13), ("Dee", "Marlowe")),
        **dict.fromkeys((14, 15), ("Kit", "Osborne")),
        16: ("Zed", "Quux"),
    }
    emails = {2: "Ann@X.org", 3: "ann@x.org", 13: "d@x", 14: "d@x", 15: "k@x", 16: "k@x"}
    cities = {2: "Oslo", 4: "Oslo", 10: None, 11: None}
    people = survivors(
        master(spark, *((at, *both, None, "2024-01-01") for at, both in names.items())),
        address(
            spark,
            *(
                (at, emails.get(at), cities.get(at, "Rome"), "2024-01-01", "2024-01-01")
                for at in names
            ),
        ),
        **NAMES,
    )
    # 3 is 1 by its name, and 2 by its address. Without a name or a place nobody is alike.
    # 16 shares an address with 15, who is 14 by name, who shares one with 13, who is 12.
    same = {3: 1, 2: 1, 13: 12, 14: 12, 15: 12, 16: 12}
    assert dict(found(people, "person_id")) == {at: at for at in names} | same


def test_a_frame_without_a_column_is_an_error_that_names_it(spark: SparkSession) -> None:
    with pytest.raises(MissingColumnError, match="address lacks the columns city; it has id"):
        survivors(
            master(spark, (1, "A", "B", None, "x")),
            address(spark, (1, "e", "c", "x", 1)).drop("city"),
            **NAMES,
        )
