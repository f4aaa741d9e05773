"""Clients that work on the ticket shop at the same time: pgbench, with scripts of our own."""

import subprocess
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.postgres import Postgres

# Clients hold this lock in each transaction, shared, so that `paused` can wait until none is open.
LOCK = 21
_BEGIN = f"begin;\nselect pg_advisory_xact_lock_shared({LOCK});\n"
# By weight. A few keys get most of the changes.
_SCRIPTS = {
    "buy@12": "call work.buy(work.customer(:customer));\ncommit;",
    "customer@6": (
        "call work.change_customer(work.customer(:customer));\n"
        "call work.change_loyalty(work.customer(:customer));\ncommit;"
    ),
    "event@6": "call work.change_event(:event);\ncommit;",
    "refund@5": "call work.refund();\ncommit;",
    "hold@8": "call work.hold(:hold);\ncommit;",
    "member@6": "call work.rename_member(:hold);\ncommit;",
    # Nothing of it must arrive.
    "rolled_back@3": (
        "call work.change_customer(work.customer(:customer));\n"
        "call work.buy(work.customer(:customer));\n"
        "delete from ticketing.event where event_id = :event;\nrollback;"
    ),
    # What follows the savepoint must not arrive, the rest must.
    "savepoint@4": (
        "call work.change_event(:event);\nsavepoint here;\n"
        "call work.change_customer(work.customer(:customer));\n"
        "delete from ticketing.seat_hold;\nrollback to savepoint here;\n"
        "call work.rename_member(:hold);\ncommit;"
    ),
    # A row that is inserted, changed and deleted in one transaction, and one that comes back.
    "come_and_go@3": (
        "insert into ticketing.orders (order_id) values (-:hold) on conflict do nothing;\n"
        "update ticketing.orders set state = 'y' where order_id = -:hold;\n"
        "delete from ticketing.orders where order_id = -:hold;\n"
        "delete from ticketing.event where event_id = :event;\n"
        "call work.change_event(:event);\ncommit;"
    ),
    "leave@2": "delete from ticketing.member where member_id = 'M' || :hold;\ncommit;",
    # Nothing changes, so there is no new version.
    "same@3": (
        "update ticketing.customer set note = note where customer_id = work.customer(:customer);\n"
        "update ticketing.venue set seats = seats where venue_id = 1 + :event % 20;\ncommit;"
    ),
    "odd_values@3": "call work.change_sample(:sample);\ncommit;",
    "truncate@1": "truncate ticketing.seat_hold;\ncommit;",
}
_KEYS = (
    "\\set customer random_zipfian(1, 80, 1.3)\n\\set event random_zipfian(1, 40, 1.3)\n"
    "\\set hold random_zipfian(1, 40, 1.3)\n\\set sample random(1, 12)\n"
)


@contextmanager
def working(
    source: Postgres,
    folder: Path,
    seconds: int,
    rate: int,
    seed: int,
    without: Container[str] = (),
) -> Iterator["subprocess.Popen[str]"]:
    """Four clients that work for so many seconds, about `rate` transactions in each.

    `without`: the names of scripts that they leave out.
    """
    command = ["-n", "-c", "4", "-j", "1", "-T", str(seconds), "-R", str(rate)]
    command += ["--max-tries=50", f"--random-seed={seed}"]
    for name, statements in _SCRIPTS.items():
        name, _, weight = name.partition("@")
        if name in without:
            continue
        script = folder / f"{name}.sql"
        script.write_text(f"{_KEYS}{_BEGIN}{statements}\n")
        command += ["-f", f"{script}@{weight}"]
    program = source.client("pgbench", *command, "postgres")
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as clients:
        try:
            yield clients
        finally:
            clients.terminate()


def finish(clients: "subprocess.Popen[str]") -> str:
    """Wait until they have done their work. Raises an error if a transaction failed for good."""
    output, _ = clients.communicate(timeout=600)
    if clients.returncode or "number of failed transactions: 0 " not in output:
        errors = [line for line in output.splitlines() if "error" in line.lower()]
        raise RuntimeError(f"the clients failed: {errors[:5]}")
    return output


@contextmanager
def paused(source: Postgres) -> Iterator[None]:
    """No transaction of the clients is open in here."""
    with subprocess.Popen(
        source.psql(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as session:
        assert session.stdin and session.stdout
        session.stdin.write(f"select pg_advisory_lock({LOCK});\n\\echo locked\n")
        session.stdin.flush()
        while "locked" not in session.stdout.readline():
            time.sleep(0)
        try:
            yield
        finally:
            session.stdin.close()
