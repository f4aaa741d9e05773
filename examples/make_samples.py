"""Writes the sample change files beside this script: the same bytes at every run.

`day1` and `day2` are what a landing folder looks like after the full load, and what arrives
the day after. Run as `python examples/make_samples.py`.
"""

import csv
import random
from pathlib import Path

HERE = Path(__file__).parent

POLICY_COLUMNS = [
    "policy_id",
    "expiry_date",
    "location_name",
    "state_code",
    "region_name",
    "insured_value",
    "business_type",
    "earthquake_coverage",
    "flood_coverage",
]
KNOWN_POLICIES = """\
200358,2023-01-05,Urban,WI,Midwest,928300,Office Bldg,N,N
100463,2023-03-27,Urban,NY,East,15480000,Office Bldg,Y,Y
100617,2023-03-27,Urban,VT,Northeast,8861500,Office Bldg,N,N
100580,2023-03-30,Urban,NH,Northeast,97920,Office Bldg,Y,Y
100503,2023-03-31,Urban,NJ,East,1761960,Office Bldg,N,N
100611,2023-04-25,Urban,NJ,East,1595500,Office Bldg,Y,Y
100462,2023-05-11,Rural,NY,East,420800,Farming,N,Y
100475,2023-06-02,Urban,CT,Northeast,2304000,Retail,N,N
"""
NEW_POLICIES = """\
I,110001,2024-03-31,Urban,CA,WEST,210000,Office Bldg,N,N
I,110002,2024-03-31,Rural,OR,WEST,3150000,Farming,N,Y
"""
STATES = {"WI": "Midwest", "OH": "Midwest", "NY": "East", "NJ": "East", "VT": "Northeast"}
BUSINESSES = ["Office Bldg", "Retail", "Apartment", "Farming", "Manufacturing"]

PRODUCTS = """\
I,101,Furniture,Oak Desk 140 cm,25,2022-03-01 08:00:00
I,102,Furniture,"Desk Chair, grey",30,2022-03-01 08:00:00
I,103,Lighting,Floor Lamp,12,2022-03-01 08:00:00
I,104,Lighting,Desk lamp LED,40,2022-03-01 08:00:00
I,105,Furniture,oak desk  (140cm),3,2022-03-01 08:00:00
I,106,Storage,Steel Shelf 90x30,18,2022-03-01 08:00:00
I,107,Storage,Shelf steel 90 x 30,2,2022-03-01 08:00:00
"""


def policies() -> list[list[str]]:
    """The eight known policies, and made-up ones to make 25."""
    rows = [line.split(",") for line in KNOWN_POLICIES.splitlines()]
    made_up = random.Random(11)
    for number in range(17):
        state = made_up.choice(sorted(STATES))
        expiry = f"2023-{made_up.randint(4, 12):02}-{made_up.randint(1, 28):02}"
        value = made_up.randint(80, 9000) * 1000
        business = made_up.choice(BUSINESSES)
        covers = [made_up.choice("NY"), made_up.choice("NY")]
        region = STATES[state]
        place = made_up.choice(["Urban", "Rural"])
        rows.append(
            [str(100700 + 7 * number), expiry, place, state, region, str(value), business, *covers]
        )
    return rows


def write(path: str, text: str) -> None:
    """Write one sample file below this folder."""
    file = HERE / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def as_csv(rows: list[list[str]]) -> str:
    """Lines as AWS DMS writes them: RFC 4180 quoting, LF line ends."""
    from io import StringIO

    out = StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def main() -> None:
    """Write both days."""
    full_load = policies()
    write("day1/insurance/policies/fullload/LOAD00000001.csv", as_csv([POLICY_COLUMNS, *full_load]))
    write("day1/inventory/products/LOAD00000001.csv", PRODUCTS)

    by_id = {row[0]: row for row in full_load}

    def change(op: str, policy_id: str, **values: str) -> list[str]:
        columns = dict(zip(POLICY_COLUMNS, by_id[policy_id], strict=True)) | values
        return [op, *columns.values()]

    write(
        "day2/insurance/policies/cdcload/20230401-101500000.csv",
        as_csv(
            [
                change("U", "100462", expiry_date="2024-12-31"),
                change("U", "100463", insured_value="1000000"),
                change("U", "100475", flood_coverage="Y"),
                # What a broken export looks like: this row must not become a NULL.
                change("U", "100611", insured_value="1.6 million"),
            ]
        ),
    )
    write(
        "day2/insurance/policies/cdcload/20230401-134500000.csv",
        as_csv([line.split(",") for line in NEW_POLICIES.splitlines()]),
    )
    write(
        "day2/inventory/products/20220302-1134010000.csv",
        'U,102,Furniture,"Desk Chair, grey",20,2022-03-02 11:33:30\n'
        "I,108,Lighting,Clamp Lamp,15,2022-03-02 11:33:41\n",
    )
    write(
        "day2/inventory/products/20220302-1135010000.csv",
        'U,102,Furniture,"Desk Chair, grey",18,2022-03-02 11:34:12\n'
        "D,103,Lighting,Floor Lamp,12,2022-03-02 11:34:50\n",
    )


if __name__ == "__main__":
    main()
