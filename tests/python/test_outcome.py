"""How a run ended: its files in one folder, a message on a real SNS topic, whatever happened."""

import os
from pathlib import Path

import pytest

from tests.aws_server import AwsServer
from tidemark import outcome
from tidemark.errors import TidemarkError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like a project's after an invocation of dbt an hour ago."""
    monkeypatch.setenv("DBT_PROJECT_DIR", str(tmp_path))
    monkeypatch.setenv("TIDEMARK_LAKE", str(tmp_path / "not there yet"))
    (tmp_path / "dbt_project.yml").write_text("name: x\n")
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "manifest.json").write_text("{}")
    return tmp_path


@pytest.fixture
def topic(aws: AwsServer, monkeypatch: pytest.MonkeyPatch) -> str:
    topic = aws.watched_topic()
    monkeypatch.setenv("TIDEMARK_NOTIFY", topic)
    return topic


def test_a_run_that_succeeded_is_told_with_its_lines(
    project: Path, aws: AwsServer, topic: str
) -> None:
    with outcome.published("scheduled__2026-11-22T05:00:00+00:00") as lines:
        lines.append("Landed 3 rows from 1 file.")
    assert aws.told() == [
        (
            "Tidemark run succeeded: scheduled__2026-11-22T05:00:00+00:00",
            "Run scheduled__2026-11-22T05:00:00+00:00 succeeded\nLanded 3 rows from 1 file.",
        )
    ]


def test_a_run_that_failed_is_told_and_fails_as_it_did(
    project: Path, aws: AwsServer, topic: str
) -> None:
    with pytest.raises(KeyError, match="whatever"), outcome.published("r 1\nü"):
        raise KeyError("whatever")
    ((subject, message),) = aws.told()
    assert subject == "Tidemark run failed: r 1??"
    assert message.endswith("failed\nKeyError: 'whatever'")


def test_the_artifacts_are_those_of_this_run(
    project: Path, aws: AwsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="runs")
    monkeypatch.setenv("TIDEMARK_ARTIFACTS", "s3a://runs/of/tidemark/")
    an_hour_ago = (project / "target" / "manifest.json").stat().st_mtime - 3600
    os.utime(project / "target" / "manifest.json", (an_hour_ago, an_hour_ago))
    with outcome.published("a/b"):
        (project / "target" / "run_results.json").write_text("[1]")
    found = s3.list_objects_v2(Bucket="runs")["Contents"]
    assert [each["Key"] for each in found] == [
        "of/tidemark/a_b/run_results.json",
        "of/tidemark/a_b/summary.txt",
    ]
    monkeypatch.setenv("TIDEMARK_ARTIFACTS", str(project / "runs"))
    with outcome.published("c"):
        pass
    assert (project / "runs" / "c" / "summary.txt").read_text() == "Run c succeeded\n"


@pytest.mark.usefixtures("aws")
def test_what_cannot_be_told_fails_a_run_that_had_succeeded(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_NOTIFY", "arn:aws:sns:us-east-1:123456789012:none")
    monkeypatch.setenv("TIDEMARK_ARTIFACTS", "s3://nowhere/x")
    with (
        pytest.raises(TidemarkError, match=r"(?s)The run succeeded, but .*nowhere.*SNS topic arn"),
        outcome.published("r"),
    ):
        pass


@pytest.mark.usefixtures("aws")
def test_what_cannot_be_told_does_not_hide_why_a_run_failed(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEMARK_NOTIFY", "arn:aws:sns:us-east-1:123456789012:none")
    with pytest.raises(TidemarkError, match="^two tables$"), outcome.published("r"):
        raise TidemarkError("two tables")
    assert "tidemark: The run failed, but TIDEMARK_NOTIFY: The SNS topic" in capsys.readouterr().err
