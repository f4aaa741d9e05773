"""What orchestrators call: the state machine is run, the DAG is read by a real Airflow."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import requests
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    state_task_service_callback,
)

from tests.aws_server import AwsServer
from tests.project import REPO

DEFINITION = REPO / "deploy" / "state_machine.asl.json"
DAG = """
import json
from airflow.models.dagbag import DagBag
bag = DagBag({folder!r}, include_examples=False)
task = bag.dags["tidemark"].get_task("run")
print("found " + json.dumps([bag.import_errors, task.task_type, task.script_args]))
"""


class _Machine:
    """The state machine, executed by moto's interpreter against its Glue and SNS."""

    def __init__(self, aws: AwsServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.aws, self.states = aws, aws.client("stepfunctions")
        # The interpreter reaches the other services where it believes itself to be.
        monkeypatch.setenv("MOTO_PORT", aws.url.rsplit(":", 1)[1])
        config = {"stepfunctions": {"execute_state_machine": True}}
        requests.post(f"{aws.url}/moto-api/config", json=config, timeout=30).raise_for_status()
        _mend_moto(monkeypatch)
        role = aws.client("iam").create_role(RoleName="r", AssumeRolePolicyDocument="{}")
        self.role = role["Role"]["Arn"]
        command = {"Name": "glueetl", "ScriptLocation": "s3://bucket/tidemark/tidemark_job.py"}
        self.glue = aws.client("glue")
        self.glue.create_job(Name="tidemark", Role=self.role, Command=command)
        self.topic = aws.client("sns").create_topic(Name="tidemark")["TopicArn"]
        self.arn = self.states.create_state_machine(
            name="tidemark", definition=DEFINITION.read_text(), roleArn=self.role
        )["stateMachineArn"]

    def run(self, name: str, job: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        given = json.dumps({"job": job, "topic": self.topic})
        arn = self.states.start_execution(stateMachineArn=self.arn, name=name, input=given)
        arn = arn["executionArn"]
        until = time.monotonic() + 60
        while (found := self.states.describe_execution(executionArn=arn))["status"] == "RUNNING":
            assert time.monotonic() < until
            time.sleep(0.05)
        return found, self.states.get_execution_history(executionArn=arn)["events"]


def _mend_moto(monkeypatch: pytest.MonkeyPatch) -> None:
    """moto ends every `.sync` task with a call on a callback that such a task has not.

    And it cannot write as JSON the times that it says a job ran.
    """
    service = state_task_service_callback.StateTaskServiceCallback
    wait, evaluate = service._eval_sync, service._eval_integration_pattern
    outcomes: list[Any] = []

    def watched(self: Any, **named: Any) -> Any:
        try:
            outcomes.append(wait(self, **named))
        except Exception as error:
            outcomes.append(error)
        return outcomes[-1]

    def mended(self: Any, env: Any, **named: Any) -> None:
        try:
            evaluate(self, env=env, **named)
        except AttributeError as error:
            if "interrupt_all" not in str(error):
                raise
            outcome = outcomes.pop()
            if isinstance(outcome, Exception):
                raise outcome from error
            env.stack.append(json.loads(json.dumps(outcome, default=str)))

    monkeypatch.setattr(service, "_eval_sync", watched)
    monkeypatch.setattr(service, "_eval_integration_pattern", mended)


def test_the_execution_is_the_run(aws: AwsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = _Machine(aws, monkeypatch)
    found, _ = machine.run("run-42", "tidemark")
    assert found["status"] == "SUCCEEDED", found
    (job,) = machine.glue.get_job_runs(JobName="tidemark")["JobRuns"]
    assert job["Arguments"] == {"--run-id": "run-42"}


def test_a_job_that_cannot_run_is_told(aws: AwsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = _Machine(aws, monkeypatch)
    found, events = machine.run("run-43", "nowhere")
    assert (found["status"], found["error"]) == ("FAILED", "TidemarkRunFailed")
    assert "nowhere" in found["cause"]
    told = [each["taskScheduledEventDetails"] for each in events if "Scheduled" in each["type"]]
    assert told[-1]["resourceType"] == "sns"
    message = json.loads(told[-1]["parameters"])["Message"]
    assert message.startswith("Run run-43 failed. Glue.EntityNotFoundException: ")


@pytest.mark.slow
def test_airflow_has_the_dag(tmp_path: Path) -> None:
    """In an environment of its own: Airflow wants other versions of what dbt has."""
    python = str(tmp_path / "venv" / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    wanted = ["apache-airflow==3.1.8", "apache-airflow-providers-amazon==9.39.0"]
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
    subprocess.run(install, check=True)
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path / "home"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPO / "deploy"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
    }
    environment.pop("PYTHONPATH", None)
    migrate = [f"{tmp_path}/venv/bin/airflow", "db", "migrate"]
    subprocess.run(migrate, env=environment, check=True, capture_output=True)
    code = DAG.format(folder=str(REPO / "deploy"))
    done = subprocess.run(
        [python, "-c", code], env=environment, text=True, capture_output=True, check=False
    )
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("found ")] or [
        done.stdout + done.stderr
    ]
    found = json.loads(line.removeprefix("found "))
    assert found == [{}, "GlueJobOperator", {"--run-id": "{{ run_id }}"}]
