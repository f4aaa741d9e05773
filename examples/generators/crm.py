"""Full extracts of a CRM's customers and their addresses, one pair a day (S2).

They are as messy as such extracts are: a customer has several audited entries, some with the same
time; e-mail addresses come in any case; and some people are in there twice.
"""

import random
from collections.abc import Iterable

from generators import Days

MASTER = ("customer_id", "first_name", "last_name", "employer_name", "row_audit_ts")
ADDRESS = ("customer_id", "email_id", "city", "country", "row_audit_ts")
FIRST = ["Amara", "Bruno", "Chiara", "Dmitri", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas"]
LAST = ["Abbott", "Brandt", "Costa", "Duarte", "Eriksen", "Fontaine", "Garcia", "Hansen"]
EMPLOYERS = ["Harbour Freight Ltd", "Norrland Timber", "Casa Lumen", "Quayside Bakery", None]
CITIES = [("Lisbon", "Portugal"), ("Bergen", "Norway"), ("Hamburg", "Germany"), ("Turin", "Italy")]

Row = tuple[str | None, ...]
Tables = tuple[list[Row], list[Row]]


def first_extract() -> Tables:
    """Forty customers as of 2022-07-01, their older entries included."""
    made_up = random.Random(202207)
    master: list[Row] = []
    address: list[Row] = []
    for number in range(40):
        key = str(1001 + number)
        first, last = FIRST[number % 10], LAST[number % 8]
        city, country = CITIES[made_up.randrange(4)]
        day = f"2022-{made_up.randint(1, 6):02}-{made_up.randint(1, 28):02}"
        employer = made_up.choice(EMPLOYERS)
        email = f"{first}.{last}{number}@example.com"
        if number % 3 == 0:
            # Typed again, with capitals and blanks: the same address all the same.
            address.append((key, f"  {email.upper()} ", city, country, f"{day} 08:00:00"))
        address.append((key, email.lower(), city, country, f"{day} 09:30:00"))
        if number % 5 == 0:
            master.append((key, first, last, None, "2021-12-31 23:00:00"))
        master.append((key, first, last, employer, f"{day} 09:00:00"))
    # The same person under a second number: one by e-mail, one by a spelling of the name.
    master.append(("1041", "Bruno", "Brandt", "Casa Lumen", "2022-06-20 10:00:00"))
    address.append(("1041", "BRUNO.BRANDT1@EXAMPLE.COM", "Turin", "Italy", "2022-06-20 10:00:00"))
    master.append(("1042", "Chiara", "Cossta", None, "2022-06-21 10:00:00"))
    (_, _, city_, country_, _) = next(row for row in address if row[0] == "1003")
    address.append(("1042", None, city_, country_, "2022-06-21 10:00:00"))
    # No address at all.
    master.append(("1043", "Yuki", "Mori", "", "2022-06-22 10:00:00"))
    return master, address


def extracts() -> dict[str, Tables]:
    """What the CRM holds on three days."""
    master, address = first_extract()
    days = {"2022-07-01": (list(master), list(address))}

    master.append(("1003", "Chiara", "Costa", "Quayside Bakery", "2022-07-04 11:00:00"))
    # Joined without a separator these two would look the same; so would NULL and ''.
    master.append(("1043", "Yuk", "iMori", "", "2022-07-04 12:00:00"))
    address.append(("1005", "elif.eriksen@example.org", "Bergen", "Norway", "2022-07-04 13:00:00"))
    master.append(("1044", "Nora", "Lindqvist", "Norrland Timber", "2022-07-04 15:00:00"))
    address.append(("1044", "Nora@Example.com", "Bergen", "Norway", "2022-07-04 15:00:00"))
    days["2022-07-05"] = (list(master), list(address))

    master.append(("1043", "Yuki", "Mori", None, "2022-07-08 09:00:00"))
    gone = "1010"
    days["2022-07-09"] = (
        [row for row in master if row[0] != gone],
        [row for row in address if row[0] != gone],
    )
    return days


def as_lines(columns: Row, rows: Iterable[Row]) -> bytes:
    """CSV in which NULL is nothing and the empty text is quoted."""
    texts = [["" if each is None else each or '""' for each in row] for row in [columns, *rows]]
    return "".join(",".join(row) + "\n" for row in texts).encode()


def days() -> Days:
    """A full extract; then changes and a new customer; then another change, and one is gone."""
    return {
        number: {
            f"crm/customer_master/{date}.csv": as_lines(MASTER, master),
            f"crm/customer_address/{date}.csv": as_lines(ADDRESS, address),
        }
        for number, (date, (master, address)) in enumerate(extracts().items(), 1)
    }
