"""AWS for tests: moto's services behind one real HTTP port on loopback, in this process.

Clients speak AWS's protocols to it, botocore's retries and validation included. What moto lacks,
a test adds to the classes of its services.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
import requests
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

REGION, ACCOUNT = "us-east-1", "123456789012"
# No real ones: moto takes all.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "only-for-tests"}


@dataclass
class AwsServer:
    """A running server.

    `calls` has what was asked, such as `AWSGlue.GetTable`, in order. `answers` are given instead
    of moto's, one for each call whose name ends so: an error's code, which AWS sends with 400.
    """

    url: str
    calls: list[str] = field(default_factory=list)
    answers: dict[str, list[str]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What a command needs in order to reach it, and nothing but it."""
        return {
            **CREDENTIALS,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }

    def client(self, service: str) -> Any:
        """A plain client of the test's own."""
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )

    def watched_topic(self) -> str:
        """The ARN of a new SNS topic; `told` has what is published on it."""
        topic: str = self.client("sns").create_topic(Name="tidemark")["TopicArn"]
        sqs = self.client("sqs")
        queue = sqs.create_queue(QueueName="watching")["QueueUrl"]
        of_queue = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
        self.client("sns").subscribe(
            TopicArn=topic, Protocol="sqs", Endpoint=of_queue["Attributes"]["QueueArn"]
        )
        return topic

    def told(self) -> list[tuple[str, str]]:
        """Subject and text of what was published since it was last asked."""
        sqs = self.client("sqs")
        queue = sqs.get_queue_url(QueueName="watching")["QueueUrl"]
        found = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
        for each in found:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=each["ReceiptHandle"])
        bodies = [json.loads(each["Body"]) for each in found]
        return [(body["Subject"], body["Message"]) for body in bodies]

    def reset(self) -> None:
        """Forget everything."""
        requests.post(f"{self.url}/moto-api/reset", timeout=30).raise_for_status()
        self.calls.clear()
        self.answers.clear()


class _Silent(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        pass


@contextmanager
def running() -> Iterator[AwsServer]:
    """A server on a free port, for as long as the context lasts."""
    moto = DomainDispatcherApplication(create_backend_app)

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        name = environ.get("HTTP_X_AMZ_TARGET", "")
        server.calls.append(name or environ["PATH_INFO"])
        for ending, codes in server.answers.items():
            if codes and name.endswith(ending):
                body = f'{{"__type": "{codes.pop(0)}", "message": "as the test wants it"}}'
                start("400 Bad Request", [("Content-Type", "application/x-amz-json-1.1")])
                return [body.encode()]
        found: Iterable[bytes] = moto(environ, start)
        return found

    listening = make_server("127.0.0.1", 0, answer, threaded=True, request_handler=_Silent)
    server = AwsServer(f"http://127.0.0.1:{listening.server_port}")
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        thread.join()
