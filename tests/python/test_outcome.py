"""How a run ended, and when the state changes: artifacts, a real SNS topic, webhooks, commands."""

import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.aws_server import AwsServer
from tests.project import REPO
from tidemark import outcome
from tidemark.errors import TidemarkError
from tidemark.ingest import books
from tidemark.outcome import Problem


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like a project's after an invocation of dbt an hour ago."""
    monkeypatch.setenv("DBT_PROJECT_DIR", str(tmp_path))
    monkeypatch.setenv("TIDEMARK_LAKE", str(tmp_path / "not there yet"))
    monkeypatch.setenv("DBT_PROFILES_DIR", str(REPO / "profiles"))
    # The Spark that other tests share has another lake.
    monkeypatch.setattr(books, "spark_is_a_hosts", lambda: False)
    (tmp_path / "dbt_project.yml").write_text("name: x\nprofile: tidemark\n")
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


WITHOUT_BOTO3 = """
import sys

sys.modules["boto3"] = None
import tidemark_job
from tidemark import outcome

with outcome.published("c"):
    pass
"""


def test_a_local_folder_takes_artifacts_without_boto3(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_ARTIFACTS", str(project / "runs"))
    subprocess.run([sys.executable, "-c", WITHOUT_BOTO3], check=True)
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


@dataclass
class Webhook:
    """A real server: what it was sent, and what it answers."""

    url: str = ""
    status: int = 204
    told: list[dict[str, Any]] = field(default_factory=list)


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    hook = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/json"
            # Before the answer: what the client does next may be to look here.
            if hook.status < 300:
                hook.told.append(json.loads(body))
            self.send_response(hook.status)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        hook.url = f"http://127.0.0.1:{server.server_port}/services/a-secret"
        monkeypatch.setenv("TIDEMARK_NOTIFY", hook.url)
        yield hook
        server.shutdown()


def late(name: str, text: str = "") -> Problem:
    return Problem("stale", name, text or f"{name} is late.", "tidemark run", is_error=True)


def test_a_state_is_told_when_it_changes_and_only_then(project: Path, webhook: Webhook) -> None:
    warning = Problem("warned", "t", "only a warning")
    states: list[list[Problem]] = [
        *([], [warning]),
        *([warning, late("a")], [late("a", "a is later still.")], [late("a"), late("b")]),
        *([late("b")], [], []),
    ]
    for number, problems in enumerate(states):
        outcome.tell(f"r{number}", problems)
    assert [(told["run_id"], told["state"]) for told in webhook.told] == [
        *(("r0", "green"), ("r2", "red"), ("r4", "red"), ("r5", "red"), ("r6", "green")),
    ]
    assert webhook.told[2] == {
        "text": "Tidemark is red: r4\na is late. Next: tidemark run",
        "state": "red",
        "run_id": "r4",
        "reasons": ["a is late. Next: tidemark run", "b is late. Next: tidemark run"],
    }


def test_runs_that_fail_in_the_same_way_are_told_once(project: Path, webhook: Webhook) -> None:
    for run_id, reason in (("r1", "process 17 has it"), ("r2", "process 18 has it"), ("r3", "no")):
        with pytest.raises(TidemarkError), outcome.published(run_id):
            # As a job that runs `tidemark status --check` does.
            outcome.tell(run_id, [])
            raise TidemarkError(reason)
    assert [told["text"].splitlines() for told in webhook.told] == [
        ["Tidemark run failed: r1", "process 17 has it"],
        ["Tidemark run failed: r3", "no"],
    ]
    with outcome.published("r4"):
        pass
    assert webhook.told[-1]["text"] == "Tidemark run succeeded: r4"


@pytest.mark.parametrize("status", [302, 500])
def test_what_a_webhook_refuses_is_told_again(status: int, project: Path, webhook: Webhook) -> None:
    webhook.status = status
    with pytest.raises(
        TidemarkError, match=rf"The webhook at 127.0.0.1 answered {status}"
    ) as error:
        outcome.tell("r1", [late("a")])
    assert "a-secret" not in str(error.value)
    webhook.status = 200
    outcome.tell("r2", [late("a")])
    assert [told["run_id"] for told in webhook.told] == ["r2"]


def test_a_command_gets_the_state(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "page me.py"
    script.write_text("import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.stdin.read())")
    file = tmp_path / "told; echo.json"
    command = shlex.join([sys.executable, str(script), str(file)])
    monkeypatch.setenv("TIDEMARK_NOTIFY", f"cmd:{command}")
    outcome.tell("r1", [late("a", "a\x1b[2J")])
    assert json.loads(file.read_text())["reasons"] == [r"a\x1b[2J. Next: tidemark run"]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("cmd:false", "false ended with exit code 1"),
        ("cmd:/not/there", "The command cannot be run"),
        ("cmd:", "The command cannot be run"),
        ("http://127.0.0.1:1/x", "The webhook at 127.0.0.1 does not answer"),
        ("http://127.0.0.1/a x-secret", "The webhook at 127.0.0.1 has no valid URL"),
        ("http://127.0.0.1:x-secret/", "The webhook at 127.0.0.1 has no valid URL"),
        ("ftp://a/b", "Use the ARN of an SNS topic, https://..., or cmd: and a command"),
    ],
)
def test_a_door_that_is_closed_is_said_in_a_sentence(
    place: str, message: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_NOTIFY", place)
    with pytest.raises(TidemarkError, match=message) as error:
        outcome.tell("r1", [])
    assert "x-secret" not in str(error.value)
