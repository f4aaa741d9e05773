"""`make demo` on this very project: what a newcomer sees, and the documentation after it."""

import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.project import REPO
from tidemark import cli, demo
from tidemark.dbt_plugin import dbt, dbt_docs

pytestmark = pytest.mark.functional

TABLES = [
    "log_insurance.policies",
    "log_inventory.products",
    "current.cur_insurance__policies",
    "current.cur_inventory__products",
    "history.hist_insurance__policies",
    "history.hist_inventory__products",
    "marts.agg_exposure_by_region",
    "marts.dim_product_groups",
    "snapshots.snap_inventory__product_groups",
    "tidemark.ledger",
    "tidemark.dead_letter",
    "tidemark.builds",
]


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("demo") / "landing"
    folder.mkdir()
    os.environ["TIDEMARK_LANDING"] = str(folder)
    os.environ["DBT_PROJECT_DIR"] = str(REPO)
    yield folder
    del os.environ["TIDEMARK_LANDING"], os.environ["DBT_PROJECT_DIR"]


@pytest.fixture(scope="module")
def played(landing: Path, spark: SparkSession) -> Path:
    """The demo has run once."""
    demo.run()
    return landing


def commits(spark: SparkSession) -> dict[str, int]:
    return {
        name: spark.sql("describe history `{}`.`{}`".format(*name.split("."))).count()
        for name in TABLES
    }


def test_the_tables_are_right_after_both_days(played: Path, spark: SparkSession) -> None:
    tours = demo.tours()
    shows = {**tours["insurance"].shows, **tours["inventory"].shows}
    policies = spark.sql(shows["Policies"]).collect()
    assert [(row.policy_id, str(row.expiry_date), row.insured_value) for row in policies] == [
        (100462, "2024-12-31", 420800),
        (100463, "2023-03-27", 1000000),
        (100475, "2023-06-02", 2304000),
        (110001, "2024-03-31", 210000),
        (110002, "2024-03-31", 3150000),
    ]
    assert spark.sql(shows["How many policies"]).collect()[0].policies == 27
    of_products = shows["Products 102 and 103"]
    products = spark.sql(of_products).collect()
    assert [(row.product_id, row.quantity_available) for row in products] == [(102, 18)]
    before = spark.sql(of_products.replace("products where", "products version as of 0 where"))
    assert [(r.product_id, r.quantity_available) for r in before.collect()] == [
        (102, 30),
        (103, 12),
    ]
    rejected = spark.sql(demo.REJECTED.format(sources="'insurance', 'inventory'"))
    ((_, _, row, column, value, reason),) = rejected.collect()
    assert (row, column, value, reason) == (4, "insured_value", "1.6 million", "not a bigint")


def test_spellings_of_one_product_are_one_line(played: Path, spark: SparkSession) -> None:
    rows = spark.sql(
        "select product_group_id, product_name, product_count, quantity_available "
        "from marts.agg_stock_by_group where product_count > 1 order by 1"
    ).collect()
    assert [tuple(row) for row in rows] == [
        (101, "Oak Desk 140 cm", 2, 28),
        (106, "Steel Shelf 90x30", 2, 20),
    ]


def test_a_claim_counts_by_the_policy_as_it_was_then(played: Path, spark: SparkSession) -> None:
    claims = spark.sql(
        "select claim_id, was_covered, payable_amount from marts.fct_claims order by claim_id"
    ).collect()
    assert [tuple(row) for row in claims] == [
        (1, False, 0),
        (2, True, 95000),
        (3, True, 4000000),
        (4, True, 1000000),
        (5, False, 0),
        (6, False, 0),
    ]


@pytest.mark.slow
def test_the_books_stay_closed(played: Path, spark: SparkSession) -> None:
    """As of the first load, there are 25 policies; two came after it.

    dbt parses everything anew for a variable. test_convergence has tables as of a load.
    """
    ledger = "tidemark.ledger where source_name = 'insurance'"
    load = spark.sql(f"select min(load_id) from {ledger}").collect()[0][0]
    arguments = ["run", "--select", "agg_exposure_at_close", "--vars"]
    result = dbt.invoke(["--quiet", *arguments, f"{{insurance_closing_load: {load}}}"])
    assert result.success
    before = spark.sql("select sum(policy_count) from marts.agg_exposure_at_close").collect()
    assert before[0][0] == 25


def test_a_snapshot_keeps_the_groups_that_products_were_in(
    played: Path, spark: SparkSession
) -> None:
    rows = spark.sql(
        "select product_id, group_key, valid_to is null as is_open "
        "from snapshots.snap_inventory__product_groups "
        "where product_id in (103, 105, 108) order by product_id"
    ).collect()
    # 103 was deleted on day 2, when 108 came; 105 is 101 in another spelling.
    assert [tuple(row) for row in rows] == [(103, 103, False), (105, 101, True), (108, 108, True)]


@pytest.mark.slow
def test_a_second_demo_has_nothing_to_do(
    played: Path, spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    before = commits(spark)
    demo.run()
    assert "Nothing to build: every table is up to date." in capfd.readouterr().out
    assert commits(spark) == before


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        if os.environ.get("CI"):
            pytest.fail("CI must have chromium and chromium-driver: see .ci/run")
        pytest.skip("chromium and chromium-driver are not installed")
    options = webdriver.ChromeOptions()
    for argument in ("headless", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{argument}")
    for argument in ("background-networking", "component-update", "sync", "quic"):
        options.add_argument(f"--disable-{argument}")
    options.add_argument("--window-size=1400,1000")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.binary_location = str(shutil.which("chromium"))
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def site(played: Path) -> Iterator[str]:
    dbt_docs.generate()
    handler = functools.partial(dbt_docs.Handler, directory=str(REPO / "target"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/{dbt_docs.PAGE}"
    server.shutdown()
    server.server_close()


@pytest.mark.slow  # the page is dbt's own
@pytest.mark.browser
def test_the_documentation_shows_a_model_and_its_lineage(
    site: str, browser: webdriver.Chrome
) -> None:
    # On a busy machine the page, with all its data in one file, takes its time.
    wait = WebDriverWait(browser, 120, ignored_exceptions=[StaleElementReferenceException])

    def text() -> str:
        return str(browser.find_element(By.TAG_NAME, "body").text)

    def visible(selector: str) -> list[WebElement]:
        found = browser.find_elements(By.CSS_SELECTOR, selector)
        return [element for element in found if element.is_displayed()]

    browser.get(site)
    wait.until(lambda _: "Change feeds become trusted tables" in text())
    visible("#search")[0].send_keys("hist_insurance__policies")
    result = "div[ng-repeat^='result in results']"
    # While the name is typed, others are found, which have a part of it in their texts.
    name = "hist_insurance__policies model"
    wait.until(lambda _: any(e.text.startswith(name) for e in visible(result)))

    def opened() -> bool:
        # A click is lost while the list of results is drawn anew.
        for found in visible(result):
            if found.text.startswith(name):
                found.click()
                break
        return "One row per version that a policy ever had" in text()

    wait.until(lambda _: opened())
    assert "Surrogate key of the version" in text()

    visible("a[title='View Lineage Graph']")[0].click()
    wait.until(lambda _: visible("canvas"))
    nodes = browser.execute_script("return graph.nodes().map(node => node.data('label'))")
    assert {"stg_insurance__policies", "fct_policy_value_changes"} <= set(nodes)


# What a screen reader needs, and a page without a network has: each finding is a line.
_LACKS = """
const all = (selector) => [...document.querySelectorAll(selector)];
const empty = (element) => !element?.textContent.trim();
return [
  ...all("table").filter((each) => empty(each.caption)).map(() => "a table without caption"),
  ...all("th:not([scope])").map(() => "a heading without scope"),
  ...all("svg:not([role=img][aria-label])").map(() => "a chart without a name"),
  ...all("[tabindex='0']:not([aria-label])").map(() => "a region without a name"),
  ...all("a").filter(empty).map(() => "a link without text"),
  ...all("nav a").filter((each) => !document.querySelector(each.hash)).map((each) => each.hash),
  ...performance.getEntriesByType("resource").map((each) => each.name),
];
"""


@pytest.mark.slow  # test_report has what the page says, and where it leads
@pytest.mark.browser
def test_the_report_is_read_on_any_screen_and_leads_to_the_documentation(
    site: str, browser: webdriver.Chrome
) -> None:
    assert cli.main(["report"]) == 0
    address = site.replace(dbt_docs.PAGE, "report.html")
    browser.get_log("browser")
    colors = []
    for scheme, width in (("light", 1280), ("dark", 375)):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(address)
        assert browser.execute_script(_LACKS) == []
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        script = "return getComputedStyle(document.body).backgroundColor"
        colors.append(browser.execute_script(script))
        # The first thing that a keyboard reaches, and it is seen then.
        browser.switch_to.active_element.send_keys(Keys.TAB)
        skip = browser.switch_to.active_element
        assert skip.text == "Skip to what needs attention"
        assert skip.rect["x"] >= 0
    assert colors == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]
    assert browser.get_log("browser") == []

    text = str(browser.find_element(By.TAG_NAME, "main").text)
    assert "insurance.policies: 1 open dead letter." in text
    assert "tidemark replay insurance.policies" in text
    link = browser.find_element(By.LINK_TEXT, "history.hist_insurance__policies")
    browser.execute_script("arguments[0].scrollIntoView({inline: 'center'})", link)
    link.send_keys(Keys.ENTER)
    wait = WebDriverWait(browser, 120, ignored_exceptions=[StaleElementReferenceException])
    wait.until(lambda _: "One row per version that a policy ever had" in browser.page_source)
