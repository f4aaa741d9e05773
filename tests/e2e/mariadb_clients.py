"""Clients that work on the ticket shop in MariaDB at the same time: mariadb_ticketing.sql."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.e2e.mariadb import MariaDB

CLIENTS = 4


@contextmanager
def working(
    source: MariaDB, seconds: int, rate: int, seed: int
) -> Iterator[list["subprocess.Popen[str]"]]:
    """Clients that work for so many seconds, about `rate` transactions in each."""
    with ExitStack() as stack:
        clients = []
        for number in range(CLIENTS):
            client = stack.enter_context(_session(source))
            stack.callback(client.kill)
            assert client.stdin
            client.stdin.write(
                f"set rand_seed1 = {seed * 1000 + number}, rand_seed2 = {number + 1};\n"
                f"call work.transactions({seconds}, {CLIENTS / rate});\n"
            )
            client.stdin.close()
            clients.append(client)
        yield clients


def finish(clients: list["subprocess.Popen[str]"]) -> None:
    """Wait until they have done their work. Raises an error if a transaction failed for good."""
    for client in clients:
        assert client.stdout
        output = client.stdout.read()
        if client.wait(600):
            raise RuntimeError(f"a client failed: {output[-2000:]}")


@contextmanager
def paused(source: MariaDB) -> Iterator[None]:
    """No transaction of the clients is open in here."""
    with _session(source) as session:
        assert session.stdin and session.stdout
        session.stdin.write("begin; select 'locked' from work.gate for update;\n")
        session.stdin.flush()
        if "locked" not in session.stdout.readline():
            raise RuntimeError("the clients cannot be paused")
        try:
            yield
        finally:
            session.stdin.close()


def _session(source: MariaDB) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*source.client(), "--unbuffered"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
