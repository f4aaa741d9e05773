"""What an AWS DMS task tells of its tables, without Spark: rules, settings, samples of files."""

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet
import pytest
import yaml

from tests import dms_tasks, s3_server
from tests.aws_server import AwsServer
from tests.dms_tasks import counted, include, transform
from tidemark import cli
from tidemark.scaffold.discover import dms_hints, dms_rules
from tidemark.scaffold.discover.dms_rules import rules_of
from tidemark.scaffold.discover.dms_task import Task, target_of

TIME = "2026-04-01 13:40:19.145400"
BUCKET = {"BucketName": "replica"}
SEQUENCE = {"expression": "$AR_H_CHANGE_SEQ", "data-type": {"type": "string", "length": 50}}


def key(*columns: str, where: str = "%.%") -> dict[str, Any]:
    return transform(
        "table", "define-primary-key", where=where, more={"primary-key-def": {"columns": columns}}
    )


def task(*rules: Mapping[str, Any], **target: Any) -> Task:
    found = rules_of({"rules": [include("%", "%"), *rules]}, "rules.json")
    return Task("test", found, {**BUCKET, **target})


class Place:
    """A project and a landing folder of a test's own, and the command in it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.project, self.landing = folder, folder / "project", folder / "landing"
        (self.project / "models").mkdir(parents=True)
        (self.project / "dbt_project.yml").write_text("")
        self.landing.mkdir()
        self.capsys = capsys

    def land(self, path: str, content: str | bytes) -> None:
        file = self.landing / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)

    def write(self, name: str, content: Any) -> str:
        file = self.folder / name
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(file)

    def discover(self, *arguments: str) -> list[str]:
        """What `tidemark discover` prints."""
        self.capsys.readouterr()
        assert cli.main(["discover", *arguments]) == 0, self.capsys.readouterr().err
        return self.capsys.readouterr().out.splitlines()

    def refused(self, *arguments: str) -> str:
        """The sentence with which a command fails."""
        self.capsys.readouterr()
        assert cli.main(list(arguments)) == 1
        told = self.capsys.readouterr()
        assert not told.out
        return told.err.strip().removeprefix("tidemark: ")

    def of_files(self, rules: Sequence[Mapping[str, Any]], **target: Any) -> list[str]:
        """The same from files, without AWS."""
        mappings = self.write("rules.json", {"rules": list(rules)})
        endpoint = self.write("endpoint.json", {**BUCKET, **target})
        return self.discover("--table-mappings", mappings, "--endpoint-settings", endpoint)

    def text(self, source: str) -> str:
        return (self.project / f"models/staging/{source}/_{source}__sources.yml").read_text()

    def tables(self, source: str) -> dict[str, dict[str, Any]]:
        """The feeds that are declared, by table, and their columns in `columns`."""
        (found,) = yaml.safe_load(self.text(source))["sources"]
        return {
            table["name"]: {
                **table["config"]["meta"]["feed"],
                "columns": {each["name"]: each["data_type"] for each in table["columns"]},
                "enabled": table["config"].get("enabled", True),
            }
            for table in found["tables"]
        }


@pytest.fixture
def place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Place:
    found = Place(tmp_path, capsys)
    monkeypatch.setenv("DBT_PROJECT_DIR", str(found.project))
    monkeypatch.setenv("TIDEMARK_LANDING", str(found.landing))
    return found


def parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    buffer = io.BytesIO()
    pa.parquet.write_table(pa.Table.from_pylist(list(rows)), buffer)
    return buffer.getvalue()


# --- rules ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "name", "does"),
    [
        ("%", "", True),
        ("ord%", "orders", True),
        ("ord%", "Orders", False),
        ("%_log", "a_log", True),
        ("%_log", "anlog", True),
        ("%[_]log", "anlog", False),
        ("t[ab]", "tb", True),
        ("t[a-c]%", "tc9", True),
        ("t[a-c]", "td", False),
        ("t[^a]", "tb", False),
        ("a.c", "abc", False),
        ("a[", "a[", True),
        ("%%%%%%%%%%%%%%%%%%%%%%%%x", "a" * 5000, False),
    ],
)
def test_wildcards_are_those_of_aws_dms(pattern: str, name: str, does: bool) -> None:
    assert dms_rules.matches(pattern, name) is does


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        (transform("schema", "rename", "dw", where="Shop"), ("dw", "Orders_old")),
        (transform("schema", "rename", "dw", where="shop"), ("Shop", "Orders_old")),
        (transform("table", "rename", "o", where="Shop.Orders_old"), ("Shop", "o")),
        (transform("table", "rename", "o", where="Shop.Other"), ("Shop", "Orders_old")),
        (transform("table", "add-prefix", "x_"), ("Shop", "x_Orders_old")),
        (transform("table", "remove-prefix", "Ord"), ("Shop", "ers_old")),
        (
            transform("table", "replace-prefix", "O", more={"old-value": "Ord"}),
            ("Shop", "Oers_old"),
        ),
        (
            transform("table", "replace-prefix", "O", more={"old-value": "x"}),
            ("Shop", "Orders_old"),
        ),
        (transform("table", "add-suffix", "_x"), ("Shop", "Orders_old_x")),
        (transform("table", "remove-suffix", "_old"), ("Shop", "Orders")),
        (
            transform("table", "replace-suffix", "_new", more={"old-value": "_old"}),
            ("Shop", "Orders_new"),
        ),
        (transform("schema", "convert-lowercase"), ("shop", "Orders_old")),
        (transform("table", "convert-uppercase"), ("Shop", "ORDERS_OLD")),
        (transform("column", "rename", "x", where="%.%.id"), ("Shop", "Orders_old")),
    ],
)
def test_the_folder_is_named_as_rules_rename_it(
    rule: dict[str, Any], path: tuple[str, str]
) -> None:
    found = task(rule)
    assert found.folder("Shop", "Orders_old") == path
    # And back again, for who only sees the folders.
    origin = found.of_folder(path)
    assert origin and found.folder(*origin) == path
    assert found.of_folder((f"{path[0]}-", "-")) != ("Shop", "Orders_old")


def test_which_tables_are_taken() -> None:
    rules = [
        include("shop", "%"),
        include("shop", "tmp[_]%", "exclude"),
        include("shop", "tmp_kept", "explicit"),
        include("crm", "people"),
        include("crm", "%", "exclude"),
    ]
    found = Task("test", rules_of({"rules": rules}, ""), BUCKET)
    asked = ["orders", "tmp_x", "tmpx", "tmp_kept"]
    assert [table for table in asked if found.selects("shop", table)] == [
        "orders",
        "tmpx",
        "tmp_kept",
    ]
    assert not found.selects("Shop", "orders") and not found.selects("crm", "people")
    assert found.named() == [("shop", "tmp_kept")]
    assert found.has_wildcards


def test_a_rule_of_an_unknown_kind_is_named() -> None:
    rules = [
        transform("column", "data-masking-hash-mask", where="%.%.name"),
        {"rule-type": "post-processing", "rule-id": "9"},
        include("%", "%", "maybe"),
        transform("schema", "define-primary-key"),
    ]
    found = dms_hints.of(task(*rules), "s", "t")
    assert [hint for hint in found if "not known to Tidemark" in hint] == [
        "rule 2 (data-masking-hash-mask) is not known to Tidemark: check what it changes",
        "rule 9 (post-processing) is not known to Tidemark: check what it changes",
        "rule 1 (maybe) is not known to Tidemark: check what it changes",
        "rule 2 (define-primary-key) is not known to Tidemark: check what it changes",
    ]
    known = [
        transform("column", "change-data-type", where="%.%.x"),
        transform("table-tablespace", "rename", "x"),
        {"rule-type": "table-settings", "rule-id": "3", "object-locator": {}},
    ]
    assert not [hint for hint in dms_hints.of(task(*known), "s", "t") if "not known" in hint]


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "feed"),
    [
        ({}, {}),
        ({"CsvDelimiter": ",", "CsvRowDelimiter": "\n", "CsvNullValue": "NULL"}, {}),
        ({"Rfc4180": True, "IncludeOpForFullLoad": False, "TimestampColumnName": ""}, {}),
        ({"AddColumnName": True}, {"header": "all"}),
        ({"AddColumnName": True, "CsvDelimiter": ";", "DataFormat": "parquet"}, {}),
        ({"IncludeOpForFullLoad": True}, {"op_in_load": True}),
        ({"IncludeOpForFullLoad": "y", "CdcInsertsOnly": True}, {"op_in_load": True}),
        ({"CdcInsertsOnly": True}, {"op_in_changes": False}),
        ({"TimestampColumnName": "dms_ts"}, {"timestamp_column": "dms_ts"}),
        ({"CsvDelimiter": "\t", "CsvRowDelimiter": "|\n"}, {"delimiter": r"\t"}),
        ({"CsvDelimiter": "\x01"}, {"delimiter": r"\x01"}),
        ({"CsvNullValue": ""}, {"null_text": ""}),
        ({"CsvNullValue": r"\N"}, {"null_text": r"\N"}),
        ({"Rfc4180": False}, {"quote": "none"}),
        ({"UseCsvNoSupValue": True, "CsvNoSupValue": "~"}, {"unavailable_value": "~"}),
        ({"UseCsvNoSupValue": False, "CsvNoSupValue": "~"}, {}),
        ({"DatePartitionTimezone": "Asia/Seoul"}, {}),
        (
            {"DatePartitionEnabled": True, "DatePartitionTimezone": "Asia/Seoul"},
            {"file_time_zone": "Asia/Seoul"},
        ),
    ],
)
def test_settings_of_the_endpoint_become_settings_of_feeds(
    target: dict[str, Any], feed: dict[str, Any]
) -> None:
    if "CsvRowDelimiter" in target and target["CsvRowDelimiter"] != "\n":
        feed = {**feed, "row_delimiter": r"|\n"}
    assert task(**target).feed("s", "t") == feed


def test_settings_stand_in_files_in_several_ways() -> None:
    settings = {"S3Settings": {**BUCKET, "AddColumnName": True}}
    ways = [
        settings,
        settings["S3Settings"],
        {"Endpoint": settings},
        {"Endpoints": [{"EngineName": "mysql"}, settings]},
        {**settings, "ExtraConnectionAttributes": "addColumnName=n;"},
        {
            "S3Settings": BUCKET,
            "ExtraConnectionAttributes": "addColumnName=true;",
        },
    ]
    for way in ways:
        assert Task("test", [], target_of(way, "file")).feed("s", "t") == {"header": "all"}


def test_what_makes_it_inexact_is_said_with_its_cost() -> None:
    def costs(found: Task) -> str:
        return "\n".join(dms_hints.of(found, "s", "t"))

    best = task(
        transform("column", "add-column", "seq", more=SEQUENCE),
        **{"DataFormat": "parquet", "TimestampColumnName": "ts", "IncludeOpForFullLoad": True},
    )
    assert costs(best) == ""
    for target, words in {
        ("DataFormat", "parquet"): "history has the times of the files",
        ("AddColumnName", False): "columns are matched by position",
        ("CdcInsertsOnly", True): "updates and deletes never arrive",
        ("CdcInsertsAndUpdates", True): "deletes never arrive",
        ("Rfc4180", False): "a text that contains a delimiter or a line end breaks its row",
        ("CsvNullValue", ""): "an empty text becomes NULL",
        ("AddTrailingPaddingCharacter", True): "padded",
        ("IncludeOpForFullLoad", False): "never rename them",
    }.items():
        name, value = target
        assert words in costs(task(**{name: value})), name
    assert "ordered only by their file's time and their position" in costs(task())
    zone = {"DatePartitionEnabled": True, "DatePartitionTimezone": "Europe/Berlin"}
    assert "an hour that occurs twice" in costs(task(**zone))
    filters = include("s", "t", filters=[{"column-name": "x"}])
    assert "has filters" in costs(task(filters))

    def of(**about: Any) -> str:
        return costs(Task("test", best.rules, best.target, **about))

    metadata = {"SupportLobs": True, "LimitedSizeLobMode": True, "LobMaxSize": 32}
    for section, words in (
        ({"TargetMetadata": metadata}, "truncated at 32 KB (LobMaxSize) without a warning"),
        ({"TargetMetadata": {"SupportLobs": False}}, "LOBs are off"),
        ({"TargetMetadata": {"BatchApplyEnabled": True}}, "changes may be lost"),
        ({"FullLoadSettings": {"TargetTablePrepMode": "DO_NOTHING"}}, "a shorter reload leaves"),
        (
            {"ChangeProcessingDdlHandlingPolicy": {"HandleSourceTableTruncated": True}},
            "a truncate only deletes files",
        ),
    ):
        assert words in of(settings=section)
    assert "REPLICA IDENTITY FULL, or ignore_null_updates" in of(engine="aurora-postgresql")
    assert "SUPPLEMENTAL LOG DATA (ALL) COLUMNS" in of(engine="oracle")
    assert "binlog_row_image" in of(engine="mysql")
    assert "changes never arrive, only reloads" in of(migration="full-load")
    assert "a row that does not change never arrives" in of(migration="cdc")


# --- tables ---------------------------------------------------------------------------------------


def test_a_task_and_samples_of_its_files_declare_its_tables_wholly(
    place: Place, aws: AwsServer
) -> None:
    rules = [
        include("SHOP", "%"),
        transform("schema", "convert-lowercase"),
        transform("table", "convert-lowercase"),
        transform("column", "convert-lowercase", where="%.%.%"),
        key("ORDER_NO", "LINE", where="SHOP.ORDERS"),
        transform("column", "add-column", "seq", more=SEQUENCE),
        transform(
            "column",
            "add-before-image-columns",
            more={"before-image-def": {"column-prefix": "OLD_", "column-filter": "pk-only"}},
        ),
    ]
    arn = dms_tasks.create(
        aws,
        "whole",
        rules,
        {
            **BUCKET,
            "BucketFolder": "cdc/",
            "DataFormat": "parquet",
            "TimestampColumnName": "dms_ts",
            "IncludeOpForFullLoad": True,
        },
        engine="postgres",
        statistics=[counted("SHOP", name) for name in ("ORDERS", "PEOPLE", "EMPTY")],
    )
    order = {"order_no": 1, "line": 2, "price": 1.5, "seq": None}
    load = [{"Op": "I", "dms_ts": TIME, **order}]
    change = [{"Op": "U", "dms_ts": TIME, **order, "seq": "2" * 35, "OLD_order_no": 1}]
    place.land("cdc/shop/orders/LOAD00000001.parquet", parquet(load))
    place.land("cdc/shop/orders/2026/04/01/20260401-134119166.parquet", parquet(change))
    place.land("cdc/shop/people/LOAD00000001.parquet", parquet([{"dms_ts": TIME, "id": 1}]))
    told = place.discover("--dms-task", arn)
    assert told[:4] == [
        "table        format      files    columns  key",
        "shop.empty   dms             0          1  TODO",
        "shop.orders  dms             2          4  order_no, line",
        "shop.people  dms             1          1  id",
    ]
    assert len([call for call in aws.calls if call.endswith("DescribeTableStatistics")]) == 2
    found = place.tables("shop")
    shared = {"format": "dms", "op_in_load": True, "timestamp_column": "dms_ts"}
    shared["before_image_prefix"] = "OLD_"
    assert found["orders"] == {
        **shared,
        "path": "cdc/shop/orders",
        "key": ["order_no", "line"],
        "sequence": "seq",
        "exclude_columns": "seq",
        "enabled": True,
        "columns": {"order_no": "bigint", "line": "bigint", "price": "double", "seq": "string"},
    }
    assert found["empty"] == {
        **shared,
        "path": "cdc/shop/empty",
        "key": [],
        "sequence": "seq",
        "exclude_columns": "seq",
        "enabled": False,
        "columns": {"seq": "string"},
    }
    assert (
        "  shop.empty: no files yet: list its columns with their types in addition to those in "
        "the rules; set the key"
    ) in told
    postgres = next(line for line in told if "REPLICA IDENTITY" in line)
    assert not postgres.endswith(")")
    assert "REPLICA IDENTITY FULL" in re.sub(r"\s+#?\s*", " ", place.text("shop"))
    # Nothing declared is changed.
    before = place.text("shop")
    assert place.discover("--dms-task", "whole")[-1] == "No new tables."
    assert place.text("shop") == before


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        ({"column-filter": "pk-only"}, ["b", "a"]),
        # The others may be of any columns.
        ({"column-filter": "non-lob"}, "id"),
        ({}, "id"),
    ],
)
def test_before_images_of_the_key_alone_show_the_key(
    place: Place, images: dict[str, str], expected: str | list[str]
) -> None:
    row = {"id": 1, "b": 2, "a": 3, "c": 4}
    change = {"Op": "U", **row, "BI_b": 1, "BI_a": 3}
    place.land("s/t/LOAD00000001.parquet", parquet([row]))
    place.land("s/t/20260401-134119166.parquet", parquet([change]))
    where = "s.%"
    rule = transform(
        "column", "add-before-image-columns", where=where, more={"before-image-def": images}
    )
    place.of_files([include("s", "t"), rule], DataFormat="parquet")
    assert place.tables("s")["t"]["key"] == expected


def test_what_the_task_says_goes_before_what_samples_suggest(place: Place) -> None:
    place.land("s/t/LOAD00000001.csv", f'"{TIME}"^1^"x^y"^~\n"{TIME}"^2^b^~\n')
    place.land("s/t/20260401-134119166.csv", f'I^"{TIME}"^3^c^?\n')
    # By their look alone, these were other columns.
    place.of_files(
        [include("s", "t")], CsvDelimiter="^", CsvNullValue="~", TimestampColumnName="at"
    )
    found = place.tables("s")["t"]
    assert (found["delimiter"], found["null_text"], found["timestamp_column"]) == ("^", "~", "at")
    assert list(found["columns"]) == ["column_1", "column_2", "column_3"]
    assert found["columns"]["column_1"] == "bigint"
    assert not found["enabled"]

    # A time of the table's own, and a header that does not look like one.
    place.land("s/u/LOAD00000001.csv", f"1,name\n{TIME},x\n")
    place.of_files([include("s", "u")], AddColumnName=True)
    assert "timestamp_column" not in place.tables("s")["u"]
    place.land("s/v/LOAD00000001.csv", f"a||id||b\n{TIME}||1||x|y\n")
    place.of_files([include("s", "v")], AddColumnName=True, CsvDelimiter="||", Rfc4180=False)
    found = place.tables("s")["v"]
    assert found["columns"] == {"a": "timestamp", "id": "bigint", "b": "string"}
    assert (found["key"], found["quote"], found["enabled"]) == ("id", "none", True)


@pytest.mark.parametrize(
    ("settings", "files", "missing"),
    [
        ({}, {"LOAD00000001.csv": "1,a\n", "20260401-134119166.csv": "1,a\n2,b\n"}, "Op"),
        ({"IncludeOpForFullLoad": True}, {"LOAD00000001.csv": "1,a\n2,b\n"}, "Op"),
        ({"AddColumnName": True}, {"LOAD00000001.csv": "1,a\n2,b\n"}, "a header"),
        ({"TimestampColumnName": "at"}, {"LOAD00000001.csv": "1,a\n2,b\n"}, "at"),
        (
            {"TimestampColumnName": "at", "AddColumnName": True},
            {"LOAD00000001.csv": "id,name\n1,a\n", "20260401-134119166.csv": "id,name\n1,a\n"},
            "Op and at",
        ),
    ],
)
def test_files_that_are_not_as_the_task_says_switch_a_table_off(
    place: Place, settings: dict[str, Any], files: dict[str, str], missing: str
) -> None:
    for name, content in files.items():
        place.land(f"s/t/{name}", content)
    told = place.of_files([include("s", "t"), key("id")], **settings)
    words = f"by the task's settings its files have {missing}, but some do not"
    assert words in "\n".join(told)
    assert not place.tables("s")["t"]["enabled"]


def test_a_column_op_of_the_tables_own_stays(place: Place) -> None:
    place.land("s/acts/LOAD00000001.csv", "op,id,name\nsell,1,a\nbuy,2,b\n")
    place.of_files([include("s", "acts")], AddColumnName=True)
    assert list(place.tables("s")["acts"]["columns"]) == ["op", "id", "name"]


def test_without_op_for_loads_aws_is_of_two_minds(place: Place) -> None:
    settings = {"CdcInsertsAndUpdates": True}
    place.land("s/seen/LOAD00000001.csv", "1,x\n")
    place.land("s/seen/20260401-134119166.csv", "1,x\n2,y\n")
    place.land("s/other/20260401-134119166.csv", "I,1,x\nU,2,y\n")
    place.of_files([include("s", name) for name in ("seen", "other", "unseen")], **settings)
    found = place.tables("s")
    assert found["seen"]["op_in_changes"] is False
    assert "op_in_changes" not in found["other"]
    assert len(found["other"]["columns"]) == 2
    assert "AWS's documentation is ambiguous on Op in change files" in re.sub(
        r"\s+#?\s*", " ", place.text("s")
    )
    place.of_files([include("named", "t")], **settings, AddColumnName=True)
    assert place.tables("named")["t"]["op_in_changes"] is False


def test_without_aws_the_folders_tell_what_wildcards_mean(place: Place) -> None:
    rules = [
        include("shop", "%"),
        include("shop", "[xX]%", "exclude"),
        transform("schema", "add-prefix", "src_"),
        transform("table", "convert-uppercase"),
    ]
    mappings = place.write("rules.json", {"rules": rules})
    endpoint = place.write("endpoint.json", {"S3Settings": BUCKET})
    files = ("--table-mappings", mappings, "--endpoint-settings", endpoint)
    refused = place.refused("discover", *files)
    assert "have wildcards, so they do not list its tables. Start the" in refused
    for folder in ("src_shop/ORDERS", "src_shop/XTRA", "src_shop/small", "other/ORDERS"):
        place.land(f"{folder}/LOAD00000001.csv", "1\n")
    told = place.discover(*files)
    why = "no table that the rules select has this folder"
    assert [line for line in told if line.startswith("Skipped ")] == [
        f"Skipped src_shop/XTRA: {why}",
        f"Skipped src_shop/small: {why}",
    ]
    assert {name: table["path"] for name, table in place.tables("src_shop").items()} == {
        "orders": "src_shop/ORDERS"
    }


def test_changes_in_the_order_of_transactions_lie_elsewhere(place: Place) -> None:
    settings = {"PreserveTransactions": True, "CdcPath": "/txn/", "DataFormat": "parquet"}
    place.land("s/t/LOAD00000001.parquet", parquet([{"id": 1, "seen": 2}]))
    place.of_files([include("s", "t"), include("s", "u")], **settings, CsvDelimiter="|")
    for found in place.tables("s").values():
        assert (found["transactions_path"], found["delimiter"]) == ("txn", "|")
        # It is as the default has it.
        assert "source_table" not in found


def test_names_from_aws_are_only_data(place: Place) -> None:
    rules = [
        include("s", "{{ env_var('HOME') }}"),
        include("..", "t"),
        include("s", "line\nend: x"),
        include("s", "fine"),
        transform("column", "remove-column", where="s.fine.a\n    evil: true"),
        key("{{ x }}", where="s.fine"),
    ]
    told = place.of_files(rules, AddColumnName=True)
    assert sum(line.startswith("Skipped ") for line in told) == 3
    assert (
        "Skipped s/{{ env_var('HOME') }}: its name contains {{, {% or {#, which dbt reads"
        in str(told)
    )
    assert "Skipped ...t: its name cannot be a folder: rename it with a rule" in told
    assert list(place.tables("s")) == ["fine"]
    assert place.tables("s")["fine"]["columns"] == {}
    told = place.of_files([include("z", "t")], TimestampColumnName="{{ x }}")
    assert told[0].startswith("Skipped z/t: its name contains")


def test_two_rules_for_one_name_are_a_doubt(place: Place) -> None:
    rules = [include("s", "t"), transform("table", "add-prefix", "a_")]
    place.of_files([*rules, transform("table", "add-suffix", "_z")])
    text = re.sub(r"\s+#?\s*", " ", place.text("s"))
    assert "rule 2 (add-prefix) and rule 2 (add-suffix) rename its table, but AWS" in text
    assert "# TODO" in place.text("s")


def test_what_only_the_task_can_say_of_a_column(place: Place) -> None:
    rules = [
        include("s", "t"),
        key("id"),
        transform("column", "add-column", "seq", more=SEQUENCE),
    ]
    settings = {"AddColumnName": True, "UseCsvNoSupValue": True, "CsvNoSupValue": "~"}
    place.land("s/t/LOAD00000001.csv", "id,size,seq\n1,5,\n")
    # Digits, but no number; and a text that stands for what is not there.
    change = f"Op,id,size,seq\nU,1,~,{'1' * 35}\n"
    place.land("s/t/20260401-134119166.csv", change)
    place.of_files(rules, **settings)
    found = place.tables("s")["t"]
    assert found["columns"] == {"id": "bigint", "size": "bigint", "seq": "string"}
    assert (found["sequence"], found["unavailable_value"]) == ("seq", "~")
    assert found["exclude_columns"] == "seq"


def test_tables_that_cannot_be_are_left_with_the_reason(place: Place, aws: AwsServer) -> None:
    rules = [include("s", "%"), include("s", "absent"), transform("table", "rename", "one")]
    known = [counted("s", name) for name in ("a", "b", "c")] + [counted("t", "other")]
    dms_tasks.create(aws, "left", rules, BUCKET, statistics=known)
    told = place.discover("--dms-task", "left")
    why = "the rules put it into s/one, the folder of another table, which AWS DMS does not support"
    assert [line for line in told if line.startswith("Skipped ")] == [
        "Skipped s.absent: a rule names it, but the task's statistics lack it",
        "Skipped t.other: the task's statistics have it, but no rule here selects it",
        f"Skipped s.b: {why}",
        f"Skipped s.c: {why}",
    ]
    assert list(place.tables("s")) == ["one"]


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mappings", "endpoint", "words"),
    [
        ("{", BUCKET, r"rules.json is not JSON: .*\. Export it again\."),
        ({"rule": []}, BUCKET, 'has no table mappings: it must be JSON such as {"rules"'),
        ({"rules": ["x"]}, BUCKET, "has no table mappings"),
        ({"rules": []}, BUCKET, "selects no table"),
        ({"rules": [include("s", "t", "exclude")]}, BUCKET, "selects no table"),
        ({"rules": [include("s", "")]}, BUCKET, r"rule 1 \(include\): its object-locator must"),
        ({"rules": [include("s", "t")]}, "[1]", "endpoint.json has no S3Settings with a Bucket"),
        ({"rules": [include("s", "t")]}, {"BucketName": ""}, "has no S3Settings with a Bucket"),
        ({"rules": [include("s", "t")]}, "{]", "endpoint.json is not JSON"),
        (
            {"rules": [include("s", "t")]},
            {"Endpoints": [{"S3Settings": BUCKET}] * 2},
            "has several endpoints with S3Settings",
        ),
    ],
)
def test_a_file_that_is_wrong_is_said_in_a_sentence(
    place: Place, mappings: Any, endpoint: Any, words: str
) -> None:
    files = (place.write("rules.json", mappings), place.write("endpoint.json", endpoint))
    options = zip(("--table-mappings", "--endpoint-settings"), files, strict=True)
    told = place.refused("discover", *(each for option in options for each in option))
    assert re.search(words, told)


def test_options_that_do_not_go_together_are_refused(place: Place) -> None:
    for arguments in (["--dms-task", "t", "--table-mappings", "x"], ["x", "--dms-task", "t"]):
        assert place.refused("discover", *arguments).startswith("Give one of these: a folder,")
    assert "go together" in place.refused("discover", "--table-mappings", "x")
    told = place.refused("discover", "--table-mappings", "x", "--endpoint-settings", "y")
    assert told.startswith("x cannot be read: ")


def test_what_aws_does_not_have_is_said_in_a_sentence(place: Place, aws: AwsServer) -> None:
    def refused(name: str) -> str:
        return place.refused("discover", "--dms-task", name)

    unknown = (
        "There is no AWS DMS task nobody in the region us-east-1. Pass its identifier or ARN, "
        "and check AWS_REGION."
    )
    assert refused("nobody") == unknown
    # Moto finds nothing; AWS says so.
    aws.answers["DescribeReplicationTasks"] = ["ResourceNotFoundFault"]
    assert refused("nobody") == unknown
    aws.answers["DescribeReplicationTasks"] = ["AccessDeniedException"]
    assert refused("nobody").startswith("AWS DMS, task nobody: the role lacks permission")
    arn = "arn:aws:dms:us-east-1:123456789012:replication-config:ABC"
    assert "is a serverless replication, but only tasks are supported" in refused(arn)
    dms_tasks.create(aws, "elsewhere", [include("s", "t")], None)
    assert refused("elsewhere") == (
        "The task elsewhere writes to elsewhere-target, which is redshift. Tidemark supports "
        "only tasks that write to S3."
    )
    dms_tasks.create(aws, "new", [include("s", "%")], BUCKET)
    assert "The rules of new have wildcards, so they do not list its tables" in refused("new")


def test_without_credentials_the_variables_are_named(
    place: Place, aws: AwsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    # Boto3 keeps those that it has found.
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    assert place.refused("discover", "--dms-task", "x").startswith(
        "AWS DMS, task x: there are no credentials: set AWS_ACCESS_KEY_ID"
    )


def test_a_task_that_writes_elsewhere_says_where(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    mappings = place.write("rules.json", {"rules": [include("s", "t")]})
    endpoint = place.write("endpoint.json", {**BUCKET, "BucketFolder": "a/b"})
    files = ("--table-mappings", mappings, "--endpoint-settings", endpoint)
    for landing in ("s3a://other", "s3a://replica/a/bc", "s3a://replica/a/b/c", "gs://replica"):
        monkeypatch.setenv("TIDEMARK_LANDING", landing)
        told = place.refused("discover", *files)
        assert told.endswith(
            "writes to s3://replica/a/b, which is not below TIDEMARK_LANDING, "
            f"{landing}. Set TIDEMARK_LANDING=s3a://replica/a/b"
        )


# --- files on S3 ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[s3_server.S3Server]:
    with s3_server.running() as found:
        yield found


def test_samples_come_from_s3_and_no_more_than_a_few(
    place: Place, server: s3_server.S3Server, aws: AwsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**BUCKET, "BucketFolder": "in/dms", "AddColumnName": True}
    rules = [include("shop", "%"), key("id")]
    arn = dms_tasks.create(aws, "s3", rules, settings)
    # Files are elsewhere than tasks.
    monkeypatch.setenv("AWS_ENDPOINT_URL_DATABASE_MIGRATION_SERVICE", aws.url)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{server.address}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.SECRET)
    monkeypatch.setenv("TIDEMARK_LANDING", "s3a://replica/in")
    for number in range(1, 8):
        server.put(f"replica/in/dms/shop/orders/LOAD0000000{number}.csv", f"id,price\n{number},1\n")
    change = "replica/in/dms/shop/orders/2026/04/01/20260401-13411916{}.csv"
    for number in range(4):
        server.put(change.format(number), "Op,id,price\nI,9,2.50\n")
    server.put("replica/in/dms/shop/orders/_side.csv", "x")
    server.put_marker("replica/in/dms/shop/orders")
    server.put("replica/in/dms/awsdms_status/t/LOAD00000001.csv", "x")
    # The task was not started: the folders tell which tables there are.
    told = place.discover("--dms-task", arn)
    assert told[1] == "shop.orders  dms            11          2  id"
    found = place.tables("shop")["orders"]
    assert found["path"] == "dms/shop/orders"
    assert found["columns"] == {"id": "bigint", "price": "double"}
    read = {each for each in server.requests() if each.startswith("GET /replica/in/dms/shop/ord")}
    assert sorted(re.sub(r".*/|\?.*", "", each) for each in read) == [
        *("20260401-134119160.csv", "20260401-134119162.csv", "20260401-134119163.csv"),
        *("LOAD00000001.csv", "LOAD00000004.csv", "LOAD00000007.csv"),
    ]
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    told_wrong = place.refused("discover", "--dms-task", arn)
    assert re.match(r"s3a://replica/in/dms cannot be read: the credentials are wrong", told_wrong)
