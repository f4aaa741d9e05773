"""Insurance policies, as an AWS DMS task writes them to CSV files (S1)."""

import random

from generators import Days, as_csv

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


def days() -> Days:
    """A full load with a header; a day later changes without one, one of them broken."""
    full_load = policies()
    by_id = {row[0]: row for row in full_load}

    def change(op: str, policy_id: str, **values: str) -> list[str]:
        columns = dict(zip(POLICY_COLUMNS, by_id[policy_id], strict=True)) | values
        return [op, *columns.values()]

    load = "insurance/policies/fullload/LOAD00000001.csv"
    changes = "insurance/policies/cdcload/20230401"
    return {
        1: {load: as_csv([POLICY_COLUMNS, *full_load])},
        2: {
            f"{changes}-101500000.csv": as_csv(
                [
                    change("U", "100462", expiry_date="2024-12-31"),
                    change("U", "100463", insured_value="1000000"),
                    change("U", "100475", flood_coverage="Y"),
                    # What a broken export looks like: this row must not become a NULL.
                    change("U", "100611", insured_value="1.6 million"),
                ]
            ),
            f"{changes}-134500000.csv": NEW_POLICIES.encode(),
        },
    }
