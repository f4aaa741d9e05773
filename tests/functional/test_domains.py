"""The domains of examples/: their samples arrive day by day, and the marts say what they should.

What is expected is worked out from the sample files in plain Python, or stands here.
"""

import csv
import json
import os
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from tests.project import REPO, Project
from tidemark import demo, runs
from tidemark.dbt_plugin import dbt
from tidemark.dedup import survivors

pytestmark = [pytest.mark.functional, pytest.mark.slow]

EXAMPLES = REPO / "examples"
DAYS = (1, 2, 3)


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, request: pytest.FixtureRequest
) -> Iterator[list[Any]]:
    """The days of the domains that are asked for were built; gives the partner's prices after each.

    A test names its domain with the mark `domain`.
    """
    domains = {
        mark.args[0] for item in request.session.items for mark in item.iter_markers("domain")
    }
    landing = tmp_path_factory.mktemp("domains") / "landing"
    landing.mkdir()
    mine = {"TIDEMARK_LANDING": str(landing), "DBT_PROJECT_DIR": str(REPO)}
    with pytest.MonkeyPatch.context() as patched:
        for name, value in mine.items():
            patched.setenv(name, value)
        prices = []
        tours = demo.tours()
        for day in DAYS:
            for domain in sorted(domains):
                demo.arrive(EXAMPLES / domain / f"day{day}", landing)
            runs.run()
            for domain in domains:
                tour = tours[domain]
                for query in (*tour.shows.values(), *tour.at_the_end.values(), tour.look_at):
                    if day == max(tour.days):
                        assert rows(spark, query), (domain, query)
            if "partner" in domains:
                query = "select price from marts.dim_articles order by article_id"
                prices.append(rows(spark, query))
        yield prices


def rows(spark: SparkSession, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(query).collect()]


def records(path: str) -> list[dict[str, str]]:
    """The records of a CSV file of the samples."""
    with (EXAMPLES / path).open() as file:
        return list(csv.DictReader(file))


# --- S2 ---------------------------------------------------------------------------------------


@pytest.mark.domain("crm")
def test_customers_have_a_row_for_each_span_of_days(played: object, spark: SparkSession) -> None:
    found = rows(
        spark,
        "select customer_id, first_name, last_name, employer_name, email_id, rec_eff_dt, "
        "rec_exp_dt from marts.dim_customers where customer_id in (1003, 1005, 1043, 1044) "
        "order by customer_id, rec_eff_dt",
    )
    first, fifth, ninth, end = (
        date(2022, 7, 1), date(2022, 7, 5), date(2022, 7, 9), date(9999, 12, 31)
    )  # fmt: skip
    day = timedelta(days=1)
    chiara, elif_ = ("Chiara", "Costa"), ("Elif", "Eriksen", None)
    email = "chiara.costa2@example.com"
    assert found == [
        (1003, *chiara, "Harbour Freight Ltd", email, first, fifth - day),
        (1003, *chiara, "Quayside Bakery", email, fifth, end),
        (1005, *elif_, "elif.eriksen4@example.com", first, fifth - day),
        (1005, *elif_, "elif.eriksen@example.org", fifth, end),
        # ('Yuki', 'Mori') and ('Yuk', 'iMori') are two names; '' and NULL two employers.
        (1043, "Yuki", "Mori", "", None, first, fifth - day),
        (1043, "Yuk", "iMori", "", None, fifth, ninth - day),
        (1043, "Yuki", "Mori", None, None, ninth, end),
        (1044, "Nora", "Lindqvist", "Norrland Timber", "nora@example.com", fifth, end),
    ]  # fmt: skip


@pytest.mark.domain("crm")
def test_a_customer_that_left_ends_the_day_before(played: object, spark: SparkSession) -> None:
    ((ends, is_current),) = rows(
        spark, "select rec_exp_dt, is_current from marts.dim_customers where customer_id = 1010"
    )
    assert (date.today() - timedelta(days=2) <= ends < date.today(), is_current) == (True, False)


@pytest.mark.domain("crm")
def test_people_with_two_numbers_are_found(played: object, spark: SparkSession) -> None:
    query = (
        "select customer_id, person_id from marts.dim_customers_today "
        "where person_id <> customer_id order by 1"
    )
    assert rows(spark, query) == [(1041, 1002), (1042, 1003)]


@pytest.mark.domain("crm")
def test_extracts_of_changes_alone_give_the_same_customers(
    played: object, project: Project
) -> None:
    """The same CRM, had it sent its changes with a status instead of everything each day."""
    for table in ("customer_master", "customer_address"):
        before: list[dict[str, str]] = []
        for number in DAYS:
            (file,) = (EXAMPLES / "crm" / f"day{number}" / "crm" / table).iterdir()
            now = records(str(file.relative_to(EXAMPLES)))
            gone = {row["customer_id"] for row in before} - {row["customer_id"] for row in now}
            known = {row["customer_id"] for row in before}
            new = [
                {**row, "rec_source_status": "U" if row["customer_id"] in known else "I"}
                for row in now
                if row not in before
            ]
            at = f"{file.stem} 00:00:00"
            empty = dict.fromkeys(now[0], "")
            delete = {"row_audit_ts": at, "rec_source_status": "D"}
            new += [{**empty, "customer_id": key, **delete} for key in sorted(gone)]
            if number == 1:
                types = dict.fromkeys(now[0], "string")
                types |= {"customer_id": "int", "row_audit_ts": "timestamp"}
                project.add(
                    f"crm_changes.{table}",
                    types,
                    "customer_id",
                    format="extract",
                    sequence="row_audit_ts",
                    status_column="rec_source_status",
                    time_in_name="%Y-%m-%d",
                    null_text="NULL",
                )
            names = [*now[0], "rec_source_status"]
            lines = [names, *([row[name] for name in names] for row in new)]
            # To the csv module '' and NULL are one: the full extracts' other tests tell them apart.
            text = "".join(",".join(line) + "\n" for line in lines)
            project.land(f"crm_changes/{table}/{file.stem}.csv", text)
            before = now
    project.build()
    tables = (
        project.spark.table(f"current.cur_crm_changes__customer_{each}")
        for each in ("master", "address")
    )
    found = survivors(
        *tables,
        key="customer_id",
        audited_at="row_audit_ts",
        email="email_id",
        name=("first_name", "last_name"),
        place="city",
        changed_at="_changed_at",
    )
    columns = (
        "customer_id, person_id, first_name, last_name, coalesce(employer_name, ''), "
        "email_id, coalesce(city, '')"
    )
    found.createOrReplaceTempView("from_changes")
    from_extracts = rows(project.spark, f"select {columns} from marts.dim_customers_today")
    assert set(rows(project.spark, f"select {columns} from from_changes")) == set(from_extracts)


# --- S4 ---------------------------------------------------------------------------------------


@pytest.mark.domain("ticketing")
def test_a_whole_database_is_as_in_the_source(played: object, spark: SparkSession) -> None:
    keys = {
        "seat": ["sport_location_id", "seat_level", "seat_section", "seat_row", "seat"],
        "ticket_purchase_hist": [
            "sporting_event_ticket_id", "purchased_by_id", "transaction_date_time"
        ],
        "mlb_data": ["mlb_id"],
    }  # fmt: skip
    for folder in sorted((EXAMPLES / "ticketing" / "day1" / "dms" / "ticketing").iterdir()):
        key = keys.get(folder.name, ["id"])
        expected: dict[tuple[Any, ...], dict[str, Any]] = {}
        for day in (1, 2):
            changed = EXAMPLES / "ticketing" / f"day{day}" / "dms" / "ticketing" / folder.name
            for file in sorted(changed.glob("*.parquet")):
                for row in pyarrow.parquet.read_table(file).to_pylist():
                    place = tuple(row[name] for name in key)
                    if row.pop("Op", "I") == "D":
                        del expected[place]
                    else:
                        expected[place] = {n: v for n, v in row.items() if n != "dms_commit_at"}
        names = list(next(iter(expected.values())))
        table = f"current.cur_ticketing__{folder.name}"
        found = rows(spark, f"select {', '.join(names)} from {table}")
        assert Counter(found) == Counter(tuple(row.values()) for row in expected.values()), table


@pytest.mark.domain("ticketing")
def test_a_ticket_that_is_sold_on_counts_once(played: object, spark: SparkSession) -> None:
    sold = rows(
        spark,
        "select sum(tickets_sold), sum(tickets_sold_on), count(*) "
        "from marts.agg_ticket_sales_by_event",
    )
    purchases = rows(
        spark,
        "select count(distinct purchases.sporting_event_ticket_id) "
        "from current.cur_ticketing__ticket_purchase_hist as purchases "
        "join current.cur_ticketing__sporting_event_ticket as tickets "
        "on tickets.id = purchases.sporting_event_ticket_id where tickets.sporting_event_id <> 12",
    )
    assert sold == [(purchases[0][0], 1, 11)]


# --- S5 ---------------------------------------------------------------------------------------


@pytest.mark.domain("movies")
def test_films_get_a_column_while_they_change(played: object, spark: SparkSession) -> None:
    films = "current.cur_movies__movies where movie_id in (2, 14, 20, 23, 24) order by movie_id"
    assert rows(spark, f"select movie_id, title, cast(rating as string), country from {films}") == [
        (2, "The Night Ferry", "7.0", None),
        (14, "The Cartographer", "8.8", "Portugal"),
        (23, "Moorings", "6.5", None),
        (24, "Kelp", "7.7", "Norway"),
    ]
    letters = "tidemark.dead_letter where source_name = 'movies' order by position"
    assert rows(spark, f"select position, column, value, reason from {letters}") == [
        (4, "released", "soon", "not a int"),
        (5, "rating", "very good", "not a decimal(3, 1)"),
    ]


# --- S8, S10 ----------------------------------------------------------------------------------


@pytest.mark.domain("shop")
def test_the_summary_follows_every_table(played: object, spark: SparkSession) -> None:
    tables: dict[str, dict[str, dict[str, str]]] = {}
    for table in ("customers", "customer_sites", "sales_orders"):
        tables[table] = {}
        for day in DAYS:
            for file in sorted((EXAMPLES / f"shop/day{day}/shop/{table}").glob("*.csv")):
                for row in records(str(file.relative_to(EXAMPLES))):
                    key = next(value for name, value in row.items() if name.endswith("_id"))
                    if row.get("Op") == "D":
                        del tables[table][key]
                    else:
                        tables[table][key] = row
    orders = [
        (tables["customer_sites"][order["site_id"]]["customer_id"], order)
        for order in tables["sales_orders"].values()
    ]
    expected = {
        (
            int(key),
            customer["segment"],
            sum(owner == key for owner, _ in orders),
            sum(owner == key and order["status"] == "open" for owner, order in orders),
            sum(
                (
                    Decimal(order["amount"])
                    for owner, order in orders
                    if owner == key and order["status"] != "cancelled"
                ),
                Decimal("0.00"),
            ),
        )
        for key, customer in tables["customers"].items()
    }
    columns = "customer_id, segment, order_count, open_order_count, order_amount"
    assert set(rows(spark, f"select {columns} from marts.agg_customer_summary")) == expected
    # The second hour concerned the customers of one site, and the one that left.
    assert _last_merge(spark, "marts.agg_customer_summary") == (2, 1)


def _last_merge(spark: SparkSession, table: str) -> tuple[int, int]:
    newest = spark.sql(f"describe history {table}").where("operation = 'MERGE'").first()
    assert newest
    metrics = newest.operationMetrics
    return int(metrics["numTargetRowsUpdated"]), int(metrics["numTargetRowsDeleted"])


@pytest.mark.domain("shop")
def test_an_order_counts_by_the_customer_as_it_was(played: object, spark: SparkSession) -> None:
    orders = "marts.fct_sales_orders where order_id in (5120, 5121) order by order_id"
    then = "select order_id, customer_id, segment, country is not null"
    before = records("shop/day1/shop/customers/LOAD00000001.csv")[2]["segment"]
    assert before != "reseller"
    assert rows(spark, f"{then} from {orders}") == [
        (5120, 3, before, True),
        (5121, 21, "business", True),
    ]


@pytest.mark.domain("shop")
def test_the_summary_follows_a_move_within_an_instant(played: object, spark: SparkSession) -> None:
    """Load after load moves the site at the same second; the mart alone is built in between."""
    path = Path(os.environ["TIDEMARK_LANDING"]) / "shop" / "customer_sites"
    header = "Op,site_id,customer_id,city,country,commit_at"
    summary = "select customer_id, order_count, order_amount from marts.agg_customer_summary"
    from_current = (
        "select customers.customer_id, count(order_id), "
        "cast(coalesce(sum(if(status = 'cancelled', 0, amount)), 0) as decimal(18, 2)) "
        "from current.cur_shop__customers as customers "
        "left join current.cur_shop__customer_sites as sites using (customer_id) "
        "left join current.cur_shop__sales_orders as orders using (site_id) group by 1"
    )
    for number, owner in enumerate((5, 6, 7), 1):
        line = f"U,102,{owner},Porto,PT,2023-09-01 10:00:00"
        (path / f"20230901-10000{number}000.csv").write_text(f"{header}\n{line}\n")
        assert dbt.invoke(["--quiet", "run", "--select", "agg_customer_summary"]).success
        runs.run()
        assert set(rows(spark, summary)) == set(rows(spark, from_current)), owner


@pytest.mark.domain("shop")
def test_a_shop_that_is_an_hour_old_is_stale(played: object, spark: SparkSession) -> None:
    freshness = ["--quiet", "source", "freshness", "--select", "source:shop"]
    assert dbt.invoke(freshness).success
    spark.sql("update log_shop.customers set _landed_at = _landed_at - interval 61 minutes")
    result = dbt.invoke(freshness)
    stale = [item.node.name for item in result.result if item.status == "error"]
    assert (result.success, stale) == (False, ["customers"])


# --- S9 ---------------------------------------------------------------------------------------


@pytest.mark.domain("fleet")
def test_renamed_and_dropped_columns_get_no_new_values(played: object, spark: SparkSession) -> None:
    columns = "vehicle_id, depot, home_depot, mileage, fuel"
    vehicles = "current.cur_fleet__vehicles where vehicle_id in (10, 11, 12, 13, 30) order by 1"
    assert rows(spark, f"select {columns} from {vehicles}") == [
        (10, None, "Docks", 10250, "diesel"),
        (11, None, "South", None, "diesel"),
        (13, "South", None, 13000, None),
        (30, None, "North", 12, "electric"),
    ]
    columns = "vehicle_id, depot, depot_city, last_known_mileage"
    parked = f"select {columns} from marts.dim_vehicles where vehicle_id in (10, 11, 13) order by 1"
    assert rows(spark, parked) == [
        (10, "Docks", "Hull", 10250),
        (11, "South", "Bristol", 11000),
        (13, "South", "Bristol", 13000),
    ]


# --- S12 --------------------------------------------------------------------------------------


@pytest.mark.domain("growth")
def test_sales_and_marketing_add_up_by_month(played: object, spark: SparkSession) -> None:
    paid: Counter[int] = Counter()
    for row in records("growth/day2/growth/marketing_metrics/2022-03-31.csv"):
        paid[int(row["date"][5:7])] += int(row["paid_conversion"])
    weighted = dict.fromkeys(paid, Decimal(0))
    for row in records("growth/day2/growth/sales_pipeline/2022-03-31.csv"):
        amount = row["weighted_revenue"].replace("$", "").replace(",", "")
        weighted[int(row["date"][5:7])] += Decimal(amount)
    months = [(2022, month, paid[month], weighted[month]) for month in (1, 2, 3)]
    columns = "year_number, month_number, paid_conversion, weighted_revenue"
    for version in ("v1", "v2"):
        assert rows(spark, f"select {columns} from marts.agg_growth_by_month_{version}") == months


# --- S13 --------------------------------------------------------------------------------------


@pytest.mark.domain("partner")
def test_a_list_that_breaks_the_agreement_stays_outside(
    played: list[Any], spark: SparkSession
) -> None:
    may, still_may, june = played
    assert may == still_may != june
    assert len(june) == 32
    letters = "tidemark.dead_letter where source_name = 'partner' order by position nulls first"
    assert rows(spark, f"select position, reason from {letters}") == [
        (None, "2 of its 32 records are bad, and the feed is strict"),
        (5, "fails the check price_is_positive"),
        (11, "fails the check currency_is_agreed"),
    ]
    (version,) = rows(spark, "select distinct price_list_version from marts.dim_articles")
    accepted = (
        "select file from tidemark.ledger where source_name = 'partner' and status = 'landed' "
        f"and load_id = {version[0]}"
    )
    assert rows(spark, accepted) == [("partner/price_list/2023-06-02.csv",)]


# --- S17 --------------------------------------------------------------------------------------


@pytest.mark.domain("bistro")
def test_arrays_of_documents_are_a_table(played: object, spark: SparkSession) -> None:
    file = EXAMPLES / "bistro/day2/bistro/orders/2023-09-02.json"
    expected = {
        (document["_id"]["$oid"], place, line["dish"], line["quantity"], f"{line['price']:.2f}")
        for document in map(json.loads, file.read_text().splitlines())
        for place, line in enumerate(document["lines"], 1)
    }
    columns = "order_id, line_number, dish_name, quantity, cast(price as string)"
    assert set(rows(spark, f"select {columns} from marts.fct_order_lines")) == expected


@pytest.mark.domain("erp")
def test_record_modes_correct_and_delete(played: object, spark: SparkSession) -> None:
    deliveries = "current.cur_erp__deliveries"
    assert rows(spark, f"select count(*), sum(quantity) from {deliveries}") == [
        (23, Decimal("408.500"))
    ]
    corrected = f"select quantity from {deliveries} where delivery = '0080000000' and item = 10"
    assert rows(spark, corrected) == [(Decimal("8.000"),)]
